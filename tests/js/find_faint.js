() => {
  // Text whose colour is too near to what lies behind it: below 3:1, or 4.5:1 for body text.
  const canvas = document.createElement('canvas'); canvas.width = canvas.height = 1;
  const pen = canvas.getContext('2d', {willReadFrequently: true});
  const rgba = text => { pen.clearRect(0, 0, 1, 1); pen.fillStyle = text; pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (let one = node; one; one = one.parentElement) {
      const found = rgba(getComputedStyle(one).backgroundColor);
      if (found[3] > 250) return found;
    }
    return [255, 255, 255, 255];
  };
  // The last shape drawn before a label that lies under its middle, if it hides the page.
  const shapes = new Map();
  const under = label => {
    const drawing = label.ownerSVGElement;
    if (!shapes.has(drawing)) shapes.set(drawing, [...drawing.querySelectorAll(
      'rect, path, circle, ellipse, polygon, use')].map(one => {
        const style = getComputedStyle(one);
        const fill = style.fill.startsWith('rgb') ? rgba(style.fill) : [0, 0, 0, 0];
        return {one, fill, alpha: fill[3] / 255 * style.fillOpacity * style.opacity,
                box: one.getBoundingClientRect()};
      }).filter(shape => shape.alpha > 0.5 && shape.box.width && !shape.one.closest('defs')));
    const box = label.getBoundingClientRect();
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const below = shapes.get(drawing).filter(shape =>
      shape.one.compareDocumentPosition(label) & Node.DOCUMENT_POSITION_FOLLOWING &&
      shape.box.left <= x && x <= shape.box.right && shape.box.top <= y && y <= shape.box.bottom);
    return below.length ? below.at(-1).fill : behind(drawing);
  };
  const faults = [];
  // Every element that has words of its own, as axe looks at them: axe takes eight seconds for it.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const nodes = new Set();
  while (walker.nextNode()) if (walker.currentNode.data.trim()) nodes.add(walker.currentNode.parentElement);
  for (const node of nodes) {
    const words = node.textContent.trim();
    const box = node.getBoundingClientRect();
    if (box.width < 3 || box.height < 3 || node.closest('[aria-hidden=true], mjx-container, script, style, noscript'))
      continue;
    const style = getComputedStyle(node);
    const drawn = node instanceof SVGElement;
    const front = rgba(drawn ? style.fill : style.color);
    if (front[3] < 128 || !node.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    if (node.closest('[disabled], [aria-disabled=true]')) continue;
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const [a, b] = [light(front), light(drawn ? under(node) : behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < (drawn || large ? 3 : 4.5))
      faults.push(`${node.tagName} "${words.slice(0, 40)}" has contrast ${ratio.toFixed(2)}`);
  }
  return faults;
}
