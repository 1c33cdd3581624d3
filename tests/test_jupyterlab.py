"""The explorers and the live sliders in a real JupyterLab: run in a notebook, and moved there."""

from __future__ import annotations

import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from helpers.ladder.launch import trace
from helpers.ladder.rungs import catalog
from helpers.page import explorers, judging, live
from tests.common import ROOT
from tests.test_home import jupyterlab

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: this test did not run")
pytestmark = [pytest.mark.browser, pytest.mark.slow]

EXPLORERS = ("coalescing()", "banks()", "pipeline()")
SOURCES = (
    *(f"from helpers import explorers\nexplorers.{call}" for call in EXPLORERS),
    "from helpers import live\nlive.tile('block_1d')",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Address of a JupyterLab with one notebook, try.ipynb, of a cell for each of SOURCES."""
    import nbformat

    home = tmp_path_factory.mktemp("lab")
    shutil.copy(ROOT / "Makefile", home)
    (home / "book").mkdir()
    cells = [nbformat.v4.new_code_cell(source) for source in SOURCES]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, home / "book" / "try.ipynb")
    with jupyterlab(home, PYTHONPATH=str(ROOT), IPYTHONDIR=str(home / "ipython")) as address:
        yield address


class Notebook:
    """try.ipynb, open in a browser: its cells are run one after the other, as a person would."""

    def __init__(self, page, lab):
        self.page = page
        self.asked_elsewhere: list[str] = []
        self.dialogs: list[str] = []
        page.context.route("**/*", partial(self._route, lab))
        # JupyterLab may ask something at any time ("the kernel has died and restarts"): answer as
        # a person would, and say what was asked if the test fails for it.
        page.add_locator_handler(page.locator(".jp-Dialog"), self._answer)
        page.goto(f"{lab}/lab/tree/mine/try.ipynb?token=x")
        page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=120_000)

    def _route(self, lab, handler):
        if handler.request.url.startswith((lab, "data:", "blob:")):
            handler.continue_()
        else:
            self.asked_elsewhere.append(handler.request.url)
            handler.abort()

    def _answer(self, dialog):
        self.dialogs.append(dialog.first.inner_text())
        dialog.first.locator(".jp-mod-accept").first.click()

    def run(self, cell, shows):
        """Run a cell until `shows`, JavaScript of its output element, is true."""
        from playwright.sync_api import TimeoutError

        code = self.page.locator(".jp-Notebook .jp-CodeCell").nth(cell)
        for _ in range(12):  # a run that comes before the kernel listens is lost
            with suppress(TimeoutError):
                code.locator(".cm-content").click(timeout=10_000)
                self.page.keyboard.press("Shift+Enter")
                self.page.wait_for_function(
                    f"e => ({shows})(e)", arg=code.element_handle(), timeout=10_000
                )
                self.page.wait_for_timeout(500)  # the focus moves on to the next cell
                return
        pytest.fail(
            f"cell {cell} does not show what it should. It holds:\n{code.inner_text()[-2000:]}\n"
            f"JupyterLab asked: {self.dialogs}"
        )


@pytest.fixture(scope="module")
def notebook(browser, lab):
    context = browser.new_context(viewport={"width": 1280, "height": 3200})
    opened = Notebook(context.new_page(), lab)
    yield opened
    context.close()
    assert [url for url in opened.asked_elsewhere if "tile" in url] == []


SAID = """
() => [...document.querySelectorAll('.tile-explorer')]
  .map(e => e.shadowRoot?.querySelector('.say').textContent)
"""


def test_explorers_work_in_jupyterlab(notebook):
    page = notebook.page
    made = [explorers.coalescing(), explorers.banks(), explorers.pipeline()]
    for i in range(len(made)):
        notebook.run(i, "e => e.querySelector('.tile-explorer')?.shadowRoot")
    assert page.evaluate(SAID) == [e.sentence() for e in made]

    for selector, key in (
        ("tile-coalescing input[data-name=stride]", "ArrowRight"),
        ("tile-banks input[data-name=pad]", "ArrowUp"),
        ("tile-pipeline input[data-name=stages]", "End"),
    ):
        page.locator(selector).press(key)
        page.wait_for_timeout(100)
    assert page.evaluate(SAID) == [
        made[0].sentence(stride=2),
        made[1].sentence(pad=1),
        made[2].sentence(stages=5),
    ]
    assert Path(explorers.__file__).is_relative_to(ROOT)


def test_live_sliders_run_a_tile_in_jupyterlab(notebook):
    """Sliders moved by keyboard; an illegal tile is told, a legal one runs in the emulator."""
    cell = len(EXPLORERS)
    notebook.run(cell, "e => e.querySelectorAll('.noUi-handle').length === 4")
    output = notebook.page.locator(".jp-Notebook .jp-CodeCell").nth(cell).locator(".jp-OutputArea")
    kernel = catalog["block_1d"]
    at = {name: values.index(kernel.params[name]) for name, values in live.choices(kernel).items()}

    def move(name, value):
        """A press of an arrow key for each place between the slider's value and the wanted one."""
        places = live.choices(kernel)[name].index(value) - at[name]
        handle = output.locator(".widget-hslider", has_text=name).locator(".noUi-handle")
        handle.focus()
        for _ in range(abs(places)):
            notebook.page.keyboard.press("ArrowRight" if places > 0 else "ArrowLeft")
            notebook.page.wait_for_timeout(100)
        at[name] += places

    def words():
        return " ".join(output.inner_text().split())

    def until(text):
        for _ in range(600):
            if text in words():
                return
            notebook.page.wait_for_timeout(100)
        pytest.fail(f"no {text!r} within a minute; the output says:\n{words()[:3000]}")

    rows = max(live.choices(kernel)["TM"])
    move("TM", rows)
    bad = kernel.with_params(TM=rows)
    rule = live.broken(bad, 1024).replace("`", "")
    assert rule
    until(rule)
    small = {"TM": 4, "BM": 32, "BN": 32}
    for name, value in small.items():
        move(name, value)
    chosen = kernel.with_params(**small)
    until(f"{live.words(chosen)} is legal.")
    output.get_by_role("button", name="Run this tile").click()
    until(f"Done: {live.words(chosen)}")
    t = trace(chosen, *judging.whole_tiles(chosen))
    assert live.verdict(t) in words()
    assert f"{t.multiply_adds / t.wavefronts:.2f} multiply-adds" in words()
    shown = output.locator("figure svg:visible")  # one of the two drawings of each figure
    assert shown.count() == output.locator("figure").count() > 0
    assert shown.first.bounding_box()["width"] > 300
