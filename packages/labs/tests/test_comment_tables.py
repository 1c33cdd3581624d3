"""A table in a comment of a source: right ones in any form, and what is told of wrong ones."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from classes import solutions

from tilelabs import labs
from tilelabs.grading.judging import _marked
from tilelabs.judging import marking
from tilelabs.judging.marking import Marked
from tilelabs.labs import rubrics
from tilelabs.labs.checking import judged
from tilelabs.labs.comment_tables import fault
from tilelabs.labs.handing_out import _table

THREE = labs.lab("3")
[PART] = [part for part in THREE.parts if part.table]
SOURCE = solutions(THREE)[THREE.variants[0].name]
SPEC = THREE.specification(THREE.variants[0])
TABLE, OWN = marking._comments(SOURCE, SPEC)
HEAD, FIRST, SECOND, THIRD = (line for line in TABLE.splitlines() if line)


def fault_of(*lines):
    return fault(PART, "\n".join(lines), THREE.constants, OWN)


def test_the_table_and_the_constants_are_read_from_the_source():
    assert OWN == {"BM": 64, "BN": 64, "BK": 16, "TM": 8, "TN": 8}
    assert marking._comments(SOURCE.encode(), SPEC) == (TABLE, OWN)
    assert marking._comments("/* tables */ // no /*table", SPEC) == ("", {})
    assert marking._comments("/*table\n1,\x1b[31m2*/ 3 */", SPEC)[0] == "\n1, [31m2"
    assert len(marking._comments("/* table" + "9," * 9_000, SPEC)[0]) <= marking.MOST_TABLE


def test_hostile_text_is_read_in_no_time():
    began = time.monotonic()
    for text in ("/* table" * 30_000, "/*" + " " * 200_000, "/* table\n" + "," * 200_000):
        fault_of(*marking._comments(text, SPEC)[0].splitlines())
    assert time.monotonic() - began < 2


@pytest.mark.parametrize(
    "lines",
    [
        (HEAD, FIRST, SECOND, THIRD),
        ("", f"  {HEAD}  ", "", FIRST, "", THIRD, SECOND, ""),
        tuple(f"* {line}" for line in (HEAD, FIRST, SECOND, THIRD)),
        tuple(f"| {line.replace(',', ' |')} |" for line in (HEAD, FIRST, SECOND, THIRD)),
        (HEAD, "| --- | :--: |", FIRST, SECOND, THIRD),
        (f"{HEAD}, mine", f"{FIRST}, yes", SECOND, THIRD),
        (HEAD, FIRST.replace("0.25", "2.5e-1"), SECOND, THIRD, SECOND),
    ],
)
def test_a_right_table_is_right_in_any_form(lines):
    assert fault_of(*lines) == ""


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ((), "no table is found: begin a comment of your source with `/* table`"),
        ((FIRST, SECOND, THIRD), "the first line of the table names the columns, and lacks BM, BN"),
        ((HEAD.replace("reads", "loads"), FIRST), "and lacks threads, reads"),
        ((HEAD,), "0 different tiles, and 3 are asked for"),
        ((HEAD, FIRST, SECOND), "2 different tiles"),
        ((HEAD, SECOND, FIRST, THIRD), "row 1: the first tile is this kernel's, which has BM = 64"),
        ((HEAD, FIRST, "   64, 64, 16.5,  8,  8, 64, 1, 1, 1, 1"), "row 2: BK is 16.5, and may be"),
        ((HEAD, FIRST, SECOND.rpartition(",")[0]), "row 2: blocks is 'empty'"),
    ],
)
def test_of_a_wrong_table_the_first_fault_is_told(lines, words):
    found = fault_of(*lines)
    assert words in found, found
    assert "0.09375" not in found and "12,288" not in found  # where to look, and not what to write


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("128,", "120,", "row 2: threads is 128, which this tile"),
        ("128,", "256,", "row 2: BM is 256, and may be 16 to 128"),
        ("  8,", "  0,", "row 2: TM is 0, and may be 1 to 16"),
        ("  8,", "  7,", "row 2: a tile has BM % TM == 0"),
        ("0.25", "1/4", "row 2: reads is '1/4': write a plain number"),
        ("0.25", "nan", "row 2: reads is no finite number"),
        ("0.25", "", "row 2: reads is 'empty'"),
        ("12288", "3072", "shared is 3072, which this tile does not"),
        ("0.25", "0.5", "Look at what a thread reads at one k"),
        ("0.094", "0.1", "row 2: sectors is 0.1"),
    ],
)
def test_a_wrong_value_is_told(old, new, words):
    test_of_a_wrong_table_the_first_fault_is_told((HEAD, FIRST, SECOND.replace(old, new, 1)), words)


def test_it_counts_whatever_the_kernel_does_and_outlives_its_file():
    """No run and no compiler: the facts of a source that did not compile hold its table, too."""
    facts = Marked(refused="it does not compile", stage="compile", table=TABLE, sizes=OWN)
    for marked in (facts, _marked(vars(facts))):
        points = {p.rubric.id: p.points for p in judged(THREE, THREE.variants[0], marked).parts}
        assert points.pop(PART.id) == PART.points and not any(points.values())
    none = judged(THREE, THREE.variants[0], replace(facts, table=""))
    assert none.points == 0


def test_a_lab_whose_table_nobody_can_judge_is_refused():
    assert rubrics._known(PART)
    for odd in (replace(PART, looks={}), replace(PART, rows=0), replace(PART, ask="")):
        assert not rubrics._known(odd)


def test_students_are_asked_for_every_column():
    text = _table(PART)
    assert f"{PART.points} points" in text and all(f"| {name} |" in text for name in PART.table)
    for variant in THREE.variants:
        table, sizes = marking._comments(THREE.starter(variant), SPEC)
        assert "row 1: sectors is '...'" in fault(PART, table, THREE.constants, sizes)
