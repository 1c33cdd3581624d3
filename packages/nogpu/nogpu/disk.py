"""What is kept between processes: compiled and translated programs, in the user's own cache folder.

An entry is a compressed pickle behind its checksum, under the hash of everything that decides what
it holds. It is written beside its place and moved there, so that several processes may share the
folder; the least recently used go when the folder grows too large. A pickle can run code when it is
read, so only a folder and files that belong to this user, and that nobody else can write, are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import re
import stat
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

T = TypeVar("T")

SWITCH = "TILE_CACHE"
"""An environment variable: 0 turns the cache off."""
LIMIT = "TILE_CACHE_MB"
"""An environment variable: the folder's largest size, in MB of a million bytes."""
DEFAULT_MB = 256
HITS: Counter[str] = Counter()
"""Entries that this process found on the disk, by kind."""
MISSES: Counter[str] = Counter()
"""Entries that it looked for and had to make, by kind."""

_SUFFIX = ".kept"
_UNFINISHED = ".part"
_CHECKSUM = 32  # bytes of SHA-256 before the pickle
_ABANDONED = 3600.0  # seconds after which a file that was never finished is rubbish


def user_folder() -> Path:
    """This project's folder among the user's caches; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tile-by-tile"


def largest() -> int:
    """Bytes that the entries may take; a limit that is no number counts as the default."""
    try:
        return int(float(os.environ.get(LIMIT, DEFAULT_MB)) * 1e6)
    except (ValueError, OverflowError):
        return DEFAULT_MB * 1_000_000


def place() -> Path:
    """The folder of the entries, whether or not it can be used."""
    return user_folder() / "programs"


def _folder() -> Path | None:
    """The folder of the entries, made if need be; None if there is to be no cache."""
    if _aside or os.environ.get(SWITCH) == "0" or not hasattr(os, "getuid"):
        return None
    try:
        folder = place()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = os.lstat(folder)
    except (OSError, RuntimeError):  # RuntimeError: no home folder
        return None
    return folder if stat.S_ISDIR(facts.st_mode) and _only_mine(facts) else None


_aside: list[None] = []
"""One for each `set_aside` that is open."""


@contextmanager
def set_aside() -> Iterator[None]:
    """Within it this process finds nothing in the cache and leaves nothing there."""
    _aside.append(None)
    try:
        yield
    finally:
        _aside.pop()


def _only_mine(facts: os.stat_result) -> bool:
    """Whether it belongs to this user, and nobody else can write to it."""
    return facts.st_uid == os.getuid() and not facts.st_mode & 0o022


# -- what decides an entry -----------------------------------------------------------------------


def digest(parts: Iterable[str | bytes]) -> str:
    """A name for these texts, in this order; no two lists of texts share one."""
    total = hashlib.sha256()
    for part in parts:
        raw = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        total.update(len(raw).to_bytes(8, "little"))
        total.update(raw)
    return total.hexdigest()


def code_of(*files: Path) -> str:
    """A name for the content of source files of this package: what they make may change with it."""
    return _code_of(tuple((str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(files)))


@cache
def _code_of(files: tuple[tuple[str, int, int], ...]) -> str:
    texts = [Path(name).read_bytes() for name, _, _ in files]
    names = [Path(name).name for name, _, _ in files]
    return digest([sys.version, sys.implementation.cache_tag or "", *names, *texts])


_INCLUDE = re.compile(
    r'(?:\#|%:)[ \t]*include(?:_next)?\b\s*(?:["<]([^">\n]+)[">])?'
    r'|\b__has_include\w*\s*\(\s*["<]([^">\n]+)'
)
_CLOCK = re.compile(r"\b__(?:DATE|TIME|TIMESTAMP)__\b")


def headers(source: str, folders: Sequence[str]) -> dict[str, str] | None:
    """Path and text of every header that a source may include, but for the compiler's own.

    Every folder is tried for every name, and conditions are not looked at, so there may be more
    than are read. None if one cannot be told, or if the text depends on the clock.
    """
    texts: dict[str, str] = {}
    todo = [(source, "")]
    while todo:
        text, own = todo.pop()
        text = text.replace("\\\n", "")
        if _CLOCK.search(text):
            return None
        for include in _INCLUDE.finditer(text):
            header = include[1] or include[2]
            if not header:
                return None  # #include NAME: a macro decides
            for folder in (*folders, own):
                path = Path(folder or ".", header)
                if str(path) not in texts and path.is_file():
                    texts[str(path)] = path.read_text(encoding="utf-8", errors="surrogateescape")
                    todo.append((texts[str(path)], str(path.parent)))
    return dict(sorted(texts.items()))


# -- entries -------------------------------------------------------------------------------------


def load_or_make(kind: str, identity: str, make: Callable[[], T]) -> T:
    """What `make` returns: from the disk if a process kept it under this kind and identity.

    Whatever `make` raises is raised, and not kept. A cache that cannot be read or written is no
    error.
    """
    folder = _folder()
    if folder is None:
        return make()
    path = folder / f"{kind}-{identity}{_SUFFIX}"
    present, value = _read(path)
    if present:
        HITS[kind] += 1
        return value  # type: ignore[no-any-return]
    MISSES[kind] += 1
    value = make()
    _write(path, zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1))
    return value  # type: ignore[no-any-return]


def _read(path: Path) -> tuple[bool, Any]:
    """(whether it was there and sound, the value); a damaged entry is thrown away."""
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    except OSError:
        return False, None
    with os.fdopen(file, "rb") as opened:
        if not _only_mine(os.fstat(opened.fileno())):
            return False, None
        try:
            raw = opened.read()
            checksum, body = raw[:_CHECKSUM], raw[_CHECKSUM:]
            if hashlib.sha256(body).digest() != checksum:
                raise ValueError("damaged")
            value = pickle.loads(zlib.decompress(body))
        except Exception:  # what a pickle of another time may raise is anything
            path.unlink(missing_ok=True)
            return False, None
    with contextlib.suppress(OSError):
        os.utime(path)  # used now: the least recently used go first
    return True, value


def replace_file(
    path: Path, content: str | bytes, mode: int = 0o644, unfinished: str = ".tmp"
) -> None:
    """Write a file whole or not at all, its folder too; text as UTF-8 with its own line ends.

    unfinished: how the name ends of what is not yet whole.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(unfinished, f".{path.name}.", path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(name, mode)  # mkstemp makes it private
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write(path: Path, body: bytes) -> None:
    if len(body) > largest():
        return
    try:
        replace_file(path, hashlib.sha256(body).digest() + body, 0o600, _UNFINISHED)
        _shrink(path.parent, len(body) + _CHECKSUM)
    except OSError:  # a full or read-only disk: the next process compiles too
        pass


def _entries(folder: Path, suffix: str = _SUFFIX) -> list[tuple[float, int, Path]]:
    """(last use, bytes, path) of each entry."""
    entries = []
    for path in folder.glob(f"*{suffix}"):
        with contextlib.suppress(OSError):  # another process threw it away
            facts = path.lstat()
            entries.append((facts.st_mtime, facts.st_size, path))
    return entries


_sizes: dict[Path, tuple[int, int]] = {}
"""Of a folder: its bytes as this process knows them, and its own writes since it last looked."""
_LOOK = 50  # writes after which it looks again what other processes have written


def _shrink(folder: Path, added: int) -> None:
    """Throw away the least recently used entries, down to nine tenths of the limit."""
    most = largest()
    total, writes = _sizes.get(folder, (most, _LOOK))
    if total + added <= most and writes < _LOOK:
        _sizes[folder] = (total + added, writes + 1)
        return
    for last, _, path in _entries(folder, _UNFINISHED):
        if time.time() - last > _ABANDONED:
            path.unlink(missing_ok=True)
    entries = sorted(_entries(folder))
    total = sum(size for _, size, _ in entries)
    enough = 0.9 * most if total > most else most
    for _, size, path in entries:
        if total <= enough:
            break
        path.unlink(missing_ok=True)
        total -= size
    _sizes[folder] = (total, 0)


@dataclass(frozen=True)
class Contents:
    """What the cache holds. used: whether processes use it; kinds: entries of each kind."""

    folder: Path
    used: bool
    kinds: dict[str, int]
    bytes: int
    most: int


def contents() -> Contents:
    """Where the cache is, what it holds and how large it is."""
    entries = _entries(place())
    kinds = Counter(path.name.partition("-")[0] for _, _, path in entries)
    size = sum(size for _, size, _ in entries)
    return Contents(place(), _folder() is not None, dict(sorted(kinds.items())), size, largest())


def clear() -> int:
    """Throw every entry away; how many there were."""
    for _, _, path in _entries(place(), _UNFINISHED):
        path.unlink(missing_ok=True)
    entries = _entries(place())
    for _, _, path in entries:
        path.unlink(missing_ok=True)
    return len(entries)


# -- in this process -----------------------------------------------------------------------------


class Bounded(Generic[T]):
    """Calls a function once for each set of arguments, and keeps the results up to a size.

    weigh: bytes that a result takes, about; most: how many all of them may take. The least recently
    used go first; the last result is kept whatever it weighs.
    """

    def __init__(self, function: Callable[..., T], weigh: Callable[[T], int], most: int) -> None:
        self.function, self.weigh, self.most = function, weigh, most
        self.__doc__ = function.__doc__
        self._lock = threading.Lock()
        self._results: OrderedDict[tuple[Any, ...], tuple[T, int]] = OrderedDict()
        self.total_weight = 0

    def __call__(self, *arguments: Any) -> T:
        with self._lock:
            if arguments in self._results:
                self._results.move_to_end(arguments)
                return self._results[arguments][0]
        result = self.function(*arguments)
        weight = self.weigh(result)
        with self._lock:
            self.total_weight += weight - self._results.pop(arguments, (None, 0))[1]
            self._results[arguments] = (result, weight)
            while self.total_weight > self.most and len(self._results) > 1:
                self.total_weight -= self._results.popitem(last=False)[1][1]
        return result

    def __len__(self) -> int:
        return len(self._results)

    def cache_clear(self) -> None:
        """Forget every result."""
        with self._lock:
            self._results.clear()
            self.total_weight = 0


def bounded(most: int, weigh: Callable[[Any], int]) -> Callable[[Callable[..., T]], Bounded[T]]:
    """A decorator: see `Bounded`."""
    return lambda function: Bounded(function, weigh, most)
