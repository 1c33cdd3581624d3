"""A source that nobody trusts, judged: right and wrong ones, and what comes back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nogpu.errors import ConfigError
from tilelabs import apart
from tilelabs.judging import marking, running
from tilelabs.judging.marking import Specification, cases, mark
from tools import hostile
from tools.hostile import HONEST

pytestmark = pytest.mark.nvrtc

SECRET = b"a secret of a course"
ASKED = Specification("lab2", transposed="A")
DRAWN = cases(ASKED, SECRET, "lab 2", "student 7", 1)
FEW = (DRAWN[0], DRAWN[1], DRAWN[-1])


def said(found: marking.Marked) -> str:
    return json.dumps([found.refused, found.log, [vars(r) | {"case": 0} for r in found.runs]])


# -- cases -----------------------------------------------------------------------------------------


def test_cases_are_derived_and_differ_by_whose_they_are() -> None:
    assert cases(ASKED, SECRET, "lab 2", "student 7", 1) == DRAWN
    others = [
        cases(ASKED, SECRET, "lab 2", "student 8", 1),
        cases(ASKED, SECRET, "lab 2", "student 7", 2),
        cases(ASKED, b"the secret of another course", "lab 2", "student 7", 1),
        cases(replace(ASKED, scaled=True), SECRET, "lab 2", "student 7", 1),
    ]
    for other in others:
        assert not {c.seed for c in other} & {c.seed for c in DRAWN}
        assert {(c.M, c.N, c.K) for c in other} != {(c.M, c.N, c.K) for c in DRAWN}
    assert any(c.M * c.N > 1 << 15 for c in DRAWN) and {c.kind for c in DRAWN} == {
        "integers",
        "reals",
    }
    assert any(c.K > 48 for c in DRAWN) and DRAWN[-1].M == 1
    assert [c.counted for c in DRAWN].count(True) == 2
    with pytest.raises(ConfigError, match="16 or more"):
        cases(ASKED, b"short", "lab 2")


@pytest.mark.parametrize("aligned", [1, 4, 8])
def test_counted_sizes_are_aligned_and_fill_their_tiles(aligned: int) -> None:
    """What lies beyond the last whole step of 16 along K would be work for some students and not
    for others.
    """
    asked = replace(ASKED, edge=(128, 128, 32), aligned=aligned)
    for student in range(20):
        for case in cases(asked, SECRET, student)[:2]:
            for size, edge in zip((case.M, case.N, case.K), asked.edge, strict=True):
                assert size % aligned == 0 and 1 <= -size % edge <= 8


def test_a_fault_at_an_edge_costs_every_student_the_same() -> None:
    """What is left over beside tiles of eight is the same for all, and differs by course."""

    def left(secret: bytes, *of: object) -> list[tuple[int, ...]]:
        return [(c.M % 8, c.N % 8, c.K % 8) for c in cases(ASKED, secret, "lab 2", *of)]

    first = left(SECRET, "student 0", 1)
    assert all(left(SECRET, f"student {n}", 1 + n % 2) == first for n in range(20))
    assert any(left(f"another secret {n}".encode() * 2, "student 0", 1) != first for n in range(4))


# -- honest sources --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def honest() -> marking.Marked:
    return mark(HONEST, ASKED, DRAWN)


def test_an_honest_source_is_right_and_clean(honest: marking.Marked) -> None:
    assert not honest.refused and honest.right == DRAWN and honest.clean
    assert honest.registers > 8 and honest.spills == honest.stack == 0
    assert honest.locked == bool(apart.landlock())
    assert {r.schedule for r in honest.runs} == set(running.SCHEDULES)
    assert 0.5 < honest.worst("sectors") < 3


@pytest.mark.parametrize("student", range(20))
def test_an_honest_source_raises_no_alarm(student: int) -> None:
    """Twenty students, each with their own shapes, numbers and order of warps."""
    job = {
        "source": HONEST, "arch": "sm_75", "ptx": "", "compiler": "", "entry": "lab2", "types": ASKED.types,
        "block": ASKED.block, "grid": ASKED.grid, "shared": "0", "transposed": "A", "scaled": False,
        "dtype": "float32", "constants": {}, "seconds": 20.0,
    }  # fmt: skip
    for case in cases(ASKED, SECRET, "lab 2", student, 1)[:3]:
        told = running._run(job, vars(case), "permuted")
        assert (told["wrong"], told["changed"], told["findings"], told["ended"]) == (0, [], [], "")


def test_the_line_that_makes_most_is_named() -> None:
    """For an honest source the line that a person names, for one that strides the load that
    strides.
    """
    lines = hostile.STRIDED.splitlines()
    [strides] = [n for n, line in enumerate(lines, 1) if "A[(k0 + tx)" in line]
    strided = mark(hostile.STRIDED, ASKED, FEW[:1]).heaviest("sectors")
    assert (strided["line"], strided["array"], strided["op"]) == (strides, "A", "load")
    assert strided["each"] > 12 and strided["share"] > 0.5
    conflict = hostile.but(
        ("A_tile[T][T + 1]", "A_tile[T][T]"), ("A_tile[ty][tx] =", "A_tile[tx][ty] ="), ("A_tile[k][ty]", "A_tile[ty][k]"),
    )  # fmt: skip
    meets = mark(conflict, ASKED, FEW[:1]).heaviest("wavefronts")
    assert (
        (meets["array"], meets["op"]) == ("A_tile", "store")
        and meets["each"] > 4
        and meets["meets"]
    )
    found = mark(HONEST, ASKED, FEW)
    assert found.heaviest("sectors")["each"] < 8 and not found.heaviest("wavefronts")["meets"]
    assert not found.heaviest("moons") and not marking.Marked().heaviest("sectors")


def test_the_variants_ask_for_other_products() -> None:
    plain = HONEST.replace("A[(k0 + ty) * M + a_row]", "A[a_row * K + k0 + ty]")
    assert len(mark(plain, replace(ASKED, transposed=""), FEW).right) == 3
    assert mark(HONEST, replace(ASKED, transposed=""), FEW).right != FEW
    scaled = HONEST.replace("int K)", "int K, float alpha, float beta)").replace(
        "= sum;", "= alpha * sum + beta * C[row * N + col];"
    )
    asked = replace(ASKED, scaled=True)
    found = mark(scaled, asked, FEW)
    assert found.right == FEW and found.clean
    assert mark(scaled.replace("alpha *", "beta *"), asked, FEW).right != FEW


@pytest.mark.parametrize("raw", [b"\xef\xbb\xbf" + HONEST.encode(), HONEST.replace("\n", "\r\n").encode(),
                                 HONEST.replace("\n", "\r").encode()], ids=["BOM", "CRLF", "CR"])  # fmt: skip
def test_it_matters_not_how_it_was_saved(raw: bytes) -> None:
    assert mark(raw, ASKED, FEW[:1]).right == FEW[:1]


@pytest.mark.parametrize("raw", [b"", HONEST.encode("utf-16"), HONEST.encode() + b"\0", b"\xff" * 9, b"y" * 300_000],
                         ids=["empty", "UTF-16", "NUL", "no UTF-8", "large"])  # fmt: skip
def test_other_bytes_are_one_clear_line(raw: bytes) -> None:
    found = mark(raw, ASKED, FEW)
    assert found.stage == "bytes" and found.refused and "\n" not in found.refused and not found.runs


@pytest.mark.parametrize("name", hostile.HEADS)
def test_another_head_is_one_clear_line(name: str) -> None:
    source, words = hostile.HEADS[name]
    found = mark(source, ASKED, FEW)
    assert found.stage in ("head", "compile") and words in found.refused, found.refused
    assert 'extern "C" __global__ void lab2(const float* A' in found.refused


def test_what_does_not_compile_names_its_line() -> None:
    found = mark(HONEST.replace("float sum = 0.0f", "float sum = 0.0f + q"), ASKED, FEW)
    assert found.stage == "compile" and found.refused.startswith("it does not compile: line 10: ")
    assert '"q" is undefined' in found.refused and "lab.cu(10)" in found.log


# -- wrong sources ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", hostile.WRONG)
def test_a_wrong_source_is_not_right(name: str, honest: marking.Marked) -> None:
    found = mark(hostile.WRONG[name], ASKED, DRAWN)
    assert not found.refused and set(found.right) < set(honest.right), found
    wrong = [r for r in found.runs if not r.right]
    assert all(r.changed or (r.first and r.wrong) or r.findings for r in wrong)
    if name == "destroys A":
        assert wrong[0].changed == ("A",)
    if name == "reads C":
        assert any(kind == "uninitialised" for r in wrong for kind, _, _ in r.findings)


# -- what a source may read ------------------------------------------------------------------------


@pytest.mark.parametrize("defence", ["list", "lock", "both"])
@pytest.mark.parametrize("name", hostile.READS)
def test_no_foreign_byte_comes_out(
    name: str, defence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if defence != "list" and not apart.landlock():
        pytest.skip("this kernel has no Landlock")
    secret = tmp_path / "secret.txt"
    secret.write_text(", ".join(str(ord(c)) for c in hostile.SECRET) + f" // {hostile.SECRET}\n")
    (tmp_path / "solution.cu").write_text(f"// {hostile.SECRET}\nint solved;\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SECRET_TOKEN", hostile.SECRET)
    if defence == "lock":  # the control of the list: without it the lock alone must hold
        monkeypatch.setattr(marking, "check_includes", lambda *_: ())
    source = hostile.READS[name].replace("FILE", str(secret))
    found = mark(source, ASKED, FEW, lock=defence != "list")
    assert found.refused and not found.runs
    assert hostile.SECRET not in said(found) and "SECRET_TOKEN" not in said(found)
    assert found.stage == ("compile" if defence == "lock" else "includes")


# -- limits ----------------------------------------------------------------------------------------


def test_text_that_comes_back_is_short_and_plain() -> None:
    assert marking.tidy("a\x1b[2Jb\nc\u2028d\u202ee") == "a [2Jb c d e"
    assert len(marking.tidy("x" * 10_000)) == 300
    log = marking.tidy_log("\n".join(["y" * 1000] * 100))
    assert len(log) <= 8000 and max(map(len, log.split("\n"))) <= 300
    flood = HONEST.replace("float sum = 0.0f;", "float sum = 0.0f;\n" + "q;\n" * 3000)
    found = mark(flood, ASKED, FEW)
    assert found.stage == "compile" and len(said(found)) < 12_000
