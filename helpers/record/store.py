"""The files that measurements lie in: sections of typed entries, one checker, one writer.

A section is one frozen dataclass; its annotations say what each field may hold and which fields say
what an entry is about. data/measurements/<gpu>.json holds times and counts of a GPU,
data/validation/*.json what it said of the kernels beside their times.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_type_hints

from helpers.ladder.kernel import ROOT
from nogpu.disk import replace_file
from nogpu.errors import DataError, UnknownNameError, near_matches

SCHEMA = 1
"""Version of the files' form. A file of another version is refused, never guessed at."""
FOLDER = ROOT / "data" / "measurements"
VALIDATION = ROOT / "data" / "validation"

Size = tuple[int, int, int]
"""M, N, K."""
T = TypeVar("T")

# -- what a field may hold -------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """What a field may hold, in words and as a test of a value."""

    words: str
    fits: Callable[[Any], bool]


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _operations(value: object) -> bool:
    def one(o: object) -> bool:
        if not isinstance(o, list | tuple) or len(o) != 5:
            return False
        what, panel, stream, start, end = o
        times = _number(start) and _number(end) and 0 <= start <= end
        return isinstance(what, str) and _whole(panel, 0) and _whole(stream, 0) and times

    return isinstance(value, list) and bool(value) and all(map(one, value))


KEY = object()
"""Marks the fields that say what an entry is about: a new entry about the same takes its place."""
Key = Annotated[T, KEY]
Text = Annotated[str, Rule("text", lambda v: isinstance(v, str) and bool(v))]
Words = Annotated[str, Rule("text, or empty", lambda v: isinstance(v, str))]
MaybeText = Annotated[str | None, Rule("maybe text", lambda v: v is None or isinstance(v, str))]
Count = Annotated[int, Rule("count", lambda v: _whole(v, 1))]
Tally = Annotated[int, Rule("a count or zero", lambda v: _whole(v, 0))]
MaybeTally = Annotated[
    int | None, Rule("a count, zero or null", lambda v: v is None or _whole(v, 0))
]
Positive = Annotated[float, Rule("positive", lambda v: _number(v) and v > 0)]
NotNegative = Annotated[float, Rule("zero or more", lambda v: _number(v) and v >= 0)]
Maybe = Annotated[float | None, Rule("maybe", lambda v: v is None or (_number(v) and v > 0))]
MaybeZero = Annotated[
    float | None, Rule("zero or more, or null", lambda v: v is None or (_number(v) and v >= 0))
]
Params = Annotated[Mapping[str, int], Rule("mapping", lambda v: isinstance(v, dict))]
Values = Annotated[Mapping[str, float], Rule("mapping", lambda v: isinstance(v, dict))]
Note = Annotated[Mapping[str, Any], Rule("mapping", lambda v: isinstance(v, dict))]
"""Where an entry comes from: date, commit and versions."""
Timeline = Annotated[
    list[list[Any]], Rule("a list of [what, panel, stream, start, end]", _operations)
]
Listed = Annotated[list[Any], Rule("a list", lambda v: isinstance(v, list | tuple))]
"""maybe: a positive number, or null where it could not be measured."""

RECORDED = ("date", "commit", "driver", "cuda", "cublas", "nvrtc", "cupy")
"""What each entry says of its own recording; null where it does not apply or is not known."""

# -- entries ---------------------------------------------------------------------------------------

SECTIONS: dict[str, type[Entry]] = {}
"""The sections of a measurement file, by name: an `Entry` that is given one stands here."""


class Entry:
    """One entry of a section: a frozen dataclass whose fields carry their rules.

    section: its section of a measurement file. required: a file of this schema always has it; of
    others that are not there, reading makes empty ones. clears: a section whose entry about the
    same thing goes when this one comes. Charts and tables read an entry by column: entry["ms"].
    Raises DataError, when it is made, for a value that breaks its rule.
    """

    section: ClassVar[str] = ""
    required: ClassVar[bool] = False
    clears: ClassVar[str] = ""
    recorded: Note

    def __init_subclass__(cls, section: str = "", required: bool = False, clears: str = "") -> None:
        if section:
            cls.section, cls.required, cls.clears = section, required, clears
            SECTIONS[section] = cls

    def __post_init__(self) -> None:
        fault = unfit(type(self), vars(self))
        if fault:
            raise DataError(f"an entry of {self.section or type(self).__name__!r} {fault}")

    def __getitem__(self, name: str) -> Any:
        if name not in form(type(self)).rules:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> Iterable[str]:
        """The names of its fields, in the file's order."""
        return form(type(self)).rules.keys()

    def get(self, name: str, otherwise: Any = None) -> Any:
        """A field by name, or something else where an entry of this section has no such field."""
        return getattr(self, name) if name in form(type(self)).rules else otherwise

    @cached_property
    def about(self) -> tuple[Any, ...]:
        """What it is about: the fields marked as its key."""
        return self.key_of(**{name: getattr(self, name) for name in form(type(self)).key})

    @classmethod
    def key_of(cls, **fields: Any) -> tuple[Any, ...]:
        """`about` of an entry with these fields, all of its key among them."""
        return tuple(_hashable(fields[name]) for name in form(cls).key)


@dataclass(frozen=True)
class Launch(Entry):
    """What many sections begin with, and are about: a kernel with its tile sizes, at a size."""

    kernel: Key[Text]
    params: Key[Params]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]

    @property
    def size(self) -> Size:
        """M, N, K."""
        return self.m, self.n, self.k


E = TypeVar("E", bound=Entry)


def _hashable(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


@dataclass(frozen=True)
class Form:
    """What the annotations of a section say: the rule of each field, in order, and the key."""

    rules: Mapping[str, Rule]
    key: tuple[str, ...]


_FORMS: dict[type, Form] = {}


def form(kind: type[Entry]) -> Form:
    """The form of a section, worked out once. A field without a rule is a mistake in its class."""
    if kind not in _FORMS:
        hints = get_type_hints(kind, include_extras=True)
        carried = {f.name: getattr(hints[f.name], "__metadata__", ()) for f in fields(kind)}  # type: ignore[arg-type]
        rules_of = {
            name: [m for m in all_ if isinstance(m, Rule)] for name, all_ in carried.items()
        }
        assert all(rules_of.values()), f"{kind.__name__} has a field without a rule: {rules_of}"
        key = tuple(sorted(name for name, all_ in carried.items() if KEY in all_))
        _FORMS[kind] = Form({name: rules[0] for name, rules in rules_of.items()}, key)
    return _FORMS[kind]


def unfit(kind: type[Entry], values: Mapping[str, Any]) -> str:
    """What is wrong with the fields given for an entry, or ""."""
    rules = form(kind).rules
    for name, rule in rules.items():
        if name not in values:
            return f"has no {name!r}"
        if not rule.fits(values[name]):
            return f"has {name}={values[name]!r}, which is not {rule.words}"
    unknown = [name for name in values if name not in rules]
    if unknown:
        return f"has {unknown[0]!r}, which this version of the book does not know"
    if "recorded" in values:
        lacking = [name for name in RECORDED if name not in values["recorded"]]
        if lacking:
            return f"does not say its {', '.join(lacking)}"
    return ""


# -- files -----------------------------------------------------------------------------------------


@dataclass
class Record:
    """One file, checked: its head, and the entries of each section (data) in the file's order.

    kinds: the class of each section. changed: whether there is something to write. shared: it is
    handed to whoever reads this file (`load`), so its lists are tuples and nothing may be put into
    it.
    """

    path: Path
    head: dict[str, Any]
    data: dict[str, list[Any]]
    kinds: Mapping[str, type[Entry]]
    changed: bool = False
    shared: bool = False

    @property
    def key(self) -> str:
        """The record's name, that of its file: "h200"."""
        return self.path.stem

    @property
    def gpu(self) -> Mapping[str, Any]:
        """Name, architecture, clocks and limits of the GPU."""
        return self.head["gpu"]  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> list[Any]:
        if name in (data := self.__dict__.get("data", {})):
            return list(data[name]) if self.shared else data[name]
        raise AttributeError(f"a Record has {', '.join(data)}, and no {name!r}")

    def of(self, kind: type[E], **wanted: Any) -> list[E]:
        """Entries of a section of a measurement file, by its class, with these values."""
        return self.find(kind.section, **wanted)

    def find(self, section: str, **wanted: Any) -> list[Any]:
        """The same by the section's name."""
        entries, rules = list(self.data[section]), form(self.kinds[section]).rules
        for name, value in wanted.items():
            if name in rules:
                entries = [e for e in entries if getattr(e, name) == value]
            elif value is not None:
                return []
        return entries

    def label(self, entries: Iterable[Any] | None = None) -> str:
        """Where, when and with what these entries (default: all points) were recorded, in words."""
        return label(self.gpu["name"], self.data["points"] if entries is None else entries)

    def index(self, kind: type[E]) -> dict[tuple[Any, ...], E]:
        """The entries of a section by what they are about."""
        return {e.about: e for e in self.of(kind)}

    def merge(self, entry: Entry, section: str = "") -> None:
        """Put an entry into its section, in place of an older one about the same thing.

        A measured point also removes the note that it was skipped, and the other way round.
        """
        self._writable()
        section = section or entry.section
        same = entry.about
        for name in filter(None, (section, entry.clears)):
            self.data[name] = [e for e in self.data[name] if e.about != same]
        self.data[section].append(entry)
        self.changed = True

    def set_head(self, **values: Any) -> None:
        """Say something in the head of the file."""
        self._writable()
        self.changed = self.changed or any(self.head.get(n) != v for n, v in values.items())
        self.head |= values

    def _writable(self) -> None:
        if self.shared:
            raise DataError(
                f"{self.path.name} was loaded to be read by all: read it with store.read to"
                " change it"
            )

    def write(self) -> None:
        """Write the file whole or not at all: one entry a line, so a diff shows what changed."""
        self._writable()
        head = rounded(self.head) if "gpu" in self.head else self.head
        lines = [f"{json.dumps(n)}: {json.dumps(v, allow_nan=False)}" for n, v in head.items()]
        for name, entries in self.data.items():
            kind = self.kinds[name]
            if kind.section and not (kind.required or entries):
                continue  # a section that nobody has begun
            rows = (json.dumps(rounded(dict(e)), allow_nan=False) for e in entries)
            text = ",\n".join(f"  {row}" for row in rows)
            lines.append(f"{json.dumps(name)}: [\n{text}\n]" if text else f"{json.dumps(name)}: []")
        replace_file(self.path, "{\n" + ",\n".join(lines) + "\n}\n")
        self.changed = False


def empty(path: Path, gpu: Mapping[str, Any], protocol: Mapping[str, str] | None = None) -> Record:
    """A measurement file with no entries yet. protocol: how its numbers are taken, in words."""
    head = {"schema": SCHEMA, "gpu": dict(gpu), "protocol": dict(protocol or {})}
    return Record(path, head, {name: [] for name in SECTIONS}, SECTIONS, changed=True)


def _again(path: Path) -> str:
    return (
        f"Restore the file from version control (git checkout -- {path.name}), or move it away and "
        f"record it again on the GPU: python -m helpers record --gpu {path.stem}"
    )


def _json(path: Path, again: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as fault:
        raise DataError(f"{path} is damaged ({fault}). {again}") from fault


def _entries(
    raw: Mapping[str, Any], kinds: Mapping[str, type[Entry]], path: Path, again: str
) -> dict[str, list[Any]]:
    """The typed entries of each section. Raises DataError, naming the entry and the field."""
    sections: dict[str, list[Any]] = {name: [] for name in raw if name in kinds}
    for section, kind in kinds.items():
        listed = raw.get(section, [] if kind.section and not kind.required else None)
        if not isinstance(listed, list):
            raise DataError(f"{path} has no list {section!r}. {again}")
        entries = sections.setdefault(section, [])
        for number, entry in enumerate(listed):
            where = f"{path}: entry {number} of {section!r}"
            if not isinstance(entry, dict):
                raise DataError(f"{where} is not an object. {again}")
            if fault := unfit(kind, entry):
                raise DataError(f"{where} {fault}. {again}")
            made = object.__new__(kind)
            made.__dict__.update(entry)  # checked above: its own check would be the second
            entries.append(made)
    return sections


def read(path: Path, again: str = "") -> Record:
    """Read and check a measurement file. again: what to do about a damaged one.

    Raises DataError.
    """
    return parsed(path, _json(path, again or _again(path)), again)


def parsed(path: Path, raw: Any, again: str = "") -> Record:
    """Check what a measurement file holds. again: as `read`. Raises DataError."""
    again = again or _again(path)
    if not isinstance(raw, dict) or "schema" not in raw:
        raise DataError(f"{path} is not a measurement file: it has no schema number. {again}")
    if raw["schema"] != SCHEMA:
        older = isinstance(raw["schema"], int) and raw["schema"] < SCHEMA
        raise DataError(
            f"{path} has schema {raw['schema']!r}, and this version of the book reads {SCHEMA}. "
            + (again if older else "Update the book: git pull")
        )
    gpu = raw.get("gpu")
    if not isinstance(gpu, dict) or not isinstance(gpu.get("name"), str):
        raise DataError(f"{path} does not say which GPU it was recorded on. {again}")
    data = _entries(raw, SECTIONS, path, again)
    return Record(path, {n: v for n, v in raw.items() if n not in SECTIONS}, data, SECTIONS)


KINDS: dict[str, Mapping[str, type[Entry]]] = {}
"""The files of data/validation by their kind: the class of their "controls" and of their "rows"."""


def read_validation(path: Path, kind: str) -> Record:
    """Parse and check a file. Raises DataError if it is damaged or of another kind or version."""
    again = f"Restore {path.name} from version control, or move it away and record it again"
    raw, head = _json(path, again), {"schema": SCHEMA, "kind": kind}
    if not isinstance(raw, dict) or {n: raw.get(n) for n in head} != head:
        raise DataError(f"{path} is no file of {kind} in schema {SCHEMA}. {again}")
    data = _entries(raw, KINDS[kind], path, again)
    return Record(path, {n: v for n, v in raw.items() if n not in data}, data, KINDS[kind])


def start_validation(path: Path, kind: str) -> Record:
    """The file to go on with: the one at path, else the book's own of that name, else none."""
    for there in (path, VALIDATION / path.name):
        if there.exists():
            record = read_validation(there, kind)
            record.path = path
            return record
    head = {"schema": SCHEMA, "kind": kind}
    return Record(path, head, {name: [] for name in KINDS[kind]}, KINDS[kind])


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


def named(size: Size) -> dict[str, int]:
    """The fields m, n and k of an entry."""
    return dict(zip("mnk", size, strict=True))


def shape(size: Size) -> str:
    """A size in words: "1024x1024x768"."""
    return "x".join(map(str, size))


def label(gpu_name: str, entries: Iterable[Any], verb: str = "recorded on") -> str:
    """A provenance line: GPU, dates, driver, CUDA, cuBLAS, commits; versions of the latest."""
    notes = [e["recorded"] for e in entries]
    if not notes:
        return f"nothing {verb} {gpu_name} yet"
    latest = max(notes, key=lambda note: note["date"])
    dates = sorted({note["date"] for note in notes})
    commits = list(dict.fromkeys(note["commit"] for note in notes))
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    titles = {"driver": "driver", "cuda": "CUDA", "cublas": "cuBLAS"}
    versions = [f"{title} {latest[n]}" for n, title in titles.items() if latest.get(n)]
    shown = ", ".join(commits[:3]) + (" and others" if len(commits) > 3 else "")
    parts = [f"{verb} {gpu_name}", when, *versions]
    return ", ".join([*parts, f"commit{'s' if len(commits) > 1 else ''} {shown}"])


def known_gpus() -> list[str]:
    """GPUs that have a measurement file."""
    return sorted(path.stem for path in FOLDER.glob("*.json"))


def load(gpu: str) -> Record:
    """The measurements of a GPU, such as "h200": read and checked once, anew when the file changes.

    The record is shared by all who ask, and refuses to be changed; `read` gives one of one's own.
    Raises UnknownNameError listing the GPUs that have a file, DataError if the file is damaged or
    of another version.
    """
    path = FOLDER / f"{gpu}.json"
    if gpu not in known_gpus():
        known = known_gpus()
        what = near_matches(gpu, known) if known else "There is no measurement file at all."
        raise UnknownNameError(
            f"there are no measurements of a GPU called {gpu!r} in data/measurements. {what} "
            "Record a GPU with: python -m helpers record"
        )
    state = path.stat()
    return _shared(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=8)
def _shared(path: Path, _mtime_ns: int, _size: int) -> Record:
    record = read(path)
    data: dict[str, Any] = {name: tuple(entries) for name, entries in record.data.items()}
    return replace(record, data=data, shared=True)


def forget() -> None:
    """Let `load` read every file anew."""
    _shared.cache_clear()
