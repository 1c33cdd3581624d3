"""Tables of what a GPU said of the kernels beside their times: the files data/validation/*.json,
read.

Sections "sanitizer" and "shapes" and tools/mutants_sanitizer.py write them. A page shows nothing of
a file that is not there.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from helpers.ladder import rungs
from helpers.ladder.rungs import catalog
from helpers.record import store
from helpers.record.entries import CHECKS, ControlRun, MutantRun, SanitizerRun, ShapesRun
from helpers.record.selection import DEFAULT_GPU
from helpers.record.store import Record

Row = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """What helpers.page.table takes: rows, a caption, column titles, formats and a note."""

    rows: Sequence[Row]
    caption: str
    headers: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def believed(controls: Sequence[ControlRun]) -> tuple[str, ...]:
    """The checks that reported a kernel with a known fault, by the controls in a file."""
    return tuple(c for c in CHECKS if any(r.check == c and r.errors for r in controls))


def _record_of(path: Path | None, kind: str, name: str = "") -> Record | None:
    path = path or store.VALIDATION / f"{name or kind}.json"
    return store.read_validation(path, kind) if path.exists() else None


W = TypeVar("W", SanitizerRun, ShapesRun)


def _current(rows: Iterable[W]) -> list[W]:
    """Rows about kernels as they are now; of code that has changed since, nothing is claimed."""
    rows = list(rows)
    now = {name: rungs.fingerprint(name) for name in {r.kernel for r in rows} if name in catalog}
    return [r for r in rows if now.get(r.kernel) == r.source]


def _label(rows: Sequence[SanitizerRun | ShapesRun | MutantRun]) -> str:
    notes = [r.recorded for r in rows]
    tools = sorted({n["sanitizer"] for n in notes if n.get("sanitizer")})
    text = store.label(" and ".join(sorted({n["gpu"] for n in notes})), rows)
    return text + (f", compute-sanitizer {', '.join(tools)}" if tools else "")


def error_count(rows: Sequence[SanitizerRun]) -> int | str | None:
    """Errors of one check over several launches; in words if one did not end, or None."""
    if not rows:
        return None
    unfinished = [r.state for r in rows if r.state != "ran"]
    errors: int = sum(r.errors for r in rows)
    if unfinished:
        return f"{errors}, {unfinished[0]}"
    return errors


def sanitizer_table(path: Path | None = None) -> Table | None:
    """Every kernel under every check of compute-sanitizer; None where there is no record."""
    record = _record_of(path, "sanitizer")
    checks = believed(record.data["controls"]) if record else ()
    rows = [r for r in _current(record.data["rows"]) if r.check in checks] if record else []
    if not record or not rows:
        return None
    out = []
    for name in catalog:
        own = [r for r in rows if r.kernel == name]
        if own:
            sizes = dict.fromkeys(f"{r.m}x{r.n}x{r.k}" for r in own)
            errors = {c: error_count([r for r in own if r.check == c]) for c in checks}
            out.append({"kernel": name, "shapes": ", ".join(sizes), **errors})
    known = [c for c in record.data["controls"] if c.check in checks]
    controls = "; ".join(f"{c.check}: {c.kernel}, {c.why}: {c.errors}" for c in known)
    return Table(
        out,
        "Errors that compute-sanitizer reports on the GPU, by its tools.",
        note=f"{_label(rows)}. Reported on kernels with a known fault: {controls}",
    )


def shapes_table(path: Path | None = None) -> Table | None:
    """Every kernel over many shapes on a GPU; None without a record. path: default, H200's."""
    record = _record_of(path, "shapes", f"shapes_{DEFAULT_GPU}")
    rows: list[ShapesRun] = _current(record.data["rows"]) if record else []
    if not rows:
        return None
    columns = (
        "kernel", "shapes", "worst", "wrong", "shifted_shapes", "shifted_worst", "shifted_wrong",
    )  # fmt: skip
    order = {name: i for i, name in enumerate(catalog)}
    out = []
    for r in sorted(rows, key=lambda r: order[r.kernel]):
        out.append({name: r[name] for name in columns})
        if r.state != "ran":
            out[-1]["kernel"] += f" ({r.state})"
    return Table(
        out,
        "Each kernel on the GPU over awkward and random shapes, compared with float64.",
        headers={
            "worst": "largest error over its bound",
            "wrong": "wrong elements",
            "shifted_shapes": "shapes with operands one element off",
            "shifted_worst": "largest error over its bound, there",
            "shifted_wrong": "wrong elements, there",
        },
        formats={"worst": ".3f", "shifted_worst": ".3f"},
        note=f"{_label(rows)}. The bound grows with K; outputs were poisoned before each launch.",
    )


def caught_by(rows: Sequence[MutantRun]) -> dict[str, set[str]]:
    """Names of mutants that each check reports and whose kernel without the fault it does not.

    Key "result": those whose launch gives a wrong product on the GPU, or fails; "endless": those
    that do not end there.
    """
    clean = {(r.kernel, r.check) for r in rows if not r.fault and r.errors == 0}
    caught: dict[str, set[str]] = {check: set() for check in (*CHECKS, "result", "endless")}
    for r in rows:
        if not r.fault:
            continue
        if r.check:
            if r.errors and (r.kernel, r.check) in clean:
                caught[r.check].add(r.name)
        elif r.state == "stopped" or r.wrong:
            caught["result"].add(r.name)
        elif r.state == "not finished":
            caught["endless"].add(r.name)
    return caught


def shown(path: Path | None = None, *, hopper: bool = False) -> frozenset[str]:
    """Names of mutants that a tool of compute-sanitizer reports, or that are wrong, fail or do not
    end on the GPU.

    path, hopper: as for `mutants_table`. Nothing where there is no record.
    """
    record = _record_of(path, "mutants_sanitizer", "mutants_hopper_gpu" if hopper else "")
    if not record:
        return frozenset()
    caught = caught_by(record.data["rows"])
    return frozenset().union(
        *(caught[c] for c in (*believed(record.data["controls"]), "result", "endless"))
    )


def mutants_table(
    path: Path | None = None, emulated: Path | None = None, *, hopper: bool = False
) -> Table | None:
    """Mutants by class: caught by the emulator, by compute-sanitizer, by the result on the GPU.

    path: the record of a GPU; emulated: that of the emulator; left out, those in data/validation,
    hopper: of the TMA kernels. None where there is no record of the GPU. A mutant counts when its
    result is there, and either a tool reports it or all that are believed have run.
    """
    record = _record_of(path, "mutants_sanitizer", "mutants_hopper_gpu" if hopper else "")
    if not record:
        return None
    rows: list[MutantRun] = record.data["rows"]
    emulated = emulated or store.VALIDATION / f"mutants{'_hopper' * hopper}.json"
    ours = {m["name"]: m for m in json.loads(emulated.read_text(encoding="utf-8"))["mutants"]}
    runs: dict[str, set[str]] = {}
    for r in rows:
        if r.fault and r.name in ours and ours[r.name]["state"] == "ran":
            runs.setdefault(r.name, set()).add(r.check)
    checks, caught = believed(record.data["controls"]), caught_by(rows)
    tool = set().union(*(caught[c] for c in checks))

    def known(name: str) -> bool:
        have = runs.get(name, set())
        return "" in have and (name in tool or have >= set(checks))

    whole = [name for name in ours if known(name)]
    if not whole or not checks:
        return None
    out = []
    for fault in dict.fromkeys(ours[name]["fault"] for name in whole):
        names = {name for name in whole if ours[name]["fault"] == fault}
        out.append(
            {
                "fault": fault,
                "mutants": len(names),
                "emulator": sum(ours[name]["found"] for name in names),
                "sanitizer": len(names & tool),
                **{check: len(names & caught[check]) for check in checks},
                "result": len(names & caught["result"]),
                "endless": len(names & caught["endless"]),
                "either": len(names & (tool | caught["result"] | caught["endless"])),
            }
        )
    total: Row = {"fault": "all"}
    total |= {n: sum(line[n] for line in out) for n in out[0] if n != "fault"}
    left = sum(m["state"] == "ran" for m in ours.values()) - len(whole)
    endless = {r.name for r in rows if r.state == "not finished"} & set(whole)
    notes = [_label(rows)]
    alarms = sorted(
        {f"{r.kernel} under {r.check}" for r in rows if not r.fault and r.check and r.errors}
    )
    if alarms:
        notes.append(
            f"Reports on kernels without a fault, which count for nothing: {', '.join(alarms)}"
        )
    if endless:
        notes.append(f"{len(endless)} mutants did not end within their time in some run")
    unrun = sum(not runs[name] >= set(checks) for name in whole)
    if unrun:
        notes.append(f"{unrun} mutants that one tool reports were not given to all of the others")
    if left:
        notes.append(f"{left} more mutants have not been run on the GPU")
    return Table(
        [*out, total],
        "The same mutants on the GPU, and how many were caught by what.",
        headers={
            "emulator": "findings of the emulator",
            "sanitizer": "any tool of compute-sanitizer",
            "result": "wrong result or failed launch on the GPU",
            "endless": "no end on the GPU",
            "either": "compute-sanitizer, the result or no end",
        },
        note=". ".join(notes) + ".",
    )
