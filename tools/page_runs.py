"""What it costs to run a cell where it stands in the built page, in Chromium: seconds and megabytes.

    python -m tools.page_runs [--html _build/html] [--out data/validation/page_runs.json]

opens pages of a book that `make book PAGE=1` built, presses "Edit and run here", runs the core as
it stands, edits it and runs it again, as a reader would. Each step says how long it took, what came
over the wire, and what the page's process held after it. tests/test_page_runs.py judges the same
steps. About two minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import date
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.record.host import cpu_name
from tools.pdf import browser_path

PAGES = ("06_tiling", "09_block_2d", "12_lane_map", "21_wgmma")
EDITS = 20
STATUS = ".tile-panel [role=status]"
PATIENCE = 180.0  # seconds that one step may take
ENDLESS = "    for (int i = 0;; ++i) C[i % 32] = i;\n}"


@dataclass(frozen=True)
class Step:
    """seconds: wall clock; wire_mb: sent by the server; memory_mb: resident, of the page's process,
    0 where the system does not say; python_mb: Python's memory, 0 after its worker is stopped; says: the page's own line; lines, words: marked in the editor.
    """

    name: str
    seconds: float
    wire_mb: float
    memory_mb: int
    python_mb: float
    says: str
    lines: tuple[int, ...] = ()
    words: tuple[str, ...] = ()


# -- a server that counts --------------------------------------------------------------------------


@dataclass
class Sent:
    """Bytes that a server sent, and the paths that it was asked for."""

    bytes: int = 0
    paths: list[str] = field(default_factory=list)


class _Counting(SimpleHTTPRequestHandler):
    def __init__(self, *args: Any, sent: Sent, **options: Any) -> None:
        self.sent = sent
        super().__init__(*args, **options)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        """Send a file, and count it."""
        self.sent.paths.append(self.path)
        while chunk := source.read(1 << 16):
            outputfile.write(chunk)
            self.sent.bytes += len(chunk)


@contextmanager
def serve(folder: Path) -> Iterator[tuple[str, Sent]]:
    """The address of a folder, on a free port of this machine, and what was sent from it."""
    sent = Sent()
    handler = partial(_Counting, sent=sent, directory=os.fspath(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()


# -- a reader --------------------------------------------------------------------------------------


def memory_mb(browser: Any) -> int:
    """Resident megabytes of the largest process that shows a page; 0 where there is no /proc."""
    session = browser.new_browser_cdp_session()
    found = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    sizes = [0.0]
    for process in found:
        statm = Path("/proc") / str(process["id"]) / "statm"
        if process["type"] == "renderer" and statm.exists():
            pages = int(statm.read_text().split()[1])
            sizes.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
    return round(max(sizes))


def text_of(page: Any) -> str:
    """The text in the page's editor."""
    return str(page.evaluate(f"async () => {{ {_VIEW} return view.state.doc.toString(); }}"))


def put(page: Any, text: str) -> None:
    """Replace the text in the page's editor."""
    change = "{ changes: { from: 0, to: view.state.doc.length, insert: text } }"
    page.evaluate(f"async text => {{ {_VIEW} view.dispatch({change}); }}", text)


_VIEW = """const { EditorView } = await import(new URL("../run/editor/view.js", location.href));
const view = EditorView.findFromDOM(document.querySelector(".cm-editor"));"""


def replaced(text: str, old: str, new: str) -> str:
    """A text with one place of it changed. Raises ValueError where that place is not there once."""
    if text.count(old) != 1:
        raise ValueError(
            f"{old!r} stands {text.count(old)} times in the text, and is to stand once"
        )
    return text.replace(old, new)


def without_a_barrier(text: str) -> str:
    """A core whose first barrier is gone: the line stays, with its comment. The text itself where
    it has none that a line of its own shows."""
    return re.sub(r"(?m)^( *)__syncthreads\(\);", r"\1", text, count=1)


def endless(text: str) -> str:
    """A kernel that does not end."""
    return f"{text.rstrip().removesuffix('}')}{ENDLESS}"


class Reader:
    """One page, and the steps that were taken on it."""

    def __init__(self, browser: Any, sent: Sent, page: Any, name: str) -> None:
        self.browser, self.sent, self.page, self.name = browser, sent, page, name
        self.core = ""  # the text as the book has it
        self.steps: list[Step] = []
        self.shown: dict[str, str] = {}  # what stood below the editor after each step

    def step(self, name: str, act: Callable[[], None], until: str) -> Step:
        """Do something, wait until the page's line matches a pattern, and write down what it took."""
        sent, began = self.sent.bytes, time.perf_counter()
        act()
        words = f"document.querySelector({json.dumps(STATUS)})?.textContent ?? ''"
        self.page.wait_for_function(f"/{until}/.test({words})", timeout=PATIENCE * 1000)
        seconds = time.perf_counter() - began
        taken = Step(
            f"{self.name}: {name}", round(seconds, 2), round((self.sent.bytes - sent) / 1e6, 1),
            memory_mb(self.browser), round(self.python_bytes() / 1e6, 1),
            self.page.locator(STATUS).first.text_content(), tuple(self.marked()),
            tuple(self.page.locator(".tile-found-word").all_text_contents()),
        )  # fmt: skip
        self.shown[name] = self.below()
        self.steps.append(taken)
        print(
            f"{taken.name}: {taken.seconds:.2f} s, {taken.wire_mb:.1f} MB came, "
            f"{taken.memory_mb} MB held, {taken.python_mb} of them Python's, load {os.getloadavg()[0]:.1f}: {taken.says}",
            flush=True,
        )
        return taken

    def python_bytes(self) -> int:
        """What the memory of the worker's Python has grown to."""
        if self.page.locator(STATUS).first.text_content().startswith("Stopped"):
            return 0
        return int(self.page.workers[-1].evaluate("self.python?._module.HEAPU8.length ?? 0"))

    def below(self) -> str:
        """What the cell shows."""
        output = self.page.locator("div.cell:has(.cm-editor) .cell_output")
        return str(output.last.inner_text()) if output.count() else ""

    def marked(self) -> list[int]:
        """Lines that are marked in the editor, from 1."""
        lines = "[...document.querySelectorAll('.cm-line')]"
        found: list[int] = self.page.evaluate(
            f"{lines}.flatMap((one, i) => one.matches('.tile-found') ? [i + 1] : [])"
        )
        return found

    def press(self) -> Step:
        """Open the cell."""
        button = self.page.get_by_role("button", name="Edit and run here").first
        taken = self.step("load", button.click, "^Ready")
        self.core = text_of(self.page)
        return taken

    def run(self, name: str, text: str | None = None) -> Step:
        """Run the text of the editor, or another one put there."""
        if text is not None:
            put(self.page, text)
        button = self.page.get_by_role("button", name="Run", exact=True).first

        self.page.evaluate(f"document.querySelector({json.dumps(STATUS)}).textContent = 'before'")
        return self.step(name, button.click, "^Done|^It does not|^That could")

    def stop(self, name: str, text: str, after: float = 2.0) -> Step:
        """Run a text that does not end, and stop it."""
        put(self.page, text)
        self.page.get_by_role("button", name="Run", exact=True).first.click()
        self.page.wait_for_timeout(after * 1000)
        stop = self.page.get_by_role("button", name="Stop").first
        return self.step(name, stop.click, "^Stopped")


@contextmanager
def reading(browser: Any, address: str, sent: Sent, name: str) -> Iterator[Reader]:
    """A reader with a fresh browser profile, on one page."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    try:
        page.goto(f"{address}/book/{name}.html")
        yield Reader(browser, sent, page, name[:2])
    finally:
        context.close()


def first_steps(reader: Reader) -> str:
    """Load, run the core as it stands, and after a change of a comment. Gives the core's text."""
    reader.press()
    core = reader.core
    reader.run("the text as it stands")
    reader.run("the first changed text, with the compiler", f"{core}\n// changed")
    return core


def chapter_6(reader: Reader) -> str:
    """All that a reader may do to the first tiled core. Gives the core's text."""
    core = first_steps(reader)
    reader.run("a barrier taken out", without_a_barrier(core))
    reader.run("put back", core)
    reader.run("a typo", replaced(core, "sum +=", "sun +="))
    reader.stop("an endless loop, stopped", endless(core))
    reader.run("the next text after that, in a new worker", f"{core}\n// after a stop")
    for i in range(EDITS):
        reader.run(f"edit {i + 1}", f"{core}\n// edit {i + 1}")
    return core


def later_chapter(reader: Reader) -> str:
    """What a reader does first to any other core. Gives the core's text."""
    core = first_steps(reader)
    if (changed := without_a_barrier(core)) != core:
        reader.run("a barrier taken out", changed)
    return core


# -- the command -----------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(prog="python -m tools.page_runs", description=__doc__)
    parser.add_argument("--html", type=Path, default=ROOT / "_build" / "html")
    parser.add_argument("--out", type=Path, default=ROOT / "data" / "validation" / "page_runs.json")
    options = parser.parse_args(arguments)
    manifest = options.html / "run" / "manifest.json"
    if not manifest.is_file():
        parser.error(f"{options.html} has no pages that run: build them with `make book PAGE=1`")
    installed = browser_path()
    began, load, steps = time.perf_counter(), os.getloadavg()[0], list[Step]()
    with serve(options.html) as (address, sent), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        for name in PAGES:
            with reading(browser, address, sent, name) as reader:
                (chapter_6 if name.startswith("06") else later_chapter)(reader)
                steps += reader.steps
        version = browser.version
        browser.close()
    stages = json.loads(manifest.read_text(encoding="utf-8"))["stages"]
    record = {
        "command": "python -m tools.page_runs",
        "date": date.today().isoformat(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "browser": f"Chromium {version}",
        "load": [round(load, 1), round(os.getloadavg()[0], 1)],
        "seconds": round(time.perf_counter() - began),
        "stages_mb": {
            stage: round(sum(one["bytes"] for one in files) / 1e6, 1)
            for stage, files in stages.items()
        },
        "steps": [asdict(step) for step in steps],
    }
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
