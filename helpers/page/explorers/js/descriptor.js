// The fields of a wgmma descriptor and the pieces that it names, of each state as the emulator reads them.
(() => {
  const T = window.TileExplorers;
  const PAINT = [T.BLUE, T.VERMILION, T.GREEN, T.GREY, T.BLUE];
  T.define('descriptor', {
    values: (d, s) => d.states[s.operand][s.change],
    draw(d, s, {text, at, fits, ends}, W) {
      const word = BigInt(text.word), b = (W - 2) / 32, look = d.of[s.change];
      const X = bit => 1 + (31 - bit % 32) * b, Y = bit => bit < 32 ? 58 : 16;
      let body = '';
      for (let bit = 0; bit < 64; bit++) {
        const f = d.fields.findIndex(([, first, last]) => first <= bit && bit <= last);
        body += T.rect(X(bit), Y(bit), b, 20, f < 0 ? 'transparent' : PAINT[f], `stroke="currentColor" stroke-width=".4" ${f < 0 ? '' : `fill-opacity=".28" data-set="change=${d.first[s.operand][f]}"`}`)
          + T.label(X(bit) + b / 2, Y(bit) + 14, word >> BigInt(bit) & 1n, 'class="small" text-anchor="middle" pointer-events="none"');
      }
      d.fields.forEach(([name, first, last], f) => {
        const right = last - first === 2;
        if (f === look) body += T.rect(X(last), Y(last), (last - first + 1) * b, 20, 'none', 'stroke="currentColor" stroke-width="2.5" pointer-events="none"');
        body += T.label(right ? X(first) + b : X(last), Y(last) - 4, name, `class="small" data-set="change=${d.first[s.operand][f]}"${right ? ' text-anchor="end"' : ''}${f === look ? ' style="font-weight:600"' : ''}`);
      });
      const w = (W - 16) / 16, h = 5, top = 108;
      const place = a => [1 + Math.floor((a - d.begin) / d.box) * (8 * w + 14) + (a >> 4 & 7) * w, top + ((a - d.begin) >> 7 & 63) * h];
      for (const box of [0, 1]) {
        const [x] = place(d.begin + box * d.box);
        body += T.label(x, top - 5, `box ${box}, from byte ${T.number(d.begin + box * d.box)}`, 'class="small"')
          + T.rect(x, top, 8 * w, 64 * h, 'none', 'stroke="currentColor"');
        for (let k = 8; k < 64; k += 8) body += T.line(x, top + k * h, x + 8 * w, top + k * h, 'opacity=".3"');
      }
      const inside = a => a < d.begin + 2 * d.box, across = d.across[s.operand];
      at.forEach((a, i) => {
        const row = Math.floor(i / across), first = 8 * (i % across);
        const what = s.operand === 'A' ? `row ${row}, k ${first} to ${first + 7}` : `k ${row}, columns ${first} to ${first + 7}`;
        if (inside(a)) body += `<g>${T.rect(...place(a), w - .6, h - .5, fits[i] ? T.BLUE : T.VERMILION)}<title>${what}: byte ${a}</title></g>`;
      });
      const marked = ends.map(i => at[i]).filter(inside).map(place);
      for (const [x, y] of marked) body += T.rect(x - 1, y - 1, w + 1.4, h + 1.5, 'none', 'stroke="currentColor" stroke-width="2"');
      if (marked.length === 2) body += T.line(...marked.flatMap(([x, y]) => [x + w / 2, y + h / 2]), 'stroke-width="2"');
      return {width: W, height: top + 64 * h + 3, body};
    },
  });
})();
