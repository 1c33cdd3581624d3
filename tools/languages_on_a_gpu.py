"""The stored PTX of four languages on the GPU at hand: data/validation/languages_<gpu>.json.

    python -m tools.languages_on_a_gpu [--out FILE]

Each is compared with float64 at SHAPES, and bit by bit with the emulator; then all are timed in
turn with the book's kernels of the same kind and cuBLAS. Needs what data/languages/ holds, not the
languages.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from helpers.chapters.ch23 import languages
from helpers.ladder import hopper
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import find
from helpers.record import trials
from helpers.record.gpu import Problem, Session
from helpers.record.telemetry import Telemetry
from tools import beside

BESIDE = ("mma_pipelined_bf16", "hopper_1", "hopper_2", "hopper_3")
SIZES = (2048, 4096, 8192)
SHAPES = (
    (1, 8, 8), (128, 128, 64), (127, 120, 56), (129, 136, 72), (150, 136, 200), (257, 264, 328),
    (300, 8, 1000), (1, 520, 136), (513, 384, 448), (256, 256, 512),
)  # fmt: skip
"""Less than a tile, whole tiles, edges of each kind, one step of k and many."""


def structure(members: Sequence[Any]) -> np.ndarray:
    """The bytes of a structure of numbers and CuPy arrays, in order, by value: none needs padding."""
    parts = [
        np.uint64(m.data.ptr) if hasattr(m, "__cuda_array_interface__") else m for m in members
    ]
    raw = b"".join(part.tobytes() for part in parts)
    return np.frombuffer(raw, f"V{len(raw)}").copy()


@cache
def _modules() -> tempfile.TemporaryDirectory[str]:
    """Where PTX lies until this process ends."""
    return tempfile.TemporaryDirectory(prefix="tile-by-tile-")


def launcher(name: str, A: Any, B: Any, C: Any) -> Callable[[], None]:
    """A function that launches a language's PTX, assembled by the driver, on CuPy arrays in the
    current stream."""
    import cupy

    file, row = Path(_modules().name, f"{name}.ptx"), languages.facts(name)
    file.write_text(languages.ptx(name), encoding="utf-8")
    function = cupy.RawModule(path=str(file)).get_function("matmul")
    function.max_dynamic_shared_size_bytes = row["shared"]
    (M, K), N = A.shape, C.shape[1]
    grid, block = (*languages.grid(M, N, K), 1), (row["block"], 1, 1)
    args = tuple(languages.arguments(name, A, B, C, hopper.build_descriptor, structure))
    return lambda: function(grid, block, args, shared_mem=row["shared"])


def contender(name: str) -> trials.Contender:
    """A language as one who takes part in a trial."""

    def prepare(session: Session, problem: Problem, C: Any) -> trials.Operation:
        with session.on_stream():
            start = launcher(name, problem.A, problem.B, C)

        def run() -> None:
            with session.stream:
                start()

        return run

    return trials.Contender(name, "bfloat16", "bfloat16", "bf16", prepare)


def compared(session: Session) -> list[dict[str, Any]]:
    """A row a language and shape: elements beyond the tolerance, with other bits in a second run,
    and in the emulator."""
    rows = []
    for name in languages.NAMES:
        for M, N, K in SHAPES:
            A, B = languages.operands(M, N, K)
            emulated, _ = languages.emulated(name, A, B)
            runs = []
            with session.on_stream():
                a, b = (session.cupy.asarray(X) for X in (A, B))
                for _ in range(2):
                    C = session.cupy.full((M, N), 0x7FFF, np.uint16)
                    launcher(name, a, b, C)()
                    runs.append(session.cupy.asnumpy(C))
            rows.append(
                {"name": name, "m": M, "n": N, "k": K, "elements": M * N,
                 "wrong": languages.wrong(A, B, runs[0]), "again": int((runs[0] != runs[1]).sum()),
                 "differ": int((runs[0] != emulated).sum())}
            )  # fmt: skip
    return rows


def timed(session: Session, telemetry: Telemetry) -> list[dict[str, Any]]:
    """A row a contender and size: ms of a launch and quartiles, TFLOP/s, its time against each
    other's, clock and power meanwhile."""
    rows = []
    for edge in SIZES:
        plans = {name: geometry(find(name), edge, edge, edge) for name in BESIDE}
        contenders = {name: contender(name) for name in languages.NAMES}
        contenders |= {name: trials.of_plan(p, name) for name, p in plans.items()}
        contenders |= trials.yardstick(session, plans["hopper_2"], "hopper_2")
        done = trials.trial(session, (edge, edge, edge), contenders)
        for name, took in beside.tried(done, telemetry).items():
            rate = done.rates[name] / 1e3
            rows.append({"name": name, "size": edge, "tflops": rate, **took})
            print(f"{edge} {name:20s} {took['ms']:9.4f} ms {rate:7.1f} TFLOP/s", flush=True)
    return rows


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 1 where an element is wrong, 2 where no GPU answers."""
    versions = {name: languages.facts(name)["version"] for name in languages.NAMES}
    return beside.main(
        "languages", __doc__, given,
        checks=lambda session: {"versions": versions, "shapes": compared(session)},
        times=lambda session, telemetry: {"times": timed(session, telemetry)},
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
