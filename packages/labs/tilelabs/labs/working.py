"""A student's work on a lab, in a notebook or at a terminal: a kernel and answers, checked and
handed in.

    begin("2", variant="A transposed")      the first cell of the notebook says it
    %%cuda lab2                             a cell with the kernel: kept as lab2.cu, checked at once
    %%answer lab2 written                   a cell with a written answer: kept as lab2_written.md
    check("2")                              that kernel once more
    submit("2")                             one file to hand in: lab2_submission.ipynb

What counts lies in files beside the notebook, so a restart of the kernel loses nothing, and an
editor and a terminal do as well. An answer is a cell of code, since Colab gives a program no way to
the notebook's other cells.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from helpers.notebook.cells import cell, code_cell
from helpers.notebook.remarks import TAKERS
from helpers.notebook.starting import on_colab
from nogpu.disk import replace_file
from nogpu.errors import ConfigError, SourceError, ToolchainError, UnknownNameError, near_matches
from nogpu.text import decode, without_comments
from tilelabs.labs import checking, declaring
from tilelabs.labs.checking import Checked, as_html, as_text
from tilelabs.labs.declaring import Declaration
from tilelabs.labs.rubrics import Lab, Rubric, lab

UNANSWERED = "Your answer stands here."
"""What a cell for an answer holds when it is handed out; it is no answer."""
NO_ANSWER = "*No answer.*"
"""What `submit` writes in place of an answer."""


def begin(number: str | int, *, version: int = 0, variant: str = "", tag: str = "") -> None:
    """Say which lab is worked on here, and bring `%%cuda labN` and `%%answer` to a notebook.

    version: which the notebook was made for; default the book's. variant: by name; default the
    first. tag: of the book, as the course has it. Raises UnknownNameError: a lab or a variant that
    does not exist; ConfigError: a folder that cannot be written.
    """
    of = lab(number)
    chosen = checking.variant_of(of, variant)
    declaring.write(Path(), Declaration(of.number, version or of.version, chosen.name, tag))
    print(f"Lab {of.number}, {of.title}: {chosen.name}. Run the cell of your kernel to check it.")
    if lines := _another(of, version or of.version):
        print(lines)
    _register(of)


def _another(of: Lab, version: int) -> str:
    """What to do where the notebook and the book have another version of a lab; "" where they
    agree.
    """
    if version == of.version:
        return ""
    return (
        f"This notebook is for version {version} of lab {of.number}, and the book here has "
        f"version {of.version}: points may come out otherwise. Take the book's tag that your "
        "course names, or ask for a new notebook."
    )


def _register(of: Lab) -> None:
    def taken(text: str) -> Checked:
        # With the cell's first line, so that a line of it is that line of the cell.
        _keep(Path(_source(of)), f"// %%cuda {of.entry}{text}")
        return check(of.number)

    TAKERS[of.entry] = taken
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        shell.register_magic_function(_answer_magic, "cell", "answer")


def _answer_magic(line: str, body: str) -> Answer:
    words = line.split()
    if len(words) != 2:
        raise ConfigError(
            f"%%answer {line}: name the lab and the part, as in `%%answer lab2 written`"
        )
    return answer(words[0].removeprefix("lab"), words[1], body)


def _source(of: Lab) -> str:
    return f"{of.entry}.cu"


def _keep(path: Path, text: str) -> None:
    try:
        replace_file(path, text, 0o600)
    except OSError as error:
        raise ConfigError(
            f"{path.name} cannot be written here ({error.strerror}), and nothing was kept: free "
            "some space, or work in another folder"
        ) from None
    except UnicodeEncodeError:
        raise SourceError(
            f"the text for {path.name} holds characters that are no text (lone surrogates): "
            "delete them"
        ) from None


# -- checking --------------------------------------------------------------------------------------


def check(
    number: str | int,
    source: str | bytes | None = None,
    *,
    variant: str = "",
    folder: Path | None = None,
    gpu: bool | None = None,
    every_shape: bool = False,
) -> Checked:
    """How a kernel comes out on cases for practice, without a GPU; with one, its time too.

    source: text or the bytes of a file; default what the cell `%%cuda labN` wrote last, labN.cu.
    variant: by name; default the one that was begun in `folder`, or else the lab's first. folder:
    with the lab's files; default this one. gpu: as in `checking.check`. every_shape: the first
    wrong shape ends it otherwise. Raises UnknownNameError: a lab or a variant that does not exist;
    ConfigError: there is no kernel; never for a source.
    """
    of = lab(number)
    begun = declaring.read(folder or Path(), of.number)
    raw = _kernel(of, folder or Path()) if source is None else source
    chosen = variant or (begun.variant if begun else "")
    found = checking.check(of.number, raw, variant=chosen, gpu=gpu, every_shape=every_shape)
    _last[_key(of, raw, found.variant.name)] = found
    return found


_last: dict[tuple[str, int, str, str], Checked] = {}
"""How kernels came out in this process, for `submit`."""


def _key(of: Lab, raw: str | bytes, variant: str) -> tuple[str, int, str, str]:
    data = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    return of.number, of.version, variant, hashlib.sha256(data).hexdigest()


def _kernel(of: Lab, folder: Path) -> bytes:
    """What lies in labN.cu. Raises ConfigError where there is none."""
    try:
        return (folder / _source(of)).read_bytes()
    except OSError:
        raise ConfigError(
            f"there is no kernel of lab {of.number} yet: run the cell that begins with %%cuda "
            f"{of.entry}, or write {_source(of)} into this folder"
        ) from None


# -- answers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Answer:
    """A written answer that is kept; a notebook shows it as the Markdown that it is. text: "" for
    none.
    """

    part: str
    text: str

    def __str__(self) -> str:
        return f"{self.part}: {_words(self.text)}"

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.text or f"*{self}*"


def _words(text: str) -> str:
    return f"{len(text.split()):,} words" if text else "no answer yet"


def answer(number: str | int, part: str, text: str) -> Answer:
    """Keep the answer to a part that a person marks, as labN_PART.md of this folder; Markdown, as
    in any cell.

    text: without one, what was kept before stays. Raises UnknownNameError for a part that no person
    marks, ConfigError for a folder that cannot be written.
    """
    of = lab(number)
    by_hand = {p.id: p for p in of.parts if p.by_hand}
    if part not in by_hand:
        raise UnknownNameError(
            f"lab {of.number} asks for no answer {part!r}. {near_matches(part, by_hand)}"
        )
    if written := text.strip().removeprefix(UNANSWERED).strip():
        _keep(_answer_file(of, by_hand[part], Path()), written + "\n")
    return Answer(part, written or _answered(of, by_hand[part], Path()))


def _answer_file(of: Lab, part: Rubric, folder: Path) -> Path:
    return folder / f"{of.entry}_{part.id}.md"


def _answered(of: Lab, part: Rubric, folder: Path) -> str:
    try:
        return decode(_answer_file(of, part, folder).read_bytes(), f"{of.entry}_{part.id}.md")
    except OSError:
        return ""


# -- handing in ------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class HandedIn:
    """The file to hand in, and what is in it or lacks. ok: nothing lacks."""

    path: Path
    lines: tuple[tuple[bool | None, str], ...]
    head, label = "", "What you hand in"
    __str__ = __repr__ = as_text
    _repr_html_ = as_html

    @property
    def ok(self) -> bool:
        """Every point that needs no person, and every answer."""
        return not any(good is False for good, _ in self.lines)

    @property
    def foot(self) -> str:
        """What to do with it."""
        return f"Hand in {self.path.name}, which lies in this folder"


def submit(number: str | int, *, variant: str = "", folder: Path | None = None) -> HandedIn:
    """Write the one file to hand in, labN_submission.ipynb: the kernel, the answers, and which lab
    they are for.

    It holds versions, and no path or name of a person or machine. variant, folder: as for `check`.
    What lacks is said, and it is written all the same. On Colab its download is offered. Raises
    ConfigError where there is no kernel, SourceError for one that is no text.
    """
    from helpers.record.stamps import commit

    of, here = lab(number), folder or Path()
    raw = _kernel(of, here)
    text = decode(raw, _source(of))
    if "__global__" not in without_comments(text):
        raise ConfigError(
            f"{_source(of)} holds no kernel, and nothing was written: run the cell of your "
            f"kernel, which begins with %%cuda {of.entry}, and then this one"
        )
    begun = declaring.read(here, of.number)
    begun = begun or Declaration(of.number, of.version, "")
    chosen = checking.variant_of(of, variant or begun.variant)
    made = Declaration(of.number, begun.version, chosen.name, begun.tag, commit())
    by_hand = [part for part in of.parts if part.by_hand]
    answers = {part.id: _answered(of, part, here) for part in by_hand}
    title = f"# Lab {of.number}: {of.title}\n\n{made.variant}, version {made.version}"
    kernel = text.removeprefix(f"// %%cuda {of.entry}\n")
    cells = [
        cell("markdown", title, "lab"),
        code_cell(f"%%cuda {of.entry}\n{kernel}", "kernel", []),
    ]
    for part in by_hand:
        question = f"## {part.id.capitalize()}: {part.points} points\n\n{part.words}"
        cells.append(cell("markdown", question, part.id))
        cells.append(cell("markdown", answers[part.id] or NO_ANSWER, f"{part.id}-answer"))
    notebook = {"cells": cells, "metadata": made.metadata(), "nbformat": 4, "nbformat_minor": 5}
    path = here / f"{of.entry}_submission.ipynb"
    _keep(path, json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    lines = [
        (None, f"{made.variant}, version {made.version}"),
        _checked(of, raw, made.variant),
        *((bool(answers[p.id]), f"{p.id}: {_words(answers[p.id])}") for p in by_hand),
        *([(False, odd)] if (odd := _another(of, made.version)) else []),
        *([(None, _offered(path))] if on_colab() else []),
    ]
    return HandedIn(path, tuple(lines))


def _checked(of: Lab, raw: bytes, variant: str) -> tuple[bool | None, str]:
    """How the kernel that is handed in comes out, in a line."""
    what = "the kernel as its cell was run last"
    try:
        found = _last.get(_key(of, raw, variant)) or checking.check(
            of.number, raw, variant=variant, gpu=False, every_shape=False
        )
    except ToolchainError as error:
        return None, f"{what}, which was not checked: {error}"
    points = f"{found.points} of {found.most} points that need no person"
    if found.ok:
        return True, f"{what}: {points}"
    return False, f'{what}: {points}; check("{of.number}") says what lacks'


def _offered(path: Path) -> str:
    """Offer a file to the browser, as Colab does; what came of it."""
    try:
        importlib.import_module("google.colab.files").download(str(path))
    except Exception as error:  # Colab's own: a browser may refuse
        reason = f"Colab did not offer the download ({type(error).__name__})"
        return f"{reason}: take the file from the pane Files"
    return "Colab offers the download; the file is in the pane Files as well"
