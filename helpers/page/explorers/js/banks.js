// One request to shared memory: which wavefront brings which word from which bank.
// The rule is nogpu.emulator.counts.wavefronts, for one warp with all lanes active.
(() => {
  const T = window.TileExplorers;
  const first = (s, lane) => {
    const vec = s.width / 4, pitch = s.columns + s.pad;
    if (s.walk === 'same') return 0;
    if (s.walk === 'column') return lane * s.stride * pitch;
    const e = lane * s.stride * vec;
    return Math.floor(e / s.columns) * pitch + e % s.columns;
  };
  // Words wanted in each bank by these lanes, each word once: 32 arrays.
  const wanted = (starts, vec) => {
    const banks = Array.from({length: 32}, () => []);
    for (const word of new Set(starts.flatMap(w => Array.from({length: vec}, (_, i) => w + i))))
      banks[word % 32].push(word);
    return banks;
  };
  const depth = banks => Math.max(...banks.map(b => b.length));
  const agrees = group => [1, 2].some(far => group.every((w, i) => w === group[i ^ far]));
  const phases = (starts, vec, load) => {
    if (vec === 1) return [wanted(starts, 1)];
    const each = 32 / vec, found = [];
    for (let at = 0; at < 32; at += 2 * each) {
      const both = starts.slice(at, at + 2 * each);
      if (load && agrees(both)) found.push(wanted(both, vec));
      else found.push(wanted(both.slice(0, each), vec), wanted(both.slice(each), vec));
    }
    return found;
  };
  T.define('banks', {
    values(d, s) {
      const vec = s.width / 4, starts = Array.from({length: 32}, (_, lane) => first(s, lane));
      if (starts.some(w => w % vec)) return {say: 'misaligned', phases: [], text: {width: s.width}};
      const found = phases(starts, vec, s.op === 'load');
      const cost = found.reduce((sum, banks) => sum + depth(banks), 0);
      const distinct = new Set(starts).size * vec;
      const least = Math.ceil(distinct / 32);
      return {
        say: cost > found.length ? 'conflict' : 'clean', phases: found,
        text: {
          takes: T.plural(cost, 'wavefront'), wants: T.plural(distinct, 'different word'),
          wavefronts: T.number(cost), phases: T.number(found.length), words: T.number(distinct),
          least: T.number(least), bytes: T.number(4 * distinct / cost, 1),
        },
      };
    },
    draw(d, s, {phases}, W) {
      const left = W < 420 ? 22 : 34, w = (W - left - 2) / 32, top = 14, rows = phases.map(depth);
      const total = rows.reduce((a, b) => a + b, 0), h = total > 16 ? 7 : 12;
      let body = T.label(left, 9, 'bank 0', 'class="small"') + T.label(left + 32 * w, 9, 'bank 31', 'class="small" text-anchor="end"');
      let y = top;
      phases.forEach((banks, p) => {
        for (let r = 0; r < rows[p]; r++) {
          banks.forEach((held, b) => {
            body += r < held.length
              ? T.rect(left + b * w, y, w - w / 8, h - 1.5, r ? T.VERMILION : T.BLUE)
              : T.rect(left + b * w, y, w - w / 8, h - 1.5, 'currentColor', 'opacity=".1"');
          });
          const n = rows.slice(0, p).reduce((a, b) => a + b, 0) + r + 1;
          if (h > 7 || n % 4 === 0) body += T.label(left - 6, y + h - 2, n, 'class="small" text-anchor="end"');
          y += h;
        }
        y += 3;
      });
      if (!phases.length) { body += T.label(left, 34, 'not aligned: the hardware refuses this access'); y = 40; }
      body += T.label(0, y + 11, phases.length ? 'rows: wavefronts, one after another' : '', 'class="small"');
      return {width: W, height: y + 16, body};
    },
  });
})();
