"""What a page that runs asks of Python, here without a browser: cells and sliders as their text."""

from __future__ import annotations

import html
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from helpers.ladder.rungs import catalog, cores
from helpers.page import in_browser, live
from helpers.page.workbench import mine
from nogpu import clang, device, toolchain
from nogpu.errors import ConfigError, UnknownKernelError
from tools.page_files import slim

BARRIER = "        __syncthreads();"
SMALL = '{"BM": 16, "BN": 16, "BK": 4, "TM": 4}'
"""A legal tile of block_1d of which nothing is stored."""
TILE = 'live.tile("tiled_32", size=1024)'


def cell(name: str, change: tuple[str, str] = ("", "")) -> str:
    """A core's cell as the built page shows it."""
    text = cores[name].source.rstrip("\n")
    assert change[0] in text
    return f"%%cuda {name}\n{text.replace(*change, 1)}"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """A browser has no GPU; and nothing is known from another test."""
    monkeypatch.setattr(device, "current", lambda: None)
    in_browser._stored_cell.cache_clear()
    in_browser._stored_tile.cache_clear()


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No compiler either: a page before its first edit."""
    monkeypatch.delenv("TILE_COMPILER", raising=False)
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    monkeypatch.setattr(clang, "available", lambda: False)
    return monkeypatch


def run(text: str) -> dict[str, Any]:
    answer = in_browser.run_cell(text)
    assert isinstance(answer, str)
    found: dict[str, Any] = json.loads(answer)
    assert set(found) == {"html", "ok", "compiled", "findings", "seconds"}
    return found


# -- cells -----------------------------------------------------------------------------------------


def test_a_core_says_what_the_notebook_says(bare: pytest.MonkeyPatch) -> None:
    text = cores["tiled_32_core"].source.rstrip()
    told = run(cell("tiled_32_core"))
    assert told["html"] == mine(f"\n{text}\n", "tiled_32_core")._repr_html_()
    assert told["ok"] and not told["compiled"] and told["findings"] == []
    assert not in_browser.needs_compiler(cell("tiled_32_core"))
    assert not in_browser.needs_compiler(cell("tiled_32_core").replace("\n", "\r\n") + "\n")
    assert "TILE_COMPILER" not in os.environ


def test_a_changed_core_needs_a_compiler(bare: pytest.MonkeyPatch) -> None:
    changed = cell("tiled_32_core", (BARRIER, ""))
    assert in_browser.needs_compiler(changed)
    told = run(changed)
    assert not told["ok"] and not told["compiled"] and "was not compiled" in told["html"]


def test_the_pages_compiler_is_asked_for_what_is_changed_alone(bare: pytest.MonkeyPatch) -> None:
    bare.undo()
    bare.setattr(device, "current", lambda: None)
    bare.setattr(toolchain, "has_nvrtc", lambda: False)
    if not clang.available():
        pytest.skip("did not run: there is no clang here (pip install ziglang)")
    assert toolchain.uses_clang()
    whole = run(cell("naive_core"))
    assert whole["ok"] and not whole["compiled"] and "(stored)" in whole["html"]
    told = run(cell("tiled_32_core", (BARRIER, "")))
    text = cell("tiled_32_core", (BARRIER, "")).splitlines()
    assert told["compiled"] and not told["ok"] and {f["kind"] for f in told["findings"]} == {"race"}
    assert all("_tile[" in text[f["line"] - 1] for f in told["findings"])
    assert "compiled for sm_75 by clang" in told["html"].lower()


def test_findings_and_errors_name_lines_of_the_cell() -> None:
    if not toolchain.available():
        pytest.skip("did not run: nothing compiles here")
    text = cell("naive_core", ("sum += ", "sun += "))
    told = run(text)
    line = next(n for n, one in enumerate(text.splitlines(), 1) if "sun += " in one)
    (found,) = told["findings"]
    assert (found["line"], found["kind"]) == (line, "compile-error") and not told["ok"]


def test_clangs_errors_name_their_column(monkeypatch: pytest.MonkeyPatch) -> None:
    if not clang.available():
        pytest.skip("did not run: there is no clang here (pip install ziglang)")
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    text = cell("naive_core", ("sum += ", "sun += "))
    (found,) = run(text)["findings"]
    assert text.splitlines()[found["line"] - 1][found["column"] - 1 :].startswith("sun += ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "%%cuda tiled_33_core\nvoid f();",
            "UnknownKernelError: %%cuda tiled_33_core: name a rung",
        ),
        ("%%cuda naive_core size=\nx", "after the kernel's name come options"),
        ("%%cuda naive_core\nvoid other();", "has no kernel called naive_core"),
        ("%%cuda add grid=4 args=(a, b)\nvoid add();", "run it in the notebook"),
        ("import numpy\n", "its first line is %%cuda"),
        ("", "its first line is %%cuda"),
    ],
)
def test_a_wrong_text_is_answered_in_words(text: str, words: str) -> None:
    told = run(text)
    assert words in html.unescape(told["html"]) and "<pre" in told["html"]
    assert not told["ok"] and told["findings"] == [] and not in_browser.needs_compiler(text)


def test_a_fault_of_the_books_own_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(text: str) -> Any:
        raise KeyError("x < y")

    monkeypatch.setattr(in_browser, "_cell", fails)
    assert "KeyError in the book&#x27;s own code: &#x27;x &lt; y&#x27;" in run("%%cuda a")["html"]


# -- sliders ---------------------------------------------------------------------------------------


def test_sliders_are_those_of_the_notebook() -> None:
    specs = json.loads(in_browser.slider_specs('live.tile("block_1d")'))
    k = catalog["block_1d"]
    assert specs["kernel"] == "block_1d"
    assert {s["name"]: tuple(s["values"]) for s in specs["sliders"]} == live.choices(k)
    assert {s["name"]: s["value"] for s in specs["sliders"]} == dict(k.params)


def test_a_tile_says_what_the_notebook_says(bare: pytest.MonkeyPatch) -> None:
    own = in_browser.sliders(TILE, "{}")
    assert own == live.counted(catalog["tiled_32"]) and "multiply-adds for each wavefront" in own
    assert live.emulated(catalog["tiled_32"]).startswith(own)
    assert not in_browser.sliders_need_compiler(TILE, '{"TILE": 32}')
    assert in_browser.sliders_need_compiler('live.tile("block_1d")', SMALL)
    lacking = in_browser.sliders('live.tile("block_1d")', SMALL)
    assert "did not run (ToolchainError)" in lacking


def test_a_tile_that_breaks_a_rule_is_not_run(bare: pytest.MonkeyPatch) -> None:
    call, values = 'live.tile("block_2d")', '{"BM": 32, "TM": 16}'
    said = live.paragraph(live.broken(catalog["block_2d"].with_params(BM=32, TM=16), 1024))
    assert in_browser.slider_rule(call, values) == in_browser.sliders(call, values) == said
    assert not in_browser.sliders_need_compiler(call, values)
    assert "is legal" in in_browser.slider_rule(TILE, '{"TILE": 8}')


def test_a_call_that_is_none_of_the_sliders_is_refused() -> None:
    for call in ("live.tile()", "os.remove('x')", "live.tile(", 'live.tile(name="x")'):
        with pytest.raises(ConfigError, match="is no call of sliders"):
            in_browser.slider_specs(call)
    with pytest.raises(UnknownKernelError):
        in_browser.slider_specs('live.tile("tiled_33")')
    with pytest.raises(ConfigError, match="TILE=7 is on no slider of tiled_32: TILE is one of 4"):
        in_browser.sliders(TILE, '{"TILE": 7}')


def test_every_sentence_in_the_book_names_its_sliders() -> None:
    for kernel in slim.sliders():
        shown = str(live.promise(kernel, 4096)._repr_html_())
        call = html.unescape(shown.partition('data-slide="')[2].partition('"')[0])
        assert json.loads(in_browser.slider_specs(call))["kernel"] == kernel.name


# -- from the archive ------------------------------------------------------------------------------

ALONE = """
import json, sys
sys.path[:] = [p for p in sys.path if p not in ("", {cwd!r})]
sys.path.insert(0, {folder!r})
from nogpu import clang, device, toolchain
toolchain.has_nvrtc = lambda: False
clang.available = lambda: False
device.current = lambda: None
sys.modules["lzma"] = None
from helpers.page import in_browser
in_browser.start()
loaded = [m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] in ("helpers", "nogpu", "tilelabs")]
odd = [n for n in ("matplotlib", "pandas", "IPython", "ipywidgets", "helpers.draw") if n in sys.modules]
cell, call = json.load(sys.stdin)
print(json.dumps([loaded, odd, json.loads(in_browser.run_cell(cell)), in_browser.sliders(call, "{{}}")]))
"""


def test_the_archive_alone_answers(tmp_path: Path, bare: pytest.MonkeyPatch) -> None:
    """In another process, which sees this project's files in the archive alone, and no lzma."""
    (tmp_path / "book.zip").write_bytes(slim.archive())
    with zipfile.ZipFile(tmp_path / "book.zip") as packed:
        packed.extractall(tmp_path / "book")
    code = ALONE.format(folder=str(tmp_path / "book"), cwd=os.getcwd())
    asked = json.dumps([cell("tiled_32_core"), 'live.tile("tiled_rect")'])
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TILE_COMPILER")}
    ended = subprocess.run(
        [sys.executable, "-c", code], input=asked, capture_output=True, text=True,
        cwd=tmp_path, env=clean | {"TILE_CACHE": "0"},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    loaded, odd, told, tile = json.loads(ended.stdout)
    assert all(path.startswith(str(tmp_path)) for path in loaded) and odd == []
    assert told["html"] == run(cell("tiled_32_core"))["html"] and not told["compiled"]
    assert tile == in_browser.sliders('live.tile("tiled_rect")', "{}")
    assert "recorded on NVIDIA H200" in tile
