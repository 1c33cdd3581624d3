// The scorecard of a rung beside that of the rung before. bars: [resource, ms, words, ms of L2 where SMs ask apart].
(() => {
  const T = window.TileExplorers;
  const LEAST = 0.01;  // ms, where the axis of powers of ten begins
  T.define('scorecard', {
    values: (d, s) => d.rungs[s.rung],
    draw(d, s, {bars, time, binds, text}, W) {
      const names = Object.keys(d.rungs), old = names.indexOf(s.rung) ? d.rungs[text.before] : null;
      const most = Math.max(...Object.values(d.rungs).map(r => r.time));
      const left = 96, room = W - left - 50, log = s.scale === 'log', step = 26, low = 18 + step * bars.length;
      const X = (ms, whole) => left + room * Math.min(1, Math.max(0, log ? Math.log10(ms / LEAST) / Math.log10(1.1 * most / LEAST) : ms / whole));
      let body = '';
      for (const at of log ? [LEAST, .1, 1, 10, 100].filter(at => at < most) : [0, .25, .5, .75, 1]) {
        const x = log ? X(at) : left + room * at;
        body += T.line(x, 4, x, low, 'opacity=".25"') + T.label(x, low + 14, log ? at : `${100 * at} %`, 'class="small" text-anchor="middle"');
      }
      bars.forEach(([name, ms, words, apart], i) => {
        const y = 8 + step * i, lit = name === binds, end = X(ms, time), was = old?.bars.find(b => b[0] === name);
        const bold = lit ? ' style="font-weight:600"' : '';
        if (apart) body += T.rect(end, y, X(apart, time) - end, 15, T.GREY, 'opacity=".22"');
        body += T.rect(left, y, Math.max(1, end - left), 15, lit ? T.BLUE : T.GREY, lit ? '' : 'opacity=".6"');
        if (was) body += T.rect(left, y - 2.5, Math.max(1, X(was[1], old.time) - left), 20, 'none', 'stroke="currentColor" stroke-width=".8" opacity=".7"');
        body += T.label(left - 6, y + 12, name, `text-anchor="end"${bold}`) + T.label(W, y + 12, words, `class="small" text-anchor="end"${bold}`);
      });
      const x = X(time, time);
      body += `<line x1="${x}" y1="0" x2="${x}" y2="${low}" stroke="${T.VERMILION}" stroke-width="2" stroke-dasharray="5 3"/>`
        + T.label(Math.min(x, W - 60), low + 29, `measured ${text.time} ms`, 'class="small" text-anchor="middle"');
      return {width: W, height: low + 34, body};
    },
  });
})();
