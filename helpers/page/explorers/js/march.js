// The warps of one block along K: their rows of the tiles, their reads, their sums, moment by moment.
(() => {
  const T = window.TileExplorers;
  const matrix = rows => rows.map(row => [...row].map(Number));
  const join = who => who.length > 1 ? who.slice(0, -1).join(', ') + ' and ' + who.at(-1) : who[0];
  const rowsOf = values => values.map(row => row.join(' ')).join('; ');
  const count = (row, letter) => row.split(letter).length - 1;
  // What a warp does at a moment, in which tile along K, and at which k of it.
  const place = (row, at, n) => ({
    what: row[at], tile: Math.max(0, count(row.slice(0, at + 1), 's') - (row[at] !== 'c')), k: count(row.slice(0, at), 'k') % n,
  });
  // The block after a moment; in each, stores come first, then reads.
  const run = (d, rows, at) => {
    const n = d.tile, A = matrix(d.A), B = matrix(d.B), zeros = () => matrix(d.A_left).map(row => row.map(() => 0));
    const block = {A: matrix(d.A_left), B: matrix(d.B_left), origin: Array(n).fill(-1), sums: zeros(), right: zeros(), wrong: []};
    for (let now = 0; now <= at; now++) {
      block.doing = rows.map(row => place(row, now, n));
      block.doing.forEach(({what, tile}, w) => {
        if (what !== 's') return;
        block.A[w] = A[w].slice(tile * n, tile * n + n);
        block.B[w] = B[tile * n + w];
        block.origin[w] = tile;
      });
      block.doing.forEach(({what, tile, k}, w) => {
        if (what !== 'k') return;
        const wanted = B[tile * n + k];
        for (let j = 0; j < n; j++) {
          block.sums[w][j] += block.A[w][k] * block.B[k][j];
          block.right[w][j] += A[w][tile * n + k] * wanted[j];
        }
        if (block.origin[k] !== tile) block.wrong.push({warp: w, k, now, got: block.B[k][0], want: wanted[0],
          sum: block.sums[w][0], true: block.right[w][0], why: d.why[+(block.origin[k] > tile)]});
      });
    }
    return block;
  };
  const words = (d, doing) => {
    const groups = new Map();
    doing.forEach(({what, tile, k}, w) => {
      const action = T.fill(d.actions[what], {k0: tile * d.tile, k});
      groups.set(action, [...groups.get(action) ?? [], w]);
    });
    if (groups.size === 1) return 'All warps are ' + [...groups.keys()][0];
    const said = [...groups].map(([action, who]) => `warp${who.length > 1 ? `s ${join(who)} are` : ` ${who[0]} is`} ${action}`).join('; ');
    return said[0].toUpperCase() + said.slice(1);
  };
  T.define('march', {
    values(d, s) {
      const rows = d.schedules[s.barriers][s.late], block = run(d, rows, s.at), last = s.at === rows[0].length - 1;
      const {doing, wrong, sums, right, B} = block, whole = d.tile * d.tile;
      const agree = sums.flat().filter((sum, i) => sum === right.flat()[i]).length;
      const waited = rows.reduce((all, row) => all + ['1', '2'].reduce((n, b) => n + count(row.slice(0, s.at + 1), b), 0), 0);
      const at = {}, lit = [];
      doing.forEach(({what}, w) => d.lines[what].forEach((line, i) => {
        lit.push(line);
        if (!i) (at[line] ??= []).push(w);
      }));
      for (const line in at) at[line] = `warp${at[line].length > 1 ? 's' : ''} ${at[line].join(' ')}`;
      return {
        ...block, rows, lit, at, gone: ['1', '2'].filter(b => !s.barriers.includes(b)).map(b => d.barriers[b]),
        say: wrong.length ? (last ? 'end_wrong' : 'wrong') : !last ? 'walk' : s.barriers === '12' ? 'end' : 'lucky',
        text: {doing: words(d, doing), wrong: T.number(wrong.length), right: `${agree} of ${whole}`, waited: T.number(waited),
          tile: rowsOf(B), sums: rowsOf(sums), ...wrong[0]},
      };
    },
    draw(d, s, {rows, doing, A, B, origin, sums, right, wrong}, W) {
      const n = d.tile, steps = d.paints.length, left = 46, now = wrong.filter(one => one.now === s.at);
      const strong = 'stroke="currentColor" stroke-width="2"', pale = 'stroke="currentColor" stroke-opacity=".4"';
      const bad = `fill-opacity=".3" stroke="${T.VERMILION}" stroke-width="2.5"`;
      let body = '';
      // the block's place along K: bands of A and of B, and the tiles that each warp is at
      const u = 24, x0 = 16, mid = x0 + steps * u + 5, low = steps * u + 8, h = u / n;
      for (let t = 0; t < steps; t++) {
        body += T.rect(x0 + t * u, low, u, u, 'none', pale) + T.rect(mid, 3 + t * u, u, u, 'none', pale);
        doing.forEach(({what, tile}, w) => {
          if (tile !== t || what === '.' || what === 'C') return;
          const more = `fill-opacity="${what === 'c' || what === 's' ? 1 : .45}"`;
          body += T.rect(x0 + t * u, low + w * h, u, h, d.paints[t], more) + T.rect(mid, 3 + t * u + w * h, u, h, d.paints[t], more);
        });
      }
      body += T.rect(mid, low, u, u, 'none', strong) + T.label(0, low + 16, 'A') + T.label(mid - 13, 15, 'B') + T.label(mid + 8, low + 16, 'C');
      // the key, whose marks are those of the moments below
      const mark = (x, y, w, h, what, paint, wrongly) => wrongly ? T.rect(x, y, w, h, T.VERMILION)
        : what === 'c' ? T.rect(x + .6, y + .6, w - 1.2, h - 1.2, paint, `fill-opacity=".2" stroke="${paint}"`)
          : what === 's' ? T.rect(x, y, w, h, paint) : what === 'k' ? T.rect(x + .5, y + h / 2 - 3, w - 1, 6, paint)
            : what === 'C' ? T.rect(x + 1, y, w - 2, h, 'currentColor')
              : what === '.' ? '' : T.rect(x, y + h / 2 - .75, w, 1.5, 'currentColor');
      [['c', 'fetches'], ['s', 'stores in shared memory'], ['k', 'reads and multiplies'], ['1', 'waits'], ['k', 'reads a wrong row', true]]
        .forEach(([what, said, wrongly], i) => {
          body += mark(mid + u + 18, 6 + i * 20, 8, 14, what, T.BLUE, wrongly) + T.label(mid + u + 33, 17 + i * 20, said);
        });
      // shared memory and sums: a warp is a row
      const top = low + u + 36, z = Math.min(24, (W - left - 62) / 13.4), high = 20, bx = left + n * z + 10, cx = bx + n * z + 50, wide = 1.35 * z;
      const small = 'class="small"', middle = 'text-anchor="middle"';
      for (const [x, said] of [[left, 'A_tile'], [bx, 'B_tile'], [cx, 'sum']]) body += T.label(x, top - 6, said);
      for (let w = 0; w < n; w++) {
        const y = top + w * high, {what, k} = doing[w], paint = d.paints[origin[w]] ?? 'none';
        body += T.label(0, y + 14, `warp ${w}`);
        for (const [x, values] of [[left, A[w]], [bx, B[w]]]) values.forEach((value, j) => {
          body += T.rect(x + j * z, y, z, high - 2, paint, `fill-opacity=".3" ${pale}`) + T.label(x + j * z + z / 2, y + 13.5, value, middle);
        });
        if (what === 's') for (const x of [left, bx]) body += T.rect(x, y, n * z, high - 2, 'none', `stroke="${paint}" stroke-width="3"`);
        if (what === 'k') body += T.rect(left + k * z, y, z, high - 2, 'none', strong);
        const readers = doing.flatMap((one, i) => one.what === 'k' && one.k === w ? [i] : []), wrongly = now.some(one => one.k === w);
        if (readers.length) body += T.rect(bx, y, n * z, high - 2, wrongly ? T.VERMILION : 'none', wrongly ? bad : strong)
          + T.label(bx + n * z + 6, y + 13.5, '▸ ' + readers.join(' '), small);
        sums[w].forEach((value, j) => {
          const off = value !== right[w][j];
          body += T.rect(cx + j * wide, y, wide, high - 2, off ? T.VERMILION : 'none', off ? bad : what === 'k' ? strong : pale)
            + T.label(cx + j * wide + wide / 2, y + 13.5, value, `${middle} ${small}`);
        });
      }
      // all moments; where all leave a barrier, a line
      const y0 = top + n * high + 26, tick = (W - left - 2) / rows[0].length, tall = n * 18;
      body += T.label(left, y0 - 8, 'all moments', small);
      rows.forEach((row, w) => {
        body += T.label(0, y0 + w * 18 + 12, `warp ${w}`);
        for (let i = 0; i < row.length; i++)
          body += mark(left + i * tick, y0 + w * 18 + 1, tick, 14, row[i], d.paints[place(row, i, n).tile], wrong.some(one => one.warp === w && one.now === i));
      });
      for (let i = 0; i < rows[0].length; i++) {
        const x = left + i * tick;
        for (const b of '12') if (rows.every(row => row[i] === b)) body += T.line(x + tick, y0 - 4, x + tick, y0 + tall, 'stroke-width="1.5"');
        body += T.rect(x, y0 - 4, tick, tall + 6, 'transparent', `data-set="at=${i}"`);
      }
      body += T.rect(left + s.at * tick - 1, y0 - 4, tick + 2, tall + 4, 'none', `${strong} pointer-events="none"`);
      return {width: W, height: y0 + tall + 6, body};
    },
  });
})();
