// One thread through k0 and k: its share of the tiles, what it reads of them, its sums.
(() => {
  const T = window.TileExplorers;
  const significant = x => {
    if (x === 0) return '0';
    return T.number(x, Math.max(0, 2 - Math.floor(Math.log10(x))));
  };
  // First and length of each run of neighbours.
  const runs = numbers => numbers.reduce((found, n) => {
    const last = found[found.length - 1];
    if (last && last[0] + last[1] === n) last[1]++;
    else found.push([n, 1]);
    return found;
  }, []);
  T.define('stepper', {
    values(d, s) {
      const own = d.threads[s.thread], {rows, cols} = own;
      const tile = Math.floor(s.step / (d.depth + 1)), phase = s.step % (d.depth + 1);
      const done = tile * d.depth + phase;
      const sums = rows.map(r => cols.map(c => {
        let sum = 0;
        for (let k = 0; k < done; k++) sum += d.A[r][k] * d.B[k][c];
        return sum;
      }));
      const cells = rows.length * cols.length, each = rows.length + cols.length;
      const text = {
        thread: String(s.thread), k0: String(tile * d.depth), reuse: significant(cells / each),
        madds: T.number(done * cells), reads: T.number(done * each),
        sums: sums.map(row => row.join(' ')).join('; '), products: T.plural(cells, 'product'),
      };
      const found = {own, tile, phase, sums, a: [], b: [], text, say: 'copy'};
      if (!phase) {
        [text.a, text.b] = own.copies[tile];
        return found;
      }
      const a = rows.map(r => d.A[r][done - 1]), b = cols.map(c => d.B[done - 1][c]);
      Object.assign(text, {
        k: String(phase - 1), a: a.join(' '), b: b.join(' '), x: a[0], y: b[0],
        first: String(sums[0][0]), many_a: T.plural(a.length, 'value'), many_b: T.plural(b.length, 'value'),
      });
      return {...found, say: 'step', a, b};
    },
    draw(d, s, {own, tile, phase, sums, a, b}, W) {
      const K = d.tiles * d.depth, beside = W > 400, gap = 6, top = 12;
      const z = (beside ? 158 : Math.min(W - 24, 210)) / (K + d.n);
      const ax = 12, ay = top + K * z + gap, bx = ax + K * z + gap, by = top;
      // an element is never smaller than can be seen
      const spot = (x, y, row, col, rows, cols, paint) =>
        T.rect(x + col * z, y + row * z, Math.max(cols * z, 2.5), Math.max(rows * z, 2.5), paint);
      const frame = (x, y, rows, cols, more = 'stroke="currentColor"') =>
        T.rect(x, y, cols * z, rows * z, 'none', more);
      let body = frame(ax, ay, d.m, K) + frame(bx, by, K, d.n) + frame(bx, ay, d.m, d.n);
      const now = `stroke="${T.VERMILION}" stroke-width="1.8"`;
      body += frame(ax + tile * d.depth * z, ay, d.m, d.depth, now);
      body += frame(bx, by + tile * d.depth * z, d.depth, d.n, now);
      for (const [r, high] of runs(own.rows)) for (const [c, wide] of runs(own.cols))
        body += spot(bx, ay, r, c, high, wide, T.GREEN);
      if (!phase) {
        for (const [r, c] of own.fetched[0]) body += spot(ax + tile * d.depth * z, ay, r, c, 1, 1, T.VERMILION);
        for (const [r, c] of own.fetched[1]) body += spot(bx, by + tile * d.depth * z, r, c, 1, 1, T.VERMILION);
      } else {
        const k = tile * d.depth + phase - 1;
        for (const [r, high] of runs(own.rows)) body += spot(ax, ay, r, k, high, 1, T.GREEN);
        for (const [c, wide] of runs(own.cols)) body += spot(bx, by, k, c, 1, wide, T.GREEN);
      }
      const low = ay + d.m * z;
      for (const [name, x, y] of [['A', ax, low], ['B', bx, by - 13], ['C', bx, low]])
        body += T.label(x, y + 12, name, 'class="small"');
      // the numbers: a_frag down, b_frag across, the sums between them
      const left = beside ? 196 : 0, head = 44, cell = Math.min(34, (W - left - head) / own.cols.length);
      const y0 = beside ? 40 : low + 44, high = 18, wide = own.cols.length * cell;
      const middle = 'class="small" text-anchor="middle"';
      body += T.label(left + head, y0 - 22, phase ? 'b_frag' : 'its sums', 'class="small"');
      body += T.label(left, y0 - 6, phase ? 'a_frag' : '', 'class="small"');
      b.forEach((v, j) => { body += T.label(left + head + j * cell + cell / 2 - 1, y0 - 6, v, middle); });
      sums.forEach((row, i) => {
        const y = y0 + i * high;
        if (phase) body += T.label(left + head - 8, y + 12.5, a[i], 'class="small" text-anchor="end"');
        row.forEach((v, j) => {
          const x = left + head + j * cell;
          body += T.label(x + cell / 2 - 1, y + 12.5, v, middle);
        });
      });
      const end = y0 + sums.length * high, x0 = left + head - 1;
      body += T.rect(x0, y0 - 1, wide, end - y0, T.GREEN, `fill-opacity="${phase ? '.28' : '.08'}"`);
      const lines = sums.map((_, i) => `M${x0} ${y0 - 1 + i * high}h${wide}`)
        .concat(own.cols.map((_, j) => `M${(x0 + j * cell).toFixed(1)} ${y0 - 1}v${end - y0}`));
      body += `<path d="${lines.join('')}M${x0} ${end - 1}h${wide}V${y0 - 1}" fill="none" stroke="${T.GREEN}"/>`;
      return {width: W, height: Math.max(low + 18, end + 6), body};
    },
  });
})();
