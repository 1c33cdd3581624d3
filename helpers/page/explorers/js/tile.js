// One tile of a kernel: on A, B and C, on the roofline, and its recorded time. Tables by Python:
// code[combination] is a row of the legal tiles, or -1 - the number of the rule that it breaks.
(() => {
  const T = window.TileExplorers;
  const row = (d, s) => d.names.reduce((at, name, i) =>
    at * d.choices[i].length + d.choices[i].indexOf(s[name]), 0);
  const edge = (d, s, name) => {
    const from = d.edges[name];
    return typeof from === 'string' ? s[from] : from;
  };
  const whole = (d, s) => ({...s, ...d.sets[s.together]});  // sizes that one slider moves together
  T.define('tile', {
    values(d, s) {
      s = whole(d, s);
      const code = d.code[row(d, s)], gpu = d.gpus[s.gpu], arch = gpu.arch;
      const text = {gpu: gpu.name, kernel: d.kernel, tile: d.names.map(n => `${n}=${s[n]}`).join(' ')};
      if (code < 0) {
        const [expr, reason] = d.rules[-1 - code];
        return {say: 'illegal', code, text: {...text, legal: 'no', expr, reason}};
      }
      const [intensity, threads] = d.legal[code];
      const roof = Math.min(gpu.peak, intensity * gpu.bandwidth);
      Object.assign(text, {legal: 'yes', threads: T.number(threads), intensity: T.number(intensity, 2),
        roof: T.number(roof), time: d.no_time});
      const ms = d.ms[code];
      if (ms) Object.assign(text, {time: T.number(ms, 3) + ' ms', rate: T.number(d.gflop / ms)});
      const report = (d.reports[arch] || [])[code];
      const found = {code, intensity, roof, rate: ms ? d.gflop / ms : 0, gpu};
      if (!report) return {...found, say: ms ? 'timed' : 'legal', text};
      const [registers, spills, shared] = report;
      Object.assign(text, {registers: T.number(registers), spills: T.number(spills), shared: T.number(shared)});
      if (!registers) return {...found, say: 'left_out', text};
      const o = T.occupancy(d.limits[arch], threads, registers, shared);
      if (o.fault) return {...found, say: 'large', text};
      Object.assign(text, {occupancy: T.number(100 * o.fraction, 1), limited: o.limited.join(' and ')});
      return {...found, say: ms ? 'timed' : 'legal', text};
    },
    draw(d, s, {code, intensity, roof, rate, gpu}, W) {
      s = whole(d, s);
      const [bm, bn, bk, wm, wn, tm, tn] = ['BM', 'BN', 'BK', 'WM', 'WN', 'TM', 'TN'].map(n => edge(d, s, n));
      // One scale for M, N and K; the frames of A and B are as deep as the deepest slice.
      const side = Math.min(150, (W - 30) / (1 + d.deepest / d.most)), k = side / d.most;
      const deep = Math.max(20, d.deepest * k) + 4, x = 14 + deep, y = 18 + deep, kk = bk * k;
      const good = code >= 0, frame = 'stroke="currentColor"', dash = good ? frame : frame + ' stroke-dasharray="4 3"';
      let body = T.rect(x, y, side, side, 'none', frame + ' opacity=".4"')
        + T.rect(14, y, deep - 4, side, 'none', frame + ' opacity=".4"') + T.rect(x, 18, side, deep - 4, 'none', frame + ' opacity=".4"');
      body += T.rect(14, y, kk, bm * k, T.GREEN, 'opacity=".75"') + T.rect(x, 18, bn * k, kk, T.GREEN, 'opacity=".75"');
      body += T.rect(x, y, bn * k, bm * k, good ? T.BLUE : 'none', dash + ' fill-opacity=".35"');
      if (wm) body += T.rect(x, y, wn * k, wm * k, 'none', frame + ' stroke-width="2"');
      body += T.rect(x, y, Math.max(2, tn * k), Math.max(2, tm * k), T.VERMILION);
      body += T.label(x, 13, `B: ${bk} x ${bn}`, 'class="small"') + T.label(14, y + side + 13, `A: ${bm} x ${bk}`, 'class="small"');
      body += T.label(x + side, y + side + 13, `C: ${bm} x ${bn}`, 'class="small" text-anchor="end"');
      const below = W < x + side + 224;
      if (!good) {
        body += T.label(below ? x + side / 2 : x + side + 40, 100, 'not legal', `font-weight="600" text-anchor="${below ? 'middle' : 'start'}"`);
        return {width: W, height: y + side + 20, body};
      }
      // The roofline of the chosen GPU, both axes logarithmic: 1 to 1000 FLOP/byte, 100 GFLOP/s up.
      // It stands right of the tile, or below it where there is no room.
      const X = below ? 40 : x + side + 52, Y = below ? y + side + 228 : 200, end = W - 4;
      const px = v => X + Math.log10(v) / 3 * (end - X - 4), py = v => Y - Math.log10(v / 100) / 3 * 165;
      const ridge = gpu.peak / gpu.bandwidth;
      body += T.line(X, Y, end, Y) + T.line(X, Y - 172, X, Y);
      for (const v of [1, 10, 100]) body += T.label(px(v), Y + 13, v, 'class="small" text-anchor="middle"');
      for (const v of [100, 1000, 10000]) body += T.label(X - 4, py(v) + 4, v >= 1000 ? v / 1000 + 'k' : v, 'class="small" text-anchor="end"');
      body += T.label(end, Y + 26, 'FLOP per byte', 'class="small" text-anchor="end"') + T.label(X - 26, Y - 182, 'GFLOP/s', 'class="small"');
      body += `<polyline points="${px(1)},${py(Math.max(100, gpu.bandwidth)).toFixed(1)} ${px(ridge).toFixed(1)},${py(gpu.peak).toFixed(1)} ${end},${py(gpu.peak).toFixed(1)}" fill="none" stroke="currentColor" stroke-width="1.5"/>`;
      body += `<circle cx="${px(intensity).toFixed(1)}" cy="${py(Math.max(100, roof)).toFixed(1)}" r="4.5" fill="none" stroke="${T.VERMILION}" stroke-width="2"/>`;
      if (rate && s.gpu === d.timed_on) body += T.rect(px(intensity) - 4, py(Math.max(100, rate)) - 4, 8, 8, T.BLUE);
      return {width: W, height: Math.max(Y + 30, y + side + 20), body};
    },
  });
})();
