"""What two compilers make of one kernel: the same results, the same memory traffic, or by how much
not. Both compile here; `using` chooses. `tools.clang_against_nvrtc` runs it over everything."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

from helpers.ladder import launch
from helpers.ladder.rungs import catalog, find
from nogpu.errors import ConfigError

SHAPES = ((64, 64, 64), (65, 63, 33), (40, 100, 72), (45, 83, 75))
WHOLE = ((64, 64, 64), (32, 96, 64), (96, 32, 128), (128, 64, 32))
"""M, N, K: whole tiles and not; and for the kernel that takes whole tiles only."""
KERNELS = tuple(name for name, kernel in catalog.items() if kernel.host != "tma")


def shapes(kernel: str) -> tuple[tuple[int, int, int], ...]:
    """Four shapes that a kernel takes."""
    return WHOLE if kernel == "tiled_padded" else SHAPES


@contextlib.contextmanager
def using(compiler: str) -> Iterator[None]:
    """Let "nvrtc" or "clang" compile, or "ir": clang, and PTX made of its LLVM IR (`nogpu.ir`)."""
    by_ir = compiler == "ir"
    chosen = {"TILE_COMPILER": "clang" if by_ir else compiler, "TILE_CLANG_IR": str(int(by_ir))}
    with mock.patch.dict(os.environ, chosen):
        yield


COUNTS = ("requests", "sectors", "wavefronts", "bytes")


def statements(source: str) -> dict[int, int]:
    """For each line, the first line of its statement: compilers differ in which of its lines they
    name."""
    starts: dict[int, int] = {}
    first = 0
    for number, line in enumerate(source.splitlines(), 1):
        code = line.split("//")[0].strip()
        starts[number] = first or number
        ended = not code or code.startswith("#") or code.endswith((";", "{", "}", ":"))
        first = 0 if ended else starts[number]
    return starts


@dataclass(frozen=True)
class Seen:
    """One launch: C as bytes, whether it was right, and what was counted.

    counts: by the first line of a statement, space, operation, array and one of COUNTS; accesses of
    a statement that differ in nothing but their width count together. The multiply-adds of all
    warps stand under line 0.
    """

    C: bytes
    ok: bool
    counts: Mapping[tuple[int, str, str, str, str], int]
    compiler: str


def seen(name: str, shape: tuple[int, int, int], **options: Any) -> Seen:
    """Trace a kernel with the compiler of the moment."""
    trace = launch.trace(name, *shape, **options)
    counts = {(0, "", "multiply-adds", "", "requests"): trace.multiply_adds}
    source = find(name).source
    lines, starts = source.splitlines(), statements(source)
    for row in trace.by_line():
        here = row.line <= len(lines) and lines[row.line - 1].strip() == row.text.strip()
        line = starts[row.line] if here else row.line  # else a header's
        for what in COUNTS:
            key = (line, row.space, row.op, row.array, what)
            counts[key] = counts.get(key, 0) + getattr(row, what)
    return Seen(trace.C.tobytes(), trace.ok, counts, trace.report.compiler)


def both(
    name: str, shape: tuple[int, int, int], other: str = "clang", **options: Any
) -> tuple[Seen, Seen] | None:
    """A kernel at one shape by NVRTC and by another compiler; None for a shape that it refuses.

    options: other tiles than its own.
    """
    try:
        with using("nvrtc"):
            ours = seen(name, shape, **options)
        with using(other):
            return ours, seen(name, shape, **options)
    except ConfigError:
        return None


def unequal(one: Seen, other: Seen) -> list[dict[str, Any]]:
    """The counts that differ, by statement, with what each of the two launches counted."""
    names = ("line", "space", "op", "array", "count")
    return [
        dict(zip(names, key, strict=True)) | {"one": a, "other": b}
        for key in sorted({*one.counts, *other.counts})
        if (a := one.counts.get(key, 0)) != (b := other.counts.get(key, 0))
    ]


def unexplained(kernel: str, found: Sequence[Mapping[str, Any]], one: str, other: str) -> list[Any]:
    """Differences that none of three reasons explains.

    Of thin kernels and their reads of shared memory: copies of an unrolled read stand at other
    lines, and the totals of an array are the same; and NVRTC moves the read of sums behind the test
    whether they lie in C: of `parts` it reads less, never more. Of mma_sliced: what it calls twice,
    for A and for B, stands at either of the two calls, and the totals are the same. one, other: the
    keys under which NVRTC's count and clang's stand.
    """
    totals: dict[tuple[str, ...], list[int]] = {}
    for d in found:
        thin = kernel.startswith("thin_") and (d["space"], d["op"]) == ("shared", "load")
        if not thin and not kernel.startswith("mma_sliced"):
            return [d]
        what = d["array"] if thin else f"{d['space']} {d['op']} {d['array']}"
        launch = (str(d.get("shape")), str(d.get("tiles")), what, d["count"])
        both = totals.setdefault(launch, [0, 0])
        both[0] += d[one]
        both[1] += d[other]
    apart = ((launch, both) for launch, both in totals.items() if both[0] != both[1])
    return [(at, both) for at, both in apart if not (at[2] == "parts" and both[0] < both[1])]


def differences(one: Seen, other: Seen) -> list[str]:
    """What differs, in words; of counts each source line."""
    found = ["C differs"] if one.C != other.C else []
    if one.ok != other.ok:
        found.append(f"right or clean: {one.ok} and {other.ok}")
    return found + [
        f"{d['count']} of line {d['line']} ({d['space']} {d['op']} of {d['array']}): "
        f"{d['one']} and {d['other']}"
        for d in unequal(one, other)
    ]
