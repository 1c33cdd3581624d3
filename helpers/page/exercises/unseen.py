"""Kernels that no chapter explains: predict what they cost, and have every prediction checked.

A reader sees the source, the launch and the arrays, and says five things of it. The emulator counts
two of them on one block, the compiler says one, and the cost model (`costs.of_counts`) the last
two.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from helpers.ladder import usage
from helpers.ladder.kernel import KERNELS, ROOT
from helpers.page.exercises.answers import close_to, one_of
from helpers.page.exercises.registry import exercise
from helpers.page.exercises.results import Check
from helpers.record import costs
from nogpu import emulator, toolchain
from nogpu.text import read_source

ARCH, GPU = "sm_90", "h200"
"""The GPU of the questions: every page has its numbers."""
ASKED = ("sectors", "wavefronts", "blocks", "binds", "ms")
RESOURCES = (costs.DRAM, costs.L1, "FMA pipe")
"""What may bind these kernels; the deliveries are also accepted as "L1" or "shared memory"."""
_SHORT = {"l1": costs.L1, "shared memory": costs.L1, "fma": "FMA pipe"}


@dataclass(frozen=True)
class Unseen:
    """A kernel below kernels/unseen/ and the launch that is meant.

    arrays: makes the arguments of the whole launch. moved: bytes of its arrays, each element once.
    multiply_adds: of single lanes, in the whole launch.
    """

    name: str
    file: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arrays: Callable[[], list[Any]]
    moved: float
    multiply_adds: float

    @property
    def source(self) -> str:
        """The text of its file."""
        return read_source(KERNELS / "unseen" / self.file)


@dataclass(frozen=True)
class Facts:
    """What is so: sectors for each load from global memory and wavefronts for each from shared
    memory (0 where there is none), blocks on an SM of the H200, the resource that binds, the bound
    in ms."""

    sectors: float
    wavefronts: float
    blocks: int
    binds: str
    ms: float


@cache
def facts(kernel: Unseen, gpu: str = GPU) -> Facts:
    """What is so of a kernel: its first block in the emulator, its registers from the compiler.

    gpu: a Hopper card, whose bound is meant.

    Raises what compiling and emulating raise.
    """
    report = emulator.launch(
        kernel.source, kernel.name, kernel.grid, kernel.block, kernel.arrays(),
        name=kernel.file, sample_blocks=1, samples=True, arch=ARCH,
    )  # fmt: skip
    rows = [r for r in report.by_line() if r.op == "load"]

    def mean(space: str, what: str) -> float:
        loads = [r for r in rows if r.space == space]
        return sum(getattr(r, what) for r in loads) / max(sum(r.requests for r in loads), 1)

    resources = _resources(kernel)
    x, y, z = kernel.grid
    bounds = costs.of_counts(
        report, resources, gpu, blocks=x * y * z, dram_bytes=kernel.moved,
        multiply_adds=kernel.multiply_adds,
    )  # fmt: skip
    return Facts(
        mean("global", "sectors"), mean("shared", "wavefronts"), resources.occupancy.blocks,
        bounds.binding, bounds.ms,
    )  # fmt: skip


def _resources(kernel: Unseen) -> usage.Resources:
    """The compiler's report for the GPU of the questions."""
    built = toolchain.compile(kernel.source, name=kernel.file, arch=ARCH)
    r = built.kernels[kernel.name]
    x, y, z = kernel.block
    return usage.Resources(
        kernel.name, ARCH, {}, r.registers, r.spill_stores, r.spill_loads, r.stack, r.shared_bytes,
        x * y * z, built.assembler,
    )  # fmt: skip


MEASURED = ROOT / "data" / "validation" / "unseen_h200.json"
"""What the clock of one Hopper card says, by `python -m tools.unseen_on_a_gpu`."""


@cache
def measured() -> Mapping[str, str]:
    """By kernel: its time on the card of MEASURED, and its bound there, as a sentence."""
    data = json.loads(MEASURED.read_text(encoding="utf-8"))
    card = data["gpu"]["name"]
    return {
        row["kernel"]: (
            f"the clock of an {card} says {row['ms']:.3f} ms, and its bound is"
            f" {row['bound_ms']:.3f} ms there ({100 * row['bound_ms'] / row['ms']:.0f} % of the"
            " time)"
        )
        for row in data["rows"]
    }


def launches(kernels: tuple[Unseen, ...]) -> list[dict[str, Any]]:
    """A row a kernel: its launch, and what the compiler gives a thread and a block on sm_90."""
    rows = []
    for k in kernels:
        r = _resources(k)
        grid, block = ("x".join(str(n) for n in size[:2]) for size in (k.grid, k.block))
        rows.append(
            {"kernel": k.name, "grid": grid, "block": block, "threads": r.threads,
             "registers": r.registers, "shared": r.shared_bytes}
        )  # fmt: skip
    return rows


def predictions(id: str, kernels: tuple[Unseen, ...]) -> None:
    """Register an exercise that asks for what these kernels cost."""

    def checker(answer: object) -> Iterator[Check]:
        yield from judged(kernels, answer)

    checker.__qualname__ = f"predictions of {', '.join(k.name for k in kernels)}"
    checker.__doc__ = "Predict three kernels that the book does not explain."
    exercise(id, kind="python")(checker)


def judged(kernels: tuple[Unseen, ...], answer: Any) -> Iterator[Check]:
    """A check for each prediction of each kernel, and the measured time where all five are right.

    answer: by kernel, a dict with the five of ASKED. Counts must be right to 5 %, blocks exactly,
    the bound to 25 %."""
    names = [k.name for k in kernels]
    if not isinstance(answer, Mapping):
        yield Check(
            False, "the predictions", type(answer).__name__, "a dict",
            f"Give a dict with {', '.join(names)}, each a dict with {', '.join(ASKED)}.",
        )  # fmt: skip
        return
    for kernel in kernels:
        prediction = answer.get(kernel.name)
        lacks = [] if isinstance(prediction, Mapping) else list(ASKED)
        if isinstance(prediction, Mapping):
            lacks = [what for what in ASKED if prediction.get(what) in (None, ...)]
        if lacks:
            what = f"{kernel.name}: {', '.join(lacks)}"
            yield Check(False, what, hint="Replace each ... by a prediction.")
        if isinstance(prediction, Mapping):
            given = {k: v for k, v in prediction.items() if k in ASKED and k not in lacks}
            made = [*_one(kernel, given)]
            yield from made
            if not lacks and all(check.ok for check in made) and kernel.name in measured():
                yield Check(True, f"{kernel.name}: {measured()[kernel.name]}")


def _one(kernel: Unseen, prediction: Mapping[str, Any]) -> Iterator[Check]:
    is_so = facts(kernel)
    for what, value in prediction.items():
        title = f"{kernel.name}: {TITLES[what]}"
        if what == "binds":
            choice = _SHORT.get(str(value).strip().casefold(), value)
            yield one_of(choice, is_so.binds, options=RESOURCES, what=title, hint=HINTS[what])
        else:
            near = {"sectors": 0.05, "wavefronts": 0.05, "blocks": 0.0, "ms": 0.25}[what]
            yield close_to(
                value, getattr(is_so, what), tolerance=near, what=title, hint=HINTS[what]
            )


TITLES: Mapping[str, str] = {
    "sectors": "sectors for each load from global memory, the mean of all",
    "wavefronts": (
        "wavefronts for each load from shared memory, the mean of all (0 if there is none)"
    ),
    "blocks": "blocks that an SM of an H200 holds",
    "binds": "the resource that binds",
    "ms": "what that resource takes, in ms, to a quarter",
}
HINTS: Mapping[str, str] = {
    "sectors": (
        "Write down the addresses of lanes 0, 1 and 31 for each load; eight floats are a "
        "sector. Then weigh the loads by how often they run."
    ),
    "wavefronts": (
        "Word w lies in bank w modulo 32. Which different words does the busiest bank "
        "give? A read of 16 bytes is served a quarter of the warp at a time."
    ),
    "blocks": (
        "Warps, registers, shared memory, places for blocks: the least counts. Mind the roundings"
        " of chapter 7: 35 registers a thread count as 40, the warps that then fit come in fours,"
        " and shared memory costs 1 KB more a block."
    ),
    "binds": (
        "Three clocks: bytes over the bandwidth of DRAM; wavefronts of all loads and stores "
        "over one a clock and SM; multiply-adds over 128 lanes an SM."
    ),
    "ms": (
        "The count over the rate: 4,800 GB/s, or 132 SMs at 1,980 MHz. Both stand in the GPU table."
    ),
}


def _floats(*shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.zeros(shape, np.float32)


def product(name: str, file: str, tile: tuple[int, int], block: tuple[int, int], n: int) -> Unseen:
    """A product of n x n matrices by blocks that compute tile[0] x tile[1] elements of C."""
    rows, columns = tile
    return Unseen(
        name, file, (n // columns, n // rows, 1), (*block, 1),
        lambda: [_floats(n, n), _floats(n, n), _floats(n, n), n, n, n],
        12.0 * n * n, float(n) ** 3,
    )  # fmt: skip


def stream(
    name: str, file: str, blocks: int | tuple[int, int], block: tuple[int, int],
    arrays: Callable[[], list[Any]], moved: float, multiply_adds: float = 0.0,
) -> Unseen:  # fmt: skip
    """A kernel that is no product: its launch, its arguments, the bytes it moves."""
    grid = (blocks, 1, 1) if isinstance(blocks, int) else (*blocks, 1)
    return Unseen(name, file, grid, (*block, 1), arrays, moved, multiply_adds)


N = 2048
AFTER_LATENCY = (
    product("transposed_a", "07_transposed_a.cu", (8, 32), (32, 8), N),
    product("transposed_b", "07_transposed_b.cu", (32, 32), (32, 32), N),
    stream("softmax", "07_softmax.cu", 8192, (256, 1),
           lambda: [_floats(8192, 1024), _floats(8192, 1024)], 8.0 * 8192 * 1024),
)  # fmt: skip
AFTER_PATCHES = (
    product("loops_swapped", "09_loops_swapped.cu", (64, 64), (16, 16), N),
    product("row_of_eight", "09_row_of_eight.cu", (16, 128), (16, 16), N),
    stream("column_sums", "09_column_sums.cu", 65536 // 64, (64, 1),
           lambda: [_floats(1024, 65536), _floats(65536), 65536], 4.0 * (1024 + 1) * 65536),
)  # fmt: skip
AFTER_LANES = (
    product("lanes_in_rows", "12_lanes_in_rows.cu", (128, 128), (256, 1), N),
    stream("wide_copy", "12_wide_copy.cu", 4096, (256, 1),
           lambda: [_floats(4096, 4096), _floats(4096, 4096)], 8.0 * 4096 * 4096),
    stream("turned_tile", "12_turned_tile.cu", (128, 128), (32, 8),
           lambda: [_floats(4096, 4096), _floats(4096, 4096), 4096], 8.0 * 4096 * 4096),
)  # fmt: skip
AT_THE_SUMMIT = (
    stream("matrix_vector", "25_matrix_vector.cu", 4096 // 8, (256, 1),
           lambda: [_floats(4096, 4096), _floats(4096), _floats(4096)], 4.0 * 4096 * 4098,
           4096.0**2),
    product("thin_patch", "25_thin_patch.cu", (16, 512), (32, 8), N),
    stream("every_other", "25_every_other.cu", 16384, (256, 1),
           lambda: [_floats(2 * 16384 * 256), _floats(16384 * 256)], 12.0 * 16384 * 256),
)  # fmt: skip
