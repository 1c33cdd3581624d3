"""What two compilers make of one kernel: the same results, the same memory traffic, or by how much not.

    python -m tests.compilers                          every kernel that is emulated, at four shapes
    python -m tests.compilers warp_tiled --shape 64x64x64

Both compile here; `using` chooses.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

from helpers import launch
from helpers.errors import ConfigError
from helpers.rungs import catalog

SHAPES = ((64, 64, 64), (65, 63, 33), (40, 100, 72), (45, 83, 75))
KERNELS = tuple(name for name, kernel in catalog.items() if kernel.host != "tma")


@contextlib.contextmanager
def using(compiler: str) -> Iterator[None]:
    """Let "nvrtc" or "clang" compile."""
    with mock.patch.dict(os.environ, {"TILE_COMPILER": compiler}):
        yield


@dataclass(frozen=True)
class Seen:
    """One launch: C as bytes, whether it was right, rows by line without the ways of moving."""

    C: bytes
    ok: bool
    sectors: Mapping[Any, int]
    wavefronts: Mapping[Any, int]
    compiler: str


def seen(name: str, shape: tuple[int, int, int], **options: Any) -> Seen:
    """Trace a kernel with the compiler of the moment."""
    trace = launch.trace(name, *shape, **options)
    sums: dict[str, dict[Any, int]] = {"sectors": {}, "wavefronts": {}}
    for row in trace.by_line():
        for what, held in sums.items():
            if count := getattr(row, what):
                key = (row.line, row.space, row.op, row.array)
                held[key] = held.get(key, 0) + count
    compiler = trace.report.compiler
    return Seen(trace.C.tobytes(), trace.ok, sums["sectors"], sums["wavefronts"], compiler)


def both(name: str, shape: tuple[int, int, int]) -> tuple[Seen, Seen] | None:
    """A kernel at one shape by NVRTC and by clang; None for a shape that it refuses."""
    try:
        with using("nvrtc"):
            ours = seen(name, shape)
        with using("clang"):
            return ours, seen(name, shape)
    except ConfigError:
        return None


def differences(one: Seen, other: Seen) -> list[str]:
    """What differs, in words; of counts each source line."""
    said = []
    if one.C != other.C:
        said.append("C differs")
    if one.ok != other.ok:
        said.append(f"right or clean: {one.ok} and {other.ok}")
    for what in ("sectors", "wavefronts"):
        a, b = getattr(one, what), getattr(other, what)
        for key in sorted({*a, *b}, key=str):
            if a.get(key, 0) != b.get(key, 0):
                line, space, op, array = key
                said.append(
                    f"{what} of line {line} ({space} {op} of {array}): "
                    f"{a.get(key, 0)} and {b.get(key, 0)}"
                )
    return said


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.compilers", description=__doc__)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--shape", action="append", help="such as 64x64x64; four others if none")
    given = parser.parse_args()
    shapes = [tuple(map(int, s.split("x"))) for s in given.shape or []] or SHAPES
    ran = equal = bits = 0
    started = time.perf_counter()
    for name in given.kernels or KERNELS:
        for shape in shapes:
            pair = both(name, shape)  # type: ignore[arg-type]
            if pair is None:
                print(f"{name} refuses {shape}")
                continue
            found = differences(*pair)
            ran, equal = ran + 1, equal + (not found)
            bits += pair[0].C == pair[1].C
            for text in found:
                print(f"{name} {shape}: {text}", flush=True)
    print(
        f"{ran} launches by each: C bit-equal in {bits}, everything equal by line in {equal} "
        f"({time.perf_counter() - started:.0f} s)"
    )


if __name__ == "__main__":
    main()
