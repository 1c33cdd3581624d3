// The worker behind a page that runs: Python with the book's emulator, and clang once a text needs it.
// Asked: {id, do: "start", kept | "compiler" | "run", text, page | "specs", call | "slide", call, values}. Answers: any number
// of {id, progress: {stage, bytes, of}}, then {id, result} or {id, error}; and {keep: [path, module]}, which the page
// gives the next worker as kept. One thing is done at a time.

const root = new URL("./", import.meta.url).href;
const fetched = self.fetch, { compileStreaming, Instance } = WebAssembly;
const decoder = new TextDecoder();

let files = null; // path -> {stage, bytes, key}, from manifest.json
let python = null, page = null, clang = null;
let report = null; // of the question at hand: (stage, bytes) => told to the page
let fault = ""; // of a file that came and is not what is listed: a stream's own error has no words

// -- what is loaded --------------------------------------------------------------------------------

const store = self.caches?.open("tile-by-tile").catch(() => null); // none where the address is not secure

/** What the browser keeps of a file, or null; what it keeps of an older one goes. */
async function stored(url, key) {
  const cache = await store, found = await cache?.match(`${url}?${key}`);
  if (cache && !found) await cache.delete(url, { ignoreSearch: true });
  return found ?? null;
}

/** The same as fetch for all that loads here. It asks for a listed file once: then the browser keeps it, under
 *  the key of its content. It counts what comes, and checks that all came. */
self.fetch = async (input, init) => {
  const url = new URL(input.url ?? input, root).href;
  const path = url.startsWith(root) ? url.slice(root.length) : "", file = files?.get(path);
  if (modules.has(path)) return new Response("", { headers: { path } });
  const kept = file && await stored(url, file.key);
  const answer = kept || await fetched(url, { ...init, cache: "no-cache" });
  if (!answer.ok) throw new Error(fault = `${path || url} was not found (${answer.status})`);
  if (!file) return answer;
  let seen = 0;
  const count = new TransformStream({
    transform(chunk, controller) {
      seen += chunk.byteLength;
      report?.(file.stage, chunk.byteLength);
      controller.enqueue(chunk);
    },
    flush(controller) {
      if (seen === file.bytes) return;
      fault = `${path} came with ${seen} bytes, and ${file.bytes} are listed: load the page anew`;
      controller.error(new Error(fault));
    },
  });
  // Not every server names WebAssembly as such.
  const type = path.endsWith(".wasm") ? "application/wasm" : "application/octet-stream";
  const whole = new Response(answer.body.pipeThrough(count), { headers: { "content-type": type, path } });
  if (!kept) (await store)?.put(`${url}?${file.key}`, whole.clone()).catch(() => {}); // no room, or cut short
  return whole;
};

const modules = new Map(); // path -> WebAssembly.Module: the page holds them for the next worker, too

WebAssembly.compileStreaming = async source => {
  const answer = await source, path = answer.headers.get("path");
  if (!modules.has(path)) {
    modules.set(path, await compileStreaming(answer));
    self.postMessage({ keep: [path, modules.get(path)] });
  }
  return modules.get(path);
};
WebAssembly.instantiateStreaming = async (source, imports) => {
  const module = await WebAssembly.compileStreaming(source);
  return { module, instance: await WebAssembly.instantiate(module, imports) };
};

const bytesOf = async path => (await fetch(root + path)).arrayBuffer();

/** A module, which the browser fetches by itself: what came of it is counted at its end. */
async function bring(path) {
  const module = await import(root + path);
  report?.(files.get(path).stage, files.get(path).bytes);
  return module;
}

async function start(kept = []) {
  if (page) return;
  for (const [path, module] of kept) modules.set(path, module);
  const { stages } = await (await fetched(root + "manifest.json", { cache: "no-cache" })).json();
  files = new Map(Object.entries(stages).flatMap(([stage, list]) => list.map(one => [one.path, { stage, ...one }])));
  const wheel = bytesOf([...files.keys()].find(path => path.endsWith(".whl"))), book = bytesOf("book.zip");
  const [{ loadPyodide }] = await Promise.all([bring("pyodide/pyodide.mjs"), bring("pyodide/pyodide.asm.js")]);
  python = self.python = await loadPyodide({ indexURL: root + "pyodide/", stdout: () => {}, stderr: () => {} });
  python.unpackArchive(await wheel, "wheel");
  python.unpackArchive(await book, "zip", { extractDir: "/book" });
  python.runPython("import sys; sys.path.insert(0, '/book'); sys.dont_write_bytecode = True");
  page = python.pyimport("helpers.page.in_browser");
  page.start();
}

// -- clang -----------------------------------------------------------------------------------------

async function compiler() {
  if (clang) return;
  clang = await bring("clang/bundle.js");
  await clang.runLLVM(null, {}, { fetchProgress: () => {} }); // what it needs is fetched, nothing runs
  self.run_clang = runClang;
  python.runPython(`
def connect():
    import json
    from js import run_clang
    from nogpu import clang

    def run(arguments, folders):
        given = json.dumps([[str(one) for one in arguments], [str(one) for one in folders]])
        return tuple(json.loads(run_clang(given)))

    clang.set_runner(run)

connect()
del connect`);
}

const known = new Map(); // folder -> tree, of the headers that come with the book and never change

/** A folder of Python's file system as a tree for clang. */
function treeOf(folder) {
  if (known.has(folder)) return known.get(folder);
  const tree = {};
  for (const name of python.FS.readdir(folder)) {
    if (name === "." || name === "..") continue;
    const path = `${folder}/${name}`;
    if (python.FS.isDir(python.FS.stat(path).mode)) tree[name] = treeOf(path);
    else if (/\.(?:h|cuh|cu|ll)$/.test(name)) tree[name] = python.FS.readFile(path);
  }
  if (folder.startsWith("/book/")) known.set(folder, tree);
  return tree;
}

/** [arguments, folders] as JSON -> [returncode, stdout, stderr] as JSON. */
function runClang(given) {
  const [words, folders] = JSON.parse(given);
  const files = {};
  for (const folder of folders) {
    const parts = folder.split("/").filter(Boolean), last = parts.pop();
    const above = parts.reduce((tree, part) => tree[part] ??= {}, files);
    above[last] = { ...above[last], ...treeOf(folder.replace(/\/$/, "")) };
  }
  let stderr = "", code = 0;
  output.length = 0;
  WebAssembly.Instance = tapped;
  try {
    clang.runLLVM(words[0] === "clang" ? words : ["clang", ...words], files, {
      synchronously: true, decodeASCII: false, stdin: null, stdout: null,
      stderr: bytes => { if (bytes) stderr += decoder.decode(bytes, { stream: true }); },
    });
  } catch (error) {
    if (typeof error.code !== "number") stderr += `error: the compiler stopped: ${error.message}\n`;
    code = error.code || 1;
  } finally {
    WebAssembly.Instance = Instance;
  }
  return JSON.stringify([code, decoder.decode(output.bytes.subarray(0, output.length)), stderr]);
}

const output = { bytes: new Uint8Array(1 << 20), length: 0 }; // of the run of clang at hand

/** An instance of clang whose standard output goes to `output`. LLVM writes a module in pieces of three or four bytes,
 *  160,000 of them for a core of Hopper, and each takes microseconds on its way through the runtime to a callback. */
function tapped(module, imports) {
  const system = imports?.wasi_snapshot_preview1;
  if (!system?.fd_write) return new Instance(module, imports);
  let memory = null, bytes = new Uint8Array(), numbers = null;
  const fd_write = (file, pieces, count, written) => {
    if (file !== 1) return system.fd_write(file, pieces, count, written);
    if (bytes.buffer !== memory.buffer) { // it grew
      bytes = new Uint8Array(memory.buffer);
      numbers = new DataView(memory.buffer);
    }
    let sum = 0;
    for (let at = pieces; at < pieces + 8 * count; at += 8) {
      const from = numbers.getUint32(at, true), size = numbers.getUint32(at + 4, true), end = output.length + size;
      if (end > output.bytes.length) {
        const more = new Uint8Array(2 * end);
        more.set(output.bytes);
        output.bytes = more;
      }
      for (let i = 0; i < size; i++) output.bytes[output.length + i] = bytes[from + i];
      output.length = end;
      sum += size;
    }
    numbers.setUint32(written, sum, true);
    return 0;
  };
  const instance = new Instance(module, { ...imports, wasi_snapshot_preview1: { ...system, fd_write } });
  memory = instance.exports.memory;
  return instance;
}

// -- questions -------------------------------------------------------------------------------------

const answers = {
  start: ({ kept }) => start(kept),
  compiler: async () => { await start(); await compiler(); },
  specs: async ({ call }) => { await start(); return JSON.parse(page.slider_specs(call)); },
  run: async ({ text, page: name }) => {
    await start();
    if (page.needs_compiler(text, name)) await compiler();
    return JSON.parse(page.run_cell(text, name));
  },
  slide: async ({ call, values }) => {
    await start();
    const chosen = JSON.stringify(values);
    if (page.sliders_need_compiler(call, chosen)) await compiler();
    return page.sliders(call, chosen);
  },
};

async function answer({ id, do: what, ...given }) {
  fault = "";
  const come = {}, of = stage => [...files.values()].reduce((sum, one) => sum + (one.stage === stage ? one.bytes : 0), 0);
  report = (stage, bytes) => {
    come[stage] = (come[stage] ?? 0) + bytes;
    self.postMessage({ id, progress: { stage, bytes: come[stage], of: of(stage) } });
  };
  try {
    self.postMessage({ id, result: await answers[what](given) });
  } catch (error) {
    const words = String(error?.message ?? error).trim().split("\n").at(-1); // of Python's traceback, the last
    self.postMessage({ id, error: fault || words });
  }
}

let turn = Promise.resolve();
self.onmessage = ({ data }) => { turn = turn.then(() => answer(data)); };
