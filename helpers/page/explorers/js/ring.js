// The stages of a ring at a clock, drawn as a ring; _ring.py says what the values mean.
(() => {
  const T = window.TileExplorers;
  const run = (n, {stages, copy, compute}, barriers) => {
    const issue = [], start = [];
    for (let t = 0; t < n; t++) {
      const before = t ? start[t - 1] + compute : 0;
      issue.push(barriers ? (t < stages ? 0 : start[t - stages] + compute)
        : t < stages - 1 ? 0 : start[t - stages + 1] ?? 0);
      start.push(Math.max(before, issue[t] + copy));
    }
    return {issue, start};
  };
  const held = ({issue, start}, s, at, now) => {
    const tiles = [];
    for (let t = at; t < issue.length; t += s.stages) tiles.push(t);
    const many = test => tiles.filter(test).length;
    const asked = many(t => issue[t] < now), begun = many(t => start[t] <= now);
    const full = many(t => issue[t] + s.copy <= now), empty = many(t => start[t] + s.compute <= now);
    const tile = tiles[asked - 1], found = {full: full % 2, empty: empty % 2};
    found.next = tiles.flatMap(t => [issue[t], issue[t] + s.copy, start[t], start[t] + s.compute]).find(c => c > now);
    if (asked === empty) return {...found, name: 'no tile', what: 'empty', part: 0};
    const what = full < asked ? 'on its way' : begun < asked ? 'landed' : 'in use';
    const part = {'on its way': (now - issue[tile]) / s.copy, landed: 1, 'in use': 1 - (now - start[tile]) / s.compute}[what];
    return {...found, name: `tile ${tile}`, what, part};
  };
  T.define('ring', {
    values(d, s) {
      const n = s.stages, now = s.clock, barriers = 'parity' in s, stuck = s.parity === d.wrong;
      const never = Array(d.tiles).fill(d.last + 1);
      const times = stuck ? {issue: never, start: never} : run(d.tiles, s, barriers);
      const {issue, start} = times, until = order => order.filter(c => c <= now).length;
      const asks = issue.flatMap((c, t) => c === now ? [t] : []), sent = until(issue), begun = until(start);
      const free = begun ? start[begun - 1] + s.compute : 0, works = now < free, tile = works ? begun - 1 : begun;
      const even = Math.max(s.compute, barriers ? (s.copy + s.compute) / n : s.copy / (n - 1));
      const parity = Math.floor(sent / n) % 2 ^ !stuck, theirs = Math.floor(tile / n) % 2;
      const under = issue.filter(c => c <= now && now < c + s.copy).length;
      const stages = Array.from({length: n}, (_, at) => held(times, s, at, now));
      const first = asks.length ? `asks for tile${asks.length > 1 ? `s ${asks[0]} to` : ''} ${asks.at(-1)}`
        : barriers ? `waits for empty[${sent % n}], parity ${parity}, since clock ${T.number(sent ? issue[sent - 1] : 0)}`
        : `${T.plural(under, 'group')} under way`;
      const second = works ? `multiply tile ${tile}, until clock ${T.number(free)}`
        : `wait for ${barriers ? `full[${tile % n}], parity ${theirs}` : `group ${tile}`}, since clock ${T.number(free)}`;
      const begins = works && start[tile] === now;
      const lit = barriers ? [...(asks.length ? [4, 5] : [1, stuck ? 3 : 2]), ...(works ? [8] : [7]),
        ...(now && now === start[begun - 1 - works] + s.compute ? [9] : [])]
        : now === 0 ? [0] : works ? [...(begins ? [4] : []), 5] : [2, 3];
      const say = (works ? 'work' : 'wait') + (even > s.compute ? '_short' : '');
      return {stages, works, asks, tile, sent, barriers, lit, say: stuck ? 'stuck' : say, text: {
        first, second, waited: T.number(now - begun * s.compute + Math.max(0, free - now)),
        ever: T.number(stuck ? 100 : 100 * (1 - s.compute / even), 1),
        need: T.number(Math.ceil(s.copy / s.compute) + 1),
        held: stages.map((f, at) => `stage ${at}: ${f.name}, ${f.what}${barriers ? `, full ${f.full}, empty ${f.empty}` : ''}`).join('; '),
        clock: T.number(now), tile: String(tile), since: T.number(free)}};
    },
    draw(d, s, f, W) {
      const n = s.stages, R = Math.min(128, W / 2 - 24), r = R * .44, x0 = W / 2, y0 = R + 38, middle = (R + r) / 2;
      const turn = 2 * Math.PI / n, at = (angle, far) => [x0 + far * Math.sin(angle), y0 - far * Math.cos(angle)];
      // A sector of the ring from an angle on, clockwise; a whole turn in two halves.
      const sector = (from, angle, more) => {
        const half = angle / 2, p = (a, far) => at(from + a, far).map(v => v.toFixed(1)).join(' ');
        return `<path d="M${p(0, R)}A${R} ${R} 0 0 1 ${p(half, R)}A${R} ${R} 0 0 1 ${p(angle, R)}L${p(angle, r)}A${r} ${r} 0 0 0 ${p(half, r)}A${r} ${r} 0 0 0 ${p(0, r)}Z" ${more}/>`;
      };
      const wait = `stroke="${T.VERMILION}" stroke-width="2" stroke-dasharray="4 2.5"`;
      const mid = 'text-anchor="middle"', small = `${mid} class="small"`;
      const badge = (stage, far, words, waits) => {
        const [x, y] = at(stage * turn, far);
        return `<circle cx="${x.toFixed(1)}" cy="${y.toFixed(1)}" r="10" fill="none" ${waits ? wait : 'stroke="currentColor" stroke-width="2"'}/>` + T.label(x, y + 4.5, words, mid);
      };
      let body = '';
      f.stages.forEach((g, i) => {
        const from = (i - .5) * turn, colour = g.what === 'in use' ? T.BLUE : T.GREEN;
        const part = g.part > 0 ? sector(from, g.part * turn, `fill="${colour}" fill-opacity=".38"`) : '';
        const edge = sector(from, turn, `fill="transparent" stroke="currentColor" stroke-opacity=".7"`);
        let [x, y] = at(i * turn, middle);
        if (y > y0 + 1 && Math.abs(x - x0) > 1) y -= 7;  // low and aside: lines end farther in
        const lines = [`stage ${i}`, g.name, g.what, ...(f.barriers ? [`full ${g.full}`, `empty ${g.empty}`] : [])];
        const awaited = [f.barriers && !f.works && f.tile % n === i && 3, f.barriers && !f.asks.length && f.sent % n === i && 4];
        const text = lines.map((line, j) => {
          const low = y + 4 + 12.5 * (j - (lines.length - 1) / 2);
          return (awaited.includes(j) ? T.rect(x - 24, low - 9.5, 48, 12, 'none', wait) : '')
            + T.label(x, low, line, j === 1 ? `${small} font-weight="600"` : small);
        }).join('');
        body += `<g${g.next <= d.last ? ` data-set="clock=${g.next / d.step}"` : ''}>${part}${edge}${text}</g>`;
      });
      const asking = f.asks.length ? f.asks.at(-1) : f.sent;
      body += badge(asking % n, R + 13, 'P', f.barriers && !f.asks.length) + badge(f.tile % n, r - 13, 'C', !f.works);
      const corner = (x, lines, more) => lines.map((line, i) => T.label(x, 10 + 13 * i, line, more)).join('');
      body += corner(0, [f.barriers ? 'P, the producer' : 'P, each thread', ...f.text.first.split(', ')], 'class="small"')
        + corner(W, [f.barriers ? 'C, the Tensor Cores' : 'C, the warps', ...f.text.second.split(', ')], 'class="small" text-anchor="end"');
      body += T.label(x0, y0 - 2, 'clock', small) + T.label(x0, y0 + 12, f.text.clock, small);
      return {width: W, height: 2 * R + 64, body};
    },
  });
})();
