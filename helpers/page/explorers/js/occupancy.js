// Resident blocks of one SM by each resource; the formula is core's, which mirrors helpers.ladder.model.
(() => {
  const T = window.TileExplorers;
  T.define('occupancy', {
    values(d, s) {
      const limits = d.limits[d.gpus[s.gpu]];
      const o = T.occupancy(limits, s.threads, s.registers, s.shared);
      if (o.fault) {
        return {say: o.fault, o, text: {
          gpu: d.names[s.gpu], registers_need: T.number(o.need || 0), shared_most: T.number(limits.shared_block),
          registers_sm: T.number(limits.registers_sm), shared: T.number(s.shared)}};
      }
      return {
        say: 'fits', o, limits,
        text: {
          gpu: d.names[s.gpu],
          holds: T.plural(o.blocks, 'block'), blocks: T.number(o.blocks), warps: T.number(o.warps), most: T.number(limits.warps_sm),
          fraction: T.number(100 * o.fraction, 1), limited: o.limited.join(' and '),
          by_warps: T.number(o.by.warps), by_blocks: T.number(o.by.blocks),
          by_registers: T.number(o.by.registers), by_shared: T.number(o.by['shared memory']),
        },
      };
    },
    draw(d, s, {o, limits}, W) {
      if (o.fault) return {width: W, height: 24, body: T.label(0, 14, 'no block fits: the launch fails')};
      const rows = Object.entries(o.by).map(([name, n]) => ({
        label: name, value: Math.min(n, o.by.blocks), words: T.plural(n, 'block') + (n === o.blocks ? ', the limit' : ''),
        colour: n === o.blocks ? T.VERMILION : T.BLUE, open: n !== o.blocks,
      }));
      const top = T.bars(rows, o.by.blocks, W, {left: 106, right: 110});
      // The warp slots of the SM, one square each, a frame's colour alternating by block.
      const warps = Math.ceil(s.threads / 32), n = limits.warps_sm, w = W / 32;
      let body = top.body, y0 = top.height + 18;
      body += T.label(0, y0 - 5, `${o.warps} of ${n} warp slots in use`);
      for (let i = 0; i < n; i++) {
        const used = i < o.warps, paint = used ? (Math.floor(i / warps) % 2 ? T.GREEN : T.BLUE) : 'currentColor';
        body += T.rect((i % 32) * w, y0 + Math.floor(i / 32) * w, w * .86, w * .86, paint, used ? '' : 'opacity=".12"');
      }
      return {width: W, height: y0 + Math.ceil(n / 32) * w + 2, body};
    },
  });
})();
