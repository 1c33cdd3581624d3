"""A source that nobody trusts, judged: right and wrong ones, and what comes back."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from nogpu import disk, toolchain
from nogpu.errors import ConfigError
from nogpu.text import HEADERS
from tilelabs import apart, labs
from tilelabs.judging import compiling, marking, running
from tilelabs.judging.marking import cases, mark
from tools import hostile
from tools.hostile import HONEST, but

pytestmark = pytest.mark.nvrtc

SECRET = b"a secret of a course"
TWO = labs.lab("2")
ASKED, SCALED = (replace(TWO.specification(TWO.variants[n]), headers=HEADERS) for n in (0, 3))
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
        cases(SCALED, SECRET, "lab 2", "student 7", 1),
    ]
    for other in others:
        assert not {c.seed for c in other} & {c.seed for c in DRAWN}
        assert {c.sizes for c in other} != {c.sizes for c in DRAWN}
    assert {c.kind for c in DRAWN} == {"integers", "reals"} and DRAWN[-1]["M"] == 1
    assert any(c["M"] * c["N"] > 1 << 16 for c in DRAWN)
    assert [c.counted for c in DRAWN].count(True) == 2
    with pytest.raises(ConfigError, match="16 or more"):
        cases(ASKED, b"short", "lab 2")


@pytest.mark.parametrize(
    ("edge", "aligned"),
    [((16, 16, 16), 1), ((64, 64, 32), 1), ((128, 128, 32), 8), ((128, 128, 96), 1)],
)
def test_cases_can_be_neither_known_nor_dodged(edge: tuple[int, int, int], aligned: int) -> None:
    """In every set: whole tiles, two or more along each size, with work counted; M beyond 256, and
    N; and no two students are counted at the same shapes.
    """
    asked = replace(ASKED, tile=dict(zip("MNK", edge, strict=True)), aligned=aligned)
    counted = set[tuple[int, ...]]()
    for student in range(40):
        drawn = cases(asked, SECRET, student)
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


def test_a_fault_at_an_edge_costs_every_student_the_same() -> None:
    """What is left over beside tiles of eight differs by course alone, where nothing is counted."""

    def left(secret: bytes, *of: object) -> list[tuple[int, ...]]:
        drawn = cases(ASKED, secret, "lab 2", *of)
        return [tuple(c[n] % 8 for n in "MNK") for c in drawn if not c.counted]

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


def test_the_door_hands_on_what_the_compiler_makes() -> None:
    source = "__global__ void k(float* x) { x[threadIdx.x] *= 3; }"
    with disk.set_aside(), compiling.door():
        made = toolchain.compile(source, name=f"door{time.time_ns()}.cu")  # never compiled before
    plain = toolchain.compile(source, name="door.cu")
    assert made.cubin and made.kernels == plain.kernels and "mul.f32" in made.ptx


def test_the_line_that_makes_most_is_named() -> None:
    """For an honest source the line that a person names; else the load that strides."""
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
    found = mark(scaled, SCALED, FEW)
    assert found.right == FEW and found.clean
    assert mark(scaled.replace("alpha *", "beta *"), SCALED, FEW).right != FEW


def test_constants_may_be_what_a_lab_allows_and_a_table_is_kept() -> None:
    source = HONEST.replace("/*", "//") + "/* table\nM | 3\n*/ /* another */\n"
    for least, most, told in ((16, 16, ""), (1, 15, "may be 1 to 15"), (17, 32, "may be 17 to 32")):
        found = mark(source, replace(ASKED, constants=(("T", least, most),)), FEW[:1])
        assert (told in found.refused) if told else found.right == FEW[:1], found
        assert found.sizes == {"T": 16} and found.table == "\nM | 3"


def test_a_block_has_at_most_as_many_threads_as_a_gpu_gives_it() -> None:
    wide = replace(ASKED, constants=(("T", 1, 2048),), block=("T", "1", "1"))
    for threads, refused in ((1024, False), (1025, True)):
        head = HONEST[HONEST.index("extern") : HONEST.index("{", HONEST.index("extern"))]
        found = mark(f"const int T = {threads};\n{head}{{}}\n", wide, FEW[:1])
        assert ("may have 1 to 1024" in found.refused) is refused, found


@pytest.mark.parametrize(
    ("raw", "words"),
    [(HONEST + "// \ud800", "lone surrogates"), (HONEST.encode("utf-16"), "UTF-16")],
    ids=["a lone surrogate", "UTF-16"],
)
def test_what_is_no_text_is_one_clear_line(raw: str | bytes, words: str) -> None:
    found = mark(raw, ASKED, FEW)
    assert found.stage == "bytes" and words in found.refused and not found.runs


@pytest.mark.parametrize("name", hostile.HEADS)
def test_another_head_is_one_clear_line(name: str) -> None:
    source, words = hostile.HEADS[name]
    found = mark(source, ASKED, FEW)
    assert found.stage in ("head", "compile") and words in found.refused, found.refused
    assert 'extern "C" __global__ void lab2(const float* A' in found.refused


def test_what_does_not_compile_names_its_line() -> None:
    found = mark(HONEST.replace("float sum = 0.0f", "float sum = 0.0f + q"), ASKED, FEW)
    assert found.stage == "compile" and found.refused.startswith("it does not compile: line 10: ")
    assert found.registers == found.spills == found.stack == 0  # there is no kernel that has any
    assert '"q" is undefined' in found.refused and "lab.cu(10)" in found.log


def test_a_letter_that_only_looks_right_is_named_in_code_alone() -> None:
    odd, plain = "l\u0430b2", "// the \u0441ore of l\u0430b2\n"
    told = marking._lookalike(plain + HONEST.replace("lab2", odd))
    assert "CYRILLIC SMALL LETTER A in" in told and odd in told
    assert marking._lookalike(plain + HONEST) == ""
    assert "CYRILLIC" not in mark(plain + HONEST.replace("sum", "int"), ASKED, FEW).refused


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


@pytest.mark.parametrize("directive", [".include", ".incbin"])
def test_ptx_by_hand_reads_no_file(directive: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(hostile.SECRET)
    text = f'\n    asm volatile("{directive} \\"{tmp_path}/secret\\";");'
    found = mark(but(("    float sum = 0.0f;", f"    float sum = 0.0f;{text}")), ASKED, FEW[:1])
    assert found.refused and not found.runs and hostile.SECRET not in said(found)


@pytest.mark.parametrize(("stop", "told"), [("trap", "trap"), ("brkpt", "brkpt")])
def test_a_kernel_that_stops_has_given_no_answer(stop: str, told: str) -> None:
    found = mark(but(("= sum;", f'= sum;\n    if (row == 0) asm volatile("{stop};");')), ASKED, FEW)
    assert not found.clean or not found.right
    assert told in said(found) and len(found.right) < len(FEW)


# -- limits ----------------------------------------------------------------------------------------


def test_text_that_comes_back_is_short_and_plain() -> None:
    assert marking.tidy("a\x1b[2Jb\nc\u2028d\u202ee") == "a [2Jb c d e"
    assert len(marking.tidy("x" * 10_000)) == 300
    log = marking.tidy_log("\n".join(["y" * 1000] * 100))
    assert len(log) <= 8000 and max(map(len, log.split("\n"))) <= 300
    flood = HONEST.replace("float sum = 0.0f;", "float sum = 0.0f;\n" + "q;\n" * 3000)
    found = mark(flood, ASKED, FEW)
    assert found.stage == "compile" and len(said(found)) < 12_000
