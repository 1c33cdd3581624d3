// Tiles over SMs, whole and cut along k: helpers.ladder.cuts, even() and Walk, line for line.
(() => {
  const T = window.TileExplorers;
  const spread = (sms, tiles, steps, least, cut) => {
    let whole = tiles, ranges = 0;
    if (cut && tiles % sms) {
      const most = Math.min(sms, Math.floor(tiles * steps / (2 * least)));
      if (tiles > sms) [whole, ranges] = [(Math.floor(tiles / sms) - 1) * sms, sms];
      else if (most > tiles) [whole, ranges] = [0, most];
    }
    // No cut lies nearer than `least` steps to an end of its tile.
    const beginOf = number => {
      const begin = Math.floor((tiles - whole) * steps * number / ranges), within = begin % steps;
      if (within < least) return begin - within;
      return steps - within < least ? begin + steps - within : begin;
    };
    const pieces = Array.from({length: sms}, (_, sm) => {
      const own = [];
      for (let tile = sm; tile < whole; tile += sms) own.push({tile, begin: 0, end: steps});
      if (sm < ranges)
        for (let at = beginOf(sm), end = beginOf(sm + 1); at < end; at += own.at(-1).end - own.at(-1).begin)
          own.push({tile: whole + Math.floor(at / steps), begin: at % steps, end: Math.min(steps, at % steps + end - at)});
      return own;
    });
    const busiest = Math.max(...pieces.map(own => own.reduce((sum, p) => sum + p.end - p.begin, 0)));
    const count = {};
    for (const p of pieces.flat()) count[p.tile] = (count[p.tile] ?? 0) + 1;
    return {pieces, busiest, parts: Object.values(count).filter(n => n > 1)};
  };
  T.define('stream_k', {
    values(d, s) {
      const [whole, cut] = [false, true].map(way => spread(s.sms, s.tiles, s.steps, d.least, way));
      const idle = way => T.number(100 * (1 - s.tiles * s.steps / (way.busiest * s.sms)), 1);
      const rounds = Math.floor(whole.busiest / s.steps), shared = cut.parts.length;
      return {say: shared ? 'cut' : s.tiles % s.sms ? 'thin' : 'even', ways: [whole, cut], text: {
        tiles: T.plural(s.tiles, 'tile'), sms: T.plural(s.sms, 'SM'),
        takes: T.plural(rounds, 'round'), together: T.plural(shared, 'tile'),
        whole: T.number(rounds), idle: idle(whole), cut: T.number(cut.busiest / s.steps, 2), idle_cut: idle(cut),
        shared: T.number(shared), parts: T.number(cut.parts.reduce((a, b) => a + b, 0))}};
    },
    draw(d, s, {ways, text}, W) {
      const left = 42, k = (W - left - 2) / ways[0].busiest, h = 16;
      const names = [`whole tiles: rounds ${text.whole}, idle ${text.idle} %`, `cut along k: rounds ${text.cut}, idle ${text.idle_cut} %`];
      let body = '', y = 0;
      ways.forEach((way, cut) => {
        const gap = cut ? 8 : 3, seen = {};  // room for the lines that join parts
        body += T.label(0, y + 11, names[cut], 'style="font-weight:600"');
        y += 18;
        way.pieces.forEach((own, sm) => {
          body += T.label(0, y + 12, `SM ${sm}`, 'class="small"');
          let x = left;
          for (const {tile, begin, end} of own) {
            const w = (end - begin) * k, whole = end - begin === s.steps, middle = x + w / 2;
            body += T.rect(x, y, w - 1, h, whole ? T.BLUE : T.GREEN);
            const words = whole ? [`tile ${tile}`, `${tile}`] : [`tile ${tile}, k ${begin}–${end - 1}`, `${tile}: ${begin}–${end - 1}`, `${tile}`];
            const fits = words.find(one => one.length * 6.8 < w - 2);
            if (fits) body += T.label(middle, y + 12, fits, 'class="small" text-anchor="middle" style="fill:#fff"');
            if (!whole && tile in seen) {
              const half = y - gap / 2, thick = 'stroke-width="1.3"';
              body += T.line(seen[tile], y - gap, seen[tile], half, thick) + T.line(seen[tile], half, middle, half, thick) + T.line(middle, half, middle, y, thick);
            }
            seen[tile] = middle;
            x += w;
          }
          const rest = left + way.busiest * k - x;
          if (rest > 2) body += T.rect(x + 1, y + .75, rest - 2, h - 1.5, 'none', `stroke="${T.VERMILION}" stroke-width="1.5" stroke-dasharray="3 2"`);
          y += h + gap;
        });
        y += 8;
      });
      const rounds = ways[0].busiest / s.steps;
      body += T.line(left, y - 4, W - 2, y - 4);
      for (let r = 0; r <= rounds; r++) {
        const x = left + r * s.steps * k;
        body += T.line(x, y - 4, x, y) + T.label(x, y + 11, r, `class="small" text-anchor="${r < rounds ? 'middle' : 'end'}"`);
      }
      return {width: W, height: y + 28, body: body + T.label((W + left) / 2, y + 24, 'time, in rounds', 'class="small" text-anchor="middle"')};
    },
  });
})();
