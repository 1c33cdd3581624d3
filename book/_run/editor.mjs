// What a press of "Edit and run here" brings: the cell's text becomes an editor, its results replace
// those that the page came with. The work is done in worker.mjs.

const make = (tag, attributes = {}, ...inside) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...inside);
  return node;
};
const sum = files => files.reduce((all, one) => all + one.bytes, 0);
const megabytes = bytes => (bytes / 1e6).toFixed(1);
const list = words => new Intl.ListFormat("en").format(words.map(String));
const key = /Mac|iP/.test(navigator.platform) ? "⌘" : "Ctrl";

document.head.append(make("style", {}, `
.tile-panel { margin: 0.5em 0; }
.tile-panel:focus { outline: none; }
.tile-panel .tile-run { margin: 0.4em 0; }
.tile-panel p { font-size: 0.9em; margin: 0.3em 0; max-width: none !important; }
.tile-panel progress { accent-color: var(--pst-color-primary); height: 0.8rem; vertical-align: -0.05em; width: min(16rem, 60%); }
.tile-panel [hidden] { display: none !important; }
.cm-editor { background: inherit; border: 1px solid var(--pst-color-border); color: inherit; }
.bd-article .cm-editor .cm-scroller { font-family: var(--tile-mono); font-size: 14px; line-height: 1.45; }
.cm-editor.cm-focused { outline: 2px solid var(--pst-color-primary); }
.cm-editor .cm-gutters { background: transparent; border: 0; color: var(--pst-color-text-muted); }
.cm-editor .cm-content { caret-color: currentColor; }
.cm-editor .cm-cursor { border-left-color: currentColor; }
.cm-editor .cm-activeLine, .cm-editor .cm-activeLineGutter { background: rgb(128 128 128 / 0.1); }
.cm-editor .cm-selectionBackground, .cm-editor.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground { background: rgb(70 130 200 / 0.3); }
.cm-editor .tile-found { background: rgb(213 94 0 / 0.16); box-shadow: inset 3px 0 var(--tile-warm); }
.cm-editor .tile-found-word { text-decoration: underline wavy var(--tile-warm); text-underline-offset: 3px; }
.cm-editor .tile-marks { color: var(--tile-warm); font-weight: bold; width: 1.2em; text-align: center; }
.tile-slide label { align-items: center; display: flex; gap: 0.7em; margin: 0.3em 0; }
.tile-slide label span { font-family: var(--tile-mono); font-size: 0.9em; min-width: 7em; }
.tile-slide input { accent-color: var(--pst-color-primary); flex: 0 1 16rem; min-width: 0; min-height: 1.7rem; }
.tile-slide output { font-variant-numeric: tabular-nums; min-width: 3em; }`));

// -- the worker, one for all cells of the page -----------------------------------------------------

const STOPPED = new Error("stopped");
let worker = null, ready = null, number = 0;
const waiting = new Map(); // id -> {resolve, reject}
const watchers = new Set(); // of each panel that waits: ({stage, bytes, of}) => shown

function ask(question) {
  if (!worker) {
    worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });
    worker.onmessage = ({ data: { id, progress, result, error } }) => {
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

const start = () => (ready ??= ask({ do: "start" }).catch(error => { ready = null; throw error; }));

/** End the worker: all that waits for it fails with `error`, and the next question starts another. */
function end(error) {
  worker?.terminate();
  worker = ready = null;
  for (const { reject } of waiting.values()) reject(error);
  waiting.clear();
}

// -- the editor ------------------------------------------------------------------------------------

let modules = null;
const codeMirror = () => (modules ??= Promise.all(["state", "view", "commands", "language", "lang-cpp"]
  .map(name => import(`./editor/codemirror-${name}.js`)).concat(import("./editor/lezer-highlight.js")))
  .then(all => Object.assign({}, ...all)).catch(error => { modules = null; throw error; }));

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
    [t.keyword, "k"], [t.controlKeyword, "k"], [t.modifier, "k"], [[t.typeName, t.standard(t.typeName)], "kt"],
    [t.comment, "c1"], [[t.processingInstruction, t.meta], "cp"], [[t.string, t.character], "s"], [t.number, "mi"],
    [[t.bool, t.null], "kc"], [t.function(t.variableName), "nf"], [t.definition(t.variableName), "n"],
    [t.operator, "o"], [t.variableName, "n"], [t.punctuation, "p"],
  ];
  const view = new M.EditorView({
    doc: text,
    extensions: [
      M.lineNumbers(), M.gutter({ class: "tile-marks", markers: view => view.state.field(signs), initialSpacer: () => sign }),
      M.history(), M.drawSelection(), M.highlightActiveLine(), M.indentOnInput(), M.bracketMatching(),
      M.EditorState.tabSize.of(4), M.indentUnit.of("    "), M.cpp(),
      M.syntaxHighlighting(M.tagHighlighter(classes.map(([tag, name]) => ({ tag, class: name })))),
      lines, M.EditorView.decorations.from(lines), signs,
      M.keymap.of([{ key: "Mod-Enter", run: () => { run(); return true; } }, M.indentWithTab, ...M.historyKeymap, ...M.defaultKeymap]),
      M.EditorView.contentAttributes.of({ "aria-label": label, autocapitalize: "off", spellcheck: "false" }),
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

/** A bar in megabytes, and a line that is read aloud. */
function progressOf(stages) {
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
  const after = `after ${seconds.toFixed(1)} s`, lines = [...new Set(verdict.findings.map(one => one.line).filter(Boolean))];
  const where = lines.length ? ` Marked: line${lines.length > 1 ? "s" : ""} ${list(lines)}.` : "";
  if (verdict.ok) return `Done ${after}: right, and nothing was found.`;
  if (!verdict.compiled) return `It did not run, ${after}; why stands below.${where}`;
  return `Done ${after}: something is wrong; what was found stands below.${where}`;
}

/** Make an editor of a cell's text. pre: its code block; row: the button's, which the panel replaces. */
export async function edit(pre, row, stages) {
  const text = pre.textContent.replace(/\n$/, "");
  const cell = pre.closest("div.cell"), name = text.split("\n")[0].replace("%%cuda", "").trim();
  const button = words => make("button", { type: "button" }, words);
  const [runs, stops, resets] = [button("Run"), button("Stop"), button("Reset")];
  const status = make("p", { role: "status" }), progress = progressOf(stages);
  const panel = make("div", { class: "tile-panel", role: "group", tabindex: "-1", "aria-label": `Run ${name}` },
    make("div", { class: "tile-run" }, runs, stops, resets,
      make("small", {}, `${key}-Enter runs. Tab indents; Escape, then Tab leaves the editor.`)),
    progress.line, status);
  let busy = true, editor = null;
  const enable = () => {
    for (const [one, able] of [[runs, !busy], [stops, busy], [resets, !busy]])
      if (able) one.removeAttribute("aria-disabled"); else one.setAttribute("aria-disabled", "true");
  };
  const on = (one, act) => one.addEventListener("click", () => { if (!one.getAttribute("aria-disabled")) act(); });

  // What the page came with, for Reset.
  let output = cell.querySelector(":scope > .cell_output, :scope > details > .cell_output");
  if (!output) row.after(output = make("div", { class: "cell_output docutils container" }));
  const stored = [...output.childNodes];

  /** Do a piece of work that Stop ends, and say of it what there is to say. */
  async function during(work) {
    busy = true;
    enable();
    progress.begin();
    try {
      await work();
    } catch (error) {
      status.textContent = error === STOPPED
        ? "Stopped. Run starts the emulator again; its files are in the browser's cache."
        : `The page could not do it (${error.message}). Run tries again.`;
    } finally {
      progress.end();
      busy = false;
      enable();
    }
  }

  const run = () => busy || during(async () => {
    const began = performance.now();
    status.textContent = "Running.";
    await start();
    const verdict = await ask({ do: "run", text: editor.view.state.doc.toString() });
    const shown = make("div", { class: "output text_html" });
    shown.innerHTML = verdict.html;
    output.replaceChildren(shown);
    editor.mark(verdict.findings);
    status.textContent = sentence(verdict, (performance.now() - began) / 1000);
  });

  on(runs, run);
  on(stops, () => end(STOPPED));
  on(resets, () => {
    const { view } = editor;
    view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
    editor.mark([]);
    output.replaceChildren(...stored);
    status.textContent = "The book's text, and what it told when the book was built.";
  });

  row.replaceWith(panel);
  panel.focus({ preventScroll: true });
  status.textContent = "Loading.";
  await during(async () => {
    const begun = start(); // both at once
    begun.catch(() => {});
    const M = await codeMirror();
    editor = editorOf(M, text, `CUDA C++ of ${name}`, run);
    pre.hidden = true;
    pre.parentElement.querySelector(".copybtn")?.remove();
    pre.after(editor.view.dom);
    if (document.activeElement === panel) editor.view.focus();
    await begun;
    status.textContent = "Ready: the text above can be changed and run.";
  });
  if (!editor) {
    panel.replaceWith(row);
    throw new Error(status.textContent);
  }
}
