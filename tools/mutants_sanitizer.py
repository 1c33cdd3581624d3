"""The mutants on a GPU: what compute-sanitizer reports of each, and whether its result is wrong.

`python -m tools.mutants_sanitizer --out data/validation/mutants_sanitizer.json` runs every mutant
of tools/mutants.py at its shapes, in a process of its own for each tool and in one more with no
tool; with `--of hopper`, into a file of their own, every mutant of tools/mutants_hopper.py. The
kernels without a fault run the same way: what a tool reports of those counts for nothing. It is
resumable, and a mutant that no tool has reported yet comes before one that is caught already.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import cdiv, geometry
from helpers.ladder.rungs import catalog as kernels
from helpers.ladder.rungs import fingerprint
from helpers.record import evidence, stamps, store
from helpers.record.entries import CHECKS, MutantRun
from helpers.record.store import Record, Size
from nogpu.errors import TileError
from tools import mutants, mutants_hopper
from tools.recorder import campaign, sanitizer
from tools.recorder.sanitizer import Task, Verdict
from tools.recorder.sections import sanitized as watching

KIND = "mutants_sanitizer"
LIMIT = 10.0
"""Seconds for the launches of one process, which take milliseconds where they end."""
RUNS = ("", *CHECKS)
"""The result first, with no tool; then the tools."""


@dataclass(frozen=True)
class Subject:
    """A mutant, or (fault "") the kernel that mutants are made of, as it stands in the catalog."""

    name: str
    kernel: str
    fault: str
    text: str = field(repr=False)
    hopper: bool = False

    @cached_property
    def params(self) -> dict[str, int]:
        """The tile sizes that it runs with, those of the emulator's record."""
        kernel = kernels[self.kernel]
        if self.hopper:
            return dict(mutants_hopper.planned(kernel, self.sizes[0]).params)
        return dict(geometry(kernel, *mutants.ALIGNED, **mutants.TILES[self.kernel]).params)

    @property
    def sizes(self) -> tuple[Size, ...]:
        """M, N, K of its launches, the ragged one first."""
        if self.hopper:
            return mutants_hopper.sizes(kernels[self.kernel])
        return tuple(mutants.SHAPES[name] for name in reversed(mutants.shapes(self.kernel)))

    @cached_property
    def source(self) -> str:
        """Short hash of the code that runs: the text, what it includes and its tile sizes."""
        whole = (self.text, fingerprint(self.kernel), sorted(self.params.items()))
        return hashlib.sha256(repr(whole).encode()).hexdigest()[:12]


@cache
def subjects() -> tuple[Subject, ...]:
    """The clean kernels, then every mutant."""
    clean = [Subject(f"{k}:clean", k, "", kernels[k].source) for k in mutants.TILES]
    return (*clean, *(Subject(m.name, m.kernel, m.fault, m.source) for m in mutants.mutants()))


@cache
def hopper_subjects() -> tuple[Subject, ...]:
    """The same of the TMA kernels."""
    names = mutants_hopper.KERNELS_OF
    clean = [Subject(f"{k}:clean", k, "", kernels[k].source, True) for k in names]
    faulty = (Subject(m.name, m.kernel, m.fault, m.text, True) for m in mutants_hopper.mutants())
    return (*clean, *faulty)


def task(subject: Subject, check: str, cubin: Path) -> Task:
    """One process: a subject at each of its shapes, the ragged one first, under a check or none."""
    jobs = [
        watching.launched(subject.kernel, s, subject.params, cubin, check) for s in subject.sizes
    ]
    return Task(f"{subject.name} under {check or 'no tool'}", check, tuple(jobs), {"of": subject})


def row(of: Subject, check: str, found: Verdict, stamp: Mapping[str, Any]) -> MutantRun:
    """The record's row of one process. wrong: elements of C, all launches together."""
    return MutantRun(
        name=of.name, kernel=of.kernel, fault=of.fault, check=check, state=found.state,
        errors=found.errors, summary=found.summary,
        first=found.first or (watching.last_line(found.log) if found.state == "stopped" else ""),
        wrong=sum(launch.get("wrong") or 0 for launch in found.launches), seconds=found.seconds,
        source=of.source, recorded=dict(stamp),
    )  # fmt: skip


def lacking(data: Record, chosen: Iterable[Subject], check: str) -> list[Subject]:
    """Subjects whose row of one check is missing, or of other code."""
    sources = {(r.name, r.check): r.source for r in data.rows}
    return [s for s in chosen if sources.get((s.name, check)) != s.source]


def rounds(
    data: Record, chosen: Sequence[Subject], checks: Sequence[str] = CHECKS
) -> Iterable[list[tuple[Subject, str]]]:
    """What to run, in order; each round is decided when the one before it is done.

    All results, all clean kernels, each tool on the mutants that none has reported yet, the rest.
    """
    yield [(s, "") for s in lacking(data, chosen, "")]
    clean = [s for s in chosen if not s.fault]
    yield [(s, check) for check in checks for s in lacking(data, clean, check)]
    for check in checks:
        caught = {r.name for r in data.rows if r.check and r.errors}
        yield [(s, check) for s in lacking(data, chosen, check) if s.name not in caught]
    yield [(s, check) for check in checks for s in lacking(data, chosen, check)]


def run(
    out: Path, *, of: Sequence[Subject] | None = None, chosen: Sequence[Subject] | None = None,
    workers: int | None = None, seconds: float | None = None, limit: float = LIMIT,
    commit: str | None = None, say: Callable[[str], None] = print,
) -> list[str]:  # fmt: skip
    """Run what the record lacks; what could not be understood, as text. Raises as `campaign.run`.

    of: all that the record is about, `subjects()` if left out; chosen: those of them to run now.
    """
    campaign.require_gpu()
    started, session = time.monotonic(), campaign.RecordingSession()
    of = subjects() if of is None else of
    chosen = list(of if chosen is None else chosen)
    data = store.start_validation(out, KIND)
    known = {s.name: s.source for s in of}
    data.data["rows"] = [r for r in data.rows if known.get(r.name) == r.source]
    stamp = stamps.stamp(session.versions(), stamps.commit(commit))
    stamp |= {"gpu": session.gpu.name, "sanitizer": sanitizer.version(sanitizer.tool_path())}
    count, arch = sanitizer.workers(workers), session.gpu.arch

    def left() -> float:
        spent = time.monotonic() - started
        return math.inf if seconds is None else seconds - spent

    missing = {s.name: s for check in RUNS for s in lacking(data, chosen, check)}
    processes = sum(len(lacking(data, chosen, check)) for check in RUNS)
    say(f"{processes} processes to start, {count} at a time -> {out}")
    if not processes:
        return []
    refused: dict[str, str] = {}  # the last round tries each of them once more
    with tempfile.TemporaryDirectory(prefix="tile-by-tile-") as folder:
        sources = watching.control_sources(arch)
        for s in missing.values():
            sources[s.name] = watching.source(kernels[s.kernel], s.text, arch, s.params)
        cubins = sanitizer.compile_all(sources, Path(folder), count)
        say(f"{len(cubins)} kernels compiled in {time.monotonic() - started:.0f} s")
        data.data["controls"] = watching.watch_controls(cubins, count, limit, left)
        refused |= watching.not_believed(data.controls)
        checks = watching.believed(data.controls)
        done, wrote = 0, time.monotonic()
        try:
            for todo in rounds(data, chosen, checks):
                tasks = [task(s, check, cubins[s.name]) for s, check in todo]
                for t, found in sanitizer.side_by_side(
                    tasks, workers=count, limit=limit, left=left
                ):
                    if found.state == "unknown":
                        refused[t.what] = f"{t.what}: {found.log}"
                        continue
                    refused.pop(t.what, None)
                    data.merge(row(t.row["of"], t.check, found, stamp), "rows")
                    done += 1
                    if time.monotonic() - wrote > watching.WRITE_EVERY:
                        data.write()
                        wrote = time.monotonic()
                        rate = done / (time.monotonic() - started)
                        say(f"{done}/{processes}, {(processes - done) / rate:.0f} s to go")
        finally:
            data.write()
    say(f"{out}: {done} of {processes} processes recorded, {len(refused)} not understood")
    if done + len(refused) < processes:
        say("Run the same command again to go on; what is in the file is not run twice.")
    return list(refused.values())


def show(out: Path, hopper: bool = False) -> None:
    """Print the table of the classes, as far as there is one."""
    table = evidence.mutants_table(out, hopper=hopper)
    for r in table.rows if table else ():
        print(" ".join(f"{r[name]!s:>{28 if name == 'fault' else 10}}" for name in r))
    print(table.note if table else "no mutant has all of its runs yet")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants_sanitizer", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="the record (JSON)")
    parser.add_argument(
        "--of", choices=("ladder", "hopper"), default="ladder", help="which mutants"
    )
    parser.add_argument("--workers", type=int, help="processes side by side (default: 12 at most)")
    parser.add_argument("--seconds", type=float, help="stop cleanly before this much time is spent")
    parser.add_argument("--plan", action="store_true", help="how much there is to do; needs no GPU")
    options = parser.parse_args(arguments)
    hopper = options.of == "hopper"
    try:
        of = hopper_subjects() if hopper else subjects()
        if options.plan:
            data = store.start_validation(options.out, KIND)
            count = sanitizer.workers(options.workers)
            for check in RUNS:
                lacks = len(lacking(data, of, check))
                each = watching.START_SECONDS if check else watching.START_SECONDS / 2
                print(
                    f"{lacks:5d} under {check or 'no tool':10s} {each * cdiv(lacks, count):6.0f} s"
                )
            return 0
        refused = run(
            options.out, of=of, workers=options.workers, seconds=options.seconds,
            say=lambda line: print(line, flush=True),
        )  # fmt: skip
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    show(options.out, hopper)
    for text in refused[:5]:
        print(f"refused: {text}", file=sys.stderr)
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
