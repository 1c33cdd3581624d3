"""Checks of a kernel: its source runs in the emulator on awkward shapes, and its work is counted.

What is right and clean on the shapes that everyone can read runs once more, on shapes and numbers
drawn from the source itself and with warps in a random order: the same for the same text, and a
table of them in the text would change them. Work is counted in totals over what the product needs,
as labs do (`judging.marking`).
"""

import hashlib
import math
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import numpy as np

from helpers.ladder.kernel import evaluate
from helpers.page.exercises.answers import same_array
from helpers.page.exercises.results import Check, ended, raised
from helpers.page.judging import launch_on_gpu
from nogpu import device
from nogpu.device import WARP
from nogpu.errors import TileError
from nogpu.text import without_comments
from nogpu.toolchain import runs
from tilelabs.apart import room
from tilelabs.judging.compiling import check_text, door

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
    return _product(rng.integers(-8191, 8192, (M, K)), rng.integers(-1, 2, (K, N)), 1, dtype)


def fractions_problem(rng: np.random.Generator, M: int, N: int, K: int, dtype: str) -> Problem:
    """Eighths in A and -3 to 3 in B, which neither whole numbers nor signs can stand in for.

    A has 13 significant bits, so float32 sums are exact in any order for K <= 682. A type of whole
    numbers has whole numbers.
    """
    a, b = rng.integers(-8191, 8192, (M, K)), rng.integers(-3, 4, (K, N))
    return _product(a, b, 8 if np.dtype(dtype).kind == "f" else 1, dtype)


def _product(a: np.ndarray, b: np.ndarray, parts: int, dtype: str) -> Problem:
    """A = a / parts, B = b and a poisoned C, and what that should hold."""
    (M, K), N, kind = a.shape, b.shape[1], np.dtype(dtype)
    poison = np.nan if kind.kind == "f" else np.iinfo(kind).min
    c = np.full((M, N), poison, kind)
    args = ((a / parts).astype(kind), b.astype(kind), c, M, N, K)
    return Problem(args, {2: (a @ b) / parts})


def _mentions(source: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", source) is not None


@dataclass(frozen=True)
class KernelTask:
    """What is asked of a kernel: how it is launched, on what, and what it may ask of memory.

    block, grid: catalog expressions or numbers over M, N, K and the integer defines. problem makes
    the arguments and the expected outputs of one shape; the default is C = A B by the kernel
    contract, compared exactly. max_sectors: sectors of global memory at most, for all arrays or by
    parameter name, in total over what the product needs: for each 32 multiply-adds (M N K / 32), of
    an output for each 32 elements. max_wavefronts: wavefronts of shared memory for each 32
    multiply-adds. Both are counted at count_shape and at one drawn from the source. forbid,
    require: words that must not, or must, stand in the code outside comments: a hint early on,
    never what an exercise is passed by. must_be_clean: races, accesses out of bounds, misaligned or
    uninitialised, and divergent barriers fail. max_seconds: for each shape, after which the
    emulator reports an endless loop.
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


@door()
def check_kernel_source(source: Any, task: KernelTask) -> tuple[Check, ...]:
    """Run a kernel's source in the emulator on awkward shapes and count what it asks of memory.

    What passes there runs on shapes drawn from the source, in another order of warps; and what
    passes that, on the GPU too, where there is one that can: a check says how that went. Never
    raises for a wrong kernel: what stops it, in the compiler or in the emulator, is a failed check,
    and the last one.
    """
    if not isinstance(source, str):
        return (Check(False, "the answer is CUDA source text", got=type(source).__name__),)
    checks = _words(source, task)
    where = ""
    try:
        check_text(source)
        runs: list[Launch] = []
        for shape in task.shapes:
            where = _at(shape)
            runs.append(_launched(source, task, shape))
            if runs[-1].endless:
                break
        checks += [*_results(runs), *_inputs(runs), *_findings(runs, task)]
        if task.max_sectors is not None or task.max_wavefronts is not None:
            for counted in (task.count_shape, _drawn_multiple(source, task)):
                where = "x".join(map(str, counted))
                counts = _counted(_launched(source, task, counted), task)
                checks += counts
                if not all(check.ok for check in counts):
                    break
        if all(check.ok for check in checks):
            where = "shapes drawn from the source"
            checks += _unforeseen(source, task)
        where = "on the GPU"
        checks += _on_gpu(source, task) if all(check.ok for check in checks) else []
    except TileError as error:
        checks.append(raised(f"the kernel runs at {where}", error))
    return tuple(checks)


def checked_report(source: Any, task: KernelTask, shape: Shape) -> Generator[Check, None, Any]:
    """The checks of a kernel; then the report of a launch at a shape, or None where one failed."""
    checks = check_kernel_source(source, task)
    yield from checks
    return _launched(source, task, shape).report if all(c.ok for c in checks) else None


def _words(source: str, task: KernelTask) -> list[Check]:
    """The words that the source lacks, and those that it must not have."""
    code = without_comments(source)
    lacking = [
        Check(False, f"{word} is used") for word in task.require if not _mentions(code, word)
    ]
    there = [Check(False, f"{word} is not used") for word in task.forbid if _mentions(code, word)]
    return lacking + there


def _at(shape: Shape) -> str:
    return "M={} N={} K={}".format(*shape)


@dataclass(frozen=True)
class Launch:
    """A launch at a shape: its problem afterwards, its arguments before, the emulator's report."""

    shape: Shape
    made: Problem
    before: tuple[Any, ...]
    report: Any

    @property
    def endless(self) -> bool:
        """Whether it did not end by itself."""
        return any(f.kind in ("step-budget", "deadlock") for f in self.report.findings)


def _problem(task: KernelTask, shape: Shape) -> Problem:
    """The arguments of one shape, the same at every call."""
    M, N, K = shape
    return task.problem(np.random.default_rng(20240607 + M + 7 * N + 49 * K), M, N, K, task.dtype)


def _random(source: str, task: KernelTask) -> Random:
    """What is drawn from a source: the same for the same text."""
    return Random(hashlib.sha256(f"{task.entry}\0{source}".encode("utf-8", "replace")).digest())


def drawn_shapes(source: str, task: KernelTask) -> tuple[Shape, ...]:
    """Two shapes that nobody can read beforehand: one of the task's sizes, one longer in K.

    A size that is 1 in all of them stays 1, and what divides all of them divides these.
    """
    rng = _random(source, task)
    most, step = (
        [of(column) for column in zip(*task.shapes, strict=True)] for of in (max, _divisor)
    )

    def size(axis: int, longer: bool = False) -> int:
        if most[axis] == 1:
            return 1
        whole = most[axis] // step[axis]
        return int(step[axis]) * (
            rng.randint(whole + 1, 2 * whole) if longer else rng.randint(2, max(2, whole))
        )

    return ((size(0), size(1), size(2)), (size(0), size(1), size(2, longer=True)))


def _divisor(sizes: Sequence[int]) -> int:
    return math.gcd(*sizes)


def _drawn_multiple(source: str, task: KernelTask) -> Shape:
    """A shape beside the one at which work is counted, of whole tiles where that is."""
    rng = _random(source, task)
    M, N, K = (n * rng.choice((1, 2)) if n > 1 else 1 for n in task.count_shape)
    return M, N, K * 3 // 2 if K % 2 == 0 else K


@room()
def _launched(
    source: str, task: KernelTask, shape: Shape, made: Problem | None = None, **options: Any
) -> Launch:
    """A launch at one shape. made: its arguments; default the task's own. Raises TileError."""
    from nogpu import emulator

    made = made or _problem(task, shape)
    before = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in made.args)
    report = emulator.launch(
        source, task.entry, task.numbers(task.grid, shape), task.numbers(task.block, shape),
        list(made.args), shared_bytes=task.shared_bytes, defines=dict(task.defines), arch=task.arch,
        name=f"{task.entry}.cu", max_seconds=task.max_seconds, **options,
    )  # fmt: skip
    return Launch(shape, made, before, report)


def _unforeseen(source: str, task: KernelTask) -> list[Check]:
    """The first fault on shapes and numbers drawn from the source, warps in a random order."""
    shapes, rng = drawn_shapes(source, task), _random(source, task)
    for shape in shapes:
        seed = rng.getrandbits(32)
        problem = fractions_problem if task.problem is matmul_problem else task.problem
        made = problem(np.random.default_rng(seed), *shape, task.dtype)
        launch = _launched(source, task, shape, made, schedule="permuted", seed=seed % 1000)
        every = (*_results([launch]), *_inputs([launch]), *_findings([launch], task))
        faults = [c for c in every if not c.ok]
        if faults:
            hint = (
                "It is right where warps run one after the other, on other shapes and numbers. "
                "Look at what depends on their order, on a size, or on whole numbers."
            )
            return [replace(faults[0], hint=faults[0].hint or hint)]
    shown = ", ".join("x".join(map(str, shape)) for shape in shapes)
    return [Check(True, f"right at {shown}, drawn from your text, with warps in another order")]


def _on_gpu(source: str, task: KernelTask) -> list[Check]:
    """The same shapes on the GPU, and the time of a launch at the largest; nothing without one."""
    gpu = device.current()
    if gpu is None or device.lost() or not runs(gpu.arch, task.arch):
        return []
    shape = max(task.shapes, key=lambda s: s[0] * s[1] * s[2])
    for tried in (*(s for s in task.shapes if s != shape), shape):
        made = _problem(task, tried)
        ms = launch_on_gpu(
            source, task.entry, task.numbers(task.grid, tried), task.numbers(task.block, tried),
            list(made.args), shared_bytes=task.shared_bytes, defines=task.defines,
        )  # fmt: skip
        where = "M={} N={} K={}".format(*tried)
        for index, expected in made.outputs.items():
            same = same_array(
                made.args[index], expected, what=f"result on the {gpu.name} at {where}"
            )
            if not same.ok:
                return [same]
    return [
        Check(True, f"right on the {gpu.name} too", got=f"{ms.median:.3g} ms a launch at {where}")
    ]


def _results(runs: Sequence[Launch]) -> list[Check]:
    """Whether every output is right: the first two that are not, or one check that says all are."""
    looked = [
        same_array(launch.made.args[index], expected, what=f"result at {_at(launch.shape)}")
        for launch in runs
        for index, expected in launch.made.outputs.items()
    ]
    failed = [check for check in looked if not check.ok]
    shown = ", ".join("x".join(map(str, launch.shape)) for launch in runs)
    checks = failed[:2] or [Check(True, f"right at {shown} (MxNxK)")]
    if len(failed) > 2:
        checks.append(Check(False, f"{len(failed) - 2} more of {len(runs)} shapes are wrong"))
    return checks


def _inputs(runs: Sequence[Launch]) -> list[Check]:
    """A failed check for the first launch that changed an array which is no output."""
    for launch in runs:
        for index, (was, now) in enumerate(zip(launch.before, launch.made.args, strict=True)):
            is_input = isinstance(was, np.ndarray) and index not in launch.made.outputs
            if is_input and not np.array_equal(was, now):
                what = f"argument {index + 1} is an input, and holds afterwards what it held before"
                return [Check(False, what, got=f"changed at {_at(launch.shape)}")]
    return []


def _findings(runs: Sequence[Launch], task: KernelTask) -> list[Check]:
    """A failed check for each fault of the emulator, once a line; or one that there is none."""
    if not task.must_be_clean:
        return []
    by_line: dict[tuple[str, int], str] = {}
    for launch in runs:
        for finding in launch.report.findings:
            told_at = f"at {_at(launch.shape)}, {_finding(finding)}"
            by_line.setdefault((finding.kind, finding.line), told_at)
    clean = "no race, no access out of bounds, every barrier met by all threads"
    faults = [Check(False, text) for text in _one_cure(list(by_line.values()))]
    return faults or [Check(True, clean)]


def _one_cure(findings: list[str]) -> list[str]:
    """Findings, those first that a block's barrier cures. It orders the lanes of a warp as well, so
    beside them a race within one warp asks for nothing of its own."""
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
    (words of 4 bytes a lane), at most; bound: where that comes from, in words. reads and loads:
    what to think about where shared reads, or global loads beside those that fill the tiles, are
    too many.
    """
    loads_of = [a for a in report.by_line() if a.op == "load"]

    def words(space: str) -> float:
        return float(sum(a.requests * a.width_bytes / 4 for a in loads_of if a.space == space))

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
            launch = _launched(str(source), task, shape)
        except TileError:
            return None
        made, report = launch.made, launch.report
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


def _counted(launch: Launch, task: KernelTask) -> list[Check]:
    """Checks of totals: what memory did, over what the product needs.

    The line that asked for most is named.
    """
    M, N, K = launch.shape
    steps, elements = M * N * K / WARP, M * N / WARP
    rows = [row for row in launch.report.by_line() if row.requests]
    checks = []
    if task.max_sectors is not None:
        touched = [row for row in rows if row.space == "global"]
        stored = {row.array for row in touched if row.op == "store"}
        limits = (
            dict(task.max_sectors)
            if isinstance(task.max_sectors, Mapping)
            else {row.array: float(task.max_sectors) for row in touched}
        )
        for array, limit in limits.items():
            mine = [row for row in touched if row.array == array]
            if not mine:
                checks.append(Check(False, f"{array} is read or written in global memory"))
                continue
            needs, of = (elements, "elements") if array in stored else (steps, "multiply-adds")
            worst = max(mine, key=lambda row: row.sectors)
            total = sum(row.sectors for row in mine) / needs
            what = f"sectors of {array} for each {WARP} {of}"
            hint = "The 32 lanes of a warp ask together: look at which elements they ask for."
            checks.append(_limit(what, worst, total, limit, hint))
    if task.max_wavefronts is not None:
        mine = [row for row in rows if row.space == "shared"]
        if not mine:
            return [*checks, Check(False, "shared memory is used")]
        worst = max(mine, key=lambda row: row.wavefronts)
        total = sum(row.wavefronts for row in mine) / steps
        what = f"wavefronts of shared memory for each {WARP} multiply-adds"
        checks.append(_limit(what, worst, total, task.max_wavefronts))
    return checks


def _limit(what: str, row: Any, value: float, limit: float, hint: str = "") -> Check:
    got = f"{value:.4g}" if value <= limit else f"{value:.4g}, most of them in line {row.line}"
    return Check(value <= limit + 1e-9, what, got, f"{limit:g} or fewer", hint)
