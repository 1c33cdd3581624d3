"""A whole class, graded: what it costs, and that nobody's result is changed by who sits beside
them.

    python -m tools.classroom --students 200 --out data/validation/classroom.json

makes a class out of what lab 2 is tried on (solutions, twins, starters, careless bytes; a tenth is
hostile), under Canvas's file names, and grades it at the terminal with two workers. Then the same
class without the hostile ones is graded by runs that are killed (kill -9) after every ninth result
and go on: each result is compared to the byte with the one from the noisy class, and each line of
the marks. About 13 minutes on two cores of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.record.host import cpu_name
from nogpu import toolchain
from tilelabs import apart, labs
from tilelabs.grading import judging
from tilelabs.labs import courses
from tilelabs.labs.rehearsing import sources
from tools import hostile

LAB = labs.lab("2")
VARIANT = "A transposed"
LOCK = [] if apart.landlock() else ["--without-landlock"]


@dataclass(frozen=True)
class Student:
    """One of the class. kind: "hostile", or what of the rehearsal they hand in, or "careless"."""

    id: str
    kind: str
    file: str
    raw: bytes


def careless(text: str) -> list[bytes]:
    """Bytes that students hand in without thinking of bytes."""
    return [
        b"\xef\xbb\xbf" + text.encode(), text.replace("\n", "\r\n").encode(), text.replace("\n", "\r").encode(),
        text.encode("utf-16"), ("// für\n" + text).encode("latin-1"), text.encode() + b"\0", b"", b"{",
        *(head.encode() for head, _ in hostile.HEADS.values()),
    ]  # fmt: skip


def students(count: int, secret: Path) -> list[Student]:
    """A class, the same every time; every tenth is hostile. secret: a file that some of those try
    to read."""
    rng = Random(count)
    solution = next(s.text for s in sources(LAB) if s.kind == "solution" and s.variant == VARIANT)
    bad = [*hostile.BOMBS.values(), *hostile.NO_BARRIER.values(), hostile.DILUTED,
           *(text.replace("FILE", str(secret)) for text in hostile.READS.values())]  # fmt: skip
    good = {
        kind: [s.text.encode() for s in sources(LAB) if s.kind == kind and s.variant == VARIANT]
        for kind in ("solution", "twin", "starter")
    } | {"careless": careless(solution)}
    found = []
    for i in range(count):
        if i % 10 == 7:
            kind, raw = "hostile", bad[i // 10 % len(bad)].encode()
        else:
            kind = rng.choice(("solution", "solution", "twin", "twin", "careless", "starter"))
            raw = rng.choice(good[kind])
        id_, end = str(10_000 + 7 * i), ".cu"
        if raw.startswith((b"extern", b"//")) and kind != "hostile":
            raw = f"// {id_}\n".encode() + raw  # no two the same
            if kind != "careless" and i % 3 == 0:
                raw, end = (
                    hostile.notebook("%%cuda lab2\n" + raw.decode(), outputs="x" * 100_000),
                    ".ipynb",
                )
        late = "LATE_" * (i % 11 == 0)
        found.append(Student(id_, kind, f"student{i}_{late}{id_}_{90_000 + i}_lab2{end}", raw))
    return found


def download(of: Sequence[Student], path: Path) -> Path:
    """The zip that Canvas would hand out."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for student in of:
            archive.writestr(student.file, student.raw)
    return path


# -- grading ---------------------------------------------------------------------------------------


def helpers(*arguments: object) -> list[str]:
    """A command line of the book's."""
    return [sys.executable, "-m", "helpers", *map(str, arguments)]


def started(archive: Path, course: Path, out: Path, workers: int) -> subprocess.Popen[str]:
    """What a teacher types to grade."""
    where = ("--course", course, "--out", out, "--workers", workers)
    command = helpers("grade", "2", archive, *where, *LOCK)
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def graded(archive: Path, course: Path, out: Path, workers: int) -> dict[str, float]:
    """Grade, and what that took: minutes, processor seconds, megabytes of the largest process."""
    began = time.monotonic()
    run = started(archive, course, out, workers)
    assert run.stdout is not None
    printed = run.stdout.read()
    _, status, used = os.wait4(run.pid, 0)  # of this process and those below it, and no other child
    run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode == 0, printed
    return {
        "minutes": round((time.monotonic() - began) / 60, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "largest_process_mb": round(used.ru_maxrss * 1024 / 1e6),
    }


def graded_by_killed_runs(archive: Path, course: Path, out: Path, workers: int, after: int) -> int:
    """Grade by runs that are killed after so many new results each; how many were killed."""
    killed = 0
    while True:
        run = started(archive, course, out, workers)
        assert run.stdout is not None
        try:
            for line in run.stdout:
                if line.startswith(f"{after}/"):
                    os.kill(run.pid, signal.SIGKILL)
                    break
        finally:
            run.stdout.close()
        if run.wait() == 0:
            return killed
        assert run.returncode == -signal.SIGKILL, f"a run ended with {run.returncode}"
        killed += 1


def marks(course: Path, out: Path) -> dict[str, str]:
    """The lines of the table of marks, by student."""
    subprocess.run(helpers("report", "2", "--course", course, "--out", out), cwd=ROOT, check=True,
                   stdout=subprocess.DEVNULL)  # fmt: skip
    lines = (out / "lab-2-marks.csv").read_text(encoding="utf-8").splitlines()
    return {line.split(",")[0]: line for line in lines}


def facts(out: Path) -> dict[str, bytes]:
    """The bytes of each result, by file; what a killed run left half-written has another name."""
    return {p.name: p.read_bytes() for p in (out / "lab-2").glob("*.json") if p.name[0] != "."}


def changed(of: Sequence[Student], course: Path, one: Path, other: Path) -> list[str]:
    """Students whose result or line of marks differs by a byte between two folders."""
    results, lines = (facts(one), facts(other)), (marks(course, one), marks(course, other))

    def same(pair: tuple[dict[str, Any], dict[str, Any]], name: str) -> bool:
        return name in pair[0] and pair[0][name] == pair[1].get(name)

    return [s.id for s in of if not (same(results, judging.file_name(s.id)) and same(lines, s.id))]


def leaks(course: Path, out: Path) -> list[str]:
    """Files of results, marks and feedback that hold the course's secret."""
    secret = courses.read(course).secret.hex().encode()
    return [str(p) for p in out.rglob("*") if p.is_file() and secret in p.read_bytes()]


def run(count: int, place: Path, workers: int = 2, every: int = 9) -> dict[str, Any]:
    """Grade a class in a folder as above; the record of it."""
    course = courses.new(place / "course", variants={"2": VARIANT}).folder
    everybody = students(count, course / courses.FILE)
    honest = [s for s in everybody if s.kind != "hostile"]
    load = os.getloadavg()[0]
    took = graded(download(everybody, place / "all.zip"), course, place / "all", workers)
    load = max(load, os.getloadavg()[0])
    print(f"{count} students: {took}", file=sys.stderr, flush=True)
    killed = graded_by_killed_runs(
        download(honest, place / "honest.zip"), course, place / "quiet", workers, every
    )
    return {
        "date": date.today().isoformat(),
        "cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version(),
        "compiler": toolchain.compiler(), "landlock": apart.landlock(), "book": judging.book()[:12],
        "lab": LAB.number, "version": LAB.version, "workers": workers,
        "students": count, "kinds": dict(sorted(Counter(s.kind for s in everybody).items())),
        **took,
        "cpu_seconds_a_submission": round(took["cpu_seconds"] / count, 2),
        "load": round(load, 1),
        "killed": killed, "every": every,
        "changed": changed(honest, course, place / "all", place / "quiet"),
        "leaks": leaks(course, place / "all"),
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--students", type=int, default=200, help="how many (default: 200)")
    parser.add_argument("--workers", type=int, default=2, help="submissions at a time (default: 2)")
    parser.add_argument("--out", type=Path, required=True, help="where to write the record (JSON)")
    args = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="classroom-"))
    try:
        record = run(args.students, place, args.workers)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    args.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
