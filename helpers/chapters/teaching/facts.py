"""Tables of the page on teaching: what was recorded of grading its labs."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from helpers.ladder.kernel import ROOT
from nogpu.errors import DataError

RECORDS = ROOT / "data" / "validation"


def _record(name: str) -> Any:
    """A record of data/validation. Raises DataError where it is not there, or cannot be read."""
    path = RECORDS / name
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read: {error}. It comes with the repository") from None


def _timed(held: Any) -> list[dict[str, Any]]:
    """Rows of kernels that have a time."""
    return [
        r for r in held["rows"] if r["timed"] and "ms" in r["timed"] and not r["timed"]["wrong"]
    ]


def times_table() -> dict[str, Any]:
    """Points beside times of what labs are rehearsed on, graded on a GPU, as what `pages.table`
    takes.
    """
    held = _record("labs_h200.json")
    on = held["machine"]
    every = Counter((row["lab"], row["variant"]) for row in _timed(held))
    shown = {lab: variant for (lab, variant), _ in reversed(every.most_common())}
    rows = [
        {
            "lab": row["lab"],
            "kernel": f"{row['source']}",
            "points": row["points"],
            "ms": row["timed"]["ms"][0],
            "rung": row["timed"]["rung"],
            "over_rung": row["timed"]["over_rung"][0],
            "over_library": row["timed"]["over_library"][0],
        }
        for row in _timed(held)
        if row["variant"] == shown[row["lab"]]
    ]
    said = (
        f"{on['gpu']}, driver {on['driver']}, CUDA {on['cuda']}, cuBLAS {on['cublas']},"
        f" {on['date']}, commit {', '.join(sorted({row['commit'] for row in held['rows']}))}, by"
        " python -m tools.labs_on_a_gpu. Points without the written part; of each lab one variant,"
        f" {len(_timed(held))} kernels in all."
    )
    return {
        "rows": rows,
        "caption": "Labs graded with --gpu: what is right and clean.",
        "headers": {
            "over_rung": "times as fast as it",
            "over_library": "times as fast as cuBLAS",
            "rung": "beside",
        },
        "formats": {"points": "g", "ms": ".3g", "over_rung": ".2f", "over_library": ".2f"},
        "note": said,
    }


def inversions() -> dict[bool, int]:
    """Pairs of one variant in which the kernel with more points is the slower, beyond 2 %: those in
    which it has every point of its lab (True), and all others (False).
    """
    held = _record("labs_h200.json")
    rows = [
        r for r in held["rows"] if r["timed"] and "ms" in r["timed"] and not r["timed"]["wrong"]
    ]
    most = {
        lab: max(r["points"] for r in rows if r["lab"] == lab) for lab in {r["lab"] for r in rows}
    }
    found = {True: 0, False: 0}
    for a in rows:
        for b in rows:
            same = (a["lab"], a["variant"]) == (b["lab"], b["variant"])
            if (
                same
                and a["points"] > b["points"]
                and a["timed"]["ms"][0] > 1.02 * b["timed"]["ms"][0]
            ):
                found[a["points"] == most[a["lab"]]] += 1
    return found


def class_table() -> dict[str, Any]:
    """What a class took on the machine that graded it, as what `pages.table` takes."""
    held = _record("classroom.json")
    rows = [
        {"what": "students, a tenth of them hostile", "figure": f"{held['students']}"},
        {"what": "minutes in all", "figure": f"{held['minutes']:.1f}"},
        {
            "what": "seconds of processor time for each submission",
            "figure": f"{held['cpu_seconds_a_submission']:.1f}",
        },
        {"what": "runs that were killed, and went on", "figure": f"{held['killed']}"},
        {
            "what": "results that this, or a hostile neighbour, changed",
            "figure": f"{len(held['changed'])}",
        },
        {"what": "files in which the course's secret stands", "figure": f"{len(held['leaks'])}"},
    ]
    said = (
        f"{held['cores']} cores ({held['cpu']}), {held['workers']} workers, load {held['load']:g},"
        f" {held['compiler']}, {held['date']}, by python -m tools.classroom."
    )
    return {"rows": rows, "caption": f"A class graded in lab {held['lab']}.", "note": said}


def exploits_table() -> dict[str, Any]:
    """What was tried against the grader, what holds it, and what it needs to pass, as what
    `pages.table` takes.
    """
    held = _record("exploits.json")
    rows = [
        {
            "no": str(row["number"]), "tries": row["tries"], "by": row["held_by"],
            "points": f"{row['points']} of {held['of']}" if row["points"] >= 0 else "none to get",
            "off": row["never"] or row["off"],
        }
        for row in held["rows"]
        if row["held"]
    ]  # fmt: skip
    controls = [row["control"] for row in held["rows"] if row["control"] is not None]
    said = (
        f"{len(rows)} of {len(held['rows'])} are held, and with the one defence switched off"
        f" {sum(controls)} of {len(controls)} pass. {held['compiler']}, {held['date']}, commit"
        f" {held['commit']}, by python -m tools.exploits."
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
        "note": said,
    }


__all__ = ["class_table", "exploits_table", "inversions", "times_table"]
