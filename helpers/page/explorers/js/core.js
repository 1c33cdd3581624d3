// What all explorers share: a custom element with native controls, a drawing and its words.
// An explorer is {values(data, state) -> {say, text: {name: words}, ...}, draw(data, state, found, W)}.
// A control may play; data.code are lines of code: found.lit lights some, found.gone strikes some out,
// found.at says beside a line who is at it.
// A drawing is made for W pixels, 440 or what a phone has, so that its text is never scaled down.
// In a wide column controls and words stand beside the drawing (.side, .main), else all is one below the other.
(() => {
  if (window.TileExplorers) return;
  const STYLE = `
:host { display: block; margin: 1em 0; width: 100%; color: inherit; container-type: inline-size; }
* { box-sizing: border-box; }
.box { position: relative; border: 1px solid color-mix(in srgb, currentColor 30%, transparent); border-radius: 6px;
  padding: .7em .9em; font-size: .94em; line-height: 1.4; }
.parts { display: flex; flex-direction: column; } .side, .main { display: contents; }
dl { order: 1; } .caption { order: 2; }
.title { font-weight: 600; margin: 0 0 .5em; }
.title a { color: inherit; text-underline-offset: .15em; }
.controls { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 11.5em), 1fr));
  gap: .5em 1.2em; margin: 0 0 .7em; }
label { display: block; font-size: .92em; min-width: 0; overflow-wrap: anywhere; }
label b { font-weight: 600; font-variant-numeric: tabular-nums; }
input, select { display: block; width: 100%; min-height: 26px; margin: .15em 0 0; font: inherit;
  accent-color: #0072b2; color: inherit; }
select { background: transparent; border: 1px solid color-mix(in srgb, currentColor 55%, transparent);
  border-radius: 4px; padding: .1em .2em; }
option { color: #111; background: #fff; }
:host([data-dark]) option { color: #eee; background: #222; }
input:focus-visible, select:focus-visible { outline: 3px solid #d55e00; outline-offset: 2px; }
.play { font: inherit; font-size: .92em; min-height: 26px; padding: .1em .9em; margin-left: .6em; color: inherit;
  background: transparent; border: 1px solid color-mix(in srgb, currentColor 55%, transparent); border-radius: 4px; cursor: pointer; }
label:has(.play) b::after { content: '\\a'; white-space: pre; }
label:has(.play) input { display: inline-block; vertical-align: middle; width: calc(100% - 7em); }
.play:focus-visible { outline: 3px solid #d55e00; outline-offset: 2px; }
.code { margin: .2em 0 .7em; font: .86em/1.5 ui-monospace, Menlo, Consolas, monospace; }
.code span { display: block; white-space: pre-wrap; padding: 0 .5em 0 2.5em; text-indent: -2em; border-left: 3px solid transparent;
  min-height: 1.5em; overflow-wrap: anywhere; position: relative; }
.code .lit { border-color: #d55e00; background: color-mix(in srgb, #d55e00 16%, transparent); }
.code .gone { text-decoration: line-through; }
.code [data-at]:not([data-at=""])::after { content: attr(data-at); position: absolute; right: 0; bottom: 0; text-indent: 0;
  padding: 0 .4em; border-radius: 3px; background: #d55e00; color: #111; }
[data-set] { cursor: pointer; }
.say { margin: .3em 0 .6em; }
.drawing { width: 100%; max-width: 600px; margin: 0 auto; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: currentColor; font-size: 12px; font-family: inherit; }
svg .small { font-size: 10.5px; }
dl { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 8.6em), 1fr));
  gap: .4em 1.2em; margin: .7em 0 0; }
dt { font-size: .86em; } dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums;
  overflow-wrap: anywhere; }
.wide { grid-column: 1 / -1; } .wide dd { font-weight: 400; }
.caption { font-size: .9em; margin: .6em 0 0; } .note { font-size: .82em; margin: .4em 0 0; }
.aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap; }
@container (min-width: 700px) {
  .parts { display: grid; grid-template-columns: minmax(0, 11fr) minmax(0, 16fr); gap: 0 1.6em; }
  .side, .main { display: block; }
  .controls { grid-template-columns: 1fr 1fr; align-items: end; } label:has(select, .play) { grid-column: 1 / -1; }
  .code { font-size: .8em; }
}
@container (max-width: 420px) { .code { font-size: .74em; } }
@media print { .controls, .play { display: none; } }`;
  const escape = text => String(text).replace(/[&<>"]/g, c =>
    ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[c]);
  // As Python's explorers.text: digits after the point, ties away from zero, thousands separated.
  const number = (x, digits = 0) => {
    const [whole, part] = x.toFixed(digits).split('.');
    return whole.replace(/\B(?=(\d{3})+$)/g, ',') + (part ? '.' + part : '');
  };
  const plural = (n, noun) => `${number(n)} ${noun}${n === 1 ? '' : 's'}`;
  const fill = (template, words) => template.replace(/\{(\w+)\}/g, (_, name) => words[name]);
  const rect = (x, y, w, h, paint, more = '') =>
    `<rect x="${+x.toFixed(2)}" y="${+y.toFixed(2)}" width="${+w.toFixed(2)}" height="${+h.toFixed(2)}" fill="${paint}" ${more}/>`;
  const label = (x, y, words, more = '') =>
    `<text x="${+x.toFixed(1)}" y="${+y.toFixed(1)}" ${more}>${escape(words)}</text>`;
  const line = (x1, y1, x2, y2, more = '') =>
    `<line x1="${+x1.toFixed(1)}" y1="${+y1.toFixed(1)}" x2="${+x2.toFixed(1)}" y2="${+y2.toFixed(1)}" stroke="currentColor" ${more}/>`;
  // Horizontal bars: rows of {label, value, words, colour, open}; value relative to most.
  const bars = (rows, most, W, {left = 96, right = 96, step = 20} = {}) => ({
    width: W, height: rows.length * step + 4,
    body: rows.map((row, i) => {
      const y = i * step + 3, room = W - left - right;
      const wide = Math.max(row.value > 0 ? 1 : 0, most > 0 ? room * row.value / most : 0);
      const paint = row.open ? 'none' : row.colour;
      return label(left - 6, y + 11, row.label, 'text-anchor="end"')
        + rect(left, y, wide, step - 6, paint, `stroke="${row.colour}" stroke-width="1.3"`)
        + label(left + wide + 5, y + 11, row.words);
    }).join(''),
  });
  // Resident blocks of an SM: helpers.ladder.model.occupancy, line for line. null: the block cannot launch.
  const occupancy = (l, threads, registers, shared) => {
    const up = (x, unit) => Math.ceil(x / unit) * unit;
    if (threads < 1 || threads > l.threads_block) return {fault: 'threads'};
    if (registers > l.registers_thread) return {fault: 'registers'};
    if (shared > l.shared_block) return {fault: 'shared'};
    const warps = Math.ceil(threads / 32);
    const each = up(Math.max(registers, 1) * 32, l.register_unit);
    let held = Math.floor(l.registers_sm / each);
    held -= held % l.warp_unit;
    const bytes = up(shared + l.shared_reserved, l.shared_unit);
    const by = {
      'warps': Math.floor(l.warps_sm / warps), 'blocks': l.blocks_sm,
      'registers': Math.floor(held / warps),
      'shared memory': bytes ? Math.floor(l.shared_sm / bytes) : l.blocks_sm,
    };
    const blocks = Math.min(...Object.values(by));
    if (blocks === 0) return {fault: 'file', need: warps * each};
    return {blocks, warps: blocks * warps, by, fraction: blocks * warps / l.warps_sm,
      limited: Object.keys(by).filter(name => by[name] === blocks)};
  };
  const bright = colour => {
    const found = (colour.match(/[\d.]+/g) || [0, 0, 0]).slice(0, 3).map(Number);
    return found.reduce((sum, v) => sum + v, 0) > 384;
  };

  const make = spec => class extends HTMLElement {
    connectedCallback() {
      if (this.shadowRoot) return;
      const data = this.querySelector('script[type="application/json"]');
      if (data) this.build(JSON.parse(data.textContent));
      else if (document.readyState === 'loading')
        document.addEventListener('DOMContentLoaded', () => this.connectedCallback(), {once: true});
    }
    build(data) {
      this.data = data;
      this.setAttribute('data-lm-suppress-shortcuts', 'true');  // JupyterLab's keys stay out of ours
      const root = this.attachShadow({mode: 'open'});
      const controls = data.controls.map((c, i) => {
        const id = `c${i}`, at = c.values.indexOf(c.value);
        if (c.kind === 'select') {
          const options = c.values.map((v, j) =>
            `<option value="${j}"${j === at ? ' selected' : ''}>${escape(c.labels[j])}</option>`);
          return `<label for="${id}">${escape(c.label)}<select id="${id}" data-name="${c.name}">${options.join('')}</select></label>`;
        }
        return `<label for="${id}">${escape(c.label)} <b aria-hidden="true"></b><input type="range" id="${id}" data-name="${c.name}" min="0" max="${c.values.length - 1}" step="1" value="${at}">${c.plays ? `<button type="button" class="play" data-input="${id}" data-pause="${c.plays}"></button>` : ''}</label>`;
      });
      const values = Object.entries(data.labels).map(([name, words]) =>
        `<div class="${data.wide.includes(name) ? 'wide' : data.spoken.includes(name) ? 'aloud' : ''}"><dt>${escape(words)}</dt><dd data-name="${name}"></dd></div>`);
      const list = `<dl>${values.join('')}</dl>`;
      root.innerHTML = `<style>${STYLE}</style><div class="box" role="group" aria-label="${escape(data.title)}">
<p class="title">${this.dataset.number ? `<a href="#${this.id}">${escape(this.dataset.number)}</a> ` : ''}${escape(data.title)}</p><div class="parts"><div class="side"><div class="controls">${controls.join('')}</div>
<p class="say"></p>${data.code ? list : ''}<p class="caption">${escape(data.caption)}</p></div>
<div class="main">${data.code ? `<div class="code" role="group" aria-label="The code">${data.code.map(words => `<span>${escape(words)}</span>`).join('')}</div>` : ''}<div class="drawing"></div>${data.code ? '' : list}</div></div>${data.note ? `<p class="note">${escape(data.note)}</p>` : ''}
<p class="aloud" role="status" aria-live="polite"></p></div>`;
      this.inputs = [...root.querySelectorAll('input, select')];
      this.cells = [...root.querySelectorAll('dd')];
      this.drawing = root.querySelector('.drawing');
      root.addEventListener('input', () => { this.stop(); this.show(); this.tell(); });
      this.saying = root.querySelector('.say');
      this.button = root.querySelector('.play');
      if (this.button) {
        this.still = matchMedia('(prefers-reduced-motion: reduce)').matches;
        this.button.addEventListener('click', () => this.play());
        this.stop();
      }
      // What a drawing marks with data-set="name=index other=index" sets those controls, by a click or a touch.
      // One that hovers shows what a mouse points at without choosing it.
      const marked = event => [...(event.target.closest('[data-set]')?.dataset.set ?? '').matchAll(/(\w+)=(\d+)/g)];
      this.drawing.addEventListener('click', event => {
        const found = marked(event);
        if (!found.length) return;
        for (const [, name, index] of found) this.inputs.find(i => i.dataset.name === name).value = index;
        this.stop(); this.show(); this.tell();
      });
      if (spec.hovers) {
        let last = '';
        const look = found => {
          if (last === (last = found.join())) return;
          this.show(Object.fromEntries(found.map(([, name, index]) =>
            [name, data.controls.find(c => c.name === name).values[index]])));
        };
        this.drawing.addEventListener('pointerover', event => { if (event.pointerType === 'mouse') look(marked(event)); });
        this.drawing.addEventListener('pointerleave', event => { if (event.pointerType === 'mouse') look([]); });
      }
      this.show();
      new ResizeObserver(() => { if (this.width() !== this.drawn) this.show(); }).observe(this.drawing);
      this.tint();
      const again = () => this.tint();
      const watch = new MutationObserver(again);
      for (const node of [document.documentElement, document.body])
        watch.observe(node, {attributes: true});
      matchMedia('(prefers-color-scheme: dark)').addEventListener('change', again);
    }
    // Native controls follow the text's colour: light text means a dark page, whoever set it.
    tint() {
      const dark = bright(getComputedStyle(this).color);
      this.toggleAttribute('data-dark', dark);
      this.style.colorScheme = dark ? 'dark' : 'light';
    }
    // A control that plays goes step by step to its end; where motion is not wanted, one step a press.
    play() {
      const input = this.shadowRoot.getElementById(this.button.dataset.input);
      if (this.ticking) return this.stop();
      const step = () => {
        input.value = +input.value === +input.max ? 0 : +input.value + 1;
        this.show();
        if (this.still || +input.value === +input.max) { this.stop(); this.tell(); }
      };
      this.reserve(input);
      step();
      if (this.still || +input.value === +input.max) return;
      this.button.textContent = 'Pause';
      this.ticking = setInterval(step, +this.button.dataset.pause);
    }
    // Room for the longest sentence that will be said, so that nothing moves while it plays.
    reserve(input) {
      const at = input.value, {saying, data} = this;
      saying.style.minHeight = '';
      let most = 0;
      for (input.value = 0; ; input.value = +input.value + 1) {
        const found = spec.values(data.data, this.state());
        saying.textContent = fill(data.sentences[found.say], found.text);
        most = Math.max(most, Math.ceil(saying.getBoundingClientRect().height));
        if (+input.value === +input.max) break;
      }
      saying.style.minHeight = most + 'px';
      input.value = at;
    }
    stop() {
      clearInterval(this.ticking);
      this.ticking = 0;
      if (this.button) this.button.textContent = this.still ? 'Next step' : 'Play';
    }
    disconnectedCallback() { this.stop(); }
    width() {
      return Math.max(270, Math.min(440, this.drawing.clientWidth || 440));
    }
    state() {
      const found = {};
      this.inputs.forEach((input, i) => {
        found[input.dataset.name] = this.data.controls[i].values[+input.value];
      });
      return found;
    }
    show(pointed = {}) {
      const {data} = this, state = {...this.state(), ...pointed}, root = this.shadowRoot;
      this.inputs.forEach((input, i) => {
        if (input.type !== 'range') return;
        const words = data.controls[i].labels[+input.value];
        input.setAttribute('aria-valuetext', words);
        input.previousElementSibling.textContent = words;
      });
      const found = spec.values(data.data, state);
      this.words = fill(data.sentences[found.say], found.text);
      this.saying.textContent = this.words;
      for (const cell of this.cells) cell.textContent = found.text[cell.dataset.name] ?? '–';
      root.querySelectorAll('.code span').forEach((row, i) => {
        for (const mark of ['lit', 'gone']) row.classList.toggle(mark, (found[mark] ?? []).includes(i));
        row.dataset.at = found.at?.[i] ?? '';
      });
      this.drawn = this.width();
      const {width, height, body} = spec.draw(data.data, state, found, this.drawn);
      this.drawing.innerHTML =
        `<svg viewBox="0 0 ${width} ${height.toFixed(0)}" role="img" aria-label="${escape(this.words)}">${body}</svg>`;
    }
    // A screen reader hears the words once the reader rests.
    tell() {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => {
        this.shadowRoot.querySelector('[role=status]').textContent = this.words;
      }, 300);
    }
  };
  window.TileExplorers = {
    define(kind, spec) {
      const name = `tile-${kind}`;
      if (!customElements.get(name)) customElements.define(name, make(spec));
    },
    number, plural, fill, escape, rect, label, line, bars, occupancy,
    BLUE: '#0072b2', VERMILION: '#d55e00', GREEN: '#009e73', GREY: '#808080',
  };
})();
