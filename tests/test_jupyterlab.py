"""The explorers in a real JupyterLab: run in a notebook there, and their sliders moved."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers import explorers
from tests.conftest import ROOT

pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: this test did not run")
pytestmark = [pytest.mark.browser, pytest.mark.slow]

CELLS = ("coalescing()", "banks()", "pipeline()")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a JupyterLab with one notebook, try.ipynb, of a cell for each explorer."""
    import nbformat

    folder = tmp_path_factory.mktemp("lab")
    notebook = nbformat.v4.new_notebook(
        cells=[
            nbformat.v4.new_code_cell(f"from helpers import explorers\nexplorers.{call}")
            for call in CELLS
        ],
        metadata={
            "kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}
        },
    )
    nbformat.write(notebook, folder / "try.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {
        name: os.fspath(tmp_path_factory.mktemp(name.lower()))
        for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    }
    log = folder / "lab.log"
    with log.open("w") as out:
        server = subprocess.Popen(
            [
                sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root",
                f"--port={port}", "--ip=127.0.0.1", "--IdentityProvider.token=",
                "--ServerApp.disable_check_xsrf=True", f"--ServerApp.root_dir={folder}",
                "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
                "--LabApp.news_url=",
            ],
            env={**os.environ, **own, "PYTHONPATH": os.fspath(ROOT)},
            stdout=out,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"{address}/api", timeout=2)
                break
            except OSError:
                assert server.poll() is None, log.read_text()[-2000:]
                time.sleep(0.5)
        else:
            pytest.fail(f"JupyterLab does not answer:\n{log.read_text()[-2000:]}")
        yield address
    finally:
        server.terminate()
        server.wait(20)


SAID = """
() => [...document.querySelectorAll('.tile-explorer')]
  .map(e => e.shadowRoot?.querySelector('.say').textContent)
"""


def test_explorers_work_in_jupyterlab(browser: Any, lab: str) -> None:
    from playwright import sync_api as playwright_api

    context = browser.new_context(viewport={"width": 1280, "height": 2400})
    page = context.new_page()
    asked: list[str] = []

    def route(handler: Any) -> None:
        if handler.request.url.startswith((lab, "data:", "blob:")):
            handler.continue_()
        else:
            asked.append(handler.request.url)
            handler.abort()

    context.route("**/*", route)
    page.goto(f"{lab}/lab/tree/try.ipynb")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for(timeout=120_000)
    made = [explorers.coalescing(), explorers.banks(), explorers.pipeline()]
    for i in range(len(made)):
        for attempt in range(12):  # a run that comes before the kernel listens is lost
            page.locator(".jp-Notebook .jp-CodeCell").nth(i).locator(".cm-content").click()
            page.keyboard.press("Shift+Enter")
            try:
                page.wait_for_function(
                    "n => document.querySelectorAll('.tile-explorer').length >= n",
                    arg=i + 1,
                    timeout=10_000,
                )
                break
            except playwright_api.TimeoutError:
                assert attempt < 11, f"cell {i} shows no explorer"
    assert page.evaluate(SAID) == [e.sentence() for e in made]

    page.wait_for_timeout(1000)  # JupyterLab moves the focus to the next cell when a run ends
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
    assert [url for url in asked if "tile" in url] == []
    context.close()
    assert Path(explorers.__file__).is_relative_to(ROOT)
