"""Labs: their rubrics, and how solutions, starters and wrong twins come out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from classes import solutions

from helpers import __main__ as cli
from helpers.ladder.rungs import catalog
from nogpu import clang
from nogpu.errors import ConfigError, DataError
from tests.common import ROOT
from tilelabs import labs
from tilelabs.judging.marking import cases, mark
from tilelabs.labs import checking, rehearsing, rubrics
from tools.hostile import HONEST

pytestmark = pytest.mark.nvrtc

LABS = labs.all_labs()
COUNTING = [lab for lab in LABS if any(p.counts in rubrics.COUNTED for p in lab.parts)]
TRIED = [(lab, source) for lab in LABS for source in rehearsing.sources(lab)]
[CONFLICT] = [source.text for _, source in TRIED if source.name == "banks in conflict"]


def points(found):
    return {p.rubric.id: p.points for p in found.parts if not p.rubric.by_hand}


# -- rubrics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", LABS, ids=lambda one: one.number)
def test_a_lab_adds_up_and_is_whole(lab):
    assert lab.points == 100 and any(part.by_hand for part in lab.parts)
    assert len({part.id for part in lab.parts}) == len(lab.parts)
    assert {part.after for part in lab.parts} <= {"", *(part.id for part in lab.parts)}
    assert len({v.name for v in lab.variants}) == len(lab.variants) >= 3
    assert all((ROOT / "book" / f"{page}.md").is_file() for page in lab.builds_on)
    assert lab.goals and lab.hours > 0 and len(lab.hints) >= 2
    assert all(f"{lab.entry}(" in lab.starter(v) for v in lab.variants)
    assert lab.entry == f"lab{lab.number}" and lab.rung in {"", *(k.name for k in catalog.values())}


# -- how kernels come out --------------------------------------------------------------------------


@pytest.mark.parametrize(("lab", "source"), TRIED, ids=lambda one: getattr(one, "name", ""))
def test_a_lab_rehearses(lab, source):
    """Solutions have every point, starters and twins lose theirs, and are told where to look."""
    found = rehearsing.rehearsed(lab, source)
    assert not found.odd, f"{found.odd}\n{found.checked}"
    assert source.kind != "starter" or not found.checked.marked.refused
    assert "Put __syncthreads" not in str(found.checked)


@pytest.mark.parametrize("lab", LABS, ids=lambda one: one.number)
def test_every_variant_is_solved_and_no_solution_solves_another(lab):
    names = [v.name for v in lab.variants]
    assert [*solutions(lab)] == names
    other = labs.check(lab.number, solutions(lab)[names[0]], variant=names[1])
    assert not other.ok and points(other)["right"] < lab.parts[0].points and other.points <= 20
    twins = [s for of, s in TRIED if of is lab and s.kind == "twin"]
    assert len(twins) >= 4 and all(s.expect for s in twins)


def test_a_rehearsal_says_what_is_odd():
    """Its own wrong twins: no solution, a twin without fault, other points, other words."""
    two = labs.lab("2")
    good = rehearsing.Source("x", "solution", two.variants[0].name, HONEST)
    most = replace(good, kind="twin", text=CONFLICT, most=10)
    assert "should have 10 at most" in rehearsing.rehearsed(two, most).odd
    assert not rehearsing.rehearsed(two, good).odd
    for source, odd in (
        (replace(good, text=CONFLICT), "lacks points"),
        (replace(good, kind="twin"), "every point"),
        (replace(good, kind="twin", text=CONFLICT, expect={"sectors": 0}), "should have 0"),
        (replace(good, kind="twin", text=CONFLICT, words="the moon"), "the moon"),
    ):
        assert odd in rehearsing.rehearsed(two, source).odd


def test_a_damaged_rehearsal_is_refused(tmp_path):
    two = replace(labs.lab("2"), folder=tmp_path)
    (tmp_path / "rehearsal").mkdir()
    (tmp_path / "starter.cu").write_text("int K)", encoding="utf-8")
    (tmp_path / "rehearsal" / "a.cu").write_text("one one", encoding="utf-8")
    head = '[[sources]]\nname = "n"\nfile = "a.cu"\nvariant = "A transposed"\n'
    for text, message in (
        ("", "damaged"),
        (head + 'kind = "odd"\n', "the kind 'odd'"),
        (head + 'kind = "twin"\nchanges = [["one", "two"]]\n', "stands 2 times"),
    ):
        (tmp_path / "rehearsal" / "rehearsal.toml").write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=message):
            rehearsing.sources(two)


@pytest.mark.parametrize("student", range(3))
@pytest.mark.parametrize("lab", COUNTING, ids=lambda one: one.number)
def test_limits_are_fair_whatever_shapes_are_drawn(lab, student):
    """A solution keeps them for every student; a starter, or a twin that counts too much, never."""
    counted = {p.id: p.points for p in lab.parts if p.counts in rubrics.COUNTED}
    variant = lab.variants[student % len(lab.variants)]
    spec = lab.specification(variant)
    drawn = [c for c in cases(spec, b"a secret of a course", lab.number, student) if c.counted]

    def kept(text):
        found = checking.judged(lab, variant, mark(text, spec, drawn, lock=False))
        return {name: points(found)[name] == counted[name] for name in counted}

    of_it = [s for of, s in TRIED if of is lab and s.variant == variant.name]
    assert len(drawn) == 2
    assert all(kept(next(s.text for s in of_it if s.kind == "solution")).values())
    assert not all(kept(lab.starter(variant)).values())
    for twin in (s for s in of_it if s.kind == "twin"):
        over = [name for name in counted if twin.expect.get(name, 99) < counted[name]]
        if over and twin.expect.get("right") == lab.parts[0].points:
            assert not any(kept(twin.text)[name] for name in over), twin.name
            break
    else:
        assert student % len(lab.variants), f"{variant.name} has no twin that counts too much"


# -- at the terminal -------------------------------------------------------------------------------


def test_labs_are_listed(capsys):
    assert cli.main(["labs"]) == 0
    output = capsys.readouterr().out
    assert "Lab 2: Shared-memory tiles for any shape" in output and "3 hours, 100 points" in output
    assert cli.main(["labs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["points"] == 100


def test_a_file_is_checked_at_the_terminal(tmp_path, capsys):
    file = tmp_path / "lab2.cu"
    file.write_bytes(b"\xef\xbb\xbf" + HONEST.replace("\n", "\r\n").encode())
    assert cli.main(["check", "2", str(file)]) == 0
    assert "90 of 90 points" in capsys.readouterr().out
    file.write_text(CONFLICT, encoding="utf-8")
    assert cli.main(["check", "2", str(file), "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert 55 < result["points"] < 75 and 0 < result["parts"]["wavefronts"]["points"] < 8
    file.write_bytes(HONEST.encode("utf-16"))
    assert cli.main(["check", "2", str(file)]) == 1
    assert "UTF-16 text: save it as UTF-8" in capsys.readouterr().out
    assert cli.main(["check", "2", str(tmp_path / "none.cu")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert cli.main(["check", "99", str(file)]) == 2
    assert "no lab '99'" in capsys.readouterr().err


# -- other machines --------------------------------------------------------------------------------


@pytest.mark.skipif(not clang.available(), reason="no clang here")
def test_clang_compiles_a_students_kernel(monkeypatch):
    """As on a Mac: no NVRTC, no registers to tell, and no lock."""
    monkeypatch.setenv("TILE_COMPILER", "clang")
    found = labs.check("2", HONEST)
    assert found.ok and "clang" in str(found) and "registers" not in str(found)
    chosen = labs.check(
        "3", solutions(labs.lab("3"))["A transposed"]
    )  # two parts need what only NVRTC tells
    assert chosen.ok and chosen.most == 73
    assert [p.rubric.id for p in chosen.parts if p.unknown] == ["local", "registers"]
    spec = found.lab.specification(found.variant)
    assert not mark(HONEST, spec, cases(spec, b"a secret of a course")[-1:]).locked
    with pytest.raises(ConfigError, match="install NVRTC"):
        mark(HONEST, spec, (), lock=True)
