"""Tables of the page on teaching: hours of labs and of a course, and records of grading."""

import difflib
import json
import re
from collections import Counter
from itertools import product
from typing import Any

from helpers.ladder.kernel import ROOT
from nogpu.errors import DataError
from nogpu.text import without_comments
from tilelabs.labs import Lab, all_labs, lab, rehearsing

RECORDS = ROOT / "data" / "validation"
RATES = {"read": 1 / 130, "write": 3.0, "count": 30.0, "fill": 1.0, "explain": 3.0}
"""Minutes for a word that is read, a line of the kernel that the starter lacks, a part that is
counted and improved, a cell of a table in a comment, and a point for a written answer. The first is
that of `tools.essays`, the others are estimates that no class has tried.
"""
READING = {
    12: ("tour 01 02 03", "04 05", "06 07", "08 09", "10", "11 12", "15", "17 18", "19 20",
         "21 22", "23 25", ""),
    8: ("tour 01 02 03", "04 05", "06 07", "08 09", "10 11", "12 15", "17 18", ""),
}  # fmt: skip
"""Pages by week, of a course of so many weeks; the last one is for talks and the exam."""
HANDED_OUT = {
    12: {"1": (2, 1), "2": (3, 1), "3": (4, 2), "4": (6, 2), "5": (8, 2), "6": (10, 3)},
    8: {"1": (2, 1), "2": (3, 1), "3": (4, 2), "4": (5, 2), "5": (7, 2)},
}
"""Of such a course: in which week a lab is handed out, and for how many weeks."""


def steps(one: Lab) -> dict[str, float]:
    """Minutes of a lab by step, in its first variant: what is counted of it, times `RATES`.

    Empty where the book has no solutions to count from, as the copy that a notebook fetches.
    """
    tried = rehearsing.sources(one) if rehearsing.texts(one) else ()
    variant = one.variants[0]
    solved = [s.text for s in tried if s.kind == "solution" and s.variant == variant.name]
    if not solved:
        return {}
    words = " ".join([one.task, variant.words, *one.hints, *(p.words + p.ask for p in one.parts)])
    before, after = (_code(text) for text in (one.starter(variant), solved[0]))
    amounts = {
        "read": len(words.split()),
        "write": sum(row.startswith("+ ") for row in difflib.ndiff(before, after)),
        "count": sum(p.limit is not None or p.least is not None for p in one.parts),
        "fill": sum(p.rows * len(p.table) for p in one.parts),
        "explain": sum(p.points for p in one.parts if p.by_hand),
    }
    return {step: amount * RATES[step] for step, amount in amounts.items()}


def _code(text: str) -> list[str]:
    """Its lines without comments, and without those that only close."""
    lines = (line.strip() for line in without_comments(text).splitlines())
    return [line for line in lines if line.strip("{} ")]


def steps_table() -> dict[str, Any]:
    """Minutes of each lab by step, as what `pages.table` takes."""
    rows = [
        {"lab": one.number, **found, "hours": f"{sum(found.values()) / 60:.1f}"}
        for one in all_labs()
        if (found := steps(one))
    ] or [{"lab": one.number, "hours": f"{one.hours}"} for one in all_labs()]
    return {
        "rows": rows,
        "caption": "Minutes of a lab, step by step, and its hours.",
        "headers": {
            "read": "read what is asked",
            "write": "write the kernel",
            "count": "look at a count and improve it",
            "fill": "fill in the table",
            "explain": "write answers",
        },
        "formats": dict.fromkeys(RATES, ".0f"),
        "note": (
            f"Counted from each lab's words, from the lines that a solution has and the starter "
            f"lacks ({RATES['write']:g} minutes each), its counts ({RATES['count']:g}), cells of a "
            f"table ({RATES['fill']:g}) and points for written answers ({RATES['explain']:g}): "
            "estimates that no class has tried."
        ),
    }


def calendar(weeks: int) -> dict[str, Any]:
    """A course week by week, with its hours outside class, as what `pages.table` takes.

    weeks: 12 or 8.
    """
    rows = []
    for week, pages in enumerate(READING[weeks], 1):
        out = HANDED_OUT[weeks]
        under_way = [n for n, (start, length) in out.items() if start <= week < start + length]
        minutes = sum(map(_minutes, pages.split())) + sum(
            60 * lab(n).hours / out[n][1] for n in under_way
        )
        new = [f"lab {n}, for {out[n][1]} weeks" for n in under_way if out[n][0] == week]
        rows.append(
            {
                "week": f"{week}",
                "read": ", ".join(page.lstrip("0") for page in pages.split()) or "talks, exam",
                "hand_out": "".join(new).replace("1 weeks", "a week") or "-",
                "hours": f"{minutes / 60:.1f}",
            }
        )
    return {
        "rows": rows,
        "caption": f"A course of {weeks} weeks.",
        "headers": {"read": "chapters", "hand_out": "hand out", "hours": "hours of a student"},
        "note": (
            "Minutes as each page states them, and a lab's hours spread over its weeks. The tour "
            "is for class; a lab is due when its last week ends."
        ),
    }


def _minutes(page: str) -> int:
    """What a page says that it takes; none of the tour, which is read in class."""
    if page == "tour":
        return 0
    [path] = (ROOT / "book").glob(f"{page}_*.md")
    found = re.search(r"Time: about (\d+) minutes", path.read_text(encoding="utf-8"))
    if found is None:
        raise DataError(f"{path} does not say its minutes: add `Time: about N minutes`")
    return int(found[1])


def _record(name: str) -> Any:
    """A record of data/validation. Raises DataError where it is not there, or cannot be read."""
    path = RECORDS / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}. It comes with the repository") from None


def _timed() -> list[dict[str, Any]]:
    """Rows of kernels that have a time, of the labs that were graded on a GPU."""
    rows = _record("labs_h200.json")["rows"]
    return [r for r in rows if r["timed"] and "ms" in r["timed"] and not r["timed"]["wrong"]]


def times_table() -> dict[str, Any]:
    """Points beside times of what labs are rehearsed on, graded on a GPU, as what `pages.table`
    takes."""
    run, timed = _record("labs_h200.json"), _timed()
    on = run["machine"]
    every = Counter((row["lab"], row["variant"]) for row in timed)
    shown = {lab: variant for (lab, variant), _ in reversed(every.most_common())}
    rows = [
        {
            "lab": row["lab"], "kernel": f"{row['source']}", "points": row["points"],
            "ms": row["timed"]["ms"][0], "rung": row["timed"]["rung"],
            **{over: row["timed"][over][0] for over in ("over_rung", "over_library")},
        }
        for row in timed
        if row["variant"] == shown[row["lab"]]
    ]  # fmt: skip
    note = (
        f"{on['gpu']}, driver {on['driver']}, CUDA {on['cuda']}, cuBLAS {on['cublas']},"
        f" {on['date']}, commit {', '.join(sorted({row['commit'] for row in run['rows']}))}, by"
        " python -m tools.labs_on_a_gpu. Points as the rubrics were then, without the written part;"
        f" of each lab one variant, {len(timed)} kernels in all."
    )
    faster = {"over_rung": "times as fast as it", "over_library": "times as fast as cuBLAS"}
    return {
        "rows": rows,
        "caption": "Labs graded with --gpu: what is right and clean.",
        "headers": {**faster, "rung": "beside"},
        "formats": {"points": "g", "ms": ".3g", **dict.fromkeys(faster, ".2f")},
        "note": note,
    }


def inversions() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Pairs of one variant, each a row of the record, in which the first has more points and is the
    slower, beyond 2 %."""
    return [
        (a, b)
        for a, b in product(_timed(), repeat=2)
        if (a["lab"], a["variant"]) == (b["lab"], b["variant"])
        and a["points"] > b["points"]
        and a["timed"]["ms"][0] > 1.02 * b["timed"]["ms"][0]
    ]


def at_the_top(pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[str]:
    """Of such pairs, those whose first has every point of its lab: what kind the second is of."""
    rows = sorted(_timed(), key=lambda row: row["points"])
    most = {row["lab"]: row["points"] for row in rows}
    return [b["kind"] for a, b in pairs if a["points"] == most[a["lab"]]]


def class_table() -> dict[str, Any]:
    """What a class took on the machine that graded it, as what `pages.table` takes."""
    run = _record("classroom.json")
    figures = {
        "students, a tenth of them hostile": f"{run['students']}",
        "minutes in all": f"{run['minutes']:.1f}",
        "seconds of processor time for each submission": f"{run['cpu_seconds_a_submission']:.1f}",
        "runs that were killed, and went on": f"{run['killed']}",
        "results that this, or a hostile neighbour, changed": f"{len(run['changed'])}",
        "files in which the course's secret stands": f"{len(run['leaks'])}",
    }
    note = (
        f"{run['cores']} cores ({run['cpu']}), {run['workers']} workers, load {run['load']:g},"
        f" {run['compiler']}, {run['date']}, by python -m tools.classroom."
    )
    rows = [{"what": what, "figure": figure} for what, figure in figures.items()]
    return {"rows": rows, "caption": f"A class graded in lab {run['lab']}.", "note": note}


def exploits_table() -> dict[str, Any]:
    """What was tried against the grader, what holds it, and what it needs to pass, as what
    `pages.table` takes."""
    run = _record("exploits.json")
    rows = [
        {
            "no": str(row["number"]), "tries": row["tries"], "by": row["held_by"],
            "points": f"{row['points']} of {run['of']}" if row["points"] >= 0 else "none to get",
            "off": row["never"] or row["off"],
        }
        for row in run["rows"]
        if row["held"]
    ]  # fmt: skip
    controls = [row["control"] for row in run["rows"] if row["control"] is not None]
    note = (
        f"{len(rows)} of {len(run['rows'])} are held, and with the one defence switched off"
        f" {sum(controls)} of {len(controls)} pass. {run['compiler']}, {run['date']}, commit"
        f" {run['commit']}, by python -m tools.exploits."
    )
    return {
        "rows": rows,
        "caption": "Known ways to points that nobody earned.",
        "headers": {
            "tries": "what it tries to",
            "by": "what holds it",
            "points": "points it gets",
            "off": "what lets it pass, or why it cannot be",
        },
        "note": note,
    }
