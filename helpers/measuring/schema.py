"""The measurement files data/measurements/<gpu>.json: their form, reading, checking and writing."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.errors import DataError, UnknownNameError, near_matches
from helpers.kernel import ROOT

SCHEMA = 1
"""Version of the files' form. A file of another version is refused, never guessed at."""
FOLDER = ROOT / "data" / "measurements"

Size = tuple[int, int, int]
Point = dict[str, Any]

_TEXT, _COUNT, _POSITIVE, _MAYBE, _MAPPING = "text", "count", "positive", "maybe", "mapping"
_ZERO_OR_MORE, _MAYBE_TEXT = "zero or more", "maybe text"
_OPERATIONS = "a list of [what, panel, stream, start, end]"

_CONFIRMED: Mapping[str, str] = {
    "ms": _POSITIVE,
    "q1": _POSITIVE,
    "q3": _POSITIVE,
    "gflops": _POSITIVE,
    "pairs": _COUNT,
    "gain": _MAYBE,
    "gain_q1": _MAYBE,
    "gain_q3": _MAYBE,
    "cublas_ratio": _MAYBE,
    "ratio_q1": _MAYBE,
    "ratio_q3": _MAYBE,
    "max_error": _ZERO_OR_MORE,
    "error_over_tolerance": _ZERO_OR_MORE,
    "checked": _TEXT,
    "source": _MAYBE_TEXT,
    "recorded": _MAPPING,
}
"""A tile against the default tile (gain: null where it is the default) and against cuBLAS."""

_COUNTED: Mapping[str, str] = {
    "kernel": _TEXT,
    "params": _MAPPING,
    "m": _COUNT,
    "n": _COUNT,
    "k": _COUNT,
    "values": _MAPPING,
    "source": _MAYBE_TEXT,
    "recorded": _MAPPING,
}
"""One launch, and what ncu read of it."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "points": {
        "kernel": _TEXT,
        "params": _MAPPING,
        "dtype": _TEXT,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "baseline": _TEXT,
        "ms": _POSITIVE,
        "q1": _POSITIVE,
        "q3": _POSITIVE,
        "gflops": _POSITIVE,
        "pairs": _COUNT,
        "repeat": _COUNT,
        "baseline_ms": _MAYBE,
        "cublas_ratio": _MAYBE,
        "ratio_q1": _MAYBE,
        "ratio_q3": _MAYBE,
        "h2d_ms": _MAYBE,
        "d2h_ms": _MAYBE,
        "total_ms": _MAYBE,
        "first_ms": _MAYBE,
        "warm_ms": _MAYBE,
        "clock_mhz": _MAYBE,
        "power_w": _MAYBE,
        "clock_note": _MAYBE_TEXT,
        "max_error": _ZERO_OR_MORE,
        "error_over_tolerance": _ZERO_OR_MORE,
        "checked": _TEXT,
        "source": _MAYBE_TEXT,
        "recorded": _MAPPING,
    },
    "skipped": {
        "kernel": _TEXT,
        "params": _MAPPING,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "reason": _TEXT,
        "recorded": _MAPPING,
    },
    "transfers": {
        "direction": _TEXT,
        "memory": _TEXT,
        "bytes": _COUNT,
        "ms": _POSITIVE,
        "q1": _POSITIVE,
        "q3": _POSITIVE,
        "gbs": _POSITIVE,
        "recorded": _MAPPING,
    },
    "accuracy": {
        "kernel": _TEXT,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "max_error": _ZERO_OR_MORE,
        "frobenius": _ZERO_OR_MORE,
        "max_error_rounded_inputs": _MAYBE,
        "frobenius_rounded_inputs": _MAYBE,
        "recorded": _MAPPING,
    },
    "counters": _COUNTED,
    "stalls": _COUNTED,
    "flags": {
        "kernel": _TEXT,
        "params": _MAPPING,
        "build": _TEXT,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "ms": _POSITIVE,
        "q1": _POSITIVE,
        "q3": _POSITIVE,
        "gflops": _POSITIVE,
        "speedup": _POSITIVE,
        "speedup_q1": _POSITIVE,
        "speedup_q3": _POSITIVE,
        "source": _MAYBE_TEXT,
        "recorded": _MAPPING,
    },
    "host": {
        "kernel": _TEXT,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "ms": _POSITIVE,
        "q1": _POSITIVE,
        "q3": _POSITIVE,
        "runs": _COUNT,
        "gflops": _POSITIVE,
        "cpu": _TEXT,
        "threads": _COUNT,
        "compiler": _TEXT,
        "recorded": _MAPPING,
    },
    "overlap": {
        "kernel": _TEXT,
        "params": _MAPPING,
        "how": _TEXT,
        "memory": _TEXT,
        "panels": _COUNT,
        "streams": _COUNT,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "ms": _POSITIVE,
        "q1": _POSITIVE,
        "q3": _POSITIVE,
        "runs": _COUNT,
        "speedup": _POSITIVE,
        "speedup_q1": _POSITIVE,
        "speedup_q3": _POSITIVE,
        "pin_ms": _MAYBE,
        "copy_engines": _MAYBE,
        "timeline": _OPERATIONS,
        "max_error": _ZERO_OR_MORE,
        "error_over_tolerance": _ZERO_OR_MORE,
        "checked": _TEXT,
        "source": _MAYBE_TEXT,
        "recorded": _MAPPING,
    },
    "sweep": {
        "kernel": _TEXT,
        "params": _MAPPING,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "ms": _MAYBE,
        "q1": _MAYBE,
        "q3": _MAYBE,
        "gflops": _MAYBE,
        "pairs": _MAYBE,
        "cublas_ratio": _MAYBE,
        "registers": _ZERO_OR_MORE,
        "spill_bytes": _ZERO_OR_MORE,
        "shared_bytes": _ZERO_OR_MORE,
        "blocks_per_sm": _ZERO_OR_MORE,
        "reason": _MAYBE_TEXT,
        "source": _MAYBE_TEXT,
        "recorded": _MAPPING,
    },
    "tuned": {
        "kernel": _TEXT,
        "params": _MAPPING,
        "default": _MAPPING,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "tiles": _COUNT,
        **_CONFIRMED,
    },
    "ragged": {
        "kernel": _TEXT,
        "params": _MAPPING,
        "default": _MAPPING,
        "m": _COUNT,
        "n": _COUNT,
        "k": _COUNT,
        "seed": _COUNT,
        **_CONFIRMED,
    },
}
"""Fields of each section. "maybe" is a positive number, or null where it could not be measured."""
OPTIONAL = ("overlap", "sweep", "tuned", "ragged", "stalls")
"""Sections that a file may lack: reading adds them, empty."""

RECORDED = ("date", "commit", "driver", "cuda", "cublas", "nvrtc", "cupy")
"""What each entry says of its own recording; null where it does not apply or is not known."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_operation(value: object) -> bool:
    if not isinstance(value, list | tuple) or len(value) != 5:
        return False
    what, panel, stream, start, end = value
    counts = all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in (panel, stream))
    times = _is_number(start) and _is_number(end) and 0 <= start <= end
    return isinstance(what, str) and counts and times


def _fits(kind: str, value: object) -> bool:
    if kind == _TEXT:
        return isinstance(value, str) and bool(value)
    if kind == _MAYBE_TEXT:
        return value is None or isinstance(value, str)
    if kind == _COUNT:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if kind == _MAPPING:
        return isinstance(value, dict)
    if kind == _MAYBE and value is None:
        return True
    if kind == _OPERATIONS:
        return isinstance(value, list) and bool(value) and all(map(_is_operation, value))
    return _is_number(value) and (value > 0 or (value == 0 and kind == _ZERO_OR_MORE))  # type: ignore[operator]


def _again(path: Path) -> str:
    return (
        f"Restore the file from version control (git checkout -- {path.name}), or move it away and "
        f"record it again on the GPU: python -m helpers record --gpu {path.stem}"
    )


def check(data: object, path: Path) -> None:
    """Raise DataError, naming the entry and the field, unless data is a whole file of this version."""
    if not isinstance(data, dict) or "schema" not in data:
        raise DataError(
            f"{path} is not a measurement file: it has no schema number. {_again(path)}"
        )
    if data["schema"] != SCHEMA:
        older = isinstance(data["schema"], int) and data["schema"] < SCHEMA
        raise DataError(
            f"{path} has schema {data['schema']!r}, and this version of the book reads {SCHEMA}. "
            + (_again(path) if older else "Update the book: git pull")
        )
    gpu = data.get("gpu")
    if not isinstance(gpu, dict) or not isinstance(gpu.get("name"), str):
        raise DataError(f"{path} does not say which GPU it was recorded on. {_again(path)}")
    for section, fields in FIELDS.items():
        entries = data.get(section)
        if not isinstance(entries, list):
            raise DataError(f"{path} has no list {section!r}. {_again(path)}")
        for number, entry in enumerate(entries):
            where = f"{path}: entry {number} of {section!r}"
            if not isinstance(entry, dict):
                raise DataError(f"{where} is not an object. {_again(path)}")
            for field, kind in fields.items():
                if field not in entry:
                    raise DataError(f"{where} has no {field!r}. {_again(path)}")
                if not _fits(kind, entry[field]):
                    raise DataError(
                        f"{where} has {field}={entry[field]!r}, which is not {kind}. {_again(path)}"
                    )
            missing = [name for name in RECORDED if name not in entry["recorded"]]
            if missing:
                raise DataError(f"{where} does not say its {', '.join(missing)}. {_again(path)}")


def empty(gpu: Mapping[str, Any], protocol: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A file with no entries yet. protocol: how its numbers are taken, in words."""
    head = {"schema": SCHEMA, "gpu": dict(gpu), "protocol": dict(protocol or {})}
    return {**head, **{section: [] for section in FIELDS}}


def key(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """What an entry is about: a new entry with the same key replaces the old one."""
    params = tuple(sorted(entry.get("params", {}).items()))
    names = ("kernel", "build", "m", "n", "k", "direction", "memory", "bytes")
    overlapped = ("how", "panels", "streams")
    return (*(entry.get(name) for name in (*names, *overlapped)), params)


def merge(data: dict[str, Any], section: str, entry: Mapping[str, Any]) -> None:
    """Put an entry into a section, in place of an older one about the same thing.

    A measured point also removes the note that it was skipped, and the other way round.
    """
    same = key(entry)
    other = {"points": "skipped", "skipped": "points"}.get(section)
    for name in filter(None, (section, other)):
        data[name] = [e for e in data[name] if key(e) != same]
    data[section].append(dict(entry))


def read(path: Path) -> dict[str, Any]:
    """Parse and check a measurement file. Raises DataError."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise DataError(f"{path} is damaged ({fault}). {_again(path)}") from fault
    if isinstance(data, dict) and data.get("schema") == SCHEMA:
        for section in OPTIONAL:
            data.setdefault(section, [])
    check(data, path)
    return data  # type: ignore[no-any-return]


def rounded(value: Any) -> Any:
    """The same data with floats cut to 6 significant digits: more would claim too much.

    Whole numbers are counts (a hardware counter arrives as 67108864.0) and stay as they are.
    """
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 2**53:
            return value
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {name: rounded(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(v) for v in value]
    return value


def write(path: Path, data: Mapping[str, Any]) -> None:
    """Write a file whole or not at all: one entry a line, so that a diff shows what changed."""
    check(data, path)
    lines = []
    for name, value in rounded(data).items():
        if name in FIELDS:
            entries = ",\n".join("  " + json.dumps(e, allow_nan=False) for e in value)
            lines.append(
                f"{json.dumps(name)}: [\n{entries}\n]" if value else f"{json.dumps(name)}: []"
            )
        else:
            lines.append(f"{json.dumps(name)}: {json.dumps(value, allow_nan=False)}")
    replace_file(path, "{\n" + ",\n".join(lines) + "\n}\n")


def replace_file(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)  # mkstemp makes it private
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def known_gpus() -> list[str]:
    """GPUs that have a measurement file."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


@dataclass(frozen=True)
class Record:
    """One GPU's measurement file, checked."""

    key: str
    path: Path
    data: Mapping[str, Any]

    @property
    def gpu(self) -> Mapping[str, Any]:
        """Name, architecture, clocks and limits of the GPU."""
        return self.data["gpu"]  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> list[Point]:
        if name in FIELDS:
            return self.data[name]  # type: ignore[no-any-return]
        raise AttributeError(f"a Record has {', '.join(FIELDS)}, and no {name!r}")

    def find(self, section: str, **wanted: Any) -> list[Point]:
        """Entries of a section whose fields have these values."""
        return [e for e in self.data[section] if all(e.get(n) == v for n, v in wanted.items())]

    def label(self, entries: Iterable[Mapping[str, Any]] | None = None) -> str:
        """Where, when and with what these entries (default: all points) were recorded, in words."""
        return label(self.gpu["name"], self.data["points"] if entries is None else entries)


def label(gpu_name: str, entries: Iterable[Mapping[str, Any]], verb: str = "recorded on") -> str:
    """A provenance line: GPU, dates, driver, CUDA, cuBLAS, commits; versions of the latest entry."""
    notes = [e["recorded"] for e in entries]
    if not notes:
        return f"nothing {verb} {gpu_name} yet"
    latest = max(notes, key=lambda note: note["date"])
    dates = sorted({note["date"] for note in notes})
    commits = list(dict.fromkeys(note["commit"] for note in notes))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    versions = [
        f"{title} {latest[name]}"
        for name, title in (("driver", "driver"), ("cuda", "CUDA"), ("cublas", "cuBLAS"))
        if latest.get(name)
    ]
    shown = ", ".join(commits[:3]) + (" and others" if len(commits) > 3 else "")
    parts = [f"{verb} {gpu_name}", when, *versions]
    return ", ".join([*parts, f"commit{'s' if len(commits) > 1 else ''} {shown}"])


def load(gpu: str) -> Record:
    """The measurements of a GPU, such as "h200".

    Raises UnknownNameError listing the GPUs that have a file, DataError if the file is damaged or of
    another version.
    """
    path = FOLDER / f"{gpu}.json"
    if gpu not in known_gpus():
        known = known_gpus()
        what = near_matches(gpu, known) if known else "There is no measurement file at all."
        raise UnknownNameError(
            f"there are no measurements of a GPU called {gpu!r} in data/measurements. {what} "
            "Record a GPU with: python -m helpers record"
        )
    return Record(gpu, path, read(path))
