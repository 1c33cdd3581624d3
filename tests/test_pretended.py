"""Every notebook on machines that pretend to have another GPU: nothing stops, no number has a wrong
name."""

from __future__ import annotations

import json
import os
import pickle
import sys

import pytest

from nogpu import toolchain
from tests.common import ROOT, completed
from tests.pretended import labels, running
from tests.pretended.machines import MACHINES
from tests.pretended.running import Ran

NOTEBOOKS = sorted(path.stem for path in (ROOT / "book").glob("*.ipynb"))
HERE = MACHINES["t4"].title
needs_nvrtc = pytest.mark.nvrtc  # the pretended GPUs take what NVRTC makes


def on(machine, notebook, out, *options):
    """What the cells of a notebook show on a machine, in a process of its own."""
    given = (os.fspath(notebook), "--machine", machine, "--out", os.fspath(out), *options)
    env = {**os.environ, "PYTHONPATH": os.fspath(ROOT), "OPENBLAS_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "tests.pretended", *given]
    done = completed(line, cwd=ROOT, env=env, timeout=1800)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    passes: dict[str, list[Ran]] = pickle.loads(out.read_bytes())
    return passes


def stops(cells):
    """Cells that end with an error or say something on stderr."""
    return [f"{c.source[:200]}\n{c.error}\n{c.stderr}" for c in cells if c.error or c.stderr]


def text_of(cells):
    """All that the cells show."""
    return "\n".join(text for cell in cells for text in cell.shown)


def written(path, *cells):
    """A notebook of these code cells."""
    made = [{"cell_type": "code", "source": source} for source in (FIRST, *cells)]
    path.write_text(json.dumps({"cells": made}), encoding="utf-8")
    return path


FIRST = """
import os, sys
sys.path.insert(0, os.path.abspath(".."))
from helpers import device, matmul
from helpers.record import measure
from helpers.page import say, glue, table
from helpers import plots
m = measure("tiled_32", sizes=[1024])
rec = measure("tiled_32", sizes=[1024], gpu="h200")
"""


MIXED = (
    "02_measuring", "05_coalescing", "07_latency", "08_block_1d", "19_feeding",
    "deeper_02_measuring", "deeper_05_coalescing", "deeper_07_latency", "deeper_08_block_1d",
    "deeper_19_feeding",
)  # fmt: skip
"""Pages that say much of two GPUs side by side: run three times, so that each number's origin is
known."""


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("stem", [n for n in NOTEBOOKS if n not in MIXED])
def test_a_notebook_runs_on_a_t4(stem, tmp_path):
    [cells] = on("t4", ROOT / "book" / f"{stem}.ipynb", tmp_path / "cells", "--once").values()
    assert not stops(cells)


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("stem", MIXED)
def test_a_notebook_runs_on_a_t4_and_every_number_has_its_own_name(stem, tmp_path):
    passes = on("t4", ROOT / "book" / f"{stem}.ipynb", tmp_path / "cells")
    shown = []
    for cells in passes.values():
        assert not stops(cells)
        shown.append([len(cell.shown) for cell in cells])
    assert shown[0] == shown[1] == shown[2]  # or there would be nothing to compare with
    assert not [str(fault) for fault in labels.faults(passes, HERE)]


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize("stem", NOTEBOOKS)
def test_a_notebook_runs_where_nothing_compiles(stem, tmp_path):
    [cells] = on(
        "no_compiler", ROOT / "book" / f"{stem}.ipynb", tmp_path / "cells", "--once"
    ).values()
    assert "no compiler" in text_of(cells[:1]) and "pip install" in text_of(cells[:1])
    assert not stops(cells)


# -- wrong twins -----------------------------------------------------------------------------------


def test_the_checker_tells_what_was_measured_here_and_what_is_recorded():
    own = 'On an H200 a [kernel](there.html "Runs on your GPU. Mostly.") takes 22.7 ms.'
    numbers = labels.numbers(own, own, own.replace("22.7", "31"))
    assert [who for *_, who, _ in labels.in_prose(own, numbers, HERE)] == []
    own = "It takes 22.7 ms on the H200 and 170.3 ms on this Tesla T4, for 4096 rows."
    gpu = "It takes 22.7 ms on the H200 and 199.1 ms on this Tesla T4, for 4096 rows."
    record = "It takes 31.1 ms on the H200 and 170.3 ms on this Tesla T4, for 4096 rows."
    found = {own[n.start : n.end]: (n.live, n.recorded) for n in labels.numbers(own, gpu, record)}
    assert found == {"22.7": (False, True), "170.3": (True, False), "4096": (False, False)}
    assert not list(labels.in_prose(own, labels.numbers(own, gpu, record), HERE))


@pytest.mark.parametrize(
    ("own", "gpu", "record", "wrong"),
    [
        ("On the H200 it takes 170 ms.", "On the H200 it takes 199 ms.", "On the H200 it takes 170 ms.", "170"),
        ("This Tesla T4 takes 23 ms.", "This Tesla T4 takes 23 ms.", "This Tesla T4 takes 31 ms.", "23"),
        ("The H200 is named. Later it takes 170 ms.", "The H200 is named. Later it takes 199 ms.",
         "The H200 is named. Later it takes 170 ms.", "170"),
        ("On an H200 7 % of the library.", "On an H200 8 % of the library.", "On an H200 9 % of the library.", "7"),
    ],
)  # fmt: skip
def test_a_sentence_with_a_wrong_name_is_told(own, gpu, record, wrong):
    found = list(labels.in_prose(own, labels.numbers(own, gpu, record), HERE))
    assert [own[n.start : n.end] for n, *_ in found] == [wrong]


WRONG = {
    "prose": 'glue("wrong", m.value("tiled_32", 1024))\nsay("On the H200 it takes {wrong:.3f} ms.")',
    "other": 'glue("wrong", rec.value("tiled_32", 1024))\nsay("This Tesla T4 takes {wrong:.3f} ms.")',
    "column": 'table([{"kernel": "a", "H200": m.value("tiled_32", 1024)}], caption="Times in ms.", note=m.label)',
    "row": 'table([{"who": "the record, H200", "ms": m.value("tiled_32", 1024)}], caption="Times in ms.")',
    "cell": 'table([{"kernel": "a", "ms": rec.value("tiled_32", 1024), "on": "Tesla T4"}], caption="Times.")',
    "note": 'table([{"kernel": "a", "ms": rec.value("tiled_32", 1024)}], caption="Times.", note=m.label)',
    "chart": 'plots.bars([{"kernel": "naive", "size": 1024, "ms": m.value("tiled_32", 1024), "origin": "recorded",'
             ' "source": "recorded on NVIDIA H200"}], value="ms")',
}  # fmt: skip
RIGHT = (
    'glue("right", m.value("tiled_32", 1024))\nsay("On this GPU it takes {right:.3f} ms.")',
    'glue("right", rec.value("tiled_32", 1024))\nsay("On the H200 it takes {right:.3f} ms.")',
    (
        'table([{"kernel": "a", "H200": rec.value("tiled_32", 1024), "this GPU":'
        ' m.value("tiled_32", 1024)}], caption="Times in ms.")'
    ),
    'plots.bars(m, value="ms")',
)


@needs_nvrtc
@pytest.mark.slow
def test_a_page_with_wrong_names_is_told_and_one_with_right_names_is_not(tmp_path):
    notebook = written(tmp_path / "made.ipynb", *WRONG.values(), *RIGHT)
    passes = on("t4", notebook, tmp_path / "cells")
    assert not stops(passes["own"])
    for number, name in enumerate(WRONG, 1):
        alone = {key: cells[number : number + 1] for key, cells in passes.items()}
        assert labels.faults(alone, HERE), name
    right = {key: cells[1 + len(WRONG) :] for key, cells in passes.items()}
    assert not [str(fault) for fault in labels.faults(right, HERE)]


@needs_nvrtc
@pytest.mark.slow
def test_a_cell_that_stops_is_told(tmp_path):
    notebook = written(
        tmp_path / "made.ipynb",
        'import numpy as np\nx = np.ones((64, 64), np.float32)\nmatmul("cp_async", x, x,'
        ' backend="cuda")',
        'import sys\nprint("something", file=sys.stderr)',
        'float((matmul("tiled_32", x, x) - x @ x).max())',
    )
    [cells] = on("t4", notebook, tmp_path / "cells", "--once").values()
    assert "needs sm_80 or later" in cells[1].error
    assert cells[2].stderr == "something\n" and not cells[2].error
    assert [float(text) < 1e-3 for text in cells[3].shown] == [True]


# -- the pretended CuPy does what the book asks of the real one ------------------------------------

CUPY = """
import cupy, numpy as np
from cupy.cuda import cublas
x = np.arange(12, dtype=np.float32).reshape(3, 4)
a = cupy.asarray(x)
print(type(a).__module__.split(".")[0], np.array_equal(a.get(), x), float((a + 1).sum()))
for wrong in (lambda: np.asarray(a), lambda: a + x):
    try:
        wrong()
    except TypeError as error:
        print("TypeError:", str(error)[:22])
code = r'''extern "C" __global__ void twice(const float* x, float* y, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }'''
start, stop = cupy.cuda.Event(), cupy.cuda.Event()
for kernel in (cupy.RawKernel(code, "twice"), cupy.RawModule(code=code).get_function("twice")):
    b = cupy.zeros_like(a)
    start.record()
    kernel((1,), (32,), (a, b, np.int32(12)))
    stop.record()
    stop.synchronize()
    print(np.array_equal(b.get(), 2 * x), cupy.cuda.get_elapsed_time(start, stop) > 0)
for wrong in (lambda: kernel((1,), (32,), (a, b, 12)),
              lambda: cupy.cuda.get_elapsed_time(cupy.cuda.Event(), stop)):
    try:
        wrong()
    except (TypeError, RuntimeError) as error:
        print("refused:", str(error)[-15:])
try:
    cupy.RawKernel("this is no CUDA", "twice")((1,), (1,), ())
except cupy.cuda.compiler.CompileException as error:
    print("refused:", "error" in str(error))
try:
    cupy.empty(1 << 33, np.float32)
except cupy.cuda.memory.OutOfMemoryError as error:
    print("OutOfMemoryError:", str(error)[:24])
"""


@needs_nvrtc
@pytest.mark.slow
def test_the_pretended_cupy_answers_as_the_real_one(tmp_path):
    notebook = written(tmp_path / "made.ipynb", CUPY)
    [cells] = on("t4", notebook, tmp_path / "cells", "--once").values()
    assert not stops(cells)
    assert cells[1].shown[0].split("\n")[:-1] == [
        "cupy True 78.0", "TypeError: Implicit conversion to", "TypeError: Unsupported type <clas",
        "True True", "True True", "refused: eger as 64 bits", "refused: resource handle", "refused: True",
        "OutOfMemoryError: Out of memory allocating",
    ]  # fmt: skip


IN_SIGHT = {
    "deeper_01_your_gpu": ("cupy.RawKernel", "np.array_equal(c, a + b)"),
    "deeper_02_measuring": (
        "get_elapsed_time",
        "abs(C.get() - A.get().astype(np.float64) @ B.get()).max() < 1e-6 * n and events > 0",
    ),
    "deeper_04_first_kernel": (
        "cupy.RawModule", "np.abs(C - A.astype(np.float64) @ B).max() < 1e-4"
    ),
}  # fmt: skip
"""Pages that show CuPy itself: a word of the cell, and what holds of its arrays afterwards."""
SPOILED = [
    ("deeper_01_your_gpu", "(a_gpu, b_gpu", "(a, b_gpu", "Unsupported type"),
    ("deeper_01_your_gpu", "np.int32(n)", "n", "64 bits"),
    ("deeper_02_measuring", "    start.record()\n", "", "invalid resource handle"),
    ("deeper_04_first_kernel", "C = C_gpu.get()", "pass", "False"),
    ("deeper_04_first_kernel", '("product")', '("prod_uct")', "not found"),
]


@needs_nvrtc
@pytest.mark.slow
@pytest.mark.parametrize(
    ("stem", "old", "new", "says"), [*((stem, "", "", "True") for stem in IN_SIGHT), *SPOILED]
)
def test_what_a_page_shows_of_cupy_is_right(stem, old, new, says, tmp_path):
    word, right = IN_SIGHT[stem]
    page = json.loads((ROOT / "book" / f"{stem}.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(c["source"]) for c in page["cells"] if c["cell_type"] == "code"]
    at = next(i for i, cell in enumerate(cells) if word in cell)
    assert old in cells[at]
    before, cell = cells[1:at], cells[at].replace(old, new)
    notebook = written(tmp_path / "made.ipynb", *before, cell, f"print({right})")
    [ran] = on("t4", notebook, tmp_path / "cells", "--once").values()
    assert says in ran[-1].shown[0] if says in ("True", "False") else says in ran[-2].error


def test_only_a_pretended_process_has_another_cupy():
    assert not any(os.fspath(running.SITE) == path for path in sys.path)
    assert toolchain.compile.__module__ == "nogpu.toolchain"
