"""Written answers on their way to the person who marks them, and points of a group's members."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace

import pytest
from classes import FIXES, hand_in, lay, line, table
from classes import GROUPS as G
from classes import OVERRIDES as HEAD
from test_policy import RIGHT, TWO, made, reported, write

from helpers import __main__ as cli
from nogpu.errors import DataError
from tilelabs import labs
from tilelabs.grading.answers import MOST_ANSWER
from tilelabs.grading.answers import answers_in as answers
from tilelabs.grading.collecting import collect
from tilelabs.grading.grouping import once
from tilelabs.grading.judging import key_of, results
from tilelabs.grading.tables import unknown_student
from tilelabs.judging import notebooks
from tilelabs.labs import courses
from tilelabs.labs.handing_out import handout
from tilelabs.labs.working import UNANSWERED
from tools.hostile import HONEST, notebook

NAMED = "id,name\ns1,Ada\ns2,Bo\ns3,=Cy\n"


def rows(place):
    reported(place)
    path = place / "out" / "lab-2-written.csv"
    assert path.stat().st_mode & 0o777 == 0o600
    return table(path, "student")


def answers_in(raw, entry):
    return answers(notebooks.read(raw, "")[0], entry)


def answered(*texts):
    return notebook(f"%%cuda lab2\n{HONEST}", *(f"%%answer lab2 written\n{t}" for t in texts))


def test_an_answer_is_taken_out_of_a_notebook_and_a_placeholder_is_none():
    assert answers_in(answered("Banks.\n  - $x$"), "lab2") == {"written": "Banks.\n  - $x$"}
    assert answers_in(answered("first", "last", UNANSWERED, " "), "lab2") == {"written": "last"}
    assert answers_in(answered(UNANSWERED + "\nBanks."), "lab2") == {"written": "Banks."}
    for none in (answered(), answered(UNANSWERED)):
        assert answers_in(none, "lab2") == {}
    assert answers_in(answered("of another"), "lab3") == {}
    [odd] = answers_in(answered("a\x00b\x1b[31m\u202e\ud800 c" + "x" * 9_000), "lab2").values()
    assert len(odd) == MOST_ANSWER and odd.endswith(" ...") and odd.startswith("a b [31m ?")


@pytest.mark.nvrtc
@pytest.mark.parametrize("text", ["", "Both tiles are read without conflicts."])
def test_what_submit_writes_and_what_is_handed_out_is_found(text, place):
    (place / "lab2.cu").write_text(HONEST)
    if text:
        (place / "lab2_written.md").write_text(text)
    path = labs.submit("2", folder=place).path
    (place / "in").mkdir()
    path.rename(place / "in" / "s1.ipynb")
    plain = handout(TWO, courses.read(place / "course"))
    for cell in plain["cells"]:
        if cell["id"] == "written-answer" and text:
            cell["source"] = [line.replace(UNANSWERED, text) for line in cell["source"]]
    (place / "in" / "s2.ipynb").write_text(json.dumps(plain))
    for s in collect(place / "in", "lab2"):
        assert s.answers == (((s.student, "written", text),) if text else ())


def test_a_table_holds_an_answer_of_each_and_the_points_that_were_given(place, capsys):
    one = made("s1", answers=(("s1", "written", "=cmd()\nBanks."),))
    write(place, one, made("s2"), roster=NAMED, overrides=f"{HEAD}s1,2,written,7.5,\n")
    assert results(place / "out", TWO)[0].answers == one.answers
    found = rows(place)
    assert found["s1"] == {
        "student": "s1", "name": "Ada", "part": "written", "answer": "'=cmd()\nBanks.", "points": "7.5", "reason": "",
    }  # fmt: skip
    assert {s: (r["answer"], r["points"]) for s, r in found.items() if s != "s1"} == {
        "s2": ("", ""),
        "s3": ("", ""),
    }
    assert found["s3"]["name"] == "'=Cy"
    assert cli.main(line(place, "report", "2")) == 0
    output = capsys.readouterr().out
    assert (
        "lab-2-marks.csv: 3 students" in output and "lab-2-written.csv: 1 written answer;" in output
    )


def test_answers_of_a_group_are_each_members_own_or_else_the_groups(place):
    lay(place / "in", **{"s1.ipynb": answered("mine"), "s2.ipynb": answered("yours")})
    of = {"one": ("s1", "s2", "s3")}
    kept, same = once(collect(place / "in", "lab2"), of)
    assert same == {"s2"} and [s.student for s in kept] == ["s1"]
    write(place, made("s1", answers=kept[0].answers), groups=f"{G}s1,one,\ns2,one,\ns3,one,\n")
    assert {s: r["answer"] for s, r in rows(place).items()} == {
        "s1": "mine", "s2": "yours", "s3": "mine",
    }  # fmt: skip
    write(place, made("s1"), groups=f"{G}s1,one,\n", roster=NAMED)  # control: without the group
    assert {r["answer"] for r in rows(place).values()} == {""}


def test_written_points_of_one_member_hold_for_the_group(place):
    three = f"{G}s1,one,\ns2,one,\ns3,one,\n"
    write(place, made("s1"), groups=three, overrides=f"{HEAD}s2,2,written,8,\ns3,2,sectors,0,\n")
    assert {s: r["points"] for s, r in rows(place).items()} == {"s1": "8", "s2": "8", "s3": "8"}
    found = {r.student: r for r in reported(place)}
    assert found["s1"].parts["sectors"] and found["s3"].parts["sectors"] == 0  # by hand alone
    write(place, overrides=f"{HEAD}s2,2,written,8,\ns3,2,written,6,\n")
    assert {s: r["points"] for s, r in rows(place).items()} == {"s1": "", "s2": "8", "s3": "6"}
    write(place, overrides=f"{HEAD}s1,2,written,5,\ns3,2,written,6,\n")
    assert {s: r["points"] for s, r in rows(place).items()} == {"s1": "5", "s2": "5", "s3": "6"}
    write(place, made("s2"), made("s3"), groups=G)  # control: no group, no points of another's
    assert rows(place)["s2"]["points"] == ""


def test_an_answer_is_no_fact(place):
    """Two answers to one kernel have one key, so that a new answer runs nothing."""
    course = courses.read(place / "course")
    [s] = collect(lay(place / "in", **{"s1.ipynb": answered("mine")}), "lab2")
    assert key_of(s, TWO, course, 1) == key_of(replace(s, answers=()), TWO, course, 1)


# -- what a report says and gives back -------------------------------------------------------------

MOODLE_LAY = "Ada Love_1_assignsubmission_file_/lab2.cu"


def test_a_member_who_handed_nothing_in_has_a_folder_or_is_named(place, capsys):
    four = f"{G}1,one,\n2,one,\n3,one,\nx4,one,\n"
    named = "id,name\n1,Ada Love\n2,Bo../_Bay O'Neil\n3,\nx4,Dee\n5,Eve\n"
    write(place, replace(made("1"), file=MOODLE_LAY), groups=four, roster=named)
    command = line(place, "report", "2")
    assert cli.main(command) == 0
    assert "give them theirs yourself: 3, x4\n" in capsys.readouterr().out
    with zipfile.ZipFile(place / "out" / "lab-2-feedback.zip") as archive:
        own = "Bo.. Bay O'Neil_2_assignsubmission_file_"
        assert {name.split("/")[0] for name in archive.namelist()} == {
            MOODLE_LAY.split("/")[0],
            own,
        }
        assert "sectors" in archive.read(f"{own}/lab-2-feedback.txt").decode()
    write(
        place, replace(made("1"), file="adalove_1_9_lab2.cu")
    )  # no Moodle's: nobody knows the others' files
    assert cli.main(command) == 0
    assert "give them theirs yourself: 2, 3, x4\n" in capsys.readouterr().out
    write(place, groups=G)  # control: without a group nobody is told of
    assert cli.main(command) == 0
    assert "give them theirs yourself" not in capsys.readouterr().out


def test_points_that_were_given_stand_in_the_list_of_the_feedback(place):
    def words():
        [row] = reported(place)
        return row.feedback

    write(place, made("s1"))
    assert "by hand  written: " in words() and "written not marked yet" in words()
    write(place, overrides=f"{HEAD}s1,2,written,7.5,read\n")
    assert "     7.5/10  written: " in words() and "by hand  written" not in words()
    assert "By a person: written 7.5/10: read" in words()


# -- a name in place of an id ----------------------------------------------------------------------


def test_a_name_in_place_of_an_id_is_told_the_id():
    names = {"1005": "Ed Cole", "1006": "Édith Cole", "2001": "Flo", "s9": ""}
    for given in ("Ed Cole", "ed cole", "Ed Col"):
        message = unknown_student(given, names)
        assert message.startswith(f"no student with the id {given!r}; did you mean 1005"), message
    assert unknown_student("Ed Cole", names).endswith("did you mean 1005?")
    assert "1005" in unknown_student("100", names)
    assert unknown_student("zzzz", names) == "no student with the id 'zzzz'"
    assert unknown_student("Flo", names | {"2002": "Flo"}).endswith("did you mean 2001 or 2002?")


def test_a_name_in_a_table_is_refused_or_ends_with_a_status(place, capsys, judge):
    named = "id,name\n1005,Ed Cole\n1006,Flo\n"
    write(place, made("1005"), roster=named, overrides=f"{HEAD}Ed Cole,2,written,1,\n")
    with pytest.raises(
        DataError, match=r"line 2: no student with the id 'Ed Cole'; did you mean 1005\?"
    ):
        rows(place)
    judge(RIGHT)
    hand_in(place / "in", **{"1005": HONEST})
    both = ["--course", str(place / "course"), "--out", str(place / "out2"), "--without-landlock"]
    for student, status, words in (
        ("Ed Cole", 1, "line 2: no student with the id 'Ed Cole'; did you mean 1005?"),
        ("1006", 0, "line 2: '1006' handed nothing in"),
        ("1005", 0, "fixed by a person"),
    ):
        write(place, fixes=f"{FIXES}{student},2,sum,total,\n")
        assert cli.main(["grade", "2", str(place / "in"), *both]) == status
        assert words in capsys.readouterr().out
        assert len(results(place / "out2", TWO)) == 1  # the others are judged
