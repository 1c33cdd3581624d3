"""What a page reads below the book's folder while it runs: the inputs that its outputs follow from.

`watch` is called in the kernel before anything of the book is imported, so this module needs the
standard library alone. An audit hook sees every file that Python opens, modules included, and every
folder that is listed. It does not see whether a file exists that nobody opens: names below data/
always count.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

IGNORED = (".venv", "_build", ".git", ".scratch")
"""Folders of the repository that are no input of a page."""
ALWAYS = ("requirements.txt", "data/", "data/measurements/", "data/tries/", "data/validation/")
"""Inputs of every page; a folder stands for the names in it."""
EVERYTHING = "*"
"""In place of inputs: a page started a process that may read the book, and a hook sees no such
reads."""
TREES = ("helpers", "packages", "kernels", "data", "labs")
"""What EVERYTHING stands for."""
COMPILES = "tilelabs.judging.compiling:answered"
"""What a process is told that compiles the text of a cell, if no cache holds what becomes of it.
Of the book it reads modules that the page has imported, and headers that the page has read for the
name in the cache: no input more, so that a cold cache gives the inputs that a warm one gives."""


def watch(root: str, log: str) -> None:
    """From now on, append to the file `log` each path below `root` that this process reads, one a
    line.

    A listed folder ends in "/"; a line "*" says that a process was started that may read the book.
    """
    seen: set[str] = set()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    below = root + os.sep
    installed = os.path.join(root, ".venv", "lib", "")  # the disassembler, say

    def note(path: str) -> None:
        if path not in seen:
            seen.add(path)
            os.write(out, f"{path}\n".encode())

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            given = args[0] if args and args[0] is not None else "."
            if not isinstance(given, (str, bytes, os.PathLike)):
                return  # a file that is open already
            path = os.path.abspath(os.fsdecode(given))
            if not path.startswith(below):
                return
            if event == "open":
                note(path[len(below) :])
            # The import system lists a folder to find one module in it, which it then opens.
            elif not sys._getframe(1).f_code.co_filename.startswith("<frozen importlib"):
                note(path[len(below) :] + "/")
        elif event == "subprocess.Popen":
            words = [args[0], *(args[1] if isinstance(args[1], (list, tuple)) else [args[1]])]
            texts = [os.fsdecode(word) for word in words if word]
            if COMPILES not in texts and any(
                text == sys.executable or (root in text and not text.startswith(installed))
                for text in texts
            ):
                note(EVERYTHING)

    sys.addaudithook(hook)


def inputs(log: Path) -> list[str]:
    """The inputs that a log of `watch` names, sorted; of compiled modules the sources.

    Raises FileNotFoundError if nothing watched.
    """
    found = set(ALWAYS)
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.split("/")[0] in IGNORED or line.endswith("__pycache__/") or "__editable__" in line:
            continue
        if "__pycache__/" in line:
            try:
                line = source_from_cache(line)
            except ValueError:  # a module is being written there
                continue
        found.add(line)
    if EVERYTHING in found:
        return sorted(one for one in found if one.split("/")[0] not in TREES)
    return sorted(found)


def key(code: Iterable[str], read: Iterable[str], root: Path) -> str:
    """A name for a page's code cells and the contents of its inputs: what a run's outputs follow
    from."""
    told = hashlib.sha256("\0".join(code).encode())
    for name in read:
        told.update(f"\0{name}\0{_content(root, name)}".encode())
    return told.hexdigest()[:32]


def sums(read: Iterable[str], root: Path) -> dict[str, str]:
    """A short digest of what each input holds now, by its name: by these a changed one is named."""
    now = {name: _content(root, name).encode() for name in read}
    return {name: hashlib.sha256(content).hexdigest()[:8] for name, content in now.items()}


def freeze(root: Path) -> None:
    """Note what every file holds now: a file that is edited during a run gives that run no key of
    its new text."""
    _content.cache_clear()
    _content(root, EVERYTHING)


@cache
def _content(root: Path, name: str) -> str:
    """A digest of a file, the names in a folder, or everything; "" for what is not there."""
    if name == EVERYTHING:
        paths = [path for tree in TREES for path in (root / tree).rglob("*")]
        names = sorted(path.relative_to(root).as_posix() for path in paths if path.is_file())
        # A cache, of Python or of pytest, is there or not.
        kept = (one for one in names if not re.search(r"(^|/)(\.|__pycache__/)", one))
        texts = [f"{one}\0{_content(root, one)}" for one in kept]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()
    try:
        if name.endswith("/"):
            listed = sorted(
                one for one in os.listdir(root / name) if not one.startswith(("__py", "."))
            )
            return "\0".join(listed)
        return hashlib.sha256((root / name).read_bytes()).hexdigest()
    except OSError:
        return ""
