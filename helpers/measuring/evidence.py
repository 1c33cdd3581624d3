"""What a GPU said of the kernels beside their times: the files data/validation/*.json, and tables of them.

helpers.measuring.verify and tests/mutants_sanitizer.py write them. A page shows nothing of a file that
is not there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helpers.errors import DataError
from helpers.kernel import ROOT
from helpers.measuring import schema
from helpers.measuring.point import fingerprint
from helpers.measuring.sanitizer import CHECKS
from helpers.rungs import catalog

SCHEMA = 1
FOLDER = ROOT / "data" / "validation"

Row = dict[str, Any]

FIELDS: Mapping[str, tuple[str, ...]] = {
    "sanitizer": (
        "kernel", "params", "shape", "m", "n", "k", "check", "state", "errors", "summary", "first",
        "wrong", "seconds", "source", "recorded",
    ),
    "shapes": (
        "kernel", "params", "state", "seed", "shapes", "largest", "worst", "wrong", "wrong_at",
        "shifted", "shifted_shapes", "shifted_worst", "shifted_wrong", "source", "recorded",
    ),
    "mutants_sanitizer": (
        "name", "kernel", "fault", "check", "state", "errors", "summary", "first", "wrong",
        "seconds", "source", "recorded",
    ),
}  # fmt: skip
"""Fields of a row of each kind of file."""
KEYS: Mapping[str, tuple[str, ...]] = {
    "sanitizer": ("kernel", "shape", "check"),
    "shapes": ("kernel",),
    "mutants_sanitizer": ("name", "check"),
}
"""What a row is about: a new one about the same thing takes the place of the old one."""


def empty(kind: str) -> dict[str, Any]:
    """A file of this kind with no rows yet."""
    return {"schema": SCHEMA, "kind": kind, "controls": [], "rows": []}


def read(path: Path, kind: str) -> dict[str, Any]:
    """Parse and check a file. Raises DataError if it is damaged or of another kind or version."""
    again = f"Restore {path.name} from version control, or move it away and record it again"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise DataError(f"{path} is damaged ({fault}). {again}") from fault
    head = {"schema": SCHEMA, "kind": kind}
    if not isinstance(data, dict) or {n: data.get(n) for n in head} != head:
        raise DataError(f"{path} is no file of {kind} in schema {SCHEMA}. {again}")
    for section in ("rows", "controls"):
        if not isinstance(data.get(section), list):
            raise DataError(f"{path} has no list {section!r}. {again}")
    for number, row in enumerate(data["rows"]):
        missing = [n for n in FIELDS[kind] if not isinstance(row, dict) or n not in row]
        if missing:
            raise DataError(f"{path}: row {number} has no {', '.join(missing)}. {again}")
    return data


def start(path: Path, kind: str) -> dict[str, Any]:
    """The file to go on with: the one at path, else the book's own of that name, else an empty one."""
    for there in (path, FOLDER / path.name):
        if there.exists():
            return read(there, kind)
    return empty(kind)


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write a file whole or not at all, one row a line."""
    head = {n: v for n, v in data.items() if n not in ("controls", "rows")}
    parts = [f"{json.dumps(n)}: {json.dumps(v)}" for n, v in head.items()]
    for section in ("controls", "rows"):
        rows = (json.dumps(schema.rounded(row), allow_nan=False) for row in data[section])
        text = ",\n".join(f"  {row}" for row in rows)
        parts.append(f'"{section}": [\n{text}\n]' if text else f'"{section}": []')
    schema.replace_file(path, "{\n" + ",\n".join(parts) + "\n}\n")


def merge(data: dict[str, Any], row: Mapping[str, Any]) -> None:
    """Put a row in, in place of an older one about the same thing."""
    names = KEYS[data["kind"]]
    missing = [name for name in FIELDS[data["kind"]] if name not in row]
    if missing:
        raise DataError(f"a row of {data['kind']} lacks {', '.join(missing)}")

    def key(r: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(r[name] for name in names)

    data["rows"] = [r for r in data["rows"] if key(r) != key(row)] + [dict(row)]


# -- tables ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """What helpers.pages.table takes: rows, a caption, column titles, formats and a note."""

    rows: Sequence[Row]
    caption: str
    headers: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


def _held(path: Path | None, kind: str) -> dict[str, Any] | None:
    path = path or FOLDER / f"{kind}.json"
    return read(path, kind) if path.exists() else None


def _current(rows: Iterable[Row]) -> list[Row]:
    """Rows about kernels as they are now; of code that has changed since, nothing is claimed."""
    now = {name: fingerprint(name) for name in {r["kernel"] for r in rows} if name in catalog}
    return [r for r in rows if now.get(r["kernel"]) == r["source"]]


def _label(rows: Sequence[Row]) -> str:
    notes = [r["recorded"] for r in rows]
    tools = sorted({n["sanitizer"] for n in notes if n.get("sanitizer")})
    text = schema.label(" and ".join(sorted({n["gpu"] for n in notes})), rows)
    return text + (f", compute-sanitizer {', '.join(tools)}" if tools else "")


def said(rows: Sequence[Row]) -> int | str | None:
    """Errors of one check over several launches; in words if one did not run to its end, or None."""
    if not rows:
        return None
    unfinished = [r["state"] for r in rows if r["state"] != "ran"]
    errors: int = sum(r["errors"] for r in rows)
    if unfinished:
        return f"{errors}, {unfinished[0]}"
    return errors


def believed(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The checks that reported a kernel with a known fault, by the controls in a file."""
    return tuple(
        c for c in CHECKS if any(r["check"] == c and r["errors"] for r in data["controls"])
    )


def sanitizer_table(path: Path | None = None) -> Table | None:
    """Every kernel under every check of compute-sanitizer; None where there is no record."""
    data = _held(path, "sanitizer")
    checks = believed(data) if data else ()
    rows = [r for r in _current(data["rows"]) if r["check"] in checks] if data else []
    if not data or not rows:
        return None
    out = []
    for name in catalog:
        own = [r for r in rows if r["kernel"] == name]
        if own:
            sizes = dict.fromkeys(f"{r['m']}x{r['n']}x{r['k']}" for r in own)
            found = {c: said([r for r in own if r["check"] == c]) for c in checks}
            out.append({"kernel": name, "shapes": ", ".join(sizes), **found})
    controls = "; ".join(
        f"{c['check']}: {c['kernel']}, {c['why']}: {c['errors']}"
        for c in data["controls"]
        if c["check"] in checks
    )
    return Table(
        out,
        "Errors that compute-sanitizer reports on the GPU, by its tools.",
        note=f"{_label(rows)}. Reported on kernels with a known fault: {controls}",
    )


def shapes_table(path: Path | None = None) -> Table | None:
    """Every kernel over many shapes on a GPU; None where there is no record. path: default, H200's."""
    path = path or FOLDER / "shapes_h200.json"
    data = read(path, "shapes") if path.exists() else None
    rows = _current(data["rows"]) if data else []
    if not rows:
        return None
    columns = (
        "kernel",
        "shapes",
        "worst",
        "wrong",
        "shifted_shapes",
        "shifted_worst",
        "shifted_wrong",
    )
    order = {name: i for i, name in enumerate(catalog)}
    out = []
    for r in sorted(rows, key=lambda r: order[r["kernel"]]):
        out.append({name: r[name] for name in columns})
        if r["state"] != "ran":
            out[-1]["kernel"] += f" ({r['state']})"
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


def caught_by(rows: Sequence[Row]) -> dict[str, set[str]]:
    """Names of mutants that each check reports and whose kernel without the fault it does not.

    Key "result": those whose launch gives a wrong product on the GPU, or fails.
    """
    clean = {(r["kernel"], r["check"]) for r in rows if not r["fault"] and r["errors"] == 0}
    found: dict[str, set[str]] = {check: set() for check in (*CHECKS, "result")}
    for r in rows:
        if not r["fault"]:
            continue
        if r["check"]:
            if r["errors"] and (r["kernel"], r["check"]) in clean:
                found[r["check"]].add(r["name"])
        elif r["state"] == "stopped" or r["wrong"]:
            found["result"].add(r["name"])
    return found


def mutants_table(path: Path | None = None, emulated: Path | None = None) -> Table | None:
    """Mutants by class: caught by the emulator, by compute-sanitizer, by the result on the GPU.

    None where there is no record of the GPU. A mutant counts when its result is there, and either a
    tool reports it or all four have run.
    """
    data = _held(path, "mutants_sanitizer")
    if not data:
        return None
    emulated = emulated or FOLDER / "mutants.json"
    ours = {m["name"]: m for m in json.loads(emulated.read_text(encoding="utf-8"))["mutants"]}
    runs: dict[str, set[str]] = {}
    for r in data["rows"]:
        if r["fault"] and r["name"] in ours and ours[r["name"]]["state"] == "ran":
            runs.setdefault(r["name"], set()).add(r["check"])
    checks, found = believed(data), caught_by(data["rows"])
    tool = set().union(*(found[c] for c in checks))

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
                **{check: len(names & found[check]) for check in checks},
                "result": len(names & found["result"]),
                "either": len(names & (tool | found["result"])),
            }
        )
    total: Row = {"fault": "all"}
    total |= {n: sum(r[n] for r in out) for n in out[0] if n != "fault"}
    left = sum(m["state"] == "ran" for m in ours.values()) - len(whole)
    endless = {r["name"] for r in data["rows"] if r["state"] == "not finished"} & set(whole)
    notes = [_label(data["rows"])]
    alarms = sorted({f"{r['kernel']} under {r['check']}" for r in data["rows"]
                     if not r["fault"] and r["check"] and r["errors"]})  # fmt: skip
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
            "either": "compute-sanitizer or the result",
        },
        note=". ".join(notes) + ".",
    )
