"""Checks of a kernel: its source runs in the emulator on awkward shapes, and its requests are counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers import device
from helpers.device import WARP
from helpers.errors import TileError
from helpers.exercises.answers import same_array
from helpers.exercises.results import Check, ended, raised
from helpers.judging import launch_on_gpu
from helpers.kernel import evaluate
from helpers.text import without_comments
from helpers.toolchain import arch_number

Shape = tuple[int, int, int]
AWKWARD: tuple[Shape, ...] = ((1, 1, 1), (33, 17, 5), (16, 48, 32), (31, 65, 47), (70, 7, 33))
"""Shapes (M, N, K) that a kernel must get right: one, odd, aligned, and one beside a tile edge."""


@dataclass(frozen=True)
class Problem:
    """Arguments of one launch, and what must stand in which of them afterwards."""

    args: tuple[Any, ...]
    outputs: Mapping[int, np.ndarray]


def matmul_problem(rng: np.random.Generator, M: int, N: int, K: int, dtype: str) -> Problem:
    """Arguments A, B, C, M, N, K of the kernel contract, with C poisoned.

    Integer-valued: 13 significant bits in A and -1, 0, 1 in B, so float32 sums are exact in any
    order for K <= 2048, and rounding an operand to half precision shows.
    """
    a = rng.integers(-8191, 8192, (M, K))
    b = rng.integers(-1, 2, (K, N))
    kind = np.dtype(dtype)
    poison = np.nan if kind.kind == "f" else np.iinfo(kind).min
    c = np.full((M, N), poison, kind)
    args = (a.astype(kind), b.astype(kind), c, M, N, K)
    return Problem(args, {2: (a @ b).astype(np.float64)})


def _mentions(source: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", source) is not None


@dataclass(frozen=True)
class KernelTask:
    """What is asked of a kernel: how it is launched, on what, and what it may ask of memory.

    block, grid: catalog expressions or numbers over M, N, K and the integer defines. problem makes
    the arguments and the expected outputs of one shape; the default is C = A B by the kernel
    contract, compared exactly. max_sectors: sectors per global request at most, for every array or
    by parameter name. max_wavefronts: wavefronts per shared request at most; both are counted at
    count_shape. forbid, require: words that must not, or must, stand in the code outside comments.
    must_be_clean: races, accesses out of bounds, misaligned or uninitialised, and divergent barriers
    fail. max_seconds: for each shape, after which the emulator reports an endless loop.
    """

    entry: str
    block: Sequence[str | int]
    grid: Sequence[str | int]
    shapes: Sequence[Shape] = AWKWARD
    problem: Callable[[np.random.Generator, int, int, int, str], Problem] = matmul_problem
    dtype: str = "float32"
    defines: Mapping[str, str] = field(default_factory=dict)
    shared_bytes: int = 0
    arch: str = "sm_75"
    max_sectors: float | Mapping[str, float] | None = None
    max_wavefronts: float | None = None
    count_shape: Shape = (64, 64, 64)
    forbid: Sequence[str] = ()
    require: Sequence[str] = ()
    must_be_clean: bool = True
    max_seconds: float = 20.0

    def numbers(self, expressions: Sequence[str | int], shape: Shape) -> tuple[int, int, int]:
        """A grid or block for a shape (M, N, K), with 1 for what is left out."""
        whole = {k: int(v) for k, v in self.defines.items() if re.fullmatch(r"\d+", str(v))}
        names = {**whole, **dict(zip("MNK", shape, strict=True))}
        values = [e if isinstance(e, int) else evaluate(e, names) for e in expressions]
        values += [1] * (3 - len(values))
        return values[0], values[1], values[2]


def check_kernel_source(source: Any, task: KernelTask) -> tuple[Check, ...]:
    """Run a kernel's source in the emulator on awkward shapes and count what it asks of memory.

    What passes is run on the GPU too, where there is one that can: a check says how that went. Never raises for a wrong kernel: what stops it, in the compiler or in the emulator, is a failed
    check, and the last one.
    """
    if not isinstance(source, str):
        return (Check(False, "the answer is CUDA source text", got=type(source).__name__),)
    checks = _words(source, task)
    where = ""
    try:
        runs = []
        for shape in task.shapes:
            where = "M={} N={} K={}".format(*shape)
            runs.append((where, *_launched(source, task, shape)))
        checks += [*_results(runs, task), *_findings(runs, task)]
        if task.max_sectors is not None or task.max_wavefronts is not None:
            where = "{}x{}x{}".format(*task.count_shape)
            _, report = _launched(source, task, task.count_shape)
            checks += _counted(report, task.max_sectors, task.max_wavefronts)
        where = "on the GPU"
        checks += _on_gpu(source, task) if all(check.ok for check in checks) else []
    except TileError as error:
        checks.append(raised(f"the kernel runs at {where}", error))
    return tuple(checks)


def _words(source: str, task: KernelTask) -> list[Check]:
    """The words that the source lacks, and those that it must not have."""
    code = without_comments(source)
    lacking = [
        Check(False, f"{word} is used") for word in task.require if not _mentions(code, word)
    ]
    there = [Check(False, f"{word} is not used") for word in task.forbid if _mentions(code, word)]
    return lacking + there


def _problem(task: KernelTask, shape: Shape) -> Problem:
    """The arguments of one shape, the same at every call."""
    M, N, K = shape
    return task.problem(np.random.default_rng(20240607 + M + 7 * N + 49 * K), M, N, K, task.dtype)


def _launched(source: str, task: KernelTask, shape: Shape) -> tuple[Problem, Any]:
    """The problem of one shape after the launch, and the emulator's report. Raises TileError."""
    from helpers import emulator

    made = _problem(task, shape)
    report = emulator.launch(
        source,
        task.entry,
        task.numbers(task.grid, shape),
        task.numbers(task.block, shape),
        list(made.args),
        shared_bytes=task.shared_bytes,
        defines=dict(task.defines),
        arch=task.arch,
        name=f"{task.entry}.cu",
        max_seconds=task.max_seconds,
    )
    return made, report


def _on_gpu(source: str, task: KernelTask) -> list[Check]:
    """The same shapes on the GPU, with the time of a launch at the largest; nothing where none can."""
    gpu = device.current()
    if gpu is None or device.lost() or arch_number(gpu.arch) < arch_number(task.arch):
        return []
    shape = max(task.shapes, key=lambda s: s[0] * s[1] * s[2])
    for tried in (*(s for s in task.shapes if s != shape), shape):
        made = _problem(task, tried)
        ms = launch_on_gpu(
            source,
            task.entry,
            task.numbers(task.grid, tried),
            task.numbers(task.block, tried),
            list(made.args),
            shared_bytes=task.shared_bytes,
            defines=task.defines,
        )
        where = "M={} N={} K={}".format(*tried)
        for index, expected in made.outputs.items():
            found = same_array(
                made.args[index], expected, what=f"result on the {gpu.name} at {where}"
            )
            if not found.ok:
                return [found]
    return [
        Check(True, f"right on the {gpu.name} too", got=f"{ms.median:.3g} ms a launch at {where}")
    ]


def _results(runs: Sequence[tuple[str, Problem, Any]], task: KernelTask) -> list[Check]:
    """Whether every output is right: the first two that are not, or one check that says all are."""
    looked = [
        same_array(made.args[index], expected, what=f"result at {where}")
        for where, made, _ in runs
        for index, expected in made.outputs.items()
    ]
    wrong = [check for check in looked if not check.ok]
    shown = ", ".join("x".join(map(str, shape)) for shape in task.shapes)
    checks = wrong[:2] or [Check(True, f"right at {shown} (MxNxK)")]
    if len(wrong) > 2:
        checks.append(Check(False, f"{len(wrong) - 2} more of {len(task.shapes)} shapes are wrong"))
    return checks


def _findings(runs: Sequence[tuple[str, Problem, Any]], task: KernelTask) -> list[Check]:
    """A failed check for each fault that the emulator found, once a line; or one that there is none."""
    if not task.must_be_clean:
        return []
    found: dict[tuple[str, int], str] = {}
    for where, _, report in runs:
        for finding in report.findings:
            found.setdefault((finding.kind, finding.line), f"at {where}, {_finding(finding)}")
    told = "no race, no access out of bounds, every barrier met by all threads"
    faults = [Check(False, text) for text in _one_cure(list(found.values()))]
    return faults or [Check(True, told)]


def _one_cure(findings: list[str]) -> list[str]:
    """Findings, those first that a block's barrier cures. It orders the lanes of a warp as well, so
    beside them a race within one warp asks for nothing of its own.
    """
    block = [text for text in findings if "put __syncthreads" in text.lower()]
    warp = [text for text in findings if "put __syncwarp" in text.lower()]
    if not (block and warp):
        return findings
    cured = f"({len(warp)} more between lanes of one warp, which the same __syncthreads() orders.)"
    rest = [text for text in findings if text not in block and text not in warp]
    return [f"{ended(block[0])} {cured}", *block[1:], *rest]


def from_tiles(
    report: Any, multiply_adds: float, most: float, bound: str, *, reads: str, loads: str
) -> Iterator[Check]:
    """Whether a product takes its operands from shared memory, and each of them often enough.

    report: of a launch with this many warp-level multiply-adds. most: shared reads for each of them
    (words of 4 bytes a lane), at most; bound: where that comes from, in words. reads and loads: what
    to think about where shared reads, or global loads beside those that fill the tiles, are too many.
    """
    found = [a for a in report.by_line() if a.op == "load"]

    def words(space: str) -> float:
        return float(sum(a.requests * a.width_bytes / 4 for a in found if a.space == space))

    per, copied = words("shared") / multiply_adds, words("global") / multiply_adds
    yield Check(
        0 < per <= most,
        f"shared reads for each multiply-add, at most {bound}",
        got=f"{per:.2f}",
        hint=reads if per else "The operands of the sums come from A_tile and B_tile.",
    )
    if 0 < per <= most:
        what = "global loads for each multiply-add, those that fill the tiles"
        yield Check(copied <= 0.1, what, got=f"{copied:.2f}", hint=loads)


def lanes_together(source: object, task: KernelTask, shapes: Sequence[Shape]) -> Check | None:
    """Whether lanes share the work: how many of a warp store together, on average, at each shape.

    None if the kernel does not run or its result is wrong, which other checks report.
    """
    fewest = float(WARP)
    for shape in shapes:
        try:
            made, report = _launched(str(source), task, shape)
        except TileError:
            return None
        stores = [row for row in report.by_line() if row.op == "store" and row.space == "global"]
        right = all(np.array_equal(made.args[at], want) for at, want in made.outputs.items())
        if not right or not stores:
            return None
        elements = sum(row.bytes / row.width_bytes for row in stores)
        fewest = min(fewest, elements / sum(row.requests for row in stores))
    return Check(
        fewest >= 0.75 * WARP,
        "each thread has an element of its own: lanes that store together",
        got=f"{fewest:.1f}",
        expected=f"about {WARP}",
        hint="Let no thread do the work of others: its number says which one element is its own.",
    )


def _finding(finding: Any) -> str:
    source = f" `{finding.text.strip()}`" if finding.text.strip() else ""
    return f"line {finding.line}{source}, {finding.kind}: {finding.message}"


def _counted(
    report: Any, max_sectors: float | Mapping[str, float] | None, max_wavefronts: float | None
) -> list[Check]:
    """Checks on requests, line by line: the worst line of each array is named."""
    rows = [row for row in report.by_line() if row.requests]
    checks = []
    if max_sectors is not None:
        touched = [row for row in rows if row.space == "global"]
        arrays = list(dict.fromkeys(row.array for row in touched))
        limits = (
            dict(max_sectors)
            if isinstance(max_sectors, Mapping)
            else dict.fromkeys(arrays, float(max_sectors))
        )
        for array, limit in limits.items():
            mine = [row for row in touched if row.array == array]
            if not mine:
                checks.append(Check(False, f"{array} is read or written in global memory"))
                continue
            worst = max(mine, key=lambda row: row.sectors_per_request)
            checks.append(
                _limit(f"sectors per request of {array}", worst, worst.sectors_per_request, limit)
            )
    if max_wavefronts is not None:
        mine = [row for row in rows if row.space == "shared"]
        if not mine:
            checks.append(Check(False, "shared memory is used"))
        else:
            worst = max(mine, key=lambda row: row.wavefronts_per_request)
            checks.append(
                _limit(
                    "wavefronts per request of shared memory",
                    worst,
                    worst.wavefronts_per_request,
                    max_wavefronts,
                )
            )
    return checks


def _limit(what: str, row: Any, value: float, limit: float) -> Check:
    got = f"{value:.4g} at most" if value <= limit else f"{value:.4g} in line {row.line}"
    return Check(value <= limit + 1e-9, what, got=got, expected=f"{limit:g} or fewer")
