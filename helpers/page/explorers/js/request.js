// The requests of one warp, lane by lane, in two kernels: which sectors their addresses fall into.
(() => {
  const T = window.TileExplorers, PER = 8;  // floats of a sector
  // Sectors in the order of their first touch, each with the lane that touches it first.
  const touched = elements => {
    const first = new Map();
    elements.forEach((e, lane) => {
      const at = Math.floor(e * 4 / 32);
      if (!first.has(at)) first.set(at, lane);
    });
    return first;
  };
  const names = d => Object.keys(d.kernels);
  const sum = (arrays, of) => [...arrays].reduce((all, a) => all + of(a), 0);
  // Sectors, and bytes used, of the first lanes of a kernel's requests.
  const sectors = (own, arrays, lanes) => sum(arrays, a => touched(own[a].slice(0, lanes)).size);
  const used = (own, arrays, lanes) => sum(arrays, a => 4 * new Set(own[a].slice(0, lanes)).size);
  T.define('request', {
    values(d, s) {
      const n = s.lanes, text = {lanes: T.number(n), last: T.number(n - 1)}, count = {};
      for (const kernel of names(d)) {
        const own = d.kernels[kernel];
        count[kernel] = sectors(own, s.loads, n);
        const bytes = T.number(32 * count[kernel]), needed = T.number(used(own, s.loads, n));
        text[kernel] = `${T.plural(count[kernel], 'sector')}: ${bytes} bytes fetched, ${needed} used`;
        text[`${kernel}_new`] = T.plural(count[kernel] - sectors(own, s.loads, Math.max(0, n - 1)), 'new sector');
        text[`${kernel}_bytes`] = bytes;
        text[`${kernel}_used`] = needed;
      }
      const all = Object.values(count), factor = Math.max(...all) / Math.max(1, Math.min(...all));
      text.factor = T.number(factor, factor % 1 ? 1 : 0);
      return {say: n === 0 ? 'none' : n === 32 ? s.loads : 'way', text, count};
    },
    draw(d, s, {text, count}, W) {
      const beside = W >= 420, w = beside ? (W - 24) / 2 : W, perRow = beside ? 4 : 8, edge = 37;
      const cell = (w - edge) / 32, box = (w - edge + 4) / perRow, wide = (box - 4) / PER, now = s.lanes - 1;
      const scale = w / Math.max(...names(d).map(kernel => sectors(d.kernels[kernel], s.loads, 32)));
      const strong = 'style="font-weight:600"', small = 'class="small"', faint = 'stroke="currentColor" stroke-opacity=".4"';
      let body = '', x = 0, y = 0, low = 0;
      for (const kernel of names(d)) {
        const own = d.kernels[kernel], [many, bytes] = text[kernel].split(': '), left = x + edge;
        body += T.label(x, y + 12, kernel, strong) + T.label(x + w, y + 12, many, `text-anchor="end" ${strong}`);
        // The bytes fetched and those used, to one scale in both kernels.
        body += T.rect(x, y + 18, count[kernel] * scale, 7, T.BLUE, 'fill-opacity=".4"');
        body += T.rect(x, y + 18, used(own, s.loads, s.lanes) / 32 * scale, 7, T.VERMILION);
        body += T.rect(x, y + 18, w, 7, 'none', faint) + T.label(x, y + 37, bytes, small);
        const at = [...s.loads].map(a => `${a}[${own[a][now]}]`).join(', ');
        body += T.label(left, y + 55, now < 0 ? 'lanes 0 to 31' : `lane ${now}: ${at}`, small) + T.label(x, y + 70, 'lanes', small);
        for (let lane = 0; lane < 32; lane++) {
          const fill = lane === now ? 1 : lane < now ? .4 : 0;
          body += T.rect(left + lane * cell, y + 61, cell, 10, T.VERMILION, `fill-opacity="${fill}" stroke-width=".7" ${faint}`);
          body += T.rect(left + lane * cell, y + 56, cell, 20, 'transparent', `data-set="lanes=${lane + 1}"`);
        }
        let top = y + 86, lines = '', boxes = '';
        for (const a of s.loads) {
          const first = [...touched(own[a])], wanted = new Set(own[a].slice(0, s.lanes));
          boxes += T.label(x, top + 10, `${a}: ${first.filter(([, lane]) => lane <= now).length}`, small);
          first.forEach(([at, lane], i) => {
            const bx = left + i % perRow * box, by = top + Math.floor(i / perRow) * 16, lit = lane <= now;
            boxes += T.rect(bx, by, box - 4, 12, T.BLUE, `fill-opacity="${lit ? .4 : 0}"`);
            for (let c = 0; c < PER; c++)
              if (wanted.has(at * PER + c)) boxes += T.rect(bx + c * wide, by, wide, 12, T.VERMILION);
            boxes += T.rect(bx, by, box - 4, 12, 'transparent', `${lit ? `stroke="${T.BLUE}"` : faint} data-set="lanes=${lane + 1}"`);
            if (now < 0 || Math.floor(own[a][now] / PER) !== at) return;
            lines += T.line(left + (now + .5) * cell, y + 71, bx + (own[a][now] % PER + .5) * wide, by);
            boxes += T.rect(bx - 1.5, by - 1.5, box - 1, 15, 'none', 'stroke="currentColor" stroke-width="1.5" pointer-events="none"');
          });
          top += Math.ceil(first.length / perRow) * 16 + 8;
        }
        body += lines + boxes;  // a line passes below the boxes that it crosses
        low = Math.max(low, top);
        if (beside) x += w + 24;
        else y = top + 6;
      }
      return {width: W, height: low, body};
    },
  });
})();
