"""What a page reads below the book's folder while it runs: the inputs that its outputs follow from.

`watch` is called in the kernel before anything of the book is imported, so this module needs the
standard library alone. An audit hook sees every file that Python opens, modules included, and every
folder that is listed. It does not see whether a file exists that nobody opens: names below data/
always count. Of a Python module what it does counts: neither its comments nor its docstrings,
unless something else than an import opens it, which may show its text.
"""

from __future__ import annotations

import ast
import hashlib
import os
import re
import sys
import threading
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
AS_TEXT = "text:"
"""Begins the name of a Python module that was opened as a text."""
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
            name = path[len(below) :]
            imports = sys._getframe(1).f_code.co_filename.startswith("<frozen importlib")
            if event == "open":
                note(AS_TEXT + name if name.endswith(".py") and not imports else name)
            # The import system lists a folder to find one module in it, which it then opens.
            elif not imports:
                note(name + "/")
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
        if (
            line.removeprefix(AS_TEXT).split("/")[0] in IGNORED
            or line.endswith("__pycache__/")
            or "__editable__" in line
        ):
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
    digest = hashlib.sha256("\0".join(code).encode())
    for name in read:
        digest.update(f"\0{name}\0{_content(root, name)}".encode())
    return digest.hexdigest()[:32]


def sums(read: Iterable[str], root: Path) -> dict[str, str]:
    """A short digest of what each input holds now, by its name: by these a changed one is named."""
    now = {name: _content(root, name).encode() for name in read}
    return {name: hashlib.sha256(content).hexdigest()[:8] for name, content in now.items()}


def freeze(root: Path) -> None:
    """Note what every file holds now: a file that is edited during a run gives that run no key of
    its new text."""
    _read.cache_clear()
    _content.cache_clear()
    _content(root, EVERYTHING)


@cache
def _content(root: Path, name: str) -> str:
    """A digest of a file, of what a module does, the names in a folder, or everything; "" for what
    is not there."""
    if name == EVERYTHING:
        paths = [path for tree in TREES for path in (root / tree).rglob("*")]
        names = sorted(path.relative_to(root).as_posix() for path in paths if path.is_file())
        # A cache, of Python or of pytest, is there or not.
        kept = (one for one in names if not re.search(r"(^|/)(\.|__pycache__/)", one))
        texts = [f"{one}\0{_content(root, AS_TEXT + one)}" for one in kept]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()
    try:
        if name.endswith("/"):
            listed = sorted(
                one for one in os.listdir(root / name) if not one.startswith(("__py", "."))
            )
            return "\0".join(listed)
        path = root / name.removeprefix(AS_TEXT)
        content = _read(path) if path.suffix == ".py" else path.read_bytes()
        if name.endswith(".py") and not name.startswith(AS_TEXT):
            content = "\n".join(what_runs(content.decode())).encode()
        return hashlib.sha256(content).hexdigest()
    except OSError:
        return ""


@cache
def _read(path: Path) -> bytes:
    """A Python file as it was when `freeze` noted it."""
    return path.read_bytes()


_PARSING = threading.Lock()
"""Pages end in threads, and CPython 3.11 counts the depth of all trees that are made at a time."""


def what_runs(text: str) -> list[str]:
    """The lines of a module but for blank ones, comments on lines of their own, and texts that are
    statements; docstrings below a decorator stay, which may show them. All lines of what is no
    Python."""
    try:
        with _PARSING:
            tree = ast.parse(text)
    except SyntaxError:
        return text.splitlines()
    texts: set[int] = set()  # lines of texts of several lines, blank ones and such with # included
    unread: set[int] = set()
    shown: set[ast.stmt] = set()
    for node in ast.walk(tree):
        if getattr(node, "decorator_list", None):
            shown.add(node.body[0])  # type: ignore[attr-defined]
        if isinstance(node, ast.Expr) and _is_text(node.value) and node not in shown:
            unread |= set(range(node.lineno, (node.end_lineno or 0) + 1))
        elif isinstance(node, (ast.Constant, ast.JoinedStr)) and node.end_lineno != node.lineno:
            texts |= set(range(node.lineno, (node.end_lineno or 0) + 1))
    lines = list(enumerate(text.splitlines(), 1))
    says = {n for n, line in lines if (s := line.strip()) and not s.startswith("#")}
    return [line for n, line in lines if n not in unread and n in says | texts]


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)
