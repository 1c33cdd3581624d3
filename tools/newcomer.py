"""A newcomer's path through chapter 6 in JupyterLab, in a real browser: what it takes, and how
long.

    python -m tools.newcomer --out data/validation/newcomer.json

Opens the chapter's notebook, runs all of it, takes a barrier out of the kernel in the cell, runs
that cell, reads which lines race, puts the barrier back, moves a slider, and saves a figure and the
measurements. An action is what a person does once: a click, a key, a line typed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.ladder.rungs import catalog
from helpers.record import stamps
from helpers.record.host import cpu_name
from nogpu import toolchain

NOTEBOOK = ROOT / "book" / "06_tiling.ipynb"
KERNEL = "%%cuda tiled_32_core"
BARRIER = "__syncthreads();  // both tiles are complete"
SAVING = (
    'plots.bars(m, value="gflops").savefig("tiles.png")',
    'm.frame.to_csv("tiles.csv", index=False)',
)
PATIENCE = 600_000  # milliseconds for all cells of the chapter


# -- JupyterLab ------------------------------------------------------------------------------------


@contextmanager
def laboratory(folder: Path) -> Iterator[str]:
    """Address of a JupyterLab over a folder, with settings of its own: nobody's are read or
    changed.

    Every cell stays in the page, also one that is scrolled out of it, so that a script finds it.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="tile-by-tile-lab-") as made:
        own = {}
        for name in (
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
            "IPYTHONDIR",
            "JUPYTERLAB_SETTINGS_DIR",
            "JUPYTERLAB_WORKSPACES_DIR",
        ):
            own[name] = str(Path(made) / name.lower())
            Path(own[name]).mkdir()
        tracker = (
            Path(own["JUPYTERLAB_SETTINGS_DIR"]) / "@jupyterlab" / "notebook-extension"
        ) / "tracker.jupyterlab-settings"
        tracker.parent.mkdir(parents=True)
        tracker.write_text('{"windowingMode": "none"}', encoding="utf-8")
        log = Path(made) / "lab.log"
        with log.open("w") as out:
            server = subprocess.Popen(
                [
                    sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
                    f"--port={port}", "--ip=127.0.0.1", "--IdentityProvider.token=",
                    "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={folder}",
                    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                    "--LabApp.news_url=None",
                ],
                env={**os.environ, **own, "PYTHONPATH": os.fspath(ROOT)},
                stdout=out,
                stderr=subprocess.STDOUT,
            )  # fmt: skip
        address = f"http://127.0.0.1:{port}"
        try:
            for _ in range(240):
                try:
                    urllib.request.urlopen(f"{address}/api", timeout=2)
                    break
                except OSError:
                    if server.poll() is not None:
                        raise RuntimeError(
                            f"JupyterLab stops:\n{log.read_text()[-2000:]}"
                        ) from None
                    time.sleep(0.5)
            else:
                raise RuntimeError(f"JupyterLab does not answer:\n{log.read_text()[-2000:]}")
            yield address
        finally:
            server.terminate()
            server.wait(20)


# -- the path --------------------------------------------------------------------------------------


@dataclass
class Step:
    """One step: what was done, how many actions it took, and what was seen after how many seconds."""

    step: str
    actions: list[str] = field(default_factory=list)
    saw: str = ""
    seconds: float = 0.0


class Walk:
    """A person at a notebook: acts, waits for what a step promises, and notes both."""

    def __init__(self, page: Any) -> None:
        self.page, self.steps, self._began = page, list[Step](), 0.0
        page.add_locator_handler(
            page.locator(".jp-Dialog"), lambda d: d.first.locator(".jp-mod-accept").first.click()
        )

    def begin(self, step: str) -> None:
        """A step begins."""
        self.steps.append(Step(step))
        self._began = time.perf_counter()

    def act(self, what: str, do: Any) -> None:
        """One action, and the clock from it on: a person's own time is not measured."""
        self.steps[-1].actions.append(what)
        self._began = time.perf_counter()
        do()

    def see(self, what: str, found: Any) -> None:
        """Wait until `found()` is true, and note how long after the last action that was."""
        end = time.perf_counter() + PATIENCE / 1e3
        while not found():
            if time.perf_counter() > end:
                raise TimeoutError(f"{self.steps[-1].step}: no sign of: {what}")
            self.page.wait_for_timeout(50)
        step = self.steps[-1]
        step.saw, step.seconds = what, round(time.perf_counter() - self._began, 2)
        print(f"{step.seconds:7.2f} s  {step.step} ({', '.join(step.actions)}): {what}", flush=True)

    def key(self, keys: str) -> None:
        """Press keys, as one action."""
        self.act(keys, lambda: self.page.keyboard.press(keys))

    # -- what stands on the page --

    def cell(self, text: str) -> Any:
        """The code cell whose text has this in it, scrolled to."""
        [number] = [i for i, code in enumerate(code_cells()) if text in code]
        found = self.page.locator(".jp-Notebook .jp-CodeCell").nth(number)
        found.scroll_into_view_if_needed()
        return found

    def output(self, text: str) -> str:
        """The words below that cell, in one line."""
        area = self.cell(text).locator(".jp-OutputArea")
        return " ".join(area.inner_text().split()) if area.count() else ""

    def counted(self, text: str) -> str:
        """The number of the cell's last run, such as "[3]:"; "[*]:" while it runs."""
        return self.cell(text).locator(".jp-InputPrompt").inner_text().strip()

    def ran(self, text: str, before: str) -> bool:
        """Whether the cell has run to its end since its number was `before`."""
        return bool(re.fullmatch(r"\[\d+\]:", now := self.counted(text))) and now != before


PROMPTS = (
    "() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(e => e.textContent)"
)


def finished(prompts: list[str]) -> bool:
    """Whether these cells have run: each is numbered, but for those whose code is folded away."""
    shown = [text.strip() for text in prompts if text.strip()]
    return bool(shown) and all(re.fullmatch(r"\[\d+\]:", text) for text in shown)


@cache
def code_cells() -> tuple[str, ...]:
    """The text of the notebook's code cells, in order: an editor shows the lines in sight alone."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return tuple("".join(c["source"]) for c in cells if c["cell_type"] == "code")


def line_of(cell: str, text: str) -> int:
    """The line of a cell on which a text stands, as the report counts: its first line is 1."""
    [number] = [i for i, line in enumerate(cell.split("\n"), 1) if text in line]
    return number


def walk(page: Any, lab: str, folder: Path) -> list[Step]:
    """Go the path in a page of a browser. Raises what fails, naming the step."""
    w = Walk(page)
    [source] = [code for code in code_cells() if code.startswith(KERNEL)]
    write, read = line_of(source, "A_tile[ty][tx] ="), line_of(source, "sum +=")

    w.begin("open chapter 6")
    w.act("open", lambda: page.goto(f"{lab}/lab/tree/{NOTEBOOK.name}"))
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=120_000)
    w.see("the notebook, its kernel idle", lambda: page.get_by_text("| Idle").count() > 0)

    w.begin("run all cells")
    menu = page.locator(".lm-MenuBar-itemLabel", has_text=re.compile("^Run$"))
    w.act("menu Run", lambda: menu.click())
    entry = page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$"))
    w.act("Run All Cells", lambda: entry.click())
    w.see("every cell has run", lambda: finished(page.evaluate(PROMPTS)))
    faults = page.locator(".jp-OutputArea-output[data-mime-type$=error]")
    if faults.count():
        raise AssertionError(f"a cell fails:\n{faults.first.inner_text()[-2000:]}")

    w.begin("take a barrier out, run the cell")
    kernel = f"{KERNEL}\n"
    before = w.counted(kernel)
    w.cell(kernel).locator(".cm-line", has_text=BARRIER).click()
    page.keyboard.press("Home")
    page.keyboard.press("Shift+End")
    page.keyboard.press("Delete")
    w.key("Control+Enter")
    w.see(
        f"a race of line {write} with line {read}",
        lambda: (
            w.ran(kernel, before)
            and re.search(rf"Line {write}, race.*\(line {read}\)", w.output(kernel)) is not None
        ),
    )

    w.begin("put it back, run the cell")
    before = w.counted(kernel)
    page.keyboard.press("Enter")  # from the cell into its text
    page.keyboard.press("Control+z")
    w.key("Control+Enter")
    w.see("right, and no race", lambda: w.ran(kernel, before) and "Right" in w.output(kernel))
    if "race" in w.output(kernel) or BARRIER not in w.cell(kernel).inner_text():
        raise AssertionError(f"the barrier is back, and the cell says:\n{w.output(kernel)}")

    w.begin("move the slider to another tile, run it")
    sliders = "live.tile("
    handle = w.cell(sliders).locator(".noUi-handle").first
    handle.focus()
    page.keyboard.press("ArrowLeft")
    kernel_16 = catalog["tiled_16"].params["TILE"]
    w.see("that it is legal", lambda: f"TILE={kernel_16} is legal" in w.output(sliders))
    button = w.cell(sliders).get_by_role("button", name="Run this tile")
    w.act("Run this tile", lambda: button.click())
    w.see("the tile's counts", lambda: f"Done: TILE={kernel_16}" in w.output(sliders))

    w.begin("save the figure and the measurements")
    last = page.locator(".jp-Notebook .jp-CodeCell").last
    last.locator(".jp-InputPrompt").click()
    page.keyboard.press("Escape")
    page.keyboard.press("b")
    page.keyboard.press("Enter")
    page.keyboard.insert_text("\n".join(SAVING))
    w.key("Control+Enter")
    files = [folder / "tiles.png", folder / "tiles.csv"]
    w.see("both files", lambda: all(f.is_file() and f.stat().st_size for f in files))
    return w.steps


def record(steps: list[Step]) -> dict[str, Any]:
    """What is written: the steps, and with what they were gone."""
    return {
        **stamps.stamp({}, stamps.commit()),
        "notebook": NOTEBOOK.name,
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "compiler": toolchain.compiler(),
        "versions": {
            "python": platform.python_version(),
            "jupyterlab": version("jupyterlab"),
            "playwright": version("playwright"),
        },
        "steps": [asdict(step) for step in steps],
    }


def main() -> None:
    """The command line."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(
        prog="python -m tools.newcomer",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, help="where to write the record (JSON)")
    out = parser.parse_args().out
    names = ("chromium", "chromium-browser", "google-chrome")
    installed = next((path for name in names if (path := shutil.which(name))), None)
    with tempfile.TemporaryDirectory(prefix="tile-by-tile-") as made, sync_playwright() as play:
        folder = Path(made)
        shutil.copy(NOTEBOOK, folder)
        browser = play.chromium.launch(
            executable_path=installed, args=["--no-sandbox", "--disable-gpu"]
        )
        with laboratory(folder) as lab:
            page = browser.new_page(viewport={"width": 1280, "height": 2600})
            try:
                steps = walk(page, lab, folder)
            except BaseException:
                page.screenshot(path=str(Path(tempfile.gettempdir()) / "newcomer.png"))
                raise
        browser.close()
    if out:
        out.write_text(json.dumps(record(steps), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
