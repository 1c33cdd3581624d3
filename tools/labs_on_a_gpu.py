"""Grade labs on a machine with a GPU, as a teacher does, with what they are rehearsed on as the
class.

    python -m tools.labs_on_a_gpu --out data/validation/labs_h200.json [--labs 2 4]

Each variant of a lab is a course of its own; its students hand in the solution, the starter, the
wrong twins and the exploits of that variant. `grade --gpu` judges and times them, `report` makes
the marks, and what is written is the table: points, milliseconds, times as fast as the rung and as
cuBLAS; versions, date, commit.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helpers import __main__ as cli
from helpers.record.stamps import commit, stamp
from nogpu.disk import replace_file
from tilelabs import apart, labs
from tilelabs.grading.timings import times
from tilelabs.labs import Lab, Variant, courses, rehearsing


def graded(lab: Lab, variant: Variant, folder: Path) -> list[dict[str, Any]]:
    """Rows of one variant's class: what each source is, its points, and its time if it has one."""
    sources = {f"s{n}": s for n, s in enumerate(of_variant(lab, variant))}
    course = courses.new(folder / "course", variants={lab.number: variant.name})
    for student, source in sources.items():
        (folder / "in" / student).mkdir(parents=True)
        (folder / "in" / student / f"{lab.entry}.cu").write_text(source.text, encoding="utf-8")
    out = folder / "out"
    where = ["--course", str(course.folder), "--out", str(out)]
    unlocked = [] if apart.landlock() else ["--without-landlock"]
    for command in (
        ["grade", lab.number, str(folder / "in"), "--gpu", *unlocked],
        ["report", lab.number],
    ):
        if status := cli.main([*command, *where]):
            raise SystemExit(status)
    timed = times(out, lab)
    with (out / f"lab-{lab.number}-marks.csv").open(encoding="utf-8", newline="") as file:
        marks = {row["id"]: row for row in csv.DictReader(file)}
    return [
        {
            "lab": lab.number, "variant": variant.name, "kind": s.kind, "source": s.name,
            "points": float(marks[student]["total"]),
            "timed": None if (t := timed.get(student)) is None else _plain(t),
        }
        for student, s in sources.items()
    ]  # fmt: skip


def of_variant(lab: Lab, variant: Variant) -> list[rehearsing.Source]:
    """What the class of a variant hands in."""
    return [s for s in rehearsing.sources(lab) if s.variant == variant.name]


def _plain(t: Any) -> dict[str, Any]:
    if t.refused:
        return {"refused": t.refused}
    spreads = {"ms": t.ms["yours"], "over_rung": t.over_rung, "over_library": t.over_library}
    spread_of = {
        n: None if s is None else [s.median, s.q1, s.q3, s.count] for n, s in spreads.items()
    }
    which = {"size": list(t.size), "rung": t.rung, "wrong": t.wrong, "launches": t.launches}
    return spread_of | which


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade these labs, and write them after each variant beside those of other labs that the file
    holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--labs", nargs="*", default=["1", "2", "3", "4", "5", "6"])
    parser.add_argument("--seconds", type=float, default=540.0)
    args = parser.parse_args(arguments)
    from helpers.record.gpu import Session

    session = Session()
    rows: list[dict[str, Any]] = []
    if args.out.is_file():
        data = json.loads(args.out.read_text(encoding="utf-8"))
        rows = [row for row in data["rows"] if row["lab"] not in args.labs]
    machine = {"gpu": session.gpu.name, "locked": bool(apart.landlock())}
    machine |= stamp(session.versions(), commit())
    del session
    until = time.monotonic() + args.seconds
    for number in args.labs:
        lab = labs.lab(number)
        for variant in lab.variants:
            if time.monotonic() > until:
                print("out of time: the rest is left", file=sys.stderr)
                return 1
            with tempfile.TemporaryDirectory() as folder:
                rows += [
                    row | {"commit": machine["commit"]}
                    for row in graded(lab, variant, Path(folder))
                ]
            text = json.dumps({"machine": machine, "rows": rows}, indent=1)
            replace_file(args.out, text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
