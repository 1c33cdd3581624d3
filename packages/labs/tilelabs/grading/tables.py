"""Tables that teachers fill in, read with one clear line for what does not fit; and cells that
nothing runs.
"""

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from nogpu.disk import replace_file
from nogpu.errors import DataError, near
from tilelabs.judging.marking import tidy

LOOK = "look: "
"""How a note begins that is for the teacher alone."""
PRIVATE = 0o600
"""Of what is written about students: to be read by its owner."""


def table(
    path: Path, columns: Sequence[str], optional: Sequence[str] = ()
) -> Iterator[tuple[str, dict[str, str]]]:
    """Where each row of a CSV file stands ("PATH, line 3"), and its cells; none where there is no
    file.

    Commas between, or semicolons, as a spreadsheet saves it. Empty rows are left out; optional
    columns may be missing, and are "" then. Raises DataError.
    """
    if not path.is_file():
        return
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            between = ";" if head.count(";") > head.count(",") else ","
            reader = csv.DictReader(file, delimiter=between)
            rows = [(reader.line_num, row) for row in reader]
            heads = [*columns, *(c for c in optional if c in (reader.fieldnames or ()))]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read: {error}. Save it as CSV in UTF-8") from None
    for line, row in rows:
        cells = {c: row.get(c) for c in heads}
        if not any(value for value in row.values()):
            continue
        if missing := [c for c, value in cells.items() if value is None]:
            raise DataError(
                f"{path}, line {line}: no {', '.join(missing)}; its columns are "
                f"{', '.join(columns)}"
            )
        yield (
            f"{path}, line {line}",
            dict.fromkeys(optional, "") | {c: (value or "").strip() for c, value in cells.items()},
        )


def inert(cell: str) -> str:
    """A cell that no spreadsheet takes for a formula."""
    return inert_text(tidy(cell.encode("utf-8", "replace").decode()))


def inert_text(plain: str) -> str:
    """As `inert`, of a text that is tidied already and may have lines."""
    return f"'{plain}" if plain[:1] in tuple("=+-@") else plain


RECORD = ".written.json"
"""Beside what is written for a teacher: the SHA-256 of each file as it was written."""


def changed(path: Path) -> bool:
    """Whether a person changed a file since `keep` wrote it, or made it."""
    return path.is_file() and _digest(path.read_bytes()) not in _record(path).get(path.name, ())


def keep(path: Path, what: str | bytes) -> Path:
    """Write what is made for a teacher, for its owner alone, and never over what a person changed.

    Such a file stays, and the new one lies beside it: NAME.2.csv. The path that was written.
    """
    raw = what.encode("utf-8") if isinstance(what, str) else what
    names = (path.with_name(f"{path.stem}.{n}{path.suffix}") for n in count(2))
    own = path
    while changed(own) and own.read_bytes() != raw:
        own = next(names)
    known = _record(path)
    known[own.name] = [_digest(raw), *known.get(own.name, [])[:1]]  # before it, so that no cut
    replace_file(path.with_name(RECORD), json.dumps(known, indent=1) + "\n", PRIVATE)  # loses any
    replace_file(own, raw, PRIVATE)
    return own


def _record(path: Path) -> dict[str, list[str]]:
    try:
        found = json.loads(path.with_name(RECORD).read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    except (OSError, ValueError):
        return {}


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def unknown_student(given: str, names: Mapping[str, str]) -> str:
    """What is wrong with a student that a table names and nobody has, and whom it may mean.

    names: of the class, by id. A name is looked for as well, since a teacher thinks in names.
    """
    ids: dict[str, list[str]] = {}
    for student, name in names.items():
        for called in {student.lower(), name.lower()} - {""}:
            ids.setdefault(called, []).append(student)
    wanted = given.lower()
    close = [wanted] if wanted in ids else near(wanted, ids)
    meant = list(dict.fromkeys(student for called in close for student in ids[called]))[:3]
    asks = f"; did you mean {' or '.join(map(tidy, meant))}?" if meant else ""
    return f"no student with the id {tidy(given)!r}{asks}"


def safe_name(student: str) -> str:
    """A file's name: the student's, with nothing in it that leads elsewhere."""
    plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in student)[:80]
    if plain == student:
        return plain
    return f"{plain}-{hashlib.sha256(student.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
