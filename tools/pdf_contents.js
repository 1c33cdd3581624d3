sheets => {
  document.querySelector('#tile-contents')?.remove();
  const pages = [...document.querySelectorAll('span[id^="document-"]')];
  const box = document.createElement('nav');
  box.id = 'tile-contents';
  box.innerHTML = '<p><strong>Contents</strong></p>';
  for (const page of pages) {
    const title = page.parentElement.querySelector(`[id="${page.id}"] ~ section :is(h1, h2, h3)`);
    if (!title) continue;
    const words = title.cloneNode(true);
    words.querySelectorAll('.headerlink').forEach(link => link.remove());
    const line = document.createElement('p'), link = document.createElement('a');
    if (title.tagName === 'H3') line.className = 'below';
    link.href = '#' + page.id;
    link.textContent = words.textContent;
    const sheet = document.createElement('span');
    sheet.textContent = sheets[page.id] ?? '';
    line.append(link, sheet);
    box.append(line);
    page.style.cssText = 'display: block; break-before: page';
  }
  const first = document.querySelector('.bd-article > section, .bd-article section');
  first.querySelector('.toctree-wrapper').before(box);
  return pages.map(page => page.id);
}
