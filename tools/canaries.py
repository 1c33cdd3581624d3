"""A class that tries to read what it should not, graded at the terminal with some of the defences.

`python -m tools.canaries FOLDER [list] [lock]` grades a class under FOLDER with the defences that
are named: the allow-list of headers, the lock into folders. In each of `PLACES` lies a word that
stands nowhere else, and each submission tries to get one of them by one of `FORMS`. Whoever starts
it (tests/test_canaries.py) has put the one of the environment there. Beside the class's results
FOLDER then holds `told.txt`, all that was printed, and `handed.json`, all that the compile process
handed on, PTX included.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers import __main__ as cli
from tilelabs import apart
from tilelabs.judging import marking
from tilelabs.labs import courses
from tools.hostile import HONEST, READS

PLACES = ("environment", "here", "temporary", "other", "course", "results")
"""Where the words lie: the grader's environment, its working directory, a temporary file, another
student's submission, course.toml, the folder of results.
"""
_LIST = 'extern "C" __device__ const char stolen[] = {\n#include "FILE"\n};\n'
_TEXT = '#define S(...) #__VA_ARGS__\nextern "C" __device__ const char stolen[] = S(\n#include "FILE"\n);\n'
FORMS = {
    **{name: text for name, text in READS.items() if "FILE" in text},
    "as a name": 'const int stolen =\n#include "FILE"\n;\n' + HONEST,
    "plain": '#include "FILE"\n' + HONEST,
    "by a macro": '#define F "FILE"\n#include F\n' + HONEST,
    "as data that stays": _LIST + HONEST,
    "stringified, and stays": _TEXT + HONEST,
}
"""Ways to read FILE: those of `hostile.READS` that name one, and others; what stays can be seen in
the PTX.
"""
FIXED = {name: text for name, text in READS.items() if "FILE" not in text}
OWNER = "900"
"""The student whose submission holds a word of its own, rightly."""


def canary(place: str) -> str:
    """The word that lies in a place."""
    return f"canary_7c1f_{place}"


def numbers(place: str) -> str:
    """The same word as a list of its bytes, as it would stand in PTX."""
    return ", ".join(str(ord(c)) for c in canary(place))


def lay_out(folder: Path) -> dict[str, Path]:
    """Make the places; the file of each."""
    course = courses.new(folder / "course").folder
    held = course / courses.FILE
    kept = held.read_text(encoding="utf-8")
    held.write_text(f'# {canary("course")}\n{kept}2 = "A transposed"\n', encoding="utf-8")
    for made in ("in", "here", "out/lab-2"):
        (folder / made).mkdir(parents=True)
    other = f'extern "C" __device__ int {canary("other")} = 7;\n{HONEST}'
    found = {
        "environment": Path(f"/proc/{os.getpid()}/environ"),
        "here": folder / "here" / "solution.cu",
        "temporary": Path(tempfile.mkstemp(suffix=".txt")[1]),
        "other": folder / "in" / f"other_{OWNER}_1_lab2.cu",
        "course": held,
        "results": folder / "out" / "lab-2" / "private.txt",
    }
    found["other"].write_text(other, encoding="utf-8")
    for place in ("here", "temporary"):
        found[place].write_text(f"{numbers(place)} // {canary(place)}\n", encoding="utf-8")
    found["results"].write_text(f"{canary('results')}\n", encoding="utf-8")
    return found


def hand_in(folder: Path, places: dict[str, Path]) -> list[str]:
    """Write the submissions, and the gradebook's export; the students who are to be graded once
    more.
    """
    sources = {f"{place}, {form}": (place, form) for place in PLACES for form in FORMS}
    again, rows = [OWNER], [OWNER]
    for n, (place, form) in enumerate([*sources.values(), *(("", form) for form in FIXED)], 1):
        text = FORMS[form].replace("FILE", str(places[place])) if place else FIXED[form]
        rows.append(f"{n:03}")
        (folder / "in" / f"s_{n:03}_1_lab2.cu").write_text(text, encoding="utf-8")
        again += [f"{n:03}"] if form == "plain" else []
    export = ["Student,ID,SIS Login ID,Section,Lab 2 (12)", *(f"s,{id},u{id},A," for id in rows)]
    (folder / "export.csv").write_text("\n".join(export) + "\n", encoding="utf-8")
    given = ["student,lab,part,points,reason", *(f"{id},2,written,0,seen" for id in rows)]
    overrides = folder / "course" / "overrides.csv"
    overrides.write_text("\n".join(given) + "\n", encoding="utf-8")
    return again


def main(folder: Path, defences: Sequence[str]) -> None:
    """Grade the class, a part of it once more, and report."""
    places = lay_out(folder)
    again = hand_in(folder, places)
    os.chdir(folder / "here")
    handed: list[Any] = []
    run = apart.run

    def heard(call: str, job: Any, *more: Any, **named: Any) -> apart.Done:
        done = run(call, job, *more, **named)
        if call.endswith(":compiled"):
            handed.append({"source": job["source"], "value": done.value, "fault": done.fault})
        return done

    apart.run = heard
    if "list" not in defences:
        marking.check_includes = lambda *_: ()
    at = ["--course", str(folder / "course"), "--out", str(folder / "out")]
    grade = ["grade", "2", str(folder / "in"), *at]
    grade += [] if "lock" in defences else ["--without-landlock"]
    more = [word for student in again for word in ("--only", student)]
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            for asked in (
                grade,
                [*grade, "--attempt", "2", *more],
                ["report", "2", *at, "--gradebook", str(folder / "export.csv")],
            ):
                if status := cli.main(asked):
                    raise SystemExit(f"{asked[0]} ended with {status}: {told.getvalue()[-500:]}")
    finally:
        places["temporary"].unlink()
    (folder / "told.txt").write_text(told.getvalue(), encoding="utf-8")
    (folder / "handed.json").write_text(json.dumps(handed), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
