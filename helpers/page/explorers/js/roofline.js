// The two roofs of a GPU, the kernels under them: rings are predictions, squares recorded rates,
// triangles published ones.
(() => {
  const T = window.TileExplorers;
  T.define('roofline', {
    values(d, s) {
      const gpu = d.gpus[s.gpu], peak = gpu.peaks[s.precision], kernel = d.kernels[s.kernel];
      const text = {gpu: gpu.name, kernel: s.kernel, peak: T.number(peak), ridge: T.number(peak / gpu.bandwidth, 1), precision: d.precisions[s.precision], own: d.precisions[kernel.precision]};
      if (kernel.precision !== s.precision) return {say: 'other', text, gpu, peak};
      const roof = Math.min(peak, kernel.intensity * gpu.bandwidth);
      const limit = kernel.intensity * gpu.bandwidth < peak ? 'memory' : 'arithmetic';
      Object.assign(text, {intensity: T.number(kernel.intensity, 2), roof: T.number(roof), limit});
      const point = gpu.points[s.kernel];
      if (!point) return {say: 'predicted', text, gpu, peak, roof};
      Object.assign(text, {rate: T.number(point[0]), of_roof: T.number(100 * point[0] / roof, 1), origin: point[1]});
      return {say: 'measured', text, gpu, peak, roof};
    },
    draw(d, s, {gpu, peak, roof}, width) {
      const X = 44, W = width - 58, Y = 236, H = 214, low = -1, high = 3;
      const top = Math.ceil(Math.log10(peak) + .15), floor = top - 4;
      const px = v => X + (Math.log10(v) - low) / (high - low) * W, py = v => Y - (Math.log10(v) - floor) / 4 * H;
      let body = T.line(X, Y, X + W, Y) + T.line(X, Y, X, Y - H);
      for (let e = low; e <= high; e++) body += T.label(px(10 ** e), Y + 15, 10 ** e, 'class="small" text-anchor="middle"');
      for (let e = floor; e <= top; e++) body += T.label(X - 4, py(10 ** e) + 4, e > 5 ? 10 ** (e - 6) + 'M' : e > 2 ? 10 ** (e - 3) + 'k' : 10 ** e, 'class="small" text-anchor="end"');
      body += T.label(X + W, Y + 30, 'FLOP per byte', 'class="small" text-anchor="end"') + T.label(0, 12, 'GFLOP/s', 'class="small"');
      const from = Math.max(10 ** low, 10 ** floor / gpu.bandwidth), ridge = peak / gpu.bandwidth;
      body += `<polyline points="${px(from).toFixed(1)},${py(from * gpu.bandwidth).toFixed(1)} ${px(ridge).toFixed(1)},${py(peak).toFixed(1)} ${X + W},${py(peak).toFixed(1)}" fill="none" stroke="currentColor" stroke-width="1.6"/>`;
      const at = v => Math.max(10 ** floor, v);
      for (const [name, k] of Object.entries(d.kernels)) {
        if (k.precision !== s.precision) continue;
        const bound = Math.min(peak, k.intensity * gpu.bandwidth), x = px(k.intensity), point = gpu.points[name], mine = name === s.kernel;
        const paint = mine ? T.VERMILION : T.BLUE, r = mine ? 5 : 3;
        body += `<circle cx="${x.toFixed(1)}" cy="${py(at(bound)).toFixed(1)}" r="${r}" fill="none" stroke="${paint}" stroke-width="1.6"/>`;
        if (!point) continue;
        const y = py(at(point[0]));
        body += point[2] ? T.rect(x - r, y - r, 2 * r, 2 * r, paint)
          : `<path d="M${(x - r).toFixed(1)} ${(y + r).toFixed(1)}h${2 * r}l${-r} ${-2 * r}z" fill="${paint}"/>`;
        if (mine) body += T.line(x, y, x, py(at(bound)), 'stroke-dasharray="3 3"');
      }
      const mine = d.kernels[s.kernel];
      if (roof) {
        const x = px(mine.intensity), end = x > width / 2.9;
        body += T.label(end ? x - 8 : x - 4, py(at(roof)) - (end ? 6 : 14), s.kernel, `text-anchor="${end ? 'end' : 'start'}"`);
      }
      return {width, height: Y + 36, body};
    },
  });
})();
