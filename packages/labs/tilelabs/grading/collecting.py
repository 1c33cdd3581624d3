"""Submissions out of what a learning platform hands a teacher: a folder, or the zip as it was
downloaded.

Whose a submission is, the platform's names say, and never the file itself; they say it only where
every name of the download is that platform's. A notebook's kernel is the cell that begins with
%%cuda lab2 (or %%writefile lab2.cu): by its first line, since cells are copied, split and typed
anew. Every file is accounted for: it counts, or the note says why it does not.
"""

import re
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import MappingProxyType

from nogpu.errors import ConfigError, SourceError
from nogpu.text import MOST_BYTES as SOURCE_BYTES
from nogpu.text import decode
from tilelabs.grading.answers import answers_in
from tilelabs.grading.fixing import Fix, fixed
from tilelabs.grading.tables import LOOK
from tilelabs.judging import notebooks
from tilelabs.judging.marking import tidy
from tilelabs.labs.declaring import KEY

KINDS = (".cu", ".ipynb")
JUNK = re.compile(r"(?:^|/)(?:__MACOSX/|\.ipynb_checkpoints/|\.git/|\._|\.DS_Store$|desktop\.ini$)")
"""What systems leave in folders and zips, and nobody handed in."""
MOODLE = re.compile(r"^(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)(?:_.*)?$")
"""A folder of its download."""
CANVAS = re.compile(r"^(?P<name>[^_/]+)_(?P<late>LATE_)?(?P<id>\d+)_(?P<file>\d+)_(?P<rest>[^/]+)$")
_AGAIN = re.compile(r"-(\d+)\.\w+$")
"""How Canvas ends the name of a file of the second attempt, and later ones."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in. student: the platform's number, or else the folder's or file's
    name.

    raw: the kernel's bytes; None where there is none, and `problem` says why. notes: what a teacher
    should know, such as which of several files counts. late: the platform says so. also: members of
    the same group, and their files, that hold the same. declared: what a notebook says of itself,
    lab, version, variant, tag and perhaps student; nobody believes it, it is compared. answers:
    student, part and text of what a person marks; those of `also` are in it. untaken: the student's
    other files, and why they do not count.
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
    untaken: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class _File:
    """A file of a download. date: when it was last changed; read: its bytes, at most so many."""

    name: str
    date: int
    read: Callable[[int], bytes]
    link: bool = False


def collect(
    path: Path,
    entry: str,
    *,
    fixes: Mapping[str, Sequence[Fix]] = MappingProxyType({}),
    student: tuple[str, str] = ("", ""),
) -> tuple[Submission, ...]:
    """The submissions below a folder, or in a zip, by student: one of each who handed a file in.

    Of several files the one that holds this lab's kernel counts; of several of those the platform's
    last one, or else the one that `submit` wrote, or that was changed last. A folder around all
    students is stepped into. entry: what the kernel is called, "lab2". fixes: a teacher's repairs,
    by student. student: id and name, where all files are one student's. Raises ConfigError: no
    files, names of a platform beside others, or kernels of many in one's folder.
    """
    found: dict[str, list[tuple[_Order, Submission]]] = {}
    try:
        with _opened(path) as files:
            if not files:
                raise ConfigError(
                    f"{path} holds no submissions: a folder or a zip with {' or '.join(KINDS)} "
                    "files, as the platform hands it out"
                )
            top = "" if student[0] else _top([f.name for f in files])
            named = {f.name.removeprefix(top): f for f in files}
            whose = owners(tuple(named)) if not student[0] else {}
            for name, file in named.items():
                own = whose.get(name, (*student, False))
                made = _submission(replace(file, name=name), own, entry, fixes.get(own[0], ()))
                found.setdefault(own[0], []).append((_order(made, file.date, entry), made))
    except ConfigError:
        raise
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        raise ConfigError(
            f"{path} is neither a folder nor a zip that can be read: {error}"
        ) from None
    every = tuple(_counting(files) for _, files in sorted(found.items()))
    if len(every) == 1 and not student[0] and any(MANY in note for note in every[0].notes):
        raise ConfigError(
            f"{path} comes out as one student, {every[0].student!r}, with kernels that differ: put "
            "each student's files into a folder of their own, or the files of all side by side"
        )
    return every


_Order = tuple[bool, bool, int, int, bool, int, list[tuple[int, str]]]
MANY = "different kernels"


def _counting(files: list[tuple[_Order, Submission]]) -> Submission:
    """Of one student's files the one that counts, with what became of the others."""
    files.sort(key=lambda pair: pair[0])
    (ours, *_), best = files[-1]
    kernels = {(s.raw or b"").strip() for order, s in files if order[0]}
    answers = {part: text for _, s in files for _, part, text in s.answers}  # the last of each
    untaken, notes = list[tuple[str, str]](), list[str]()
    for order, s in files[:-1]:
        same = order[0] and (s.raw or b"").strip() == (best.raw or b"").strip()
        why = "the same kernel" if same else "an earlier kernel" if order[0] else s.problem
        untaken.append((s.file, why or "another kernel"))
    if untaken:
        others = ", ".join(f"{tidy(file, 60)} ({tidy(why, 90)})" for file, why in untaken)
        notes.append(f"{len(files)} files; {best.file} counts, and not {others}")
    if ours and len(kernels) > 1:
        notes.append(f"{LOOK}{len(kernels)} {MANY} among the files: see that the right one counts")
    return replace(
        best,
        notes=(*notes, *best.notes),
        untaken=tuple(untaken),
        answers=tuple((best.student, part, text) for part, text in answers.items()),
    )


def _order(s: Submission, date: int, entry: str) -> _Order:
    """By what a file comes before another: the last one counts."""
    file = CANVAS.match(s.file)
    again = _AGAIN.search(s.file)
    natural = [(int(n or 0), word) for word, n in re.findall(r"(\D*)(\d{0,9})", s.file)]
    return (
        re.search(rb"\b%s\s*\(" % entry.encode(), s.raw or b"") is not None,
        s.raw is not None,
        int(file["file"]) if file else 0,
        int(again[1]) if file and again else 0,
        s.declared.get("lab") == entry.removeprefix("lab") and "commit" in s.declared,
        date,
        natural,
    )


# -- whose -----------------------------------------------------------------------------------------


def _top(files: Sequence[str]) -> str:
    """The folder around all students, "submissions/"; "" for none."""
    first, *rest = dict.fromkeys(PurePosixPath(f).parts[0] for f in files)
    below = [f.removeprefix(f"{first}/") for f in files]
    if rest or below == list(files) or MOODLE.match(first):
        return ""
    fit = all(map(CANVAS.match, below)) or all(map(MOODLE.match, map(_first, below)))
    deep = all("/" in f for f in below)
    inner = _top(below) if deep else ""
    return f"{first}/{inner}" if fit or inner or (deep and len(set(map(_first, below))) > 1) else ""


def _first(file: str) -> str:
    return PurePosixPath(file).parts[0]


def owners(files: Sequence[str]) -> dict[str, tuple[str, str, bool]]:
    """Student, name and whether it is late, by each path of a download: by Moodle's folders or
    Canvas's names where all are such, else by the topmost folder, or the file's name.

    Raises ConfigError where most names are a platform's and others are not: one of these would be
    taken for another student's.
    """
    for platform, pattern, part in (("Moodle", MOODLE, _first), ("Canvas", CANVAS, str)):
        fit = {f: found for f in files if (found := pattern.match(part(f)))}
        if len(fit) == len(files):
            late = {f: bool(m.groupdict().get("late")) for f, m in fit.items()}
            return {f: (m["id"], m["name"], late[f]) for f, m in fit.items()}
        if 2 * len(fit) > len(files):
            odd = next(f for f in files if f not in fit)
            raise ConfigError(
                f"{len(fit)} of {len(files)} files are named as {platform} names them, and "
                f"{tidy(odd, 80)!r} is not: take the download as it came, without other files"
            )
    plain = {f: _first(f) if "/" in f else PurePosixPath(f).stem for f in files}
    return {f: (own, own, False) for f, own in plain.items()}


# -- files -----------------------------------------------------------------------------------------


@contextmanager
def _opened(path: Path) -> Iterator[list[_File]]:
    """The files of a folder or a zip, by name, without what systems leave there."""
    with ExitStack() as stack:
        if path.is_dir():
            files = [_lying(path, one) for one in path.rglob("*") if not one.is_dir()]
        else:
            data = stack.enter_context(zipfile.ZipFile(path))
            files = [_zipped(data, info) for info in data.infolist() if not info.is_dir()]
        yield sorted((f for f in files if not JUNK.search(f.name)), key=lambda f: f.name)


def _lying(folder: Path, one: Path) -> _File:
    def read(most: int) -> bytes:
        with one.open("rb") as file:
            return file.read(most)

    state, name = one.lstat(), one.relative_to(folder).as_posix()
    link = not one.is_file() or one.is_symlink()
    return _File(_plain(name), int(state.st_mtime) // 2, read, link)


def _zipped(data: zipfile.ZipFile, info: zipfile.ZipInfo) -> _File:
    def read(most: int) -> bytes:
        with data.open(info) as file:
            return file.read(most)

    try:
        date = int(time.mktime((*info.date_time, 0, 0, -1))) // 2
    except (OverflowError, ValueError):
        date = 0
    return _File(_plain(info.filename).lstrip("/") or "_", date, read)


def _plain(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _submission(
    file: _File, own: tuple[str, str, bool], entry: str, todo: Sequence[Fix]
) -> Submission:
    student, name, late = own
    made = Submission(student, name, file.name, None, late=late)
    kind = PurePosixPath(file.name).suffix.lower()
    try:
        if kind not in KINDS:
            raise SourceError(f"{PurePosixPath(file.name).name} is no {' or '.join(KINDS)} file")
        if file.link:
            raise SourceError("it is a link or a device and no file, and is not followed")
        if kind == ".cu":
            raw = file.read(SOURCE_BYTES + 1)  # more is refused, however long
            if not todo:
                return replace(made, raw=raw)
            [text], notes = fixed([decode(raw, "the file")], todo)
            return replace(made, raw=text.encode(), notes=tuple(notes))
        cells, declared = notebooks.read(file.read(notebooks.MOST_BYTES + 1), KEY)
        answers = answers_in(cells, entry)
        made = replace(made, answers=tuple((student, part, text) for part, text in answers.items()))
        text, notes = kernel_of(cells, entry, todo)
        return replace(made, raw=text.encode(), notes=tuple(notes), declared=declared)
    except SourceError as error:
        return replace(made, raw=None, problem=str(error))


def kernel_of(
    cells: Sequence[notebooks.Cell], entry: str, todo: Sequence[Fix] = ()
) -> tuple[str, list[str]]:
    """The kernel's text in a notebook, below the cell's first line, after repairs of any of its
    cells, and what to note about it.

    Lines are counted as the student counts them: in the cell below %%cuda, which leaves an empty
    line for it, in the file below %%writefile.

    Raises SourceError for a notebook without such a cell.
    """
    texts, notes = fixed([text for kind, _, text in cells if kind == "code"], todo)
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
    return decode(kernels[-1].encode("utf-8", "surrogatepass"), "the cell"), notes
