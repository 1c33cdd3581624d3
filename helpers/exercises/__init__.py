"""Exercises that code checks: check("05.1", answer) says what is right, what is not, and why.

A chapter's checkers live in chNN.py and register themselves with @exercise. Kernels are handed in
as CUDA source text and run in the emulator only.
"""

from __future__ import annotations

import ast
import html
import importlib
import inspect
import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from helpers.errors import CompileError, TileError, UnknownNameError, near_matches
from helpers.kernel import ROOT, evaluate

Kind = Literal["number", "kernel", "python", "choice"]
Shape = tuple[int, int, int]

AWKWARD: tuple[Shape, ...] = ((1, 1, 1), (33, 17, 5), (16, 48, 32), (31, 65, 47), (70, 7, 33))
"""Shapes (M, N, K) that a kernel must get right: one, odd, aligned, and one beside a tile edge."""

ADVICE: Mapping[str, str] = {
    "number": "Replace ... by a number.",
    "kernel": "Give the CUDA source as text.",
    "python": "Replace ... by your answer.",
    "choice": "Replace ... by your choice.",
}


STARTER = "This is the starter, unchanged. As it stands:"
"""What stands over the checks of an answer that is still the page's own."""

LOOK = "Open the hint below the exercise, and work it out in steps."
"""What a wrong number or choice is told where no more is known of the mistake."""


def _ended(text: str) -> str:
    """The text with a full stop, unless it ends a sentence already."""
    return text if text.endswith((".", "?", "!")) else text + "."


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what, whether it holds, and what to think about if not."""

    ok: bool
    what: str
    got: str = ""
    expected: str = ""
    hint: str = ""

    def __str__(self) -> str:
        parts = [f"{'passed' if self.ok else 'not yet'}: {self.what}"]
        if self.got:
            parts.append(f"got {self.got}")
        if self.expected:
            parts.append(f"expected {self.expected}")
        text = _ended("; ".join(parts))
        return f"{text} {self.hint}" if self.hint and not self.ok else text


@dataclass(frozen=True)
class Result:
    """What the checks of one exercise said about an answer.

    answered: false for ... and for a starter that nobody has changed; of a starter the checks say how
    it fares as it stands.
    """

    id: str
    checks: tuple[Check, ...]
    answered: bool = True
    starter: bool = False

    @property
    def passed(self) -> bool:
        """Whether there was an answer and every check holds."""
        return self.answered and all(check.ok for check in self.checks)

    @property
    def verdict(self) -> str:
        """The result in a few words."""
        if not self.answered:
            return "not answered yet"
        if self.passed:
            return "passed"
        if len(self.checks) == 1:
            return "not yet"
        return f"not yet: {sum(c.ok for c in self.checks)} of {len(self.checks)} checks pass"

    def __repr__(self) -> str:
        mark = {True: "[x]", False: "[ ]"}
        lines = [f"Exercise {self.id}: {self.verdict}"]
        if self.starter:
            lines.append(f"  {STARTER}")
            mark = {True: "[x]", False: "[-]"}
        elif not self.answered:
            return "\n".join([*lines, *(f"  {c.what}. {c.hint}" for c in self.checks)])
        lines += [f"  {mark[c.ok]} {c}".replace("\n", "\n      ") for c in self.checks]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        state = "pass" if self.passed else "fail" if self.answered else "open"
        mark = {"pass": "✓", "fail": "✗", "open": "○"}[state]
        colour = {"pass": "#009e73", "fail": "#d55e00", "open": "#808080"}[state]
        items = "".join(_check_html(check, self.answered, self.starter) for check in self.checks)
        if self.starter:
            items = f"<li>{html.escape(STARTER)}</li>{items}"
        return (
            f'<div class="tile-check tile-{state}" role="group" '
            f'aria-label="Exercise {html.escape(self.id)}: {html.escape(self.verdict)}" '
            f'style="border-left:4px solid {colour};padding:.4em .9em;margin:1em 0">'
            f'<p style="margin:0"><span aria-hidden="true">{mark} </span>'
            f"<strong>Exercise {html.escape(self.id)}: {html.escape(self.verdict)}</strong></p>"
            f'<ul style="margin:.3em 0 0;padding-left:1.2em;list-style:none">{items}</ul></div>'
        )


def _check_html(check: Check, answered: bool, starter: bool = False) -> str:
    """One list item; what has several lines, a compiler's log, stands in a block of its own."""
    if not answered and not starter:
        return f"<li>{html.escape(check.what)}. {html.escape(check.hint)}</li>"
    mark, word = ("✓", "passed") if check.ok else ("○" if starter else "✗", "not yet")
    text = f'<span aria-hidden="true">{mark} </span>{word}: {html.escape(check.what)}'
    blocks = ""
    for lead, value in (("got", check.got), ("expected", check.expected)):
        if "\n" in value:
            label = html.escape(f"{check.what}: {lead}")
            blocks += (
                f'<pre tabindex="0" role="group" aria-label="{label}" '
                f'style="overflow-x:auto;margin:.3em 0">{html.escape(value.strip())}</pre>'
            )
        elif value:
            text += f"; {lead} {html.escape(value)}"
    hint = f" {html.escape(check.hint)}" if check.hint and not check.ok else ""
    return f"<li>{_ended(text)}{hint}{blocks}</li>"


# -- registry ------------------------------------------------------------------------------------

Checker = Callable[..., Check | Iterable[Check]]


@dataclass(frozen=True)
class Exercise:
    """A registered exercise: its id "NN.i", what kind of answer it takes, and its checker."""

    id: str
    kind: Kind
    title: str
    checker: Checker


_registry: dict[str, Exercise] = {}
_ID = re.compile(r"(\d\d)\.([1-9]\d*)")


def exercise(id: str, *, kind: Kind) -> Callable[[Checker], Checker]:
    """Register the decorated function as the checker of exercise `id`, such as "05.1".

    The function takes the answer and returns a Check or several. The first line of its docstring is
    the exercise's title. Raises UnknownNameError on a bad id and ValueError on an id used twice.
    """
    if not _ID.fullmatch(id):
        raise UnknownNameError(
            f'{id=}: an exercise is called "NN.i", chapter and number, as "05.1"'
        )
    if kind not in ADVICE:
        raise ValueError(f"{kind=} is not one of {', '.join(ADVICE)}")

    def register(checker: Checker) -> Checker:
        known = _registry.get(id)
        if known and known.checker.__qualname__ != checker.__qualname__:
            raise ValueError(
                f"exercise {id} is checked by {known.checker.__qualname__} already; "
                f"give {checker.__qualname__} another number"
            )
        title = (checker.__doc__ or id).strip().splitlines()[0].rstrip(".")
        _registry[id] = Exercise(id, kind, title, checker)
        return checker

    return register


def chapters() -> tuple[str, ...]:
    """Numbers of the chapters that have exercises, such as "05"."""
    return tuple(sorted(path.stem[2:] for path in Path(__file__).parent.glob("ch[0-9][0-9].py")))


def load(chapter: str) -> tuple[Exercise, ...]:
    """The exercises of one chapter, in order. An empty tuple if it has none."""
    if chapter in chapters():
        importlib.import_module(f"{__name__}.ch{chapter}")
    return tuple(
        sorted(
            (e for e in _registry.values() if e.id.startswith(f"{chapter}.")),
            key=lambda e: int(e.id.split(".")[1]),
        )
    )


def find(id: str) -> Exercise:
    """The exercise of that id, its chapter imported if need be. Raises UnknownNameError."""
    match = _ID.fullmatch(str(id))
    if match:
        load(match[1])
    if id not in _registry:
        for chapter in chapters():
            load(chapter)
        known = near_matches(str(id), _registry) if _registry else "No exercise is registered."
        raise UnknownNameError(f"no exercise is called {id!r}. {known}")
    return _registry[id]


def check(id: str, answer: Any, **options: Any) -> Result:
    """Check an answer and say what holds and what does not.

    Never raises for a wrong answer: an exception out of the answer becomes a failed check with its
    message. Raises UnknownNameError for an unknown id. options go to the checker.
    """
    task = find(id)
    if answer is ... or answer is None:
        return Result(id, (Check(False, task.title, hint=ADVICE[task.kind]),), answered=False)
    try:
        returned = task.checker(answer, **options)
        checks = (returned,) if isinstance(returned, Check) else tuple(returned)
    except Exception as error:  # a reader's function may raise anything
        checks = (_raised("the answer runs", error),)
    checks = checks or (Check(False, "nothing was checked"),)
    if not all(c.ok for c in checks) and untouched(id, answer):
        return Result(id, checks, answered=False, starter=True)
    if task.kind in ("number", "choice"):
        checks = tuple(c if c.ok or c.hint else replace(c, hint=LOOK) for c in checks)
    return Result(id, checks)


def untouched(id: str, answer: Any) -> bool:
    """Whether an answer is the starter that the exercise's cell gives: CUDA source, a function, a dict."""
    if isinstance(answer, dict | list | tuple):
        return len(answer) > 1 and any(answer == value for value in _literals(_starter(id)))
    if isinstance(answer, str):
        text = answer
    elif callable(answer):
        try:
            text = inspect.getsource(answer)
        except (OSError, TypeError):  # typed where no source is kept
            return False
    else:
        return False
    text = textwrap.dedent(text).strip()
    return len(text.splitlines()) > 1 and text in _starter(id)


def _literals(page: str) -> Iterator[Any]:
    """The values that cells of a page assign and that are written out there."""
    for code in re.findall(r"(?ms)^```\{code-cell\}[^\n]*\n(?::[^\n]*\n)*(.*?)^```$", page):
        for node in ast.parse(code).body:
            if isinstance(node, ast.Assign):
                with suppress(ValueError):  # not a literal
                    yield ast.literal_eval(node.value)


@cache
def _starter(id: str) -> str:
    """The exercise as its page gives it, up to the first hint or solution; empty if there is no page."""
    chapter = id.split(".")[0]
    for page in (ROOT / "book").glob(f"{chapter}_*.md"):
        parts = page.read_text(encoding="utf-8").split(f"\n### Exercise {id}")
        if len(parts) > 1:
            return re.split(r"(?m)^(?::::\{dropdown\}|#{2,3} )", parts[1])[0]
    return ""


def _raised(what: str, error: Exception) -> Check:
    if isinstance(error, CompileError) and error.log:
        log = "\n" + _errors(error.log)
        return Check(
            False, "the source compiles", got=log, hint=_ended(error.hint) if error.hint else ""
        )
    kind = "" if isinstance(error, TileError) else f"{type(error).__name__}: "
    return Check(False, what, got=f"{kind}{error}")


def _errors(log: str) -> str:
    """A compiler's log without its warnings and remarks, if it holds an error."""
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", log) if block.strip()]
    kept = [block for block in blocks if not re.search(r": warning(?: #|: )|^Remark:", block)]
    return "\n\n".join(kept or blocks).strip()


# -- checkers for authors ------------------------------------------------------------------------


def _number(answer: Any) -> float | None:
    if isinstance(answer, (bool, str, bytes)):
        return None
    try:
        return float(answer)
    except (TypeError, ValueError, OverflowError):
        return None


def _near(value: float, target: float, tolerance: float) -> bool:
    return math.isclose(value, target, rel_tol=max(tolerance, 1e-12), abs_tol=1e-12)


def close_to(
    answer: Any,
    expected: float,
    *,
    tolerance: float = 0.01,
    what: str = "the number",
    unit: str = "",
    hint: str = "",
    wrong: Mapping[float, str] | None = None,
) -> Check:
    """A number within a relative tolerance of the expected one; 0 asks for equality.

    wrong maps likely mistakes to the hint that each deserves. A failed check does not give the
    expected value away.
    """
    value = _number(answer)
    if value is None:
        kind = "text" if isinstance(answer, str) else type(answer).__name__
        return Check(False, what, got=kind, expected="one number", hint=hint)
    shown = f"{value:,.6g}" if abs(value) < 1e15 else f"{value:.6g}"
    got = f"{shown} {unit}".strip()
    if _near(value, expected, tolerance):
        return Check(True, what, got=got)
    for mistake, why in (wrong or {}).items():
        if _near(value, mistake, tolerance):
            return Check(False, what, got=got, hint=_sentence(why))
    return Check(False, what, got=got, hint=hint)


def _sentence(text: str) -> str:
    text = text.strip()
    return _ended(text[:1].upper() + text[1:])


def one_of(
    answer: Any,
    correct: str | Sequence[str],
    *,
    options: Sequence[str] | None = None,
    what: str = "the choice",
    hint: str = "",
    wrong: Mapping[str, str] | None = None,
) -> Check:
    """A choice; compared as text without regard to case and outer spaces."""

    def plain(text: Any) -> str:
        return str(text).strip().casefold()

    right = {plain(correct)} if isinstance(correct, str) else {plain(c) for c in correct}
    if plain(answer) in right:
        return Check(True, what, got=str(answer))
    if options is not None and plain(answer) not in {plain(o) for o in options}:
        return Check(False, what, got=repr(answer), expected="one of " + ", ".join(options))
    reasons = {plain(option): why for option, why in (wrong or {}).items()}
    why = reasons.get(plain(answer), "")
    return Check(False, what, got=str(answer), hint=_sentence(why) if why else hint)


def same_array(
    answer: Any, expected: Any, *, what: str = "the array", tolerance: float = 0.0, hint: str = ""
) -> Check:
    """An array of the expected shape and values; NaN is never equal. tolerance: relative."""
    got, want = np.asarray(answer), np.asarray(expected)
    if got.shape != want.shape:
        return Check(False, what, f"shape {got.shape}", f"shape {want.shape}", hint)
    if got.dtype == object or not np.issubdtype(got.dtype, np.number):
        return Check(False, what, f"elements of {got.dtype}", "numbers", hint)
    error = np.abs(got.astype(np.float64) - want.astype(np.float64))
    bad = ~(error <= tolerance * np.abs(want))
    if not bad.any():
        return Check(True, what)
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    if np.isnan(got[at]) and not hint:
        hint = (
            "NaN here: nothing wrote the element, or it was read, as by +=, before it was written."
        )
    return Check(
        False,
        f"{what}: {np.count_nonzero(bad)} of {bad.size} elements differ",
        f"{got[at]:g} at {list(at)}",
        f"{want[at]:g}",
        hint,
    )


# -- kernels -------------------------------------------------------------------------------------


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


def without_comments(source: str) -> str:
    """CUDA source with comments blanked and line numbers kept."""

    def blank(match: re.Match[str]) -> str:
        text = match[0]
        return text if text[0] in "\"'" else re.sub(r"[^\n]", " ", text)

    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(pattern, blank, source, flags=re.DOTALL)


def _mentions(source: str, word: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", source) is not None


def _launch_numbers(
    expressions: Sequence[str | int], names: Mapping[str, int]
) -> tuple[int, int, int]:
    values = [e if isinstance(e, int) else evaluate(e, names) for e in expressions]
    values += [1] * (3 - len(values))
    return values[0], values[1], values[2]


def check_kernel_source(
    source: Any,
    entry: str,
    *,
    block: Sequence[str | int],
    grid: Sequence[str | int],
    shapes: Sequence[Shape] = AWKWARD,
    problem: Callable[[np.random.Generator, int, int, int, str], Problem] = matmul_problem,
    dtype: str = "float32",
    defines: Mapping[str, str] | None = None,
    shared_bytes: int = 0,
    arch: str = "sm_75",
    max_sectors: float | Mapping[str, float] | None = None,
    max_wavefronts: float | None = None,
    count_shape: Shape = (64, 64, 64),
    forbid: Sequence[str] = (),
    require: Sequence[str] = (),
    must_be_clean: bool = True,
    max_seconds: float = 20.0,
) -> tuple[Check, ...]:
    """Run a kernel's source in the emulator on awkward shapes and count what it asks of memory.

    block, grid: catalog expressions or numbers over M, N, K and the integer defines. problem makes
    the arguments and the expected outputs of one shape; the default is C = A B by the kernel
    contract, compared exactly. max_sectors: sectors per global request at most, for every array or
    by parameter name. max_wavefronts: wavefronts per shared request at most. forbid, require: words
    that must not, or must, stand in the code outside comments. must_be_clean: races, accesses out of
    bounds, misaligned or uninitialised, and divergent barriers fail. max_seconds: for each shape,
    after which the emulator reports an endless loop.
    """
    if not isinstance(source, str):
        return (Check(False, "the answer is CUDA source text", got=type(source).__name__),)
    code = without_comments(source)
    checks = [Check(False, f"{word} is used") for word in require if not _mentions(code, word)]
    checks += [Check(False, f"{word} is not used") for word in forbid if _mentions(code, word)]

    from helpers import emulator

    def run(shape: Shape) -> tuple[Problem, Any]:
        M, N, K = shape
        made = problem(np.random.default_rng(20240607 + M + 7 * N + 49 * K), M, N, K, dtype)
        whole = {k: int(v) for k, v in (defines or {}).items() if re.fullmatch(r"\d+", str(v))}
        names = {**whole, "M": M, "N": N, "K": K}
        report = emulator.launch(
            source,
            entry,
            _launch_numbers(grid, names),
            _launch_numbers(block, names),
            list(made.args),
            shared_bytes=shared_bytes,
            defines=dict(defines or {}),
            arch=arch,
            name=f"{entry}.cu",
            max_seconds=max_seconds,
        )
        return made, report

    wrong: list[Check] = []
    findings: dict[tuple[str, int], str] = {}
    for shape in shapes:
        where = "M={} N={} K={}".format(*shape)
        try:
            made, report = run(shape)
        except TileError as error:
            return (*checks, _raised(f"the kernel runs at {where}", error))
        for finding in report.findings:
            findings.setdefault((finding.kind, finding.line), f"at {where}, {_finding(finding)}")
        for index, expected in made.outputs.items():
            result = same_array(made.args[index], expected, what=f"result at {where}")
            if not result.ok:
                wrong.append(result)
    shown = ", ".join("x".join(map(str, shape)) for shape in shapes)
    checks += wrong[:2] or [Check(True, f"right at {shown} (MxNxK)")]
    if len(wrong) > 2:
        checks.append(Check(False, f"{len(wrong) - 2} more of {len(shapes)} shapes are wrong"))
    if must_be_clean:
        told = "no race, no access out of bounds, every barrier met by all threads"
        checks += [Check(False, text) for text in _one_cure(list(findings.values()))] or [
            Check(True, told)
        ]
    if max_sectors is not None or max_wavefronts is not None:
        try:
            _, report = run(count_shape)
        except TileError as error:
            return (*checks, _raised("the kernel runs at {}x{}x{}".format(*count_shape), error))
        checks += _counted(report, max_sectors, max_wavefronts)
    return tuple(checks)


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
    return [f"{_ended(block[0])} {cured}", *block[1:], *rest]


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


__all__ = [
    "AWKWARD",
    "Check",
    "Exercise",
    "Problem",
    "Result",
    "chapters",
    "check",
    "check_kernel_source",
    "close_to",
    "exercise",
    "find",
    "from_tiles",
    "load",
    "matmul_problem",
    "one_of",
    "same_array",
    "without_comments",
]
