// Addresses into ldmatrix and elements out of it. tables[way] says of each element of the piece, row
// by row, lane * 8 + slot of who gets it; gives[lane] is the row and column whose address a lane gives.
(() => {
  const T = window.TileExplorers;
  const TINTS = [T.BLUE, T.GREEN, T.GREEN, T.BLUE];
  T.define('ldmatrix', {
    hovers: true,
    values: (d, s) => ({say: s.way, text: d.text[s.way][s.lane]}),
    draw(d, s, {text}, W) {
      const side = 31, w = (W - 2 * side) / 16, h = 15, plain = s.way === 'plain';
      const X = col => side + col * w, Y = row => 16 + row * h + (row > 7 ? 16 : 0);
      const small = 'class="small" text-anchor="middle"', white = ' style="fill:#fff;font-weight:600"';
      let fields = '', lines = '', marks = '';
      for (const m of [0, 1, 2, 3])
        marks += T.label(X(m > 1 ? 12 : 4), Y(m % 2 * 8) - 4, `matrix ${m}`, small);
      d.gives.forEach(([row, col], lane) => {
        const lit = lane === s.lane, x = col ? W - 10 : 10, y = Y(row) + h / 2, edge = col ? W - side : side, to = col ? -1 : 1;
        fields += T.rect(col ? W - side : 0, Y(row), side, h, lit ? T.VERMILION : 'transparent', `data-set="lane=${lane}"`);
        marks += T.label(x, y + 4, lane, small + (lit ? ' style="fill:#111;font-weight:600"' : ''));
        if (lit) lines += T.rect(X(col), Y(row), 8 * w, h, 'none', `stroke="${T.VERMILION}" stroke-width="2.5"`);
        lines += `<path d="M${edge - to * 10} ${y}h${to * 8}m${to * -3} -3l${to * 3} 3l${to * -3} 3" fill="none" stroke="${lit ? '#111' : 'currentColor'}" opacity="${lit ? 1 : .5}"/>`;
      });
      d.tables[s.way].forEach((key, i) => {
        const row = Math.floor(i / 16), col = i % 16, lane = key >> 3, slot = key % 8, lit = lane === s.lane;
        if (slot % 2) return;
        const [pw, ph] = plain ? [2 * w, h] : [w, 2 * h], x = X(col), y = Y(row);
        fields += T.rect(x, y, pw, ph, lit ? T.BLUE : TINTS[slot >> 1], `${lit ? '' : 'fill-opacity=".14" '}stroke="currentColor" stroke-width=".4" data-set="lane=${lane}"`);
        marks += T.label(x + pw / 2, y + ph / 2 + 4, lit ? `r${slot >> 1}` : lane, small + (lit ? white : ''));
        if (lit) lines += T.line(x + pw / 2, y + ph, ((slot >> 1) + .5) * W / 4, Y(16) + 26, `style="stroke:${T.BLUE}" opacity=".6"`);
      });
      const low = Y(16) + 26;
      text.gets.split(', r').forEach((words, i) => {
        const [name, ...at] = (i ? 'r' + words : words).split('\u00a0');
        marks += T.rect(i * W / 4 + 2, low, W / 4 - 4, 34, T.BLUE) + T.label((i + .5) * W / 4, low + 14, name, small + white)
          + T.label((i + .5) * W / 4, low + 28, at.join(' '), small + white);
      });
      marks += T.label(0, low + 50, `the four registers of lane ${s.lane}`, 'class="small"');
      return {width: W, height: low + 54, body: `${fields}<g pointer-events="none">${lines}${marks}</g>`};
    },
  });
})();
