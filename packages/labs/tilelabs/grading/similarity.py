"""Folders in which JPlag and Dolos compare the kernels of a class; never part of a mark.

In: the submissions, an earlier class's, the lab. Out: texts in the places that the two tools ask
for, with what everybody was given as base code and the lab's published solutions as earlier work.
"""

import csv
import io
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from helpers.ladder.kernel import ROOT
from nogpu.disk import replace_file
from nogpu.errors import SourceError
from nogpu.text import decode
from tilelabs.grading.collecting import Submission
from tilelabs.grading.tables import PRIVATE, inert, safe_name
from tilelabs.labs import rehearsing
from tilelabs.labs.rubrics import Lab

HOW = """\
Lab {lab}: for a person to compare, and no part of any mark. Two short kernels of one task are alike; look at both
texts before you think anything.

class/         a folder for each student, with the kernel
{earlier}base/          what everybody was given; base.cpp is all of it
info.csv       for Dolos: whose each file is, by number

JPlag (Java; everything stays on this machine), in this folder:
    java -jar jplag.jar -l cpp -bc base {old}class
Dolos (Node; everything stays on this machine), in this folder:
    dolos run -f web -l cpp -i base/base.cpp info.csv

Both read CUDA as C++, which it is but for a few words. Do not hand this folder to a service elsewhere: it says
who wrote what.
"""  # noqa: E501


def common_texts(lab: Lab) -> dict[str, str]:
    """What every student was given, by name: the lab's starters, the book's kernels, the CUDA on
    its pages.
    """
    found = {f"starter_{i}": lab.starter(v) for i, v in enumerate(lab.variants)}
    for path in sorted((ROOT / "kernels").rglob("*.cu*")):
        found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "book").glob("*.md")):
        fenced = re.findall(r"(?ms)^```[^\n]*\n(.*?)^```", path.read_text(encoding="utf-8"))
        if listings := [text for text in fenced if "__global__" in text or "__device__" in text]:
            found[f"book/{path.stem}"] = "\n".join(listings)
    return found


def export(
    lab: Lab, now: Sequence[Submission], before: Sequence[Submission], out: Path
) -> tuple[Path, tuple[str, ...]]:
    """Write out/lab-N-similar/, for its owner alone, in place of what was there; the folder, and
    who has no text.

    Source: JPlag's page How to Use JPlag (-l, -bc, -old); Dolos's pages Running Dolos CLI and
    Adding metadata.
    """
    folder = out / f"lab-{lab.number}-similar"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    solutions = {}
    if rehearsing.texts(lab):  # the clone that Colab's first cell makes leaves it out
        tried = rehearsing.sources(lab)
        solutions = {f"solution_{s.name}": s.text for s in tried if s.kind == "solution"}
    rows, without = [["filename", "label", "full_name"]], []
    for place, name, text in (
        *(("class", s.student, _text(s)) for s in now),
        *(("before", s.student, _text(s)) for s in before),
        *(("before", name, text) for name, text in solutions.items()),
    ):
        if text is None:
            without.append(name)
            continue
        file = f"{place}/{safe_name(name)}/{lab.entry}.cpp"
        _write(folder / file, text)
        rows.append([file, place, inert(name)])
    texts = common_texts(lab)
    for name, text in texts.items():
        _write(folder / "base" / f"{safe_name(name)}.cpp", text)
    _write(folder / "base" / "base.cpp", "\n".join(texts.values()))
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(rows)
    _write(folder / "info.csv", table.getvalue())
    earlier = any(row[1] == "before" for row in rows)
    what = "before/        the lab's published solutions, and an earlier class\n" * earlier
    words = HOW.format(lab=lab.number, earlier=what, old="-old before " * earlier)
    _write(folder / "README.txt", words)
    return folder, tuple(without)


def _text(s: Submission) -> str | None:
    try:
        return None if s.raw is None else decode(s.raw)
    except SourceError:
        return None


def _write(path: Path, text: str) -> None:
    replace_file(path, text, PRIVATE)
