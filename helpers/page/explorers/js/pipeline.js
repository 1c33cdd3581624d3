// Copies and computation of successive tiles with some stages; all times in clocks.
(() => {
  const T = window.TileExplorers;
  // The next stages - 1 tiles are asked for before the first is used; then each step asks for one.
  const run = (n, stages, copy, compute) => {
    const issue = [], start = [];
    for (let t = 0; t < n; t++) {
      const before = t ? start[t - 1] + compute : 0;
      issue.push(t < stages - 1 ? 0 : stages === 1 ? before : start[t - stages + 1] ?? 0);
      start.push(Math.max(before, issue[t] + copy));
    }
    return {issue, start, end: start[n - 1] + compute};
  };
  T.define('pipeline', {
    values(d, s) {
      const found = run(d.tiles, s.stages, s.copy, s.compute);
      const busy = d.tiles * s.compute, stall = found.end - busy;
      const step = s.stages === 1 ? s.copy : Math.max(0, s.copy - (s.stages - 1) * s.compute);
      const need = Math.ceil(s.copy / s.compute) + 1;
      return {...found, say: step === 0 ? 'hidden' : 'stalls', text: {
        total: T.number(found.end), stall: T.number(stall), share: T.number(100 * stall / found.end, 1),
        need: T.number(need), tiles: T.number(d.tiles), shared: T.number(s.stages * d.bytes),
        stages: T.plural(s.stages, 'stage')}};
    },
    draw(d, s, {issue, start, end}, W) {
      const X = 46, k = (W - X) / end, h = 11, n = d.tiles;
      let body = T.label(0, 12, 'copies');
      for (let t = 0; t < n; t++) {
        const y = 3 + (t % s.stages) * (h + 2);
        body += T.rect(X + issue[t] * k, y, s.copy * k, h, T.GREEN, 'opacity=".8"');
        if (s.copy * k > 12) body += T.label(X + issue[t] * k + 3, y + 9.5, t + 1, 'class="small" style="fill:#111"');
      }
      const y = 12 + s.stages * (h + 2);
      body += T.label(0, y + 13, 'math');
      let was = 0;
      for (let t = 0; t < n; t++) {
        if (start[t] > was) body += T.rect(X + was * k, y, (start[t] - was) * k, 18, 'none', `stroke="${T.VERMILION}" stroke-width="1.5" stroke-dasharray="3 2"`);
        body += T.rect(X + start[t] * k, y, Math.max(1, s.compute * k - 1), 18, T.BLUE);
        if (s.compute * k > 14) body += T.label(X + start[t] * k + 3, y + 13, t + 1, 'class="small" style="fill:#fff"');
        was = start[t] + s.compute;
      }
      body += T.label(X, y + 34, '0', 'class="small"') + T.label(W, y + 34, T.number(end) + ' clocks', 'class="small" text-anchor="end"');
      return {width: W, height: y + 38, body};
    },
  });
})();
