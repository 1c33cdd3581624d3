// All rungs of one source at one size in one unit. rates: [kernel, group, {unit: [value, words]}].
(() => {
  const T = window.TileExplorers;
  T.define('ladder', {
    values(d, s) {
      const from = d.sources[s.source], rows = from.rates[s.size];
      const text = {source: from.name, size: s.size, sizes: from.sizes, label: from.label, unit: d.units[s.unit], group: d.groups[s.group]};
      const found = (rows || []).filter(row => row[2][s.unit] && [row[1], 'all'].includes(s.group)).map(([name, , units]) => [name, ...units[s.unit]]);
      if (!found.length) return {say: rows ? 'unit' : 'size', rows: [], text};
      const better = (a, b) => s.unit === 'ms' ? a[1] < b[1] : a[1] > b[1];
      const best = found.reduce((a, b) => better(b, a) ? b : a), worst = found.reduce((a, b) => better(a, b) ? b : a);
      const span = s.unit === 'ms' ? worst[1] / best[1] : best[1] / worst[1];
      return {say: 'rungs', rows: found, text: {...text, count: T.plural(found.length, 'kernel'), best: best[0], best_value: best[2],
        worst: worst[0], worst_value: worst[2], span: T.number(span, 1),
        all: found.map(r => `${r[0]} ${r[2]}`).join('; ')}};
    },
    draw(d, s, {rows, text}, W) {
      if (!rows.length) return {width: W, height: 24, body: T.label(0, 15, 'nothing recorded here')};
      const most = Math.max(...rows.map(r => r[1]));
      // Room for the longest name in a wide font: fonts differ from phone to phone.
      const left = 10 + 7.6 * Math.max(12, ...rows.map(r => r[0].length));
      return T.bars(rows.map(([name, value, words]) => ({label: name, value, words,
        colour: name.startsWith('cublas') ? T.GREY : s.source.includes(':') ? T.GREEN : T.BLUE})), most, W,
        {left, right: 64, step: 18});
    },
  });
})();
