// One request of a warp: which 32-byte sectors its 32 addresses touch.
(() => {
  const T = window.TileExplorers;
  const lanes = (d, s) => {
    const step = s.follows === 'column' ? s.stride : s.follows === 'row' ? s.stride * d.columns : 0;
    return Array.from({length: 32}, (_, i) => s.offset + i * step);
  };
  T.define('coalescing', {
    values(d, s) {
      const elements = lanes(d, s), sectors = new Map();
      elements.forEach((e, lane) => {
        const at = Math.floor(e * s.size / 32);
        if (!sectors.has(at)) sectors.set(at, []);
        sectors.get(at).push(lane);
      });
      const used = new Set(elements).size * s.size, n = sectors.size;
      return {
        say: 'request', sectors, elements,
        text: {
          touched: T.plural(n, 'sector'), sectors: T.number(n), fetched: T.number(32 * n), used: T.number(used),
          share: T.number(100 * used / (32 * n), 1), least: T.number(Math.ceil(used / 32)),
        },
      };
    },
    draw(d, s, {sectors, elements}, W) {
      const perRow = (sectors.size <= 8 ? 4 : 6) / (W < 420 ? 2 : 1), w = (W - 4) / perRow, h = 44, taken = new Set(elements), cells = 32 / s.size;
      let body = '', i = 0;
      for (const [at, lanes] of [...sectors].sort((a, b) => a[0] - b[0])) {
        const x = (i % perRow) * w + 4, y = Math.floor(i / perRow) * h + 12, wide = (w - 8) / cells;
        for (let c = 0; c < cells; c++)
          if (taken.has(at * cells + c)) body += T.rect(x + c * wide, y, wide, 16, T.BLUE, 'stroke="#fff" stroke-width=".5"');
        body += T.rect(x, y, w - 8, 16, 'none', 'stroke="currentColor" stroke-width="1"');
        const last = lanes.at(-1), first = lanes[0];
        body += T.label(x, y - 2, `sector ${at}`, 'class="small"');
        body += T.label(x, y + 27, first === last ? `lane ${first}` : `lanes ${first}–${last}`, 'class="small"');
        i++;
      }
      return {width: W, height: Math.ceil(i / perRow) * h + 4, body};
    },
  });
})();
