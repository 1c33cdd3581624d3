// Where the chunks of eight rows lie, the address of one bit by bit, and the wavefronts of ldmatrix.
(() => {
  const T = window.TileExplorers;
  const RULES = {
    plain: {at: (r, c) => 8 * r + c, sum: (r, c) => c},
    swizzled: {at: (r, c) => 8 * r + (c ^ r), sum: (r, c) => `${c} XOR ${r} = ${c ^ r}`, sign: 'XOR row'},
    padded: {at: (r, c) => 9 * r + c, sum: (r, c) => `(${c} + ${r}) mod 8 = ${(c + r) % 8}`, sign: '+ row'},
  };
  const EIGHT = [0, 1, 2, 3, 4, 5, 6, 7];
  T.define('swizzle', {
    values(d, s) {
      const rule = RULES[s.layout], at = rule.at(s.row, s.chunk), group = at % 8;
      // Row by row, the wavefront that brings it: as many as want the same banks before it.
      const groups = EIGHT.map(r => rule.at(r, s.chunk) % 8);
      const turns = groups.map((g, r) => groups.slice(0, r).filter(other => other === g).length);
      const waves = Math.max(...turns) + 1;
      return {say: waves === 1 ? 'apart' : 'together', at, groups, turns, waves, text: {
        waves: T.plural(waves, 'wavefront'), wavefronts: T.number(waves), groups: T.number(new Set(groups).size),
        address: T.number(16 * at), bytes: T.number(128 * (s.layout === 'padded' ? 9 : 8)),
        chunk: s.chunk, row: s.row, sum: rule.sum(s.row, s.chunk), banks: `${4 * group} to ${4 * group + 3}`}};
    },
    draw(d, s, {at, groups, turns, waves}, W) {
      const rule = RULES[s.layout], middle = 'class="small" text-anchor="middle"', white = ' style="fill:#fff"';
      const field = (x, y, w, h, words, paint, more = '') => T.rect(x, y, w, h, paint ?? 'transparent', `stroke="currentColor" stroke-width=".5" ${more}`)
        + T.label(x + w / 2, y + h / 2 + 4, words, `${middle} pointer-events="none"${paint ? white : ''}`);
      // The address: bits 10 to 0, of which 6 to 4 are the banks.
      const b = (W - 60) / 11, bits = (value, y, name, from = 10, to = 0) => {
        let row = T.label(0, y + 12, name, 'class="small"');
        for (let bit = from; bit >= to; bit--)
          row += field(60 + (10 - bit) * b, y, b - 1.5, 16, value >> bit & 1, name === 'address' && bit > 3 && bit < 7 ? T.VERMILION : null);
        return row;
      };
      let body = bits(16 * (8 * s.row + s.chunk), 2, 'plain');
      body += rule.sign ? bits(16 * s.row, 22, rule.sign, 6, 4) : '';
      body += T.line(0, 41, W, 41) + bits(16 * at, 44, 'address');
      for (const [words, first, last] of [['line of 128', 10, 7], ['banks', 6, 4], ['byte', 3, 0]])
        body += T.label(60 + (10 - (first + last) / 2 + .5) * b - 1, 74, words, middle);
      // The tile: a row of fields a row, a column four banks.
      const w = (W - 60) / 8, top = 104, h = 17;
      body += T.label(0, top - 5, 'bank', 'class="small"');
      for (const g of EIGHT) body += T.label(60 + (g + .5) * w, top - 5, 4 * g, middle);
      for (const r of EIGHT) {
        body += T.label(0, top + r * h + 12, `row ${r}`, 'class="small"');
        for (const c of EIGHT)
          body += field(60 + rule.at(r, c) % 8 * w, top + r * h, w - 1.5, h - 1.5, c,
            c !== s.chunk ? null : r === s.row ? T.VERMILION : T.BLUE, `data-set="row=${r} chunk=${c}"`);
      }
      // What ldmatrix gets: in each wavefront a row from each group of banks that has one left.
      const low = top + 8 * h + 20;
      body += T.label(0, low - 4, 'wavefronts, and the row that each brings', 'class="small"');
      for (let k = 0; k < waves; k++) {
        body += T.label(0, low + k * 15 + 11, k + 1, 'class="small"');
        for (const g of EIGHT) {
          const r = EIGHT.find(row => groups[row] === g && turns[row] === k);
          body += r === undefined ? T.rect(60 + g * w, low + k * 15, w - 1.5, 13.5, 'currentColor', 'opacity=".1"')
            : field(60 + g * w, low + k * 15, w - 1.5, 13.5, w > 36 ? `row ${r}` : r, r === s.row ? T.VERMILION : T.BLUE);
        }
      }
      return {width: W, height: low + waves * 15 + 2, body};
    },
  });
})();
