"""Facts of a source as the one who asks has them: what a process says is told, cut and counted."""

from __future__ import annotations

import math
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import helpers
import nogpu
import tilelabs
from helpers.record.protocol import Effort, Spread
from nogpu import device, project, toolchain
from nogpu.errors import CompileError, ConfigError, DataError, SourceError, ToolchainError
from nogpu.toolchain import KernelResources
from tilelabs import apart, labs
from tilelabs.apart import Done
from tilelabs.judging import compiling, marking, notebooks, timing
from tilelabs.judging.marking import Argument, Case, Marked, Run, Specification, cases, mark, tidy
from tilelabs.judging.timing import Timed, time_on_gpu, timed_from

SECRET = b"16 bytes of them"
CASE, OTHER = Case((("n", 3),), 1, counted=True, work=64.0), Case((("n", 4),), 2, work=32.0)
SOURCE = 'extern "C" __global__ void k(float* y, int n) { }\n'
SPEC = Specification(
    "k", (Argument("y", shape=("n",), out=True), Argument("n")), tile={"n": 16},
    shapes=({"sizes": {"n": "tiles(1)"}},), reference="", work="n",
)  # fmt: skip

# -- runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [Marked("no"), Run(CASE, "ascending"), Timed("no")])
def test_what_did_not_run_counts_nothing(empty):
    numbers = {name: x for name, x in vars(empty).items() if isinstance(x, int | float) and x}
    assert numbers == ({"leans": -1.0} if isinstance(empty, Marked) else {})
    assert not any(vars(empty).get("size", ()))


def test_work_is_for_each_32_of_what_is_asked_for():
    run = Run(CASE, "ascending", of=1, sectors=10, tensor=32, leaked=2, streams=3)
    assert [run.a_step(n) for n in ("sectors", "tensor", "leaked", "streams")] == [5, 0.5, 2, 3]
    other = replace(run, sectors=30, tensor=8, streams=1, heaviest={"sectors": {"line": 4}})
    found = Marked(runs=(run, other, replace(other, case=OTHER, sectors=99, tensor=1)))
    assert [found.worst(n) for n in ("sectors", "tensor", "streams")] == [15, 0.125, 1]
    assert Marked().worst("sectors") == Marked(runs=found.runs[2:]).worst("tensor") == 0
    assert Marked(runs=found.runs[1:]).heaviest("sectors") == {"line": 4}


def test_a_case_is_right_where_every_run_of_it_is():
    good = Run(CASE, "ascending", of=1)
    for off in ({"of": 0}, {"wrong": 1}, {"changed": ("x",)}, {"ended": "trap"}):
        assert good.right is True and not replace(good, **off).right
        runs = (good, replace(good, case=OTHER), replace(good, case=OTHER, **off))
        found = Marked(runs=runs)
        assert (found.tried, found.right, found.all) == ((CASE, OTHER), (CASE,), 2)
    assert replace(found, drawn=7).all == 7 and found.clean and not found.races
    kinds = tuple((kind, 1, "x") for kind in ("race", "uninitialised", "wrong-result"))
    lucky = Marked(runs=(replace(good, findings=kinds), replace(good, wrong=1)))
    assert lucky.right == lucky.right_in_an_order(2) == () and lucky.right_in_an_order(1) == (CASE,)
    more = replace(lucky, runs=(replace(lucky.runs[0], barriers=1), lucky.runs[1]))
    assert more.right_in_an_order(2) == (CASE,)
    for kind, clean in (("race", False), ("wrong-result", True), ("out-of-bounds", False)):
        one = Marked(runs=(good, replace(good, findings=((kind, 1, "x"),))))
        assert (one.clean, one.races) == (clean, kind == "race")


def test_words_are_cut_at_their_length():
    assert tidy("a\x1b[2Jb\nc\u2028d\u202ee") == "a [2Jb c d e"
    assert marking.tidy_log("y" * 1000 + "\nz") == tidy("y" * 1000) + "\nz"
    assert tidy("x" * 300) == "x" * 300 and tidy("x" * 301) == "x" * 296 + " ..."
    lines = ["x" * 79] * 100
    assert marking.tidy_log("\n\n".join(lines) + "y") == "\n".join(lines) + "y"
    assert marking.tidy_log("\n".join(lines) + "yz") == "\n".join(lines)[:7996] + " ..."


# -- cases -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "tile", "sizes"),
    [
        ("tiles(2)", 16, {48, 64, 80, 96}), ("tiles(2, 3)", 16, {45, 61, 77, 93}),
        ("tiles(1)", 64, {64, 128}), ("tiles(3)", 64, {192}), ("tiles(2)", 49, {98}), ("tiles(1)", 47, {94}),
        ("tiles(1)", 48, {48, 96}), ("tiles(1)", 32, {64, 96}), ("beyond(100, 200)", 16, set(range(112, 193, 16))),
        ("beyond(96, 100)", 16, {112}), ("tiles(90)", 1, set(range(90, 97))), ("aligned", 16, {1}), ("each(3, 5)", 1, {3, 4, 5}),
        ("near(32, 2, 4)", 8, {32 * n + d for n in (2, 3, 4) for d in (-3, -1, 1, 5)}),
    ],
)  # fmt: skip
def test_a_rule_draws_from_these_sizes(rule, tile, sizes):
    spec = replace(SPEC, tile={"n": tile}, shapes=({"sizes": {"n": rule}},))
    drawn = [cases(spec, SECRET[1:] + bytes([n]), n) for n in range(200)]
    assert {one["n"] for [one] in drawn} == sizes
    assert {(one.kind, one.counted) for [one] in drawn} == {("integers", False)}
    assert len({one.seed for [one] in drawn}) == 200
    assert all(one.work == math.ceil(one["n"] / tile) * tile for [one] in drawn)


def test_what_is_updated_has_other_cases():
    y, n = SPEC.arguments
    specs = [SPEC, replace(SPEC, arguments=(replace(y, given=True), n))]
    specs.append(replace(SPEC, arguments=(replace(y, dtype="float16"), n)))
    assert len({cases(one, SECRET)[0].seed for one in specs}) == 3 and str(CASE) == "n=3"
    more = replace(SPEC, arguments=(y, replace(n, given=True)))  # that is no output
    assert cases(more, SECRET) == cases(SPEC, SECRET)
    with pytest.raises(ConfigError, match="15 bytes"):
        cases(SPEC, SECRET[1:])


TWO = labs.lab("2")
ASKED, SCALED = (TWO.specification(TWO.variants[n]) for n in (0, 3))
DRAWN = cases(ASKED, SECRET, "lab 2", "student 7", 1)


def test_cases_are_derived_and_differ_by_whose_they_are():
    assert cases(ASKED, SECRET, "lab 2", "student 7", 1) == DRAWN
    others = [
        cases(ASKED, SECRET, "lab 2", "student 8", 1),
        cases(ASKED, SECRET, "lab 2", "student 7", 2),
        cases(ASKED, b"the secret of another course", "lab 2", "student 7", 1),
        cases(SCALED, SECRET, "lab 2", "student 7", 1),
    ]
    for other in others:
        assert not {c.seed for c in other} & {c.seed for c in DRAWN}
        assert {c.sizes for c in other} != {c.sizes for c in DRAWN}
    assert {c.kind for c in DRAWN} == {"integers", "reals"} and DRAWN[-1]["M"] == 1
    assert any(c["M"] * c["N"] > 1 << 16 for c in DRAWN)
    assert [c.counted for c in DRAWN].count(True) == 2


@pytest.mark.parametrize(
    ("edge", "aligned"),
    [((16, 16, 16), 1), ((64, 64, 32), 1), ((128, 128, 32), 8), ((128, 128, 96), 1)],
)
def test_cases_can_be_neither_known_nor_dodged(edge, aligned):
    """In every set: whole tiles, two or more along each size, with work counted; M beyond 256, and
    N; and no two students are counted at the same shapes.
    """
    spec = replace(ASKED, tile=dict(zip("MNK", edge, strict=True)), aligned=aligned)
    counted = set[tuple[int, ...]]()
    for student in range(40):
        drawn = cases(spec, SECRET, student)
        whole, ragged = (c for c in drawn if c.counted)
        sizes = [tuple(c[n] for n in "MNK") for c in (whole, ragged)]
        assert all(n % e == 0 and n >= 2 * e for n, e in zip(sizes[0], edge, strict=True))
        assert max(sizes[0][:2]) > 256 and any(c["M"] > 256 and c["N"] > 256 for c in drawn)
        assert sum(c["K"] > 256 for c in drawn) >= 3
        assert any(c["M"] > 256 > c["N"] for c in drawn)
        for n, e in zip(sizes[1], edge, strict=True):
            assert n % aligned == 0 and aligned <= -n % e <= 3 * aligned
        counted |= set(sizes)
    assert len(counted) >= 24, counted


def test_a_fault_at_an_edge_costs_every_student_the_same():
    """What is left over beside tiles of eight differs by course alone, where nothing is counted."""

    def left(secret, *of):
        drawn = cases(ASKED, secret, "lab 2", *of)
        return [tuple(c[n] % 8 for n in "MNK") for c in drawn if not c.counted]

    first = left(SECRET, "student 0", 1)
    assert all(left(SECRET, f"student {n}", 1 + n % 2) == first for n in range(20))
    assert any(left(f"another secret {n}".encode() * 2, "student 0", 1) != first for n in range(4))


# -- what processes say ----------------------------------------------------------------------------

MADE: dict[str, Any] = {"device": SOURCE, "ptx": "p", "compiler": "c", "kernels": {}}
TOLD = {"case": asdict(CASE), "schedule": "ascending", "ended": ""}
RAN: dict[str, Any] = {"runs": [TOLD], "asks": ["smid\n"], "leans": 0.25}


@pytest.fixture
def say(monkeypatch):
    """Makes the processes say these in turn; what each was told."""

    def prepare(*replies):
        left, calls = list(replies), list[SimpleNamespace]()

        def run(call, job, limits=None, **more):
            calls.append(SimpleNamespace(call=call, job=job, limits=limits, **more))
            return left.pop(0)

        monkeypatch.setattr(marking.apart, "run", run)
        return calls

    monkeypatch.setattr(toolchain, "uses_clang", lambda: False)
    monkeypatch.setattr(marking.compiling, "readable", lambda: [Path("/headers")])
    return prepare


def test_both_processes_are_told_what_they_need(say, monkeypatch):
    monkeypatch.setattr(sys, "path", ["/opt/x/lib/python3.99/site-packages", "/opt/x/secrets"])
    text = SOURCE + "const int BM = 8;\n/* table\n1 | 2\n*/"
    spec = replace(SPEC, constants=(("BM", 8, 8),), block=("BM", "2"), arch="sm_80")
    for lock in (True, False):
        calls = say(Done(MADE), Done(RAN))
        found = mark(text, spec, (CASE, OTHER), lock=lock, stop=lock)
        first, second = calls
        assert first.call.endswith("compiling:compiled") and second.call.endswith(":run_cases")
        assert first.job | {"source": text, "arch": "sm_80", "cubin": False} == first.job
        assert second.job["cases"] == [asdict(CASE), asdict(OTHER)] and second.job["stop"] is lock
        assert second.job["constants"] == {"BM": 8} and second.job["types"] == ["float* y", "int n"]
        assert second.job["ptx"] == "p" and second.job["block"] == ("BM", "2")
        assert found.locked is lock and found.drawn == 2 and 0 <= found.seconds < 60
        assert (found.table, found.sizes, found.compiler) == ("\n1 | 2", {"BM": 8}, "c")
        assert (found.asks, found.leans) == (("smid",), 0.25) and found.tried == (CASE,)
        assert first.readable == ([Path("/headers")] if lock else None)
        if lock:
            own = [Path(home.__path__[0]) for home in (nogpu, tilelabs, helpers)]
            python = [Path("/opt/x/lib/python3.99/site-packages"), Path(sys.prefix)]
            assert {*python, *own} <= {*second.readable} - {Path("/opt/x/secrets")}
            assert Path("/opt/x/secrets") not in second.readable
        else:
            assert second.readable is None


@pytest.mark.parametrize(
    ("kernels", "found"),
    [
        ({"k": [9, 1, 2, 3, 4], "other": [99, 0, 0, 0, 0]}, (9, 3, 3)),
        ({"a": [9, 1, 2, 3, 4], "b": [10, 5, 5, 5, 0]}, (10, 10, 5)), ({}, (0, 0, 0)),
    ],
)  # fmt: skip
def test_a_kernel_takes_these_registers(kernels, found, say):
    calls = say(Done(MADE | {"kernels": kernels}), Done(RAN))
    m = mark(SOURCE, SPEC, (CASE,), lock=False)
    assert calls[1].job["stop"] is False and (m.registers, m.spills, m.stack) == found


LOG = "lab.cu(3): warning #1: w\nlab.cu(10): error: q is undefined\nlab.cu(11): error: r"


@pytest.mark.parametrize(
    ("replies", "stage", "refusal"),
    [
        ([Done(None, "it took\nlong", "time")], "compile", "the compiler did not come to an end: it took long"),
        ([Done({"refused": LOG})], "compile", "it does not compile: line 10: q is undefined"),
        ([Done({"refused": "ptxas error   : uses 0x1f400 bytes of 0xc000\nmore"})], "compile", "it does not compile: uses 128,000 bytes of 49,152"),
        ([Done({"refused": "one line\nmore"})], "compile", "it does not compile: one line"),
        ([Done({"refused": ""})], "compile", "it does not compile: no reason is given"),
        ([Done(MADE), Done(None, "more than\n1 s", "time")], "run", "it did not come to an end: more than 1 s"),
        ([Done(MADE), Done({"refused": "write\nit"})], "head", "write it"),
    ],
)  # fmt: skip
def test_an_end_is_one_line(replies, stage, refusal, say):
    say(*replies)
    found = mark(SOURCE, SPEC, (CASE,), lock=False)
    assert (found.stage, found.refused) == (stage, refusal) and not found.runs
    assert (found.log != "") == ("refused" in (replies[0].value or {}) and refusal[-5:] != "given")


def test_faults_of_the_machine_and_of_a_lab_are_nobodys_source(say):
    say(Done(None, "no compiler", kind="ToolchainError"))
    with pytest.raises(ToolchainError, match="no compiler"):
        mark(SOURCE, SPEC, (CASE,), lock=False)
    say(Done(MADE), Done(None, "its reference", kind="DataError"))
    with pytest.raises(DataError, match="its reference"):
        mark(SOURCE, SPEC, (CASE,), lock=False)


def test_clang_is_not_locked_and_has_room_for_itself(say, monkeypatch):
    assert say() == []
    monkeypatch.setattr(toolchain, "uses_clang", lambda: True)
    calls = say(Done(MADE), Done(RAN))
    assert not mark(SOURCE, SPEC, (CASE,)).locked
    assert calls[0].limits.memory > 8 << 30 and 1 << 20 < calls[0].limits.files < 1 << 30
    with pytest.raises(ConfigError, match="clang compiles here"):
        mark(SOURCE, SPEC, (CASE,), lock=True)
    for there in (0, 5):
        monkeypatch.setattr(toolchain, "uses_clang", lambda: False)
        monkeypatch.setattr(marking.apart, "landlock", lambda there=there: there)
        calls = say(Done(MADE), Done(RAN))
        assert mark(SOURCE, SPEC, (CASE,)).locked is bool(there)
        assert calls[0].limits.files == 0


@pytest.mark.parametrize(
    ("text", "constants", "stage", "refusal"),
    [
        (SOURCE, (("BM", 4, 64),), "head", "no plain number for BM is found: write it out, as const int BM = 4;"),
        ("const int BM = 3;\n" + SOURCE, (("BM", 4, 64),), "head", "BM is 3, and may be 4 to 64"),
        ("const int BM = 65;\n" + SOURCE, (("BM", 4, 64),), "head", "BM is 65, and may be 4 to 64"),
        ("const int BM = 0;\n" + SOURCE, (("BM", 0, 64),), "head", "a block has 0 threads with BM = 0, and may have 1 to 1024"),
        ("const int BM = 1;\n" + SOURCE, (("BM", 0, 64),), "", ""),
        ("const int BM = 1024;\n" + SOURCE, (("BM", 16, 2048),), "", ""),
        ("const int BM = 1025;\n" + SOURCE, (("BM", 16, 2048),), "head", "a block has 1025 threads"),
        (SOURCE + "// \ud800", (), "bytes", "lone surrogates"),
        (SOURCE.encode("utf-16"), (), "bytes", "UTF-16"),
        ('#include "/etc/passwd"\n' + SOURCE, (), "includes", "/etc/passwd"),
        (SOURCE.replace("int n", "int \u0435"), (), "", ""),
    ],
)  # fmt: skip
def test_what_a_launch_needs_is_asked_for(text, constants, stage, refusal, say):  # fmt: skip
    say(Done(MADE), Done(RAN))
    spec = replace(SPEC, constants=constants, block=("BM" if constants else "1",))
    found = mark(text, spec, (CASE,), lock=False)
    assert found.stage == stage and refusal in found.refused and len(found.runs) == (not stage)


def test_a_letter_that_only_looks_right_is_named_where_a_source_is_refused(say):
    odd = "ab\u0435c"
    text = f"// \u0435\n// {odd}\n{SOURCE}int {odd}{'x' * 600};"
    say(Done({"refused": "y" * 400}))
    refused = mark(text, SPEC, (CASE,), lock=False).refused
    assert f"Line 4 has CYRILLIC SMALL LETTER IE in '{odd}" in refused and len(refused) == 450
    say(Done(MADE), Done({"refused": "its head"}))
    assert mark(SOURCE + "int \u0434\u0430;", SPEC, (CASE,), lock=False).refused == "its head"


def test_a_table_is_kept_to_4000_characters(say):
    for length in (3998, 5000):
        say(Done(MADE), Done(RAN))
        found = mark(f"{SOURCE}/* table\n{'9 ' * length}*/", SPEC, (CASE,), lock=False)
        assert found.table == "\n" + tidy("9 " * length)
    rows = "\n".join(f"{n}" for n in range(1000, 2000))  # of five characters with their ends
    say(Done(MADE), Done(RAN))
    found = mark(f"/*table\n{rows}*/{SOURCE}", SPEC, (CASE,), lock=False)
    assert found.table == ("\n" + rows)[:4000].rstrip("\n")


def test_a_notebook_of_20_mb_is_read_and_a_larger_one_is_not(say):
    cells = [["code", "a", "x = 1"], ["markdown", "", "# Lab"]]
    calls = say(Done({"cells": cells, "said": {"lab": "2"}}))
    assert notebooks.read(b" " * 20_000_000, "tile") == (list(map(tuple, cells)), {"lab": "2"})
    assert calls[0].job == {"text": " " * 20_000_000, "key": "tile"}
    with pytest.raises(SourceError, match="larger than 20 MB"):
        notebooks.read(b" " * 20_000_001, "tile")
    text = '{"cells": [{"cell_type": "code", "id": 3, "source": ["a\\n", "b"]}, {"cell_type": "raw", "source": "c"}], "metadata": {"tile": {"lab": 2, "who": "s", "odd": [1]}}}'
    parsed = notebooks.parsed({"text": text, "key": "tile"})
    assert parsed["cells"] == [["code", "3", "a\nb"], ["raw", "", "c"]]
    assert parsed["said"] == {"lab": "2", "who": "s"}
    for odd in ("[]", '"x"', "null", '{"tile": 3}'):
        text = f'{{"cells": [{{"cell_type": "code", "source": "a"}}], "metadata": {odd}}}'
        found = notebooks.parsed({"text": text, "key": "tile"})
        assert found == {"cells": [["code", "", "a"]], "said": {}}


# -- the compiler's process ------------------------------------------------------------------------


@pytest.mark.nvrtc
def test_what_a_cells_compiler_says_comes_back_whole(monkeypatch):
    """From a process that knows the same headers, or refuses to answer."""
    calls: list[SimpleNamespace] = []
    events: list[Any] = []
    made = ("ptx", b"\0cubin", "log", {"k": KernelResources("k", 1, 2, 3, 4, 5)}, {"k<1>": "_k1"})
    answers: list[Any] = [made, CompileError("told", log="log", source_name="s", hint="hint")]

    def kept(call, job, limits, *, readable):
        calls.append(SimpleNamespace(call=call, readable=readable))
        before = list(project.include_folders)
        project.include_folders.clear()
        try:
            return apart.here(call, job)
        finally:
            events.append(list(project.include_folders))
            project.include_folders[:] = before

    def run_nvrtc(*request):
        events.append(request)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(compiling.apart, "kept", kept)
    monkeypatch.setattr(toolchain, "run_nvrtc", run_nvrtc)
    monkeypatch.setattr(compiling.apart, "landlock", lambda: 0)
    monkeypatch.setattr(project, "include_folders", [Path("/mine")])
    request = ("text", "cell.cu", "sm_80", (("BM", "8"),), ("-G",), ("k<1>",))
    assert compiling._behind_the_door(*request) == made
    assert events == [request, [Path("/mine")]] and calls[0].readable is None
    with pytest.raises(CompileError, match=r"^told$") as caught:
        compiling._behind_the_door(*request)
    error = caught.value
    assert (error.log, error.source_name, error.hint) == ("log", "s", "hint")
    monkeypatch.setattr(compiling.apart, "landlock", lambda: 5)
    for done, kind, words in (
        (Done(None, "none here", kind="ToolchainError"), ToolchainError, r"^none here$"),
        (Done(None, "2 s", "time"), CompileError, "did not come to an end: 2 s"),
    ):
        end: Any = lambda *_, readable, done=done: calls.append(readable) or done  # noqa: E731
        monkeypatch.setattr(compiling.apart, "kept", end)
        with pytest.raises(kind, match=words):
            compiling._behind_the_door(*request)
        assert {str(path) for path in calls[-1]} >= {"/mine"}
    job = {"request": request, "folders": [], "release": "another"}
    with pytest.raises(ToolchainError, match="another NVRTC is found"):
        compiling.answered(job)


@pytest.mark.parametrize(
    ("text", "lock", "clang", "refusal"),
    [
        ("int x;", 0, False, ""), ("int\0x;", 5, False, "NUL byte"),
        ("int \ud800;", 5, False, "lone surrogates"), ("int \ud800;", 0, True, "lone surrogates"),
        ('#include "/etc/x.h"', 5, False, ""), ('#include "/etc/x.h"', 0, False, "/etc/x.h"),
        ('#include "/etc/x.h"', 5, True, "/etc/x.h"),
    ],
)  # fmt: skip
def test_a_cells_text_is_looked_at_where_no_lock_holds(text, lock, clang, refusal, monkeypatch):
    monkeypatch.setattr(compiling.apart, "landlock", lambda: lock)
    monkeypatch.setattr(toolchain, "uses_clang", lambda: clang)
    if not refusal:
        compiling.check_text(text)
        return
    with pytest.raises(CompileError, match=refusal) as caught:
        compiling.check_text(text)
    assert caught.value.log == str(caught.value) and caught.value.source_name == "the source"


@pytest.mark.nvrtc
def test_a_compiler_says_what_it_made_or_why_not(monkeypatch):
    calls: list[Any] = []
    kernels = {"k": KernelResources("k", 1, 2, 3, 4, 5)}
    made = SimpleNamespace(ptx="p", compiler="c", cubin=b"A", kernels=kernels)
    monkeypatch.setattr(toolchain, "compile", lambda *_, **more: calls.append(more) or made)
    job = {"source": "s", "arch": "sm_80", "cubin": True}
    answer = {"device": "s", "ptx": "p", "compiler": "c", "kernels": {"k": [1, 2, 3, 4, 5]}}
    assert compiling.compiled(job) == answer | {"cubin": "QQ=="}
    assert compiling.compiled(job | {"cubin": False}) == answer
    folders = toolchain.nvrtc().includes
    inner = [f"-I{folder}/crt" for folder in folders if (Path(folder) / "crt").is_dir()]
    assert calls[0] == {"name": "lab.cu", "arch": "sm_80", "options": (toolchain.ALONE, *inner)}
    assert compiling.readable() == [Path(folder) for folder in folders] and inner
    monkeypatch.setattr(toolchain, "uses_clang", lambda: True)
    compiling.ready()
    assert calls[-1] == {"options": ()} and compiling.readable() == []
    for log, refused in (("its log", "its log"), ("", "in words")):

        def refuse(*_, log=log, **__):
            raise CompileError("in words", log=log)

        monkeypatch.setattr(toolchain, "compile", refuse)
        assert compiling.compiled(job) == {"refused": refused}


# -- times -----------------------------------------------------------------------------------------

SPREAD = asdict(Spread(2.0, 1.0, 3.0, 5))
TIMES = {
    "gpu": "G", "size": [3, 4, 5], "rung": "naive", "wrong": 0, "launches": 9, "ms": {"yours": SPREAD},
    "over_rung": SPREAD, "over_library": SPREAD, "versions": {"driver": "1"},
}  # fmt: skip


def test_a_time_is_asked_of_a_process_that_finds_the_gpu(say, monkeypatch):
    monkeypatch.setattr(device, "current", lambda: SimpleNamespace(arch="sm_90"))
    monkeypatch.setattr(marking.apart, "landlock", lambda: 0)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.delenv("CUPY_CACHE_DIR", raising=False)
    calls = say(Done(MADE | {"cubin": "AA=="}), Done(TIMES))
    found = time_on_gpu(SOURCE, SPEC, "naive", (3, 4, 5), effort=Effort(pairs=7))
    assert found == timed_from(TIMES) and found.over_rung == Spread(**SPREAD)
    assert found.over_library == found.over_rung and found.size == (3, 4, 5)
    first, second = calls
    assert (first.job["arch"], first.job["cubin"], first.readable) == ("sm_90", True, None)
    assert second.call == "tilelabs.judging.timing:timed" and second.job["cubin"] == "AA=="
    assert (second.job["rung"], second.job["size"]) == ("naive", [3, 4, 5])
    assert second.job["effort"]["pairs"] == 7 and second.job["seed"]
    home = str(Path.home() / ".cupy" / "kernel_cache")
    assert second.environment == {"CUPY_CACHE_DIR": home, "CUDA_VISIBLE_DEVICES": "1"}
    assert second.limits.memory >= 1 << 45 and second.limits.files > 1 << 20
    for lock, readable in ((True, [Path("/headers")]), (False, None)):
        calls = say(Done(MADE), Done(None, "it hangs", "time"))
        assert time_on_gpu(SOURCE, SPEC, "naive", (3, 4, 5), lock=lock) == Timed("it hangs")
        assert calls[0].readable == readable
    say(Done({"refused": "one line"}))
    assert time_on_gpu(SOURCE, SPEC, "naive", (3, 4, 5)).refused == "it does not compile: one line"
    assert timing.words(Timed("it hangs")) == "not timed: it hangs"
