"""A table of who is fastest, under pseudonyms that students choose, of those who chose one: pseudonyms.csv.

Times on a GPU rank before counts, as the ratio to the same rung of the book; among those without a time,
points do, and then wavefronts and instructions for each 32 multiply-adds. No id and no name is written.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from helpers.wording import number
from nogpu.disk import replace_file
from nogpu.errors import DataError
from tilelabs.grading.feedback import document
from tilelabs.grading.reporting import Row, checked, counting
from tilelabs.grading.tables import inert, table
from tilelabs.judging.marking import tidy
from tilelabs.labs.courses import Course
from tilelabs.labs.rubrics import Lab

HEADS = ("rank", "pseudonym", "times as fast as the rung", "GPU", "points", "work")
MOST_LETTERS = 40


@dataclass(frozen=True)
class Entry:
    """One line. ratio: time of the book's rung over its own, None where nobody timed it. points: those that
    need no person. work: wavefronts and instructions for each 32 multiply-adds; 0 for what is not right."""

    pseudonym: str
    points: int
    work: float
    ratio: float | None = None
    gpu: str = ""

    @property
    def order(self) -> tuple[float, ...]:
        """The lower the better."""
        if self.ratio is not None:
            return (0, -self.ratio)
        return (1, -self.points, self.work or float("inf"))


def leaderboard(lab: Lab, course: Course, out: Path, rows: Sequence[Row]) -> tuple[Path, int]:
    """Write out/lab-N-leaderboard.csv and .html for all to see; the page, and how many are on it.

    Raises DataError for pseudonyms that tell who somebody is, or that two have chosen.
    """
    chosen = pseudonyms(course, {r.student: r.name for r in rows})
    came = counting(lab, course, out)
    entries = []
    for row in rows:
        if row.student not in chosen or row.student not in came:
            continue
        found = checked(lab, came[row.student].result)
        right = all(p.full for p in found.parts if p.rubric.id == "right")
        work = sum(found.marked.worst(what, lab.tile) for what in ("wavefronts", "instructions"))
        t = row.timed
        fast = t.over_rung.median if t and t.over_rung and not (t.refused or t.wrong) else None
        entries.append(
            Entry(
                chosen[row.student], found.points, work if right else 0.0, fast,
                t.gpu if t and fast is not None else "",
            )
        )  # fmt: skip
    entries.sort(key=lambda e: (e.order, e.pseudonym))
    base = out / f"lab-{lab.number}-leaderboard"
    replace_file(base.with_suffix(".csv"), _csv(entries))
    replace_file(base.with_suffix(".html"), _page(lab, entries))
    return base.with_suffix(".html"), len(entries)


def pseudonyms(course: Course, names: Mapping[str, str]) -> dict[str, str]:
    """What students chose to be called, by student; who chose nothing is not shown. names: of all, by id."""
    known = {word.casefold() for pair in names.items() for word in pair if word}
    found: dict[str, str] = {}
    for where, row in table(course.folder / "pseudonyms.csv", ("student", "pseudonym")):
        word = tidy(row["pseudonym"], MOST_LETTERS)
        if not word:
            continue
        if word.casefold() in known:
            raise DataError(
                f"{where}: {word!r} is somebody's name or id: let the student choose another"
            )
        if any(word.casefold() == o.casefold() for s, o in found.items() if s != row["student"]):
            raise DataError(f"{where}: {word!r} is chosen twice: let one of them choose another")
        found[row["student"]] = word
    return found


def _cells(entries: Sequence[Entry]) -> list[tuple[str, ...]]:
    return [
        (
            str(n), e.pseudonym, "" if e.ratio is None else number(e.ratio), e.gpu, str(e.points),
            number(e.work) if e.work else "",
        )
        for n, e in enumerate(entries, 1)
    ]  # fmt: skip


def _csv(entries: Sequence[Entry]) -> str:
    made = io.StringIO()
    out = csv.writer(made, lineterminator="\n")
    out.writerow(HEADS)
    out.writerows([inert(cell) for cell in cells] for cells in _cells(entries))
    return made.getvalue()


def _page(lab: Lab, entries: Sequence[Entry]) -> str:
    heads = "".join(f'<th scope="col">{head}</th>' for head in HEADS)
    rows = [
        "<tr>" + "".join(
            f'<th scope="row">{escape(cell)}</th>' if at == 1 else f"<td>{escape(cell)}</td>"
            for at, cell in enumerate(cells)
        ) + "</tr>"
        for cells in _cells(entries)
    ]  # fmt: skip
    return document(
        f"Lab {lab.number}: leaderboard",
        [
            "<p>Of those who chose a pseudonym. Times on a GPU rank first, then points, then work: wavefronts and "
            "instructions for each 32 multiply-adds.</p>",
            "<table>", f"<thead><tr>{heads}</tr></thead>", "<tbody>", *rows, "</tbody>", "</table>",
        ],
    )  # fmt: skip


__all__ = ["Entry", "leaderboard", "pseudonyms"]
