"""What a page that runs asks of Python, here without a browser: cells and sliders as their text."""

from __future__ import annotations

import html
import json
import os
import re
import sys
import zipfile
from typing import Any

import pytest

from helpers.ladder.rungs import catalog, cores
from helpers.page import in_browser, live
from helpers.page.claims import cells
from helpers.page.exercises import check
from helpers.page.exercises.registry import find
from helpers.page.workbench import cell_magic, mine
from nogpu import clang, device, toolchain
from nogpu.errors import ConfigError, ToolchainError, UnknownKernelError
from tests.common import ROOT, completed
from tests.test_exercises import solution
from tilelabs import apart
from tilelabs.labs import checking, lab
from tools.page_files import slim

BARRIER = "        __syncthreads();"
SMALL = '{"BM": 16, "BN": 16, "BK": 4, "TM": 4}'
"""A legal tile of block_1d of which nothing is stored."""
TILE = 'live.tile("tiled_32", size=1024)'
COMPILES = pytest.mark.skipif(
    not toolchain.available(), reason="did not run: nothing compiles here"
)
CLANG = pytest.mark.skipif(
    not clang.available(), reason="did not run: no clang (pip install ziglang)"
)


def cell(name, change=("", "")):
    """A core's cell as the built page shows it."""
    text = cores[name].source.rstrip("\n")
    assert change[0] in text
    return f"%%cuda {name}\n{text.replace(*change, 1)}"


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """A browser has no GPU; and nothing is known from another test."""
    monkeypatch.setattr(device, "current", lambda: None)
    in_browser._stored_cell.cache_clear()
    in_browser._stored_tile.cache_clear()


def run(text, page=""):
    answer = in_browser.run_cell(text, page)
    assert isinstance(answer, str)
    found: dict[str, Any] = json.loads(answer)
    assert set(found) == {"html", "ok", "says", "compiled", "findings", "seconds"}
    return found


# -- cells -----------------------------------------------------------------------------------------


def test_a_core_says_what_the_notebook_says(bare):
    text = cores["tiled_32_core"].source.rstrip()
    result = run(cell("tiled_32_core"))
    assert result["html"] == mine(f"\n{text}\n", "tiled_32_core")._repr_html_()
    assert result["ok"] and not result["compiled"] and result["findings"] == []
    assert not in_browser.needs_compiler(cell("tiled_32_core"))
    assert not in_browser.needs_compiler(cell("tiled_32_core").replace("\n", "\r\n") + "\n")
    assert "TILE_COMPILER" not in os.environ


@CLANG
def test_the_pages_compiler_is_asked_for_what_is_changed_alone(monkeypatch):
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    assert toolchain.uses_clang()
    whole = run(cell("naive_core"))
    assert whole["ok"] and not whole["compiled"] and "(stored)" in whole["html"]
    changed = cell("tiled_32_core", (BARRIER, ""))
    assert in_browser.needs_compiler(changed)
    result, text = run(changed), changed.splitlines()
    assert (
        result["compiled"]
        and not result["ok"]
        and {f["kind"] for f in result["findings"]} == {"race"}
    )
    assert all("_tile[" in text[f["line"] - 1] for f in result["findings"])
    found = mine("\n" + "\n".join(text[1:]) + "\n", "tiled_32_core").findings
    both = {at for f in found for at in (f.line, f.other_line)}
    assert {f["line"] for f in result["findings"]} == both != {f.line for f in found}
    assert "compiled for sm_75 by clang" in result["html"].lower()


@CLANG
def test_clangs_errors_name_their_line_and_column(monkeypatch):
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    text = cell("naive_core", ("sum += ", "sun += "))
    result = run(text)
    (found,) = result["findings"]
    assert text.splitlines()[found["line"] - 1][found["column"] - 1 :].startswith("sun += ")
    assert found["kind"] == "compile-error" and not result["ok"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("%%cuda tiled_33_core\nvoid f();", "UnknownKernelError: %%cuda tiled_33_core: name"),
        ("%%cuda naive_core size=\nx", "after the kernel's name come options"),
        ("%%cuda naive_core\nvoid other();", "has no kernel called naive_core"),
        ("%%cuda add grid=4 args=(a, b)\nvoid add();", "run it in the notebook"),
        ("%%cuda lab99\nvoid lab99();", "there is no lab '99'"),
        ('%%cuda lab2 variant="upside down"\nvoid lab2();', "has no variant 'upside down'"),
        ('mine = """void f();"""\ncheck("06.2", yours)', "Other Python runs in the notebook"),
        ('mine = """void f();"\ncheck("06.2", mine)', "This cell is no Python: unterminated"),
        ('mine = """void f();"""\ncheck("06.99", mine)', "no exercise is called '06.99'"),
        ("import numpy\n", "its first line is %%cuda"),
        ("", "its first line is %%cuda"),
    ],
)
def test_a_wrong_text_is_answered_in_words(text, words):
    result = run(text)
    assert words in html.unescape(result["html"]) and "<pre" in result["html"]
    assert not result["ok"] and result["findings"] == [] and not in_browser.needs_compiler(text)


def test_a_fault_of_the_books_own_is_told_as_such(monkeypatch):
    def fails(text, page):
        raise KeyError("x < y")

    monkeypatch.setattr(in_browser, "_cell", fails)
    assert "KeyError in the book&#x27;s own code: &#x27;x &lt; y&#x27;" in run("%%cuda a")["html"]


# -- exercises, and cells on arrays ----------------------------------------------------------------


def text_of(page):
    return (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")


def page_cells(page):
    """The cells of a page, as the built book shows them."""
    return [code.strip("\n") for _, code in cells(text_of(page))]


def exercise_cell(id):
    """The page of an exercise, and its cell."""
    pages = [path.stem for path in (ROOT / "book").glob(f"*{id[:2]}_*.md")]
    [found] = [(p, c) for p in pages for c in page_cells(p) if f'check("{id}", mine)' in c]
    return found


def kernel_in(code):
    return code.partition('"""')[2].partition('"""')[0]


def test_the_exercises_that_ask_for_a_kernel_are_those_of_the_pages():
    assert all(find(id).kind in ("kernel", "repair") for id in slim.exercises())
    assert len(slim.exercises()) == 16
    assert set(slim.read_pages()) > {"deeper_06_tiling", "20_copy_engine", "01_your_gpu"}


@pytest.mark.parametrize("id", slim.exercises())
def test_a_starter_says_what_the_notebook_says(bare, id):
    page, code = exercise_cell(id)
    assert not in_browser.needs_compiler(code, page)
    result = run(code, page)
    assert result["html"] == check(id, kernel_in(code))._repr_html_()
    assert "This is the starter, unchanged" in result["html"] and not result["ok"]
    assert result["says"] == "not answered yet" and not result["compiled"]


@COMPILES
def test_an_exercise_is_judged_and_its_lines_are_marked():
    page, _ = exercise_cell("06.2")
    right = solution("06.2")[1]
    result = run(right, page)
    assert result["html"] == check("06.2", kernel_in(right))._repr_html_()
    assert result["ok"] and result["says"] == "passed" and result["findings"] == []

    last = right.rindex("        __syncthreads();")
    result = run(f"{right[:last]}{right[last:].partition(chr(10))[2]}", page)
    lines = right.splitlines()
    assert not result["ok"] and result["says"].startswith("not yet")
    marked = {lines[f["line"] - 1].strip()[:12] for f in result["findings"]}
    assert "for (int k =" in marked and len(marked) > 1, marked  # who reads, and who overwrites

    typo = right.replace("sum +=", "sun +=")
    (found,) = run(typo, page)["findings"]
    assert "sun +=" in typo.splitlines()[found["line"] - 1] and found["kind"] == "compile-error"


def test_an_exercise_that_is_changed_needs_a_compiler(bare):
    page, code = exercise_cell("06.2")
    assert not in_browser.needs_compiler(code, page)
    changed = code.replace("TILE 16", "TILE 8")
    assert changed != code and in_browser.needs_compiler(changed, page)
    result = run(changed, page)
    assert not result["compiled"] and "there is no compiler" in result["html"]


ON_ARRAYS = [
    (path.stem, code)
    for path in sorted((ROOT / "book").glob("*.md"))
    for code in page_cells(path.stem)
    if re.match(r"%%cuda .* args=", code)
]


@pytest.mark.parametrize(("page", "code"), ON_ARRAYS, ids=[page for page, _ in ON_ARRAYS])
def test_a_cell_on_arrays_says_what_the_notebook_says(bare, page, code):
    result = run(code, page)
    assert result["ok"] and not result["compiled"]
    made = in_browser.makers(text_of(page))
    assert "import numpy" in made and "helpers" not in made
    arrays: dict[str, Any] = {}
    exec(made, arrays)
    first, _, body = code.partition("\n")
    shown = cell_magic(first.removeprefix("%%cuda"), body, arrays)._repr_html_()
    assert result["html"] == shown
    assert run(code, page)["html"] == shown  # on arrays made anew
    assert "run it in the notebook" in run(code, "06_tiling")["html"]
    unknown = code.replace("args=", "args=(unknown,) expect=None shared_bytes=", 1)
    assert "name &#x27;unknown&#x27; is not defined" in run(unknown, page)["html"]


CELLS = """
```{code-cell} ipython3
import numpy as np
from helpers import plots
n, m = 3, 4
late = plots.slow()
```

```{code-cell} ipython3
:tags: [remove-input]
a = np.zeros(n)
late = 2 * m
```

```{code-cell} ipython3
%%cuda f grid=1 args=(a, late)
```

```{code-cell} ipython3
a = plots.after()
```
"""


def test_of_a_page_only_what_makes_the_arrays_is_run():
    made = in_browser.makers(CELLS)
    arrays: dict[str, Any] = {}
    exec(made, arrays)
    assert set(arrays) == {"__builtins__", "np", "n", "m", "a", "late"} and arrays["late"] == 8
    assert "plots" not in made
    assert in_browser.makers(CELLS.replace("args=", "size=")) == ""


# -- labs ------------------------------------------------------------------------------------------


@COMPILES
def test_a_labs_kernel_is_judged_in_the_page_as_by_its_check():
    of, apart_before = lab("2"), apart.run
    starter = of.starter(of.variants[0])
    result = run(f"%%cuda lab2\n{starter}")
    found = checking.check("2", f"// %%cuda lab2\n{starter}", gpu=False)
    assert result["html"] == f"{found._repr_html_()}<p>{in_browser.HERE}</p>"
    assert result["says"] == found.foot and not result["ok"] and apart.run is apart_before

    other = of.variants[1]
    result = run(f'%%cuda lab2 variant="{other.name}"\n{of.starter(other)}')
    assert f"({other.name})" in result["html"]

    text = f"%%cuda lab2\n{starter}".replace("{", "{ sun;", 1)
    (wrong,) = run(text)["findings"]
    assert "sun" in text.splitlines()[wrong["line"] - 1] and wrong["kind"] == "compile-error"
    assert "does not compile" in run(text)["html"]

    racy = f"%%cuda lab2\n{starter}".replace("{", "{ C[0] = threadIdx.x;", 1)
    marked = {racy.splitlines()[f["line"] - 1].strip()[:6] for f in run(racy)["findings"]}
    assert "{ C[0]" in marked


def test_a_labs_kernel_needs_a_compiler(bare):
    of = lab("1")
    text = f"%%cuda lab1\n{of.starter(of.variants[0])}"
    assert in_browser.needs_compiler(text)
    result = run(text)
    assert "ToolchainError" in result["html"] and not result["compiled"]
    with pytest.raises(ToolchainError), in_browser._in_this_process():
        checking.check("1", text, gpu=False)


# -- sliders ---------------------------------------------------------------------------------------


def test_sliders_are_those_of_the_notebook():
    specs = json.loads(in_browser.slider_specs('live.tile("block_1d")'))
    k = catalog["block_1d"]
    assert specs["kernel"] == "block_1d"
    assert {s["name"]: tuple(s["values"]) for s in specs["sliders"]} == live.choices(k)
    assert {s["name"]: s["value"] for s in specs["sliders"]} == dict(k.params)


def test_a_tile_says_what_the_notebook_says(bare):
    own = in_browser.sliders(TILE, "{}")
    assert own == live.counted(catalog["tiled_32"]) and "multiply-adds for each wavefront" in own
    assert live.emulated(catalog["tiled_32"]).startswith(own)
    assert not in_browser.sliders_need_compiler(TILE, '{"TILE": 32}')
    assert in_browser.sliders_need_compiler('live.tile("block_1d")', SMALL)
    lacking = in_browser.sliders('live.tile("block_1d")', SMALL)
    assert "did not run (ToolchainError)" in lacking


def test_a_tile_that_breaks_a_rule_is_not_run(bare):
    call, values = 'live.tile("block_2d")', '{"BM": 32, "TM": 16}'
    paragraph = live.paragraph(live.broken(catalog["block_2d"].with_params(BM=32, TM=16), 1024))
    assert in_browser.slider_rule(call, values) == in_browser.sliders(call, values) == paragraph
    assert not in_browser.sliders_need_compiler(call, values)
    assert "is legal" in in_browser.slider_rule(TILE, '{"TILE": 8}')


def test_a_call_that_is_none_of_the_sliders_is_refused():
    for call in ("live.tile()", "os.remove('x')", "live.tile(", 'live.tile(name="x")'):
        with pytest.raises(ConfigError, match="is no call of sliders"):
            in_browser.slider_specs(call)
    with pytest.raises(UnknownKernelError):
        in_browser.slider_specs('live.tile("tiled_33")')
    with pytest.raises(ConfigError, match="TILE=7 is on no slider of tiled_32: TILE is one of 4"):
        in_browser.sliders(TILE, '{"TILE": 7}')


def test_every_sentence_in_the_book_names_its_sliders():
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
asked, call = json.load(sys.stdin)
told = [json.loads(in_browser.run_cell(*one)) for one in asked]
print(json.dumps([loaded, odd, told, in_browser.sliders(call, "{{}}")]))
"""


def test_the_archive_alone_answers(tmp_path, bare):
    """In another process, which sees this project's files in the archive alone, and no lzma."""
    (tmp_path / "book.zip").write_bytes(slim.archive())
    with zipfile.ZipFile(tmp_path / "book.zip") as packed:
        packed.extractall(tmp_path / "book")
    code = ALONE.format(folder=str(tmp_path / "book"), cwd=os.getcwd())
    cells_asked = [
        (cell("tiled_32_core"), ""),
        (dict(ON_ARRAYS)["20_copy_engine"], "20_copy_engine"),
        *reversed([exercise_cell(id)[::-1] for id in slim.exercises()]),
        (f"%%cuda lab3\n{lab('3').starter(lab('3').variants[0])}", "teaching"),
    ]
    request = json.dumps([cells_asked, 'live.tile("tiled_rect")'])
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "TILE_COMPILER")}
    ended = completed(
        [sys.executable, "-c", code], input=request, cwd=tmp_path, env=clean | {"TILE_CACHE": "0"}
    )
    assert ended.returncode == 0, ended.stderr
    loaded, odd, results, tile = json.loads(ended.stdout)
    assert all(path.startswith(str(tmp_path)) for path in loaded) and odd == []
    assert [one["html"] for one in results] == [run(*one)["html"] for one in cells_asked]
    assert [one["ok"] for one in results[:2]] == [True, True]
    assert "lab.cu cannot be compiled here" in results[-1]["html"]
    assert tile == in_browser.sliders('live.tile("tiled_rect")', "{}")
    assert "recorded on NVIDIA H200" in tile
