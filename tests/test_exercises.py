"""Exercises: the checkers, and that every chapter's starters fail and solutions pass.

The convention that chapters keep: exercise "NN.i" is a section of book/NN_*.md with one code cell
that calls check("NN.i", ...) (the starter), a dropdown "Hint" and one "Solution" whose Python block
ends with the same call. Starter and solution are run after the chapter's first code cell.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.page import exercises
from helpers.page.exercises import (
    Check,
    KernelTask,
    Result,
    check,
    check_kernel_source,
    close_to,
    exercise,
    kernels,
    one_of,
    registry,
    same_array,
)
from helpers.record.protocol import Spread
from nogpu import device, emulator
from nogpu.errors import UnknownNameError
from tests.common import ROOT, page, texts_of

NUMBERS = sorted(path.name[:2] for path in (ROOT / "book").glob("[0-9][0-9]_*.md"))
CHAPTERS = {number: texts_of(number) for number in NUMBERS}
"""Texts of a chapter and of its Deeper page: an exercise stands on either."""

# -- reading a chapter ---------------------------------------------------------------------------

TOKEN = re.compile(
    r"(?ms)^(?P<fence>`{3,})(?P<kind>[^\n]*)\n(?P<body>.*?)^(?P=fence)$"
    r"|^:{3,}\{dropdown\} *(?P<dropdown>[^\n]*)$|^(?P<end>:{3,})$|^#+ +(?P<title>[^\n]*)$"
)
"""A block of code, the two ends of a dropdown, or a heading."""
CALL = re.compile(r"""\bcheck\(\s*["']([^"']+)["']""")


@dataclass
class Section:
    """What stands between one heading and the next."""

    title: str
    line: int
    cells: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    solutions: list[str] = field(default_factory=list)
    """Python blocks of dropdowns called Solution."""


def sections(text):
    """The sections of a chapter, with their code cells, hints and solutions, in order."""
    found, dropdown = [Section("", 1)], ""
    for token in TOKEN.finditer(text):
        body = (token["body"] or "").removesuffix("\n")
        if token["title"] is not None:
            found.append(Section(token["title"], text.count("\n", 0, token.start()) + 1))
        elif token["dropdown"] is not None:
            dropdown = token["dropdown"].strip().lower()
            found[-1].hints += [token["dropdown"]] * dropdown.startswith("hint")
        elif token["end"]:
            dropdown = ""
        elif token["kind"].startswith("{code-cell}"):  # its options stand first
            found[-1].cells.append(re.sub(r"\A(:[^\n]*(\n|\Z))+", "", body))
        elif token["kind"].strip() == "python" and dropdown.startswith("solution"):
            found[-1].solutions.append(body)
    return found


def preamble(text):
    """A chapter's first code cell."""
    return next((cell for section in sections(text) for cell in section.cells), "")


def value_of(source, names):
    """Run code and return the value of its last expression, as a notebook cell shows it."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<chapter>", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "<chapter>", "eval"), names)


def faults(texts, chapter, ids, run=True):
    """All in which a chapter's pages break the convention. ids: those that have a checker."""
    findings = []
    seen: list[str] = []
    for text, section in ((whole, part) for whole in texts for part in sections(whole)):
        starters = [(i, cell) for cell in section.cells for i in CALL.findall(cell)]
        for i, starter in starters:
            where = f"line {section.line}, {section.title!r}, exercise {i}"
            seen.append(i)
            if i not in ids:
                findings.append(f"{where}: no checker in helpers/chapters/ch{chapter}/checks.py")
                continue
            if len(starters) > 1:
                findings.append(f"{where}: {len(starters)} starters in one section")
            if not section.hints:
                findings.append(f"{where}: no hint")
            if len(section.solutions) != 1:
                findings.append(f"{where}: {len(section.solutions)} Python blocks in a Solution")
                continue
            if CALL.findall(section.solutions[0].strip().splitlines()[-1]) != [i]:
                findings.append(f"{where}: the solution does not end with check({i!r}, ...)")
            elif run:
                findings += [f"{where}: {fault}" for fault in run_both(text, starter, section)]
    findings += [f"exercise {i} has a checker and no section" for i in ids if i not in seen]
    findings += [f"exercise {i} stands in several sections" for i in set(seen) if seen.count(i) > 1]
    if len(ids) < 2:
        findings.append(f"{len(ids)} exercises; a chapter has at least two")
    return findings


def run_both(text, starter, section):
    """Faults of one exercise when its starter and its solution are run."""
    findings = []
    for kind, source, wanted in (
        ("starter", starter, False),
        ("solution", section.solutions[0], True),
    ):
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(compile(preamble(text), "<preamble>", "exec"), names)
        try:
            result = value_of(source, names)
        except Exception as error:
            findings.append(f"the {kind} raises {type(error).__name__}: {error}")
            continue
        if not isinstance(result, Result):
            findings.append(f"the {kind} does not end with what check returns")
        elif result.passed is not wanted:
            findings.append(f"the {kind} {'passes' if result.passed else 'fails'}:\n{result}")
    return findings


# -- the chapters of the book --------------------------------------------------------------------


def test_every_chapters_exercises_keep_the_convention():
    for chapter in sorted({*CHAPTERS, *exercises.chapters()}):
        assert chapter in CHAPTERS, f"helpers/chapters/ch{chapter}/checks.py has no page"
        ids = [task.id for task in exercises.load(chapter)]
        assert faults(CHAPTERS[chapter], chapter, ids, run=False) == []


@pytest.mark.parametrize("chapter", exercises.chapters())
def test_starters_fail_and_solutions_pass(chapter):
    ids = [task.id for task in exercises.load(chapter)]
    assert faults(CHAPTERS[chapter], chapter, ids) == []


CHAPTER = page("exercises")


@pytest.fixture()
def ninety_nine(monkeypatch):
    """Two exercises that no chapter has."""
    for chapter in exercises.chapters():  # once loaded they do not register a second time
        exercises.load(chapter)
    monkeypatch.setattr(registry, "_known", dict(registry._known))

    @exercise("99.1", kind="number")
    def double(answer):
        """Twice 21."""
        return close_to(answer, 42, mistakes={21: "that is once"}, hint="Think of Deep Thought.")

    @exercise("99.2", kind="choice")
    def choose(answer):
        """Left or right."""
        return [
            one_of(answer, "right", options=["left", "right"], mistakes={"left": "the other left"})
        ]

    return ["99.1", "99.2"]


def test_a_good_chapter_has_no_fault(ninety_nine):
    assert faults([CHAPTER], "99", ninety_nine) == []


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (":::{dropdown} Hint\nTwice.\n:::", "Twice.", "no hint"),
        ("answer = 42\n", "answer = 41\n", "the solution fails"),
        ("answer = ...", "answer = 42", "the starter passes"),
        ("answer = ...", "answer = undefined", "the starter raises NameError"),
        ('check("99.2", "left")', 'check("99.2", "right")', "the starter passes"),
        (':::{dropdown} Solution\n```python\ncheck("99.2"', ':::{dropdown} S\n```python\ncheck("99.2"',
         "0 Python blocks"),
        ('answer = 42\ncheck("99.1", answer)', "answer = 42", "does not end with check"),
        ('### Exercise 99.2: choose\n\n```{code-cell} ipython3\ncheck("99.2", "left")\n```', "",
         "99.2 has a checker and no section"),
        ('check("99.2", "left")', 'check("99.3", "left")', "no checker"),
        ("from helpers.page.exercises import check", "import helpers", "raises NameError"),
        ('check("99.1", answer)\n```\n\n:::{dropdown} Hint',
         'print(check("99.1", answer))\n```\n\n:::{dropdown} Hint', "does not end with what check"),
    ],
)  # fmt: skip
def test_a_chapter_that_breaks_the_convention_is_told(ninety_nine, old, new, fault):
    assert old in CHAPTER
    findings = faults([CHAPTER.replace(old, new, 1)], "99", ninety_nine)
    assert any(fault in line for line in findings), findings


def test_a_chapter_with_one_exercise_is_told(ninety_nine):
    alone = CHAPTER[: CHAPTER.index("### Exercise 99.2")]
    assert any("at least two" in line for line in faults([alone], "99", ["99.1"]))


# -- check ---------------------------------------------------------------------------------------


def test_an_unknown_exercise_is_told_with_near_matches(ninety_nine):
    with pytest.raises(UnknownNameError, match=r"'99\.1'"):
        check("99.11", 1)
    with pytest.raises(UnknownNameError):
        check("nonsense", 1)


def test_no_answer_is_not_a_wrong_answer(ninety_nine):
    for nothing in (..., None):
        result = check("99.1", nothing)
        assert not result.passed
        assert result.verdict == "not answered yet"
        assert "Replace ... by a number" in repr(result)


def test_a_checker_that_raises_is_a_failed_check(ninety_nine, monkeypatch):
    @exercise("99.3", kind="python")
    def call(answer):
        """Call it."""
        return Check(answer(2) == 4, "square of 2")

    assert check("99.3", lambda x: x * x).passed
    assert not check("99.3", lambda x: x).passed
    result = check("99.3", lambda x: 1 / 0)
    assert not result.passed
    assert "ZeroDivisionError: division by zero" in repr(result)
    assert not check("99.3", "not a function").passed


def test_checks_may_be_yielded_and_none_is_not_a_pass(ninety_nine):
    @exercise("99.4", kind="python")
    def several(answer):
        """Several."""
        for i in range(answer):
            yield Check(i < 2, f"check {i}")

    assert check("99.4", 2).passed
    assert check("99.4", 3).verdict == "not yet: 2 of 3 checks pass"
    assert not check("99.4", 0).passed


def test_an_id_is_used_once_and_well_formed(ninety_nine):
    with pytest.raises(ValueError, match="checked by"):

        @exercise("99.1", kind="number")
        def again(answer):
            """Again."""
            return Check(True, "x")

    with pytest.raises(UnknownNameError, match=r"NN\.i"):
        exercise("5.1", kind="number")
    with pytest.raises(ValueError, match="kind"):
        exercise("99.9", kind="essay")


def test_results_say_it_in_words_and_marks(ninety_nine):
    good, bad = check("99.1", 42), check("99.1", 21)
    assert "✓" in good._repr_html_() and "passed" in good._repr_html_()
    assert "✗" in bad._repr_html_() and "not yet" in bad._repr_html_()
    assert "That is once." in bad._repr_html_()
    assert 'role="group"' in bad._repr_html_()
    assert "[x]" in repr(good) and "[ ]" in repr(bad)
    assert "<b>" not in Result("1", (Check(False, "<b>", "a\n<b>"),))._repr_html_()


# -- checkers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "expected", "tolerance", "ok"),
    [
        (42, 42, 0, True), (42.0, 42, 0, True), (np.float32(42), 42, 0, True), (np.int64(42), 42, 0, True),
        (42.3, 42, 0.01, True), (42.5, 42, 0.01, False), (42.0001, 42, 0, False), (0, 0, 0, True),
        (1e-3, 0, 0.01, False), (float("nan"), 42, 0.01, False), (float("inf"), 42, 0.01, False),
        (True, 1, 0, False), ("42", 42, 0, False), ([42], 42, 0, False), (1j, 1, 0, False),
        (10**400, 42, 0, False), (-42, 42, 0.01, False),
    ],
)  # fmt: skip
def test_close_to(answer, expected, tolerance, ok):
    result = close_to(answer, expected, tolerance=tolerance)
    assert result.ok is ok
    if not ok and expected == 42:
        assert "42" not in result.expected + result.hint, "a failed check must not give it away"


def test_one_of():
    assert one_of(" Right ", "right").ok
    assert one_of("b", ("a", "B")).ok
    assert not one_of("left", "right").ok
    assert one_of("left", "right", mistakes={"Left": "the other one"}).hint == "The other one."
    assert "one of a, b" in one_of("c", "a", options=["a", "b"]).expected


def test_same_array():
    a = np.arange(6.0).reshape(2, 3)
    assert same_array(a.tolist(), a).ok
    assert not same_array(a.T, a).ok
    assert same_array(a * 1.001, a, tolerance=0.01).ok
    bad = a.copy()
    bad[1, 2] = np.nan
    check = same_array(bad, a)
    assert not check.ok and "[1, 2]" in check.got and "1 of 6" in check.what
    assert not same_array("words", a).ok
    assert not same_array([["x"] * 3] * 2, a).ok


# -- kernels -------------------------------------------------------------------------------------

KERNEL = """
extern "C" __global__ void f(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}
"""
TILED = """
extern "C" __global__ void f(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a[y][x] = row < M && k0 + x < K ? A[row * K + k0 + x] : 0.0f;
        b[y][x] = col < N && k0 + y < K ? B[(k0 + y) * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""
TILES_16 = KernelTask("f", block=(16, 16), grid=("cdiv(N, 16)", "cdiv(M, 16)"))
"""How both are launched."""


def but(source, *changes):
    """A source with changes of texts that stand in it once."""
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def kernel_faults(source, task=TILES_16, **options):
    """What a check of this source complains about."""
    checks = check_kernel_source(source, replace(task, **options))
    return [str(c) for c in checks if not c.ok]


ONE_BARRIER = but(TILED, ("__syncthreads();\n    }", "}"))
SWAPPED = but(KERNEL, ("threadIdx.y, col", "threadIdx.x, col"), ("threadIdx.x;", "threadIdx.y;"))
ROUNDED = but(KERNEL, ("A[row * K + k]", "__half2float(__float2half(A[row * K + k]))"))
FEW = {"shapes": ((1, 1, 1), (17, 33, 19))}
COUNTED = {"count_shape": (32, 32, 32), "shapes": ((16, 16, 16),)}
GOOD: list[tuple[str, dict[str, Any]]] = [
    (KERNEL, {**FEW, "max_sectors": {"A": 4, "B": 4, "C": 4}, "count_shape": (32, 32, 32)}),
    (TILED, {**FEW, "max_sectors": {"A": 4, "B": 4, "C": 4}, "count_shape": (32, 32, 32)}),
    (SWAPPED, COUNTED),
    (TILED, {**COUNTED, "max_sectors": 4, "max_wavefronts": 2.2}),
    (TILED, {**FEW, "require": ("__shared__",), "forbid": ("atomicAdd", "A_tile")}),
]
BAD: list[tuple[Any, dict[str, Any], str]] = [
    (but(KERNEL, ("sum += ", "sum = ")), FEW, "elements differ"),
    (but(KERNEL, ("if (row >= M || col >= N) return;", "")), FEW, "out-of-bounds"),
    (but(KERNEL, ("sum = 0.0f;", "sum = 0.0f; if (K == 19) return;")), FEW, "elements differ"),
    (f"#include <cuda_fp16.h>\n{ROUNDED}", FEW, "elements differ"),
    (but(KERNEL, ("int k = 0;", "int k = oops;")), FEW, "oops"),
    (but(KERNEL, ("void f", "void yours")), FEW, "has no kernel 'f'"),
    (but(TILED, ("__syncthreads();\n        for", "for")), FEW, "race"),
    (ONE_BARRIER, FEW, "race"),
    (ONE_BARRIER, {**FEW, "must_be_clean": False}, "It is right where warps run one after the other"),
    (SWAPPED, {**COUNTED, "max_sectors": {"A": 4}}, "sectors of A for each 32 multiply-adds"),
    (SWAPPED, {**COUNTED, "max_sectors": {"A": 4}}, "4 or fewer"),
    (KERNEL, {**COUNTED, "max_sectors": {"D": 4}}, "D is read"),
    (but(TILED, ("a[y][k] *", "a[x][k] *")), {**COUNTED, "max_wavefronts": 2.2}, "wavefronts"),
    (KERNEL, {**COUNTED, "max_wavefronts": 2}, "shared memory is used"),
    (but(KERNEL, ("float sum", "// __shared__\n    float sum")),
     {**FEW, "require": ("__shared__",)}, "__shared__ is used"),
    (KERNEL, {**FEW, "forbid": ("sum",)}, "sum is not used"),
    (42, FEW, "source text"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "options"), GOOD)
def test_a_right_kernel_passes(source, options):
    assert kernel_faults(source, **options) == []


@pytest.mark.parametrize(("source", "options", "fault"), BAD)
def test_a_wrong_kernel_is_told(source, options, fault):
    assert fault in "\n".join(kernel_faults(source, **options))


# -- answers that are right in part ----------------------------------------------------------------


def solution(name):
    """The page of an exercise, and its folded solution."""
    [found] = [
        (text, part.solutions[0])
        for text in CHAPTERS[name[:2]]
        for part in sections(text)
        if any(name in CALL.findall(cell) for cell in part.cells)
    ]
    return found


def printed(name):
    """The answer that an exercise's solution gives to check."""
    return value_of(solution(name)[1], {"np": np, "check": lambda _, answer: answer})


def solved(name, *swaps):
    """What check says to the solution with texts replaced."""
    text, source = solution(name)
    for old, new in swaps:
        assert old in source, old
        source = source.replace(old, new)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(preamble(text), "<preamble>", "exec"), names)
    result = value_of(source, names)
    assert isinstance(result, Result)
    return result


@pytest.mark.parametrize(
    ("name", "swaps", "words"),
    [
        # every sum walks through K by itself: right, and B is read for each use
        ("08.2", [("    for (int k0 = 0; k0 < K; k0 += T) {\n        for (int i = 0; i < TM; ++i) {",
                   "    for (int s = 0; s < TM; ++s)\n    for (int k0 = 0; k0 < K; k0 += T) {\n"
                   "        for (int i = 0; i < TM; ++i) {"),
                  ("for (int i = 0; i < TM; ++i) sum[i] +=", "{ int i = s; sum[i] +="),
                  ("[k] * b;", "[k] * b; }")],
         "shared reads for each multiply-add"),
        ("11.3", [("        buffer = 1 - buffer;", "        __syncthreads();\n        buffer = 1 - buffer;")],
         "one barrier"),
        ("23.2", [("column_major_gemm((B.ravel(), N, K), (A.ravel(), K, M))",
                   "column_major_gemm((A.ravel(order='F'), M, K), (B.ravel(order='F'), K, N))"),
                  ("flat.reshape(M, N)", "flat.reshape((M, N), order='F')")],
         "in the order in which they lie"),
        ("23.3", [(" + half", "")], "rounded to the nearest"),
        ("23.3", [("2**32 - 2**drop", "2**32 - 2**(drop - 1)")], "low bits are zero"),
    ],
)  # fmt: skip
def test_answers_that_are_right_in_part(name, swaps, words):
    result = solved(name, *swaps)
    failed = [c.what for c in result.checks if not c.ok]
    assert failed and all(words in what for what in failed), result


@pytest.mark.nvrtc  # clang moves a load that one branch alone uses
def test_the_barrier_that_covers_the_others_is_the_one_advised():
    """Two races, one between warps and one within one: a block's barrier orders both."""
    [found] = kernel_faults(ONE_BARRIER)
    assert "Put __syncthreads()" in found and "`b[y][x] = col < N" in found
    assert "1 more between lanes of one warp, which the same __syncthreads() orders" in found
    assert "put __syncwarp()" not in found


@pytest.mark.nvrtc
def test_a_compiler_error_stands_without_its_warnings():
    broken = ONE_BARRIER.replace("float sum = 0.0f;", "float sum = q; int unused = 3;")
    (found,) = check_kernel_source(broken, TILES_16)
    assert '"q" is undefined' in found.got and "unused" not in found.got.split("^")[1]
    assert "warning #" not in found.got and "Remark" not in found.got
    assert not str(found).endswith("..")


def test_a_sum_that_begins_with_what_was_there_is_told_so():
    adding = ONE_BARRIER.replace("C[row * N + col] = sum", "C[row * N + col] += sum")
    found = [str(c) for c in check_kernel_source(adding, TILES_16)]
    assert "nan" in found[0] and "read, as by +=, before it was written" in found[0]


# --- on a GPU ------------------------------------------------------------------------------------


@pytest.fixture
def gpu(monkeypatch):
    """A machine whose GPU is the emulator, and what was launched on it."""
    launched = []

    def launch(source, entry, grid, block, args, **options):
        launched.append(args[3:])
        emulator.launch(source, entry, grid, block, args, **options)
        return Spread(0.0625, 0.06, 0.07, 20)

    monkeypatch.setattr(device, "current", lambda: SimpleNamespace(name="Test GPU", arch="sm_75"))
    monkeypatch.setattr(kernels, "launch_on_gpu", launch)
    return launched


def test_what_passes_runs_on_the_gpu_at_every_shape(gpu):
    [*_, last] = check_kernel_source(TILED, TILES_16)
    assert last.ok and "Test GPU" in last.what and "0.0625 ms" in last.got
    assert sorted(map(tuple, gpu)) == sorted(TILES_16.shapes)


def test_what_does_not_pass_stays_away_from_it(gpu):
    assert not all(c.ok for c in check_kernel_source(ONE_BARRIER, TILES_16))
    assert gpu == []


def test_a_wrong_result_of_the_gpu_fails(gpu, monkeypatch):
    run = kernels.launch_on_gpu

    def off_by_one(*args, **options):
        done = run(*args, **options)
        args[4][2][0, 0] += 1
        return done

    monkeypatch.setattr(kernels, "launch_on_gpu", off_by_one)
    [*_, last] = check_kernel_source(TILED, TILES_16)
    assert not last.ok and "result on the Test GPU at M=" in last.what
