"""What the book's calls refuse where nothing is prepared: what was given, the rule, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from helpers import draw as plots
from helpers import trace
from helpers.chapters.ch01 import pictures as ch01
from helpers.chapters.ch06 import pictures as ch06
from helpers.chapters.ch11 import pictures as ch11
from helpers.chapters.ch12 import pictures as ch12
from helpers.chapters.ch14 import pictures as ch14
from helpers.chapters.ch20 import pictures as ch20
from helpers.chapters.ch21 import pictures as ch21
from helpers.chapters.investigations import pictures as investigations
from helpers.draw import work_per_sm as ch15
from helpers.ladder import launch, model
from helpers.ladder.jobs import duties
from helpers.ladder.rungs import catalog
from helpers.page import explorers, live
from helpers.page.explorers import Control
from helpers.page.workbench import cell_magic, mine
from helpers.record import costs
from nogpu import device, toolchain
from nogpu.device import limits
from nogpu.errors import (
    CompileError,
    ConfigError,
    DataError,
    DtypeError,
    EmulationError,
    NoGPUError,
    ShapeError,
    TileError,
    UnknownKernelError,
    UnknownNameError,
)
from tests.test_plots import PUBLISHED, RECORDED

A = np.arange(20, dtype=np.float32).reshape(4, 5)
B = A.T.copy()
SQUARE = np.arange(16.0).reshape(4, 4)
TILED = catalog["tiled_32"].source
TWO = "__global__ void a(){}\n__global__ void b(){}"
COPY = 'extern "C" __global__ void copy(const float* x, float* y) { y[0] = x[0]; }'
GUESSED = [{"kernel": "a", "size": 8, "ms": 1, "origin": "guessed"}]


def tiles(*shape, **more):
    return plots.tile_diagram("tiled_32", *(shape or (64, 64, 64)), **more)


Rows = Iterable[tuple[Callable[[], Any], type[Exception], str]]


def of(call, error, words, *given):
    """A row for each thing given to one call: its arguments, or the only one."""
    every = (one if isinstance(one, tuple) else (one,) for one in given)
    return [(lambda args=args: call(*args), error, words) for args in every]


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    # charts
    (lambda: plots.bars(RECORDED, kernels=["nope"]), DataError, "There are kernels"),
    (lambda: plots.bars(RECORDED, sizes=[7]), DataError, "at sizes"),
    (lambda: plots.bars(3), DataError, "cannot plot a int"),
    (lambda: plots.bars([{"size": 8, "ms": 1}]), DataError, "no `kernel`"),
    (lambda: plots.bars([{"kernel": "a", "ms": 1}]), DataError, "no size"),
    (lambda: plots.bars(GUESSED), DataError, "not one of measured, recorded, published"),
    (lambda: plots.ladder(RECORDED, 512), DataError, "no measurement at"),
    (lambda: plots.roofline(RECORDED, "t5"), UnknownNameError, "t4"),
    (lambda: plots.roofline(PUBLISHED), ConfigError, "needs to know the GPU"),
    (lambda: plots.roofline(RECORDED, intensity="magic"), ConfigError, "compulsory"),
    (lambda: plots.timeline(PUBLISHED), DataError, "'ms'"),
    (lambda: tiles(8), ConfigError, "M, N and K"),
    (lambda: tiles(0, 1, 1), ShapeError, "M=0"),
    (lambda: tiles(block=(2, 0)), ConfigError, "rows 0 to 1"),
    (lambda: tiles(step=2), ConfigError, "steps 0 to 1"),
    (lambda: tiles(thread=(32, 0)), ConfigError, "rows 0 to 31"),
    (lambda: tiles().axes(), ConfigError, "savefig"),
    # pictures of one page
    *of(ch01.vector_blocks, DataError, "", (0, 32), (10, 0)),
    (lambda: ch01.vector_blocks(10, 4, thread=(3, 0)), DataError, ""),
    (lambda: ch01.vector_blocks(10, 4, thread=(0, 4)), DataError, ""),
    *of(investigations.cache_sets, DataError, "", 0, (10, ()), (10, (0,))),
    (lambda: investigations.cache_sets(10, sets=0), DataError, ""),
    *of(investigations.line_queues, DataError, "", ((),), ((64,),), ((4098,),)),
    *of(ch06.tile_phases, DataError, "", (SQUARE, SQUARE[:3]), (SQUARE[0], SQUARE)),
    (lambda: ch06.tile_phases(np.ones((7, 7)), np.ones((7, 7))), DataError, ""),
    (lambda: ch06.tile_phases(SQUARE, SQUARE, block=(2, 0)), DataError, ""),
    (lambda: ch06.tile_phases(SQUARE, SQUARE, thread=(0, 2)), DataError, ""),
    (lambda: ch06.barriers(fetch=(1,), multiply=(1,)), DataError, ""),
    (lambda: ch06.barriers(fetch=(1, 0), multiply=(1, 1)), DataError, ""),
    (lambda: ch06.barriers(steps=1), DataError, ""),
    *of(lambda *cover: ch11.load_cover({"x": cover}, {}), DataError, "whole step",
        (-1, 512), (513, 512), (0, 0)),
    (lambda: ch12.lane_map(trace("tiled_32", M=32, N=32, K=32, samples=True)), DataError,
     "no 16-byte read of A_tile"),
    *of(lambda running, groups: ch14.tile_order(running=running, groups=groups), ConfigError,
        "1 to 64 blocks", (0, (1,)), (65, (1,)), (1, ())),
    *of(lambda *given: ch15.tiles_per_sm(*given, device.gpu("h200")), ConfigError, "at least 1 x 1",
        (0, [(1, 1)]), (4, []), (4, [(0, 4)])),
    (lambda: ch15.tiles_per_sm(4, [(1, 1)], device.gpu("h200"), slices=(1, 2)), ConfigError,
     "as many numbers of at least 1 as tiles"),
    *of(ch20.box, DataError, "chunks 0 to 7", -1, 8),
    *of(lambda row, col, n=256: ch21.accumulator(row, col, n=n), DataError, "has rows 0 to 63",
        (64, 0), (0, 256), (0, 128, 128), (0, 0, 12), (0, 0, 512)),
    (lambda: plots.hopper_block("mma_pipelined"), ConfigError, "chapters 20 to 22"),
    *of(duties, ConfigError, "block_1d_core", "naive_core", "mma_naive"),
    (lambda: duties("fp32_best"), DataError, "shared store"),
    (lambda: plots.two_jobs("block_1d_core", thread=512), ConfigError, "threads 0 to 511"),
    # sliders
    (lambda: Control("n", "n", (1, 2), 3), ConfigError, "not one of"),
    (lambda: explorers.coalescing().read(stride=99), ConfigError, "stride=99"),
    (lambda: explorers.tile("coarsened"), ConfigError, "cannot draw"),
    (lambda: explorers.hierarchy("tiled_32"), ConfigError, "no levels"),
    (lambda: live.tile("wmma"), ConfigError, "no tile sizes"),
    (lambda: live.tile("tiled_33"), UnknownKernelError, "tiled_32"),
    # a reader's own kernel
    (lambda: mine("", "tiled_32"), ConfigError, "empty"),
    (lambda: mine(TILED, "tiled_33"), UnknownKernelError, "tiled_32"),
    (lambda: mine("int x;", "tiled_32"), ConfigError, "no kernel called tiled"),
    (lambda: mine(TILED, "tiled_32", TILE=33), ConfigError, "TILE"),
    (lambda: mine(TILED, "tiled_32", grid=3), ConfigError, "leave grid out"),
    (lambda: mine(TILED), ConfigError, "grid, block, args is not given"),
    (lambda: mine(TILED, grid=1, block=1, args=[], TILE=4), ConfigError, "defines="),
    (lambda: mine(TILED, "tiled_32", backend="cuda"), NoGPUError, "no GPU answers"),
    (lambda: mine(TILED, "tiled_32", backend="gpu"), ConfigError, "emulator"),
    (lambda: mine("int x;", grid=1, block=1, args=[]), EmulationError, "no __global__"),
    (lambda: mine(TWO, grid=1, block=1, args=[]), EmulationError, "a, b"),
    (lambda: cell_magic("tiled_33", TILED), UnknownKernelError, "tiled_32"),
    (lambda: cell_magic("", TILED), UnknownKernelError, "name a rung first"),
    (lambda: cell_magic("tiled_32 16", TILED), ConfigError, "TILE=16"),
    (lambda: cell_magic("tiled_32 TILE=side", TILED), ConfigError, "side"),
    (lambda: cell_magic("add grid=1 block=1 args=(1,)", "// nothing"), ConfigError, "no code"),
    (lambda: cell_magic("tiled_32", "import numpy\nprint(1)\n"), ConfigError, "holds Python"),
    # products
    *of(launch.matmul, ConfigError, "a kernel and two matrices", (A, A), ()),
    (lambda: launch.matmul("auto", A, B, BM=64), ConfigError, "takes its own tile"),
    (lambda: launch.matmul("auto", A, B, tile="auto"), ConfigError, "takes its own tile"),
    (lambda: launch.matmul(A, A, kernel="auto"), ShapeError, "columns of A"),
    (lambda: launch.matmul([1], A, kernel="auto"), DtypeError, "list"),
    (lambda: launch.matmul(A.astype(np.float16), B, kernel="auto"), DtypeError,
     "A holds float16 and B holds float32"),
    (lambda: launch.matmul("coalesce", A, B), UnknownKernelError, "coalesced"),
    (lambda: launch.matmul("coalesced", A, B, backend="opencl"), ConfigError, "emulator"),
    (lambda: launch.matmul("tiled_32", A, B, TILE=64), ConfigError, "1024"),
    (lambda: launch.matmul("tiled_padded", A, B, backend="emulator"), ConfigError,
     "M % TILE == 0"),
    (lambda: launch.matmul("tiled_padded", A, B, backend="emulator"), ConfigError,
     "pad the matrices"),
    # the model
    *of(lambda *block: model.occupancy(limits("sm_75"), *block), ConfigError, "",
        (0, 1, 0), (1025, 1, 0), (32, 256, 0), (32, 1, 1 << 20), (1024, 128, 0)),
    (lambda: model.l1_clocks([]), ConfigError, ""),
    (lambda: model.roofline(device.gpu("t4"), 0), ConfigError, ""),
    (lambda: model.shared_roof(device.gpu("h200"), 0), ConfigError, ""),
    *of(model.tile_order, ConfigError, "at least 1", (0, 1, 1), (1, 0, 1), (1, 1, 0)),
    (lambda: costs.bounds("cp_async", 4096, gpu="t4"), ConfigError, "needs sm_80"),
    (lambda: costs.bounds("hopper_1", 4096, gpu="t4"), ConfigError, "sm_90a"),
    # GPUs and the compiler
    (lambda: device.gpu("t4").peak_gflops("fp8"), ConfigError, "fp16"),
    (lambda: device.gpu("h2000"), UnknownNameError, "h200"),
    (lambda: limits("sm_61"), UnknownNameError, "sm_61"),
    (lambda: toolchain.compile(COPY, arch="sm_10"), CompileError, "sm_10"),
    (lambda: toolchain.arch_number("turing"), ConfigError, "sm_75"),
    (lambda: toolchain.sass_instructions(toolchain.compile(COPY).cubin, "copi"), UnknownNameError,
     "copy"),
]  # fmt: skip
"""The call, its error, and words of what was given or of what to do."""


def faults(error, kind, words):
    """What is wrong with an error."""
    message = str(error)
    wrong = {
        f"{type(error).__name__}, not {kind.__name__}": type(error) is not kind,
        "none of the package's own": not isinstance(error, TileError),
        f"does not say {words!r}": words not in message,
        "says neither what was given nor the rule": len(message.split()) < 4,
    }
    return [fault for fault, there in wrong.items() if there]


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_an_error_says_what_was_given_and_what_to_do(call, error, words, monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)
    with pytest.raises(error) as caught:
        call()
    assert faults(caught.value, error, words) == []


def test_an_error_of_python_or_without_words_is_a_fault():
    assert len(faults(KeyError("tile"), ConfigError, "tiled_32")) == 4
    assert faults(ConfigError("wrong tile"), ConfigError, "tile") != []
