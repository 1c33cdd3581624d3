// One thread through k0 and k: its share of the tiles, what it reads of them, its sums.
(() => {
  const T = window.TileExplorers;
  const significant = x => {
    if (x === 0) return '0';
    return T.number(x, Math.max(0, 2 - Math.floor(Math.log10(x))));
  };
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
      const found = {own, tile, phase, sums, text, say: 'copy', lit: phase ? d.lines.step : d.lines.copy};
      if (!phase) {
        [text.a, text.b] = own.copies[tile];
        return found;
      }
      const a = rows.map(r => d.A[r][done - 1]), b = cols.map(c => d.B[done - 1][c]);
      Object.assign(text, {
        k: String(phase - 1), a: a.join(' '), b: b.join(' '), x: a[0], y: b[0],
        first: String(sums[0][0]), many_a: T.plural(a.length, 'value'), many_b: T.plural(b.length, 'value'),
      });
      return {...found, say: 'step'};
    },
    draw(d, s, {own, tile, phase, sums}, W) {
      const {rows, cols, fetched} = own, many = Math.min(d.depth, 8), k = phase - 1;
      const from = Math.max(0, Math.floor(k / many) * many), left = 24, gap = 8, high = 16;
      const u = (W - left - gap - 1) / (many + 1.7 * cols.length), za = Math.min(20, u), zs = Math.min(32, 1.7 * u);
      const copies = fetched.flatMap((places, x) => places.map(place => [x, ...place]));
      const bx = left + many * za + gap, ay = Math.max(many, copies.length) * high + 32, by = ay - many * high - 16;
      const value = {A: (i, j) => d.A[rows[i]][tile * d.depth + from + j], B: (i, j) => d.B[tile * d.depth + from + i][cols[j]]};
      const middle = 'text-anchor="middle"', small = `class="small" ${middle}`, end = 'class="small" text-anchor="end"';
      const pale = 'stroke="currentColor" stroke-opacity=".4"', strong = 'stroke="currentColor" stroke-width="2"';
      let body = '';
      // an operand's part: what is read now is full, what was read is pale; any k of it can be chosen
      const part = (name, x, y, down, over, w, by) => {
        for (let i = 0; i < down; i++) for (let j = 0; j < over; j++) {
          const own = from + (by === 'row' ? i : j), opacity = own === k ? .4 : own < k ? .1 : 0;
          body += T.rect(x + j * w, y + i * high, w, high, T.GREEN, `fill-opacity="${phase ? opacity : 0}" ${pale}`);
          if (phase) body += T.label(x + j * w + w / 2, y + i * high + 12, value[name](i, j), small);
        }
        for (let i = 0; i < many; i++) {
          const to = `data-set="step=${tile * (d.depth + 1) + from + i + 1}"`;
          body += by === 'row' ? T.rect(x, y + i * high, over * w, high, 'transparent', to) : T.rect(x + i * w, y, w, down * high, 'transparent', to);
        }
      };
      part('A', left, ay, rows.length, many, za, 'column');
      rows.forEach((row, i) => { body += T.label(left - 4, ay + i * high + 12, row, end); });
      if (phase) {
        part('B', bx, by, many, cols.length, zs, 'row');
        cols.forEach((col, j) => { body += T.label(bx + j * zs + zs / 2, by - 4, col, small); });
        for (let i = 0; i < many; i++) {
          body += T.label(bx - 4, by + i * high + 12, from + i, end);
          body += T.label(left + i * za + za / 2, ay - 4, from + i, small);
        }
        body += T.label(0, ay - 20, 'A_tile') + T.label(bx - 20, by + 12, 'B_tile', 'text-anchor="end"');
      } else copies.forEach(([x, row, col], i) => {
        const name = 'AB'[x], at = tile * d.depth, y0 = i * high + 8;
        const source = x ? [row + at, col] : [row, col + at], put = d.turned[x] ? [col, row] : [row, col];
        body += T.label(62, y0 + 12, `${name}[${source.join(', ')}]`, end);
        body += T.rect(68, y0, 18, high, T.VERMILION, 'fill-opacity=".3" stroke="currentColor" stroke-opacity=".4"');
        body += T.label(77, y0 + 12, d[name][source[0]][source[1]], small);
        body += T.label(91, y0 + 12, `→ ${name}_tile[${put.join('][')}]`, 'class="small"');
      });
      // the sums, in registers, and the first of them with what it grows by
      sums.forEach((row, i) => row.forEach((sum, j) => {
        body += T.rect(bx + j * zs, ay + i * high, zs, high, T.BLUE, `fill-opacity="${phase ? .3 : .08}" ${pale}`);
        body += T.label(bx + j * zs + zs / 2, ay + i * high + 12, sum, small);
      }));
      if (phase) for (const [x, y, w] of [[left + (k - from) * za, ay, za], [bx, by + (k - from) * high, zs], [bx, ay, zs]])
        body += T.rect(x, y, w, high, 'none', `${strong} pointer-events="none"`);
      const low = ay + rows.length * high;
      body += T.label(bx, low + 14, phase ? 'its sums grow' : 'its sums stay');
      return {width: W, height: low + 20, body};
    },
  });
})();
