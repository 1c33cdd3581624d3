// A page with kernels in cells: a button under each that runs here, and under each sliders' sentence.
// Nothing is loaded before it is pressed but the list of sizes, when a button comes into view.
(() => {
  const root = new URL("../run/", document.currentScript.src);
  const megabytes = files => Math.max(1, Math.round(files.reduce((sum, one) => sum + one.bytes, 0) / 1e6));
  const styles = `
.tile-run { align-items: baseline; display: flex; flex-wrap: wrap; gap: 0.3em 0.9em; margin: 0.5em 0; }
.tile-run button, .tile-slide button { background: transparent; border: 1px solid var(--pst-color-primary);
  border-radius: 0.25rem; color: var(--pst-color-primary); font: inherit; font-size: 0.9em; min-height: 2rem; padding: 0.15em 0.9em; }
.tile-run button:hover:not([aria-disabled=true]) { background: var(--pst-color-primary); color: var(--pst-color-background); }
.tile-run button:focus-visible { outline: 2px solid var(--pst-color-primary); outline-offset: 2px; }
.tile-run button[aria-disabled=true] { border-color: var(--pst-color-border); color: var(--pst-color-text-muted); cursor: default; }
.tile-run small { color: var(--pst-color-text-muted); font-size: 0.85em; line-height: 1.4; max-width: 40rem; }
@media print { .tile-run, .tile-panel { display: none; } }`;

  const make = (tag, attributes = {}, ...inside) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    node.append(...inside);
    return node;
  };

  function moduleWorkers() {
    let able = false;
    try {
      new Worker("data:,", { get type() { able = true; return "module"; } }).terminate();
    } catch { /* then it is not able */ }
    return able;
  }

  // Why this browser cannot run it, in words; "" where it can.
  function obstacle() {
    if (location.protocol === "file:") {
      const published = document.querySelector("link[rel=canonical]")?.href;
      return "This page was opened from a file, and a browser starts no program for such a page. In a copy " +
        "of the book `make serve PAGE=1` prints an address to open" + (published ? `; the published page is ${published}.` : ".");
    }
    if (navigator.userAgentData?.mobile || /iPhone|iPod|Android.+Mobile/.test(navigator.userAgent))
      return "A phone has too little memory for the compiler and the emulator, so the page stays as it is. " +
        "On a laptop it can be edited and run here.";
    if (navigator.deviceMemory < 4)
      return `This machine has ${navigator.deviceMemory} GB of memory, as its browser says, and the compiler and the ` +
        "emulator need 4. So the page stays as it is; on Colab the same can be edited and run.";
    if (typeof WebAssembly !== "object" || !moduleWorkers())
      return "This browser has no WebAssembly, or no workers that load modules, in which the compiler and the " +
        "emulator run. So the page stays as it is; a current Firefox, Chrome, Edge or Safari can run it.";
    return "";
  }

  let asked; // for the list of sizes, once
  const sizes = () => (asked ??= fetch(new URL("manifest.json", root))
    .then(answer => answer.ok ? answer.json() : Promise.reject(new Error(`manifest.json: ${answer.status}`)))
    .catch(error => { asked = undefined; throw error; }));

  // A row of a button and a note. say(stages): the note once sizes are known. open(editor, row): after the press.
  function offer(words, say, open) {
    const note = make("small", { role: "status" });
    const button = make("button", { type: "button" }, words);
    const row = make("div", { class: "tile-run" }, button, note);
    if (location.protocol !== "file:") new IntersectionObserver(async (seen, observer) => {
      if (!seen.some(one => one.isIntersecting)) return;
      observer.disconnect();
      const manifest = await sizes().catch(() => null);
      if (manifest && !note.textContent) note.textContent = say(manifest.stages);
    }, { rootMargin: "200px" }).observe(row);
    button.addEventListener("click", async () => {
      if (button.getAttribute("aria-disabled")) return;
      if ((note.textContent = obstacle())) return;
      button.setAttribute("aria-disabled", "true");
      note.textContent = "Loading the editor.";
      try {
        await open(await import(new URL("editor.mjs", root)), row);
      } catch (error) {
        note.textContent = `It could not be loaded (${error.message}). Is there a connection? Press again to try again.`;
      } finally {
        button.removeAttribute("aria-disabled");
      }
    });
    return row;
  }

  // A kernel below `%%cuda`, or that of an exercise.
  const runs = text => /^%%cuda[ \t]/.test(text) || /^check\("[\d.]+", mine\)/m.test(text);

  function begin() {
    // Of a long text a cell shows a part, and below it, folded, the whole.
    const cells = [...document.querySelectorAll("div.cell .cell_input")]
      .map(cell => [...cell.querySelectorAll("pre")].at(-1)).filter(pre => pre && runs(pre.textContent));
    const sliders = [...document.querySelectorAll("[data-slide]")];
    if (!cells.length && !sliders.length) return;
    document.head.append(make("style", {}, styles));
    for (const pre of cells) pre.closest(".cell_input").after(offer("Edit and run here",
      stages => `Loads ${megabytes([...stages.emulator, ...stages.editor])} MB, once; the first text that you ` +
        `change loads a compiler, ${megabytes(stages.compiler)} MB.`,
      (editor, row) => editor.edit(pre, row)));
    for (const place of sliders) place.append(offer("Load the emulator and move the tile here",
      stages => `Loads ${megabytes(stages.emulator)} MB, once, and what a tile that is not stored needs to be ` +
        `compiled, ${megabytes(stages.compiler)} MB.`,
      (editor, row) => editor.slide(place, row)));
  }
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
  else begin();
})();
