() => {
  // Words in drawings that a phone shows too small, over each other, or outside the drawing.
  const drawings = [];
  const collect = root => { for (const node of root.querySelectorAll('*')) {
    if (node.shadowRoot) collect(node.shadowRoot);
    if (node.tagName === 'svg' && node.getBoundingClientRect().width) drawings.push(node);
  } };
  collect(document);
  // The corners of a text's ink on the screen, turned as it is: less than its line, which has air.
  const corners = label => {
    const box = label.getBBox(), at = label.getScreenCTM(), [top, low] = [0.22, 0.82];
    return [[0, top], [1, top], [1, low], [0, low]].map(([i, j]) => {
      const [x, y] = [box.x + i * box.width, box.y + j * box.height];
      return [at.a * x + at.c * y + at.e, at.b * x + at.d * y + at.f];
    });
  };
  const apart = (one, other) => [one, other].some(shape => [0, 1].some(i => {
    const [nx, ny] = [shape[i + 1][1] - shape[i][1], shape[i][0] - shape[i + 1][0]];
    const reach = points => points.map(([x, y]) => x * nx + y * ny);
    const [a, b] = [reach(one), reach(other)];
    return Math.max(...a) <= Math.min(...b) || Math.max(...b) <= Math.min(...a);
  }));
  const faults = [];
  for (const drawing of drawings) {
    const frame = drawing.getBoundingClientRect();
    const seen = [...drawing.querySelectorAll('text')].filter(one => one.textContent.trim())
      .map(one => ({words: one.textContent.trim(), points: corners(one),
        size: parseFloat(getComputedStyle(one).fontSize) * Math.hypot(one.getScreenCTM().a, one.getScreenCTM().b)}));
    const name = (drawing.getAttribute('aria-label') || 'a drawing').slice(0, 50);
    seen.forEach(({words, points, size}, i) => {
      if (size < 9.99) faults.push(`${name}: "${words}" is ${size.toFixed(1)} px high`);
      if (points.some(([x, y]) => x < frame.left - 2 || x > frame.right + 2 || y < frame.top - 2 || y > frame.bottom + 2))
        faults.push(`${name}: "${words}" leaves the drawing`);
      for (const other of seen.slice(0, i))
        if (!apart(points, other.points)) faults.push(`${name}: "${words}" lies on "${other.words}"`);
    });
  }
  return faults;
}
