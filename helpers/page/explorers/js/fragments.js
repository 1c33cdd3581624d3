// Who holds what in one mma: A, B and C, each element a field that chooses its lane and its slot.
// tables[X] says of each element, row by row, lane * 16 + slot: 0 to 7 of A, 8 to 11 of B, 12 to 15 of C.
(() => {
  const T = window.TileExplorers;
  const FIRST = {A: 0, B: 8, C: 12}, TINTS = [T.BLUE, T.VERMILION, T.GREEN, T.GREY];
  const register = (name, slot) => name === 'C' ? slot - FIRST[name] : (slot - FIRST[name]) >> 1;
  T.define('fragments', {
    values(d, s) {
      const key = s.lane * 16 + s.slot;
      const name = Object.keys(d.tables).find(n => d.tables[n].includes(key));
      const at = d.tables[name].indexOf(key), cols = d.cols[name];
      return {say: name === 'C' ? 'whole' : 'packed', key, text: {
        element: `${name}[${Math.floor(at / cols)}, ${at % cols}]`, lane: s.lane,
        half: s.slot % 2 ? 'upper' : 'lower', register: register(name, s.slot),
        g: s.lane >> 2, t: s.lane % 4, ...d.holds[s.lane]}};
    },
    draw(d, s, {key}, W) {
      // As in the product, B over C and A beside it; on a phone A over both, for its numbers.
      const wide = W >= 400, w = wide ? (W - 14) / 24 : (W - 10) / 16, h = 14, low = 16 * h + 34;
      const right = W - 8 * w - 1, place = wide
        ? {A: [1, low], B: [right, 14], C: [right, low]} : {A: [1, 14], B: [1, low], C: [right, low]};
      let fields = '', marks = '';
      for (const [name, [left, top]] of Object.entries(place)) {
        const cols = d.cols[name], table = d.tables[name], down = name === 'B';
        marks += T.label(left, top - 4, `${name}: ${table.length / cols} x ${cols}`, 'class="small"');
        table.forEach((own, i) => {
          const lane = own >> 4, slot = own % 16, x = left + i % cols * w, y = top + Math.floor(i / cols) * h;
          const lit = lane === s.lane, paint = own === key ? T.VERMILION : lit ? T.BLUE : TINTS[(slot - FIRST[name]) >> 1];
          fields += T.rect(x, y, w, h, paint, `${lit ? '' : 'fill-opacity=".16" '}data-set="lane=${lane} slot=${slot}"`);
          const one = lit && name === 'C', [bw, bh] = one ? [w, h] : down ? [w, 2 * h] : [2 * w, h];
          if (slot % 2 && !one) return;
          if (!(slot % 2)) marks += T.rect(x, y, ...(down ? [w, 2 * h] : [2 * w, h]), 'none', 'stroke="currentColor" stroke-width=".4"');
          marks += T.label(x + bw / 2, y + bh / 2 + 4, lit ? `r${register(name, slot)}` : lane,
            `class="small" text-anchor="middle"${lit ? ' style="fill:#fff;font-weight:600"' : ''}`);
        });
      }
      if (wide) marks += ['lane ' + s.lane, `g = ${s.lane >> 2}, t = ${s.lane % 4}`].map((words, i) =>
        T.label(8 * w, low / 2 + 18 * i, words, 'text-anchor="middle" style="font-size:15px"')).join('');
      return {width: W, height: low + 16 * h + 2, body: `<g shape-rendering="crispEdges">${fields}</g><g pointer-events="none">${marks}</g>`};
    },
  });
})();
