// What a press of "Edit and run here" brings: the cell's text becomes an editor, its results replace
// those that the page came with. The work is done in worker.mjs.

const make = (tag, attributes = {}, ...inside) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
};
const megabytes = bytes => (bytes / 1e6).toFixed(1);
const list = words => new Intl.ListFormat("en").format(words.map(String));
const pageName = location.pathname.split("/").at(-1).replace(/\.html$/, "");
const key = /Mac|iP/.test(navigator.platform) ? "⌘" : "Ctrl";

document.head.append(make("style", {}, `
.tile-panel { margin: 0.5em 0; }
.tile-panel:focus { outline: none; }
.tile-panel .tile-run { margin: 0.4em 0; }
.tile-panel p { font-size: 0.9em; margin: 0.3em 0; max-width: none !important; }
.tile-panel progress { accent-color: var(--pst-color-primary); height: 0.8rem; vertical-align: -0.05em; width: min(16rem, 60%); }
.tile-panel [hidden] { display: none !important; }
.cm-editor { background: var(--pst-color-surface, inherit); border: 1px solid var(--pst-color-border); color: inherit; }
.bd-article .cm-editor .cm-scroller { font-family: var(--tile-mono); font-size: 14px; line-height: 1.45; }
.cm-editor.cm-focused { outline: 2px solid var(--pst-color-primary); }
.cm-editor .cm-gutters { background: transparent; border: 0; color: var(--pst-color-text-muted); }
.cm-editor .cm-content { caret-color: currentColor; }
.cm-editor .cm-cursor { border-left-color: currentColor; }
.cm-editor .cm-activeLine, .cm-editor .cm-activeLineGutter { background: rgb(128 128 128 / 0.1); }
.cm-editor .cm-selectionBackground, .cm-editor.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground { background: rgb(70 130 200 / 0.3); }
.cm-editor .tile-found { background: rgb(213 94 0 / 0.1); box-shadow: inset 3px 0 var(--tile-warm); }
.cm-editor .tile-found-word { text-decoration: underline wavy var(--tile-warm); text-underline-offset: 3px; }
.cm-editor .tile-marks { color: var(--tile-warm); font-weight: bold; width: 1.2em; text-align: center; }
.tile-slide label { align-items: center; display: flex; gap: 0.7em; margin: 0.3em 0; }
.tile-slide label span { font-family: var(--tile-mono); font-size: 0.9em; min-width: 7em; }
.tile-slide input { accent-color: var(--pst-color-primary); flex: 0 1 16rem; min-width: 0; min-height: 1.7rem; }
.tile-slide output { font-variant-numeric: tabular-nums; min-width: 3em; }
.tile-slid tbody th { min-width: 10rem; }`));

// -- the worker, one for all cells of the page -----------------------------------------------------

const STOPPED = new Error("stopped");
let worker = null, ready = null, number = 0;
const waiting = new Map(); // id -> {resolve, reject}
const kept = new Map(); // path -> a compiled module, for the worker after this one
const watchers = new Set(); // of each panel that waits: ({stage, bytes, of}) => shown

function ask(question) {
  if (!worker) {
    worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });
    worker.onmessage = ({ data: { id, keep, progress, result, error } }) => {
      if (keep) return kept.set(...keep);
      if (progress) return watchers.forEach(show => show(progress));
      const { resolve, reject } = waiting.get(id);
      waiting.delete(id);
      return error === undefined ? resolve(result) : reject(new Error(error));
    };
    worker.onerror = event => end(new Error(event.message || "the worker could not be started"));
  }
  return new Promise((resolve, reject) => {
    waiting.set(++number, { resolve, reject });
    worker.postMessage({ id: number, ...question });
  });
}

const start = () => (ready ??= ask({ do: "start", kept: [...kept] }).catch(error => { ready = null; throw error; }));

/** End the worker: all that waits for it fails with `error`, and the next question starts another. */
function end(error) {
  worker?.terminate();
  worker = ready = null;
  for (const { reject } of waiting.values()) reject(error);
  waiting.clear();
}

// -- the editor ------------------------------------------------------------------------------------

const MODULES = ["state", "view", "commands", "language", "clike", "lezer-highlight"];
let modules = null;
const codeMirror = () => (modules ??= Promise.all(MODULES.map(name => import(`./editor/${name}.js`)))
  .then(all => Object.assign({}, ...all)).catch(error => { modules = null; throw error; }));

/** C++ and the words that CUDA adds to it. */
const cudaOf = ({ StreamLanguage, cpp }) => StreamLanguage.define({
  ...cpp,
  token(stream, state) {
    if (stream.sol() && stream.match(/^%%.*/)) return "meta";
    const style = cpp.token(stream, state), word = stream.current();
    if (/^__(?:shared|constant|device|host|global|restrict|forceinline|noinline|launch_bounds|cluster_dims)__$/.test(word)) return "keyword";
    return /^(?:half|bfloat16|float[24]|int[24]|dim3|u?int(?:8|16|32|64)_t|__half2?|__nv_bfloat162?)$/.test(word) ? "type"
      : /^__\w+$/.test(word) && style === "variable" ? "builtin" : style;
  },
});

/** An editor with the page's colours. run(): on Ctrl-Enter. Returns its view and mark(findings). */
function editorOf(M, text, label, run) {
  const setMarks = M.StateEffect.define();
  const sign = new (class extends M.GutterMarker {
    toDOM() { return document.createTextNode("✗"); }
  })();
  const field = (none, of) => M.StateField.define({
    create: () => none,
    update: (set, change) => change.effects.reduce(
      (held, effect) => effect.is(setMarks) ? effect.value[of] : held, set.map(change.changes)),
  });
  const lines = field(M.Decoration.none, "lines"), signs = field(M.RangeSet.empty, "signs");
  // The classes that Pygments gives, so that the page's own style sheet colours the text in both themes.
  const t = M.tags, classes = [
    [t.keyword, "k"], [t.typeName, "kt"], [t.comment, "c1"], [[t.processingInstruction, t.meta], "cp"], [t.string, "s"],
    [t.number, "mi"], [[t.bool, t.null, t.atom], "kc"], [t.standard(t.variableName), "nf"], [t.operator, "o"],
  ];
  const view = new M.EditorView({
    doc: text,
    extensions: [
      M.lineNumbers(), M.gutter({ class: "tile-marks", markers: view => view.state.field(signs), initialSpacer: () => sign }),
      M.history(), M.drawSelection(), M.highlightActiveLine(), M.indentOnInput(), M.bracketMatching(),
      M.EditorState.tabSize.of(4), M.indentUnit.of("    "), cudaOf(M),
      M.syntaxHighlighting(M.tagHighlighter(classes.map(([tag, name]) => ({ tag, class: name })))),
      lines, M.EditorView.decorations.from(lines), signs,
      M.keymap.of([{ key: "Mod-Enter", run: () => { run(); return true; } }, M.indentWithTab, ...M.historyKeymap, ...M.defaultKeymap]),
      M.EditorView.contentAttributes.of({ "aria-label": label, autocapitalize: "off", spellcheck: "false", tabindex: "0" }),
    ],
  });
  function mark(findings) {
    const { doc } = view.state, shown = [], beside = [];
    const at = new Map(); // line -> kinds
    for (const { line, kind } of findings)
      if (line >= 1 && line <= doc.lines) at.set(line, [...at.get(line) ?? [], kind]);
    for (const [line, kinds] of at) {
      const from = doc.line(line).from;
      shown.push(M.Decoration.line({ class: "tile-found", attributes: { title: kinds.join(", ") } }).range(from));
      beside.push(sign.range(from));
    }
    for (const { line, column } of findings) {
      if (!column || !at.has(line)) continue;
      const place = doc.line(line), from = Math.min(place.from + column - 1, place.to);
      const word = view.state.wordAt(from) ?? { from, to: Math.min(from + 1, place.to) };
      if (word.from < word.to) shown.push(M.Decoration.mark({ class: "tile-found-word" }).range(word.from, word.to));
    }
    view.dispatch({ effects: setMarks.of({ lines: M.Decoration.set(shown, true), signs: M.RangeSet.of(beside, true) }) });
  }
  return { view, mark };
}

// -- a panel ---------------------------------------------------------------------------------------

const NAMES = { emulator: "the emulator", compiler: "the compiler", editor: "the editor" };

/** A bar in megabytes, shown while something comes. */
function progressOf() {
  const bar = make("progress", { "aria-label": "Loaded, in megabytes" });
  const words = make("span"), line = make("p", { hidden: "" }, bar, " ", words);
  const show = ({ stage, bytes, of }) => {
    line.hidden = false;
    bar.max = of;
    bar.value = bytes;
    bar.setAttribute("aria-valuetext", words.textContent =
      bytes < of ? `${megabytes(bytes)} of ${megabytes(of)} MB of ${NAMES[stage]}` : `${megabytes(of)} MB of ${NAMES[stage]} are here; it starts`);
  };
  return { line, show, begin: () => { watchers.add(show); }, end: () => { watchers.delete(show); line.hidden = true; } };
}

function sentence(verdict, seconds) {
  const after = `after ${seconds.toFixed(1)} s`, lines = [...new Set(verdict.findings.map(one => one.line).filter(Boolean))].sort((a, b) => a - b);
  const where = lines.length ? ` Marked: line${lines.length > 1 ? "s" : ""} ${list(lines)}.` : "";
  if (verdict.ok && !verdict.says) return `Done ${after}: right, and nothing was found.`;
  if (verdict.findings.some(one => one.kind === "compile-error"))
    return `It does not compile (${seconds.toFixed(1)} s): what the compiler says stands below.${where}`;
  if (verdict.says) return `Done ${after}: ${verdict.says}.${where}`;
  return `Done ${after}: something is wrong; what was found stands below.${where}`;
}

/** A row of buttons, a bar and a line that is read aloud, and
 *  during(work): a piece of work that Stop ends; what went wrong with it, or null. */
function panelOf(label, hint, buttons) {
  const status = make("p", { role: "status" }), progress = progressOf();
  const small = make("small", {}, hint), row = make("div", { class: "tile-run" });
  const node = make("div", { class: "tile-panel", role: "group", tabindex: "-1", "aria-label": label }, row, progress.line, status);
  const panel = { node, busy: false, say: words => { status.textContent = words; } };
  const made = buttons.map(([words, whileBusy, act]) => {
    const one = make("button", { type: "button" }, words);
    one.addEventListener("click", () => { if (panel.busy === whileBusy) act(); });
    return [one, whileBusy];
  });
  row.append(...made.map(([one]) => one), small);
  const set = busy => {
    panel.busy = busy;
    for (const [one, whileBusy] of made)
      if (busy === whileBusy) one.removeAttribute("aria-disabled"); else one.setAttribute("aria-disabled", "true");
  };
  panel.during = async work => {
    set(true);
    progress.begin();
    try {
      await work();
      return null;
    } catch (error) {
      panel.say(error === STOPPED
        ? "Stopped. The next run starts the emulator again; its files are in the browser's cache."
        : `That could not be done: ${error.message.replace(/\.$/, "")}. Try again.`);
      return error;
    } finally {
      progress.end();
      set(false);
    }
  };
  return panel;
}

/** Make an editor of a cell's text. pre: its code block; row: the button's, which a panel replaces. */
export async function edit(pre, row) {
  const M = await codeMirror();
  const text = pre.textContent.replace(/\n$/, ""), asked = text.match(/^check\("([\d.]+)"/m);
  const name = asked ? `exercise ${asked[1]}` : text.split("\n")[0].replace("%%cuda", "").trim();
  const panel = panelOf(`Run ${name}`, `${key}-Enter runs. Tab indents; Escape, then Tab leaves the editor.`,
    [["Run", false, () => run()], ["Stop", true, () => end(STOPPED)], ["Reset", false, () => reset()]]);
  const editor = editorOf(M, text, `CUDA C++ of ${name}`, () => run());
  // What the page came with, for Reset.
  const cell = pre.closest("div.cell");
  let output = cell.querySelector(".cell_output");
  if (!output) row.after(output = make("div", { class: "cell_output docutils container" }));
  const stored = [...output.childNodes];

  const run = () => panel.busy || panel.during(async () => {
    const began = performance.now();
    panel.say("Running.");
    await start();
    const verdict = await ask({ do: "run", text: editor.view.state.doc.toString(), page: pageName });
    const shown = make("div", { class: "output text_html" });
    shown.innerHTML = verdict.html;
    output.replaceChildren(shown);
    editor.mark(verdict.findings);
    panel.say(sentence(verdict, (performance.now() - began) / 1000));
  });
  function reset() {
    editor.view.dispatch({ changes: { from: 0, to: editor.view.state.doc.length, insert: text } });
    editor.mark([]);
    output.replaceChildren(...stored);
    panel.say("The book's text again, and what it told when the book was built.");
  }

  row.replaceWith(panel.node);
  const folded = pre.closest("details");
  if (folded) folded.open = true;
  pre.hidden = true;
  pre.parentElement.querySelector(".copybtn")?.remove();
  pre.after(editor.view.dom);
  editor.view.focus();
  await panel.during(async () => {
    panel.say("Loading. The text can be changed already.");
    await start();
    panel.say("Ready: change the text, and run it.");
  });
}

// -- sliders of a tile -----------------------------------------------------------------------------

/** Sliders in place of the sentence that says where they are. place: what holds it, with the call. */
export async function slide(place, row) {
  const call = place.dataset.slide;
  const panel = panelOf("Tile sizes", "Arrow keys move a slider; the tile runs when it rests.",
    [["Run this tile", false, () => run()], ["Stop", true, () => end(STOPPED)]]);
  const shown = make("div", { class: "tile-slid" });
  const sliders = [];
  let specs = null, rest = 0, again = false;

  const run = async () => {
    clearTimeout(rest);
    again = panel.busy;
    if (panel.busy) return;
    await panel.during(async () => {
      const values = Object.fromEntries(sliders.map(one => [one.name, one.value()]));
      const tile = Object.entries(values).map(([name, value]) => `${name}=${value}`).join(", "), began = performance.now();
      panel.say(`Running: ${tile}.`);
      await start();
      shown.innerHTML = await ask({ do: "slide", call, values });
      panel.say(`Done: ${tile}, after ${((performance.now() - began) / 1000).toFixed(1)} s.`);
    });
    if (again) run();
  };
  row.replaceWith(panel.node);
  panel.node.focus({ preventScroll: true });
  const wrong = await panel.during(async () => {
    panel.say("Loading.");
    await start();
    specs = await ask({ do: "specs", call });
    panel.say("Ready.");
  });
  if (wrong) {
    panel.node.replaceWith(row);
    throw wrong;
  }
  for (const { name, values, value } of specs.sliders) {
    const output = make("output", {}, value);
    const input = make("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-valuetext": value });
    input.value = values.indexOf(value);
    input.addEventListener("input", () => {
      input.setAttribute("aria-valuetext", output.textContent = values[input.value]);
      clearTimeout(rest);
      rest = setTimeout(run, 400);
    });
    sliders.push({ name, value: () => values[input.value], row: make("label", {}, make("span", {}, name), input, output) });
  }
  panel.node.setAttribute("aria-label", `Tile sizes of ${specs.kernel}`);
  panel.node.prepend(make("div", { class: "tile-slide" }, ...sliders.map(one => one.row)));
  panel.node.after(shown);
  place.querySelector("p").hidden = true; // it says where else sliders are
  const first = panel.node.querySelector("input");
  if (document.activeElement === panel.node) first.focus({ preventScroll: true });
  await run();
}
