"""A word in each place that a grader can read comes out nowhere: neither in marks nor in PTX; with
no defence it does.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.common import ROOT
from tilelabs import apart
from tools.canaries import FIXED, FORMS, OWNER, PLACES, canary, numbers

pytestmark = [pytest.mark.slow, pytest.mark.nvrtc]

KINDS = (
    "results",
    "history",
    "marks",
    "feedback txt",
    "feedback html",
    "feedback zip",
    "gradebook",
    "terminal",
    "PTX",
    "log",
)
"""All that comes out, by kind: facts as JSON, and what is made of them; the last two the compile
process hands on.
"""
DEFENCES = (("list",), ("lock",), ("list", "lock"))


@dataclass(frozen=True)
class Graded:
    """A class that was graded: where, and the texts that came out, by kind."""

    folder: Path
    texts: Mapping[str, str]

    @property
    def secret(self) -> str:
        """The course's secret, in hexadecimal."""
        return str(tomllib.loads((self.folder / "course" / "course.toml").read_text())["secret"])

    @property
    def leaks(self) -> set[tuple[str, str]]:
        """Each place of which something came out, and by what kind."""
        words = {place: (canary(place), numbers(place)) for place in PLACES}
        words["course"] = (*words["course"], self.secret)
        return {
            (place, kind)
            for kind, text in self.texts.items()
            for place, needles in words.items()
            if any(needle in text for needle in needles)
        }


def texts(folder: Path) -> Iterator[tuple[str, str]]:
    """What came out, by kind, file by file.

    Left out: what the owner of a word handed in, and what is made of it.
    """
    out = folder / "out"
    for path in sorted(p for p in out.rglob("*") if p.is_file() and p.name != "private.txt"):
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as held:
                yield "feedback zip", "\n".join(held.namelist())
                for name in held.namelist():
                    yield "feedback zip", held.read(name).decode()
            continue
        kind = {
            "lab-2": "results", "history": "history", "lab-2-feedback": f"feedback {path.suffix[1:]}",
        }.get(path.parent.name, "gradebook" if "gradebook" in path.name else "marks")  # fmt: skip
        yield kind, path.read_text(encoding="utf-8")
    yield "terminal", (folder / "told.txt").read_text(encoding="utf-8")
    for one in json.loads((folder / "handed.json").read_text(encoding="utf-8")):
        if canary("other") not in one["source"]:
            made = one["value"] or {}
            yield "PTX", made.get("ptx", "")
            yield "log", f"{made.get('refused', '')}\n{one['fault']}"


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory):
    """The class by the defences that it was graded with, each once."""

    @cache
    def by(*defences: str) -> Graded:
        if "lock" in defences and not apart.landlock():
            pytest.skip("this kernel has no Landlock")
        folder = tmp_path_factory.mktemp("-".join(defences) or "none")
        env = {
            "A_TOKEN": canary("environment"), "PATH": os.defpath, "PYTHONPATH": str(ROOT),
            "LC_ALL": "C.UTF-8", "TILE_CACHE": "0",
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tools.canaries", str(folder), *defences],
            env=env, cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        found: dict[str, str] = dict.fromkeys(KINDS, "")
        for kind, text in texts(folder):
            found[kind] += text + "\n"
        return Graded(folder, found)

    return by


def marks(of: Graded) -> dict[str, dict[str, str]]:
    with (of.folder / "out" / "lab-2-marks.csv").open(encoding="utf-8", newline="") as file:
        return {row["id"]: row for row in csv.DictReader(file)}


@pytest.mark.parametrize("defences", DEFENCES, ids="+".join)
def test_no_word_comes_out(defences: tuple[str, ...], graded) -> None:
    found = graded(*defences)
    assert found.leaks == set()
    rows = marks(found)
    assert len(rows) == 1 + len(PLACES) * len(FORMS) + len(FIXED)
    assert rows.pop(OWNER)["total"] == "90"
    assert {row["total"] for row in rows.values()} == {"0"}
    assert all("it did not run" in row["notes"] for row in rows.values())
    locked = [
        json.loads(p.read_text())["marked"]["locked"] for p in found.folder.glob("out/lab-2/*.json")
    ]
    assert len(locked) == 1 + len(rows) and set(locked) == {"lock" in defences}
    empty = {kind for kind, text in found.texts.items() if not text.strip()}
    assert empty == ({"PTX", "log"} if "list" in defences else {"PTX"})


def test_with_no_defence_every_word_comes_out_and_every_kind_tells_one(graded) -> None:
    """The control: what is looked for can be found, of each place and in all that is searched but
    the gradebook, which holds points alone. Some of those who steal even keep their points.
    """
    found = graded()
    assert {place for place, _ in found.leaks} == set(PLACES)
    assert {kind for _, kind in found.leaks} >= set(KINDS) - {"gradebook"}
    assert {row["total"] for id, row in marks(found).items() if id != OWNER} == {"0", "90"}
