"""Submissions out of what a learning platform hands a teacher: a folder, or the zip as it was
downloaded.

Whose a submission is, the platform's names say, and never the file itself. A notebook's kernel is
the cell that begins with %%cuda lab2 (or %%writefile lab2.cu): by its first line, since cells are
copied, split and typed anew.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from nogpu.errors import ConfigError, SourceError
from nogpu.text import MOST_BYTES as SOURCE_BYTES
from nogpu.text import decode
from tilelabs.grading.answers import answers_in
from tilelabs.grading.fixing import Fix, fixed
from tilelabs.labs.declaring import KEY

MOST_BYTES = 100_000_000
"""Of a file that is looked into: notebooks carry outputs."""
KINDS = (".cu", ".ipynb")

MOODLE = re.compile(r"^(?P<name>.+?)_(?P<id>\d+)_assignsubmission_file(?:_.*)?$")
"""A folder of its download."""
_CANVAS = re.compile(r"^(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_(?P<file>\d+)_(?P<rest>.+)$")


@dataclass(frozen=True)
class Submission:
    """What one student handed in. student: the platform's number, or else the folder's or file's
    name.

    raw: the kernel's bytes; None where there is none, and `problem` says why. notes: what a teacher
    should know, such as that of several files the last counts. late: the platform says so. also:
    members of the same group, and their files, that hold the same. declared: what a notebook says
    of itself, lab, version, variant, tag and perhaps student; nobody believes it, it is compared.
    answers: student, part and text of what a person marks; those of `also` are in it.
    """

    student: str
    name: str
    file: str
    raw: bytes | None
    problem: str = ""
    notes: tuple[str, ...] = ()
    late: bool = False
    also: tuple[tuple[str, str], ...] = ()
    declared: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[tuple[str, str, str], ...] = ()


def collect(
    path: Path,
    entry: str,
    *,
    fixes: Mapping[str, Sequence[Fix]] = MappingProxyType({}),
    student: tuple[str, str] = ("", ""),
) -> tuple[Submission, ...]:
    """The submissions below a folder, or in a zip, sorted by student; of several files the last one
    counts. Raises ConfigError where there are none.

    Parameters
    ----------
    entry : what the kernel is called, "lab2".
    fixes : a teacher's repairs, by student.
    student : id and name, where all files are one student's.
    """
    found: dict[str, list[Submission]] = {}
    for file, raw in _files(path):
        made = _submission(
            file, raw, entry, fixes, student
        )  # its kernel alone: outputs of a whole class are large
        found.setdefault(made.student, []).append(made)
    if not found:
        raise ConfigError(
            f"{path} holds no submissions: a folder or a zip with {' or '.join(KINDS)} files, as "
            "the platform hands it out"
        )
    return tuple(_last(files) for _, files in sorted(found.items()))


def _last(files: list[Submission]) -> Submission:
    last = files[-1]
    if len(files) == 1:
        return last
    by_part = {part: text for one in files for _, part, text in one.answers}  # the last of each
    answers = tuple((last.student, part, text) for part, text in by_part.items())
    return replace(
        last, notes=(f"{len(files)} files; {last.file} counts", *last.notes), answers=answers
    )


def owner(file: str) -> tuple[str, str, bool]:
    """Student, name and whether it is late, by a path below the download: Moodle's folders,
    Canvas's files, or else the topmost folder, or the file's name.
    """
    parts = PurePosixPath(file).parts
    for part in parts[:-1]:
        if moodle := MOODLE.match(part):
            return moodle["id"], moodle["name"], False
    if canvas := _CANVAS.match(parts[-1]):
        return canvas["id"], canvas["name"], bool(canvas["late"])
    own = parts[0] if len(parts) > 1 else PurePosixPath(parts[0]).stem
    return own, own, False


def _files(path: Path) -> Iterator[tuple[str, bytes | None]]:
    """Names and bytes of all files that may be submissions; None for one that is too large."""
    try:
        if path.is_dir():
            for one in sorted(path.rglob("*")):
                if one.suffix.lower() in KINDS and one.is_file() and not one.is_symlink():
                    large = one.stat().st_size > MOST_BYTES
                    yield one.relative_to(path).as_posix(), None if large else one.read_bytes()
            return
        with zipfile.ZipFile(path) as data:
            for info in sorted(data.infolist(), key=lambda i: i.filename):
                if PurePosixPath(info.filename).suffix.lower() in KINDS and not info.is_dir():
                    large = info.file_size > MOST_BYTES
                    yield info.filename, None if large else data.read(info)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{path} is neither a folder nor a zip that can be read: {error}"
        ) from None


def _submission(
    file: str,
    raw: bytes | None,
    entry: str,
    fixes: Mapping[str, Sequence[Fix]],
    own: tuple[str, str],
) -> Submission:
    file = file.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    student, name, late = (*own, False) if own[0] else owner(file)
    todo = fixes.get(student, ())
    made = Submission(student, name, file, raw, late=late)
    try:
        if raw is None:
            raise SourceError(
                f"it is larger than {MOST_BYTES // 10**6} MB: clear the outputs of the notebook"
            )
        if not file.lower().endswith(".ipynb"):
            if not todo:
                return replace(made, raw=raw[: SOURCE_BYTES + 1])  # more is refused, however long
            [text], notes = fixed([decode(raw, "the file")], todo)
            return replace(made, raw=text.encode(), notes=tuple(notes))
        answers = answers_in(raw, entry)
        made = replace(made, answers=tuple((student, part, text) for part, text in answers.items()))
        text, notes, declared = read_notebook(raw, entry, todo)
        return replace(made, raw=text.encode(), notes=tuple(notes), declared=declared)
    except SourceError as error:
        return replace(made, raw=None, problem=str(error))


def kernel_of(raw: bytes, entry: str) -> tuple[str, list[str]]:
    """The kernel's text in a notebook, below the cell's first line, and what to note about it.

    Lines are counted as the student counts them: in the cell below %%cuda, which leaves an empty
    line for it, in the file below %%writefile.

    Raises SourceError for what is no notebook, or one without such a cell.
    """
    text, notes, _ = read_notebook(raw, entry)
    return text, notes


def read_notebook(
    raw: bytes, entry: str, todo: Sequence[Fix] = ()
) -> tuple[str, list[str], dict[str, str]]:
    """As `kernel_of`, after repairs of any of its cells, and what the notebook declares."""
    try:
        data: Any = json.loads(raw.decode("utf-8-sig"))
        cells = [c for c in data["cells"] if c["cell_type"] == "code"]
        texts = ["".join(c["source"]) for c in cells]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SourceError(
            "it is no notebook that can be read: save it anew in Jupyter or Colab, and hand in "
            "that file"
        ) from None
    texts, notes = fixed(texts, todo)
    first = re.compile(rf"\s*%%(?:(cuda)[ \t]+{entry}\b|writefile\s+{entry}\.cu\b)[^\n]*\n?")
    kernels = [
        ("\n" if found[1] else "") + text[found.end() :].removeprefix("\ufeff")
        for text in texts
        if (found := first.match(text))
    ]
    if not kernels:
        raise SourceError(f"no cell begins with %%cuda {entry}: the kernel stands below that line")
    if len(kernels) > 1:
        notes.append(f"{len(kernels)} cells begin with %%cuda {entry}; the last counts")
    text = decode(kernels[-1].encode("utf-8", "surrogatepass"), "the cell")
    return text, notes, _declared(data.get("metadata"))


def _declared(metadata: Any) -> dict[str, str]:
    """What stands there, if anything does: nobody loses points for odd metadata."""
    answers = metadata.get(KEY) if isinstance(metadata, dict) else None
    return (
        {n: str(v) for n, v in answers.items() if isinstance(v, str | int)}
        if isinstance(answers, dict)
        else {}
    )


__all__ = ["MOODLE", "MOST_BYTES", "Submission", "collect", "kernel_of", "owner"]
