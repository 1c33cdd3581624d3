() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return [];
  const wide = [];
  for (const node of document.body.querySelectorAll('*')) {
    const box = node.getBoundingClientRect();
    if (box.right > room + 1 && box.width)
      wide.push(`${node.tagName}.${node.className} reaches ${Math.round(box.right)} of ${room} px`);
  }
  return [`the page scrolls to ${document.documentElement.scrollWidth} px`, ...wide.slice(0, 5)];
}
