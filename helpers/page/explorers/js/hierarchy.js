// Grid, block, warp and thread, one level a step; each level magnified beside the last.
(() => {
  const T = window.TileExplorers;
  T.define('hierarchy', {
    values: (d, s) => ({say: 'level', text: d.levels[s.level]}),
    draw(d, s, found, W) {
      const at = d.order.indexOf(s.level), pitch = (W + 10) / 3, side = pitch - 22;
      // Each panel is one tile, cut into the tiles of the next level; the first of them is marked.
      const panels = d.panels.slice(0, Math.max(1, at + (at < d.panels.length ? 1 : 0)));
      let body = '';
      panels.forEach((p, i) => {
        const k = side / Math.max(p.rows, p.columns), w = p.columns * k, h = p.rows * k, x = 2 + i * pitch, y = 20;
        const nr = p.rows / p.part_rows, nc = p.columns / p.part_columns, last = i === panels.length - 1;
        body += T.label(x, 12, p.name);
        body += T.rect(x, y, w, h, 'none', 'stroke="currentColor"');
        if (nr * nc <= 1100) {
          for (let r = 1; r < nr; r++) body += T.line(x, y + r * h / nr, x + w, y + r * h / nr, 'opacity=".35" stroke-width=".7"');
          for (let c = 1; c < nc; c++) body += T.line(x + c * w / nc, y, x + c * w / nc, y + h, 'opacity=".35" stroke-width=".7"');
        }
        if (at > i) body += T.rect(x, y, Math.max(2, w / nc), Math.max(2, h / nr), last ? T.VERMILION : T.BLUE);
        body += T.label(x, y + h + 15, `${p.rows} x ${p.columns}`, 'class="small"');
        if (i + 1 < panels.length) {
          const q = d.panels[i + 1], kk = side / Math.max(q.rows, q.columns), x2 = x + pitch;
          body += T.line(x + w / nc, y, x2, y, 'stroke-dasharray="2 3" opacity=".6"') + T.line(x + w / nc, y + h / nr, x2, y + q.rows * kk, 'stroke-dasharray="2 3" opacity=".6"');
        }
      });
      return {width: W, height: side + 42, body};
    },
  });
})();
