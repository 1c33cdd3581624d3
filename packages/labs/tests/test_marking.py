"""The cases that a source is tried on, and what it reads; test_facts.py has what comes back, and
tools/exploits.py wrong sources."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from nogpu.text import HEADERS
from tilelabs import labs
from tilelabs.judging.marking import cases, mark
from tools import hostile
from tools.hostile import but

SECRET = b"a secret of a course"
TWO = labs.lab("2")
ASKED, SCALED = (replace(TWO.specification(TWO.variants[n]), headers=HEADERS) for n in (0, 3))
DRAWN = cases(ASKED, SECRET, "lab 2", "student 7", 1)


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


@pytest.mark.nvrtc
@pytest.mark.parametrize("directive", [".include", ".incbin"])
def test_ptx_by_hand_reads_no_file(directive: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(hostile.SECRET)
    text = f'\n    asm volatile("{directive} \\"{tmp_path}/secret\\";");'
    found = mark(but(("    float sum = 0.0f;", f"    float sum = 0.0f;{text}")), ASKED, DRAWN[:1])
    assert found.refused and not found.runs and hostile.SECRET not in found.refused + found.log
