"""Run the cells of a page and print it as it will read: prose with its numbers, outputs as text.

    python -m tools.reading 13            chapter 13, without its setup cells' code
    python -m tools.reading intro --prose only the prose

With --record FILE the page is run on another record of the H200, as the tests of holds() do.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

PIECE = re.compile(
    r"(?ms)^```\{code-cell\}[^\n]*\n(?P<code>.*?)^```$"
    r"|^:::+\{(?P<kind>quiz|kernel)\}[ \t]*(?P<title>[^\n]*)\n(?P<body>.*?)^:::+$"
)
GLUED = re.compile(r"\{glue:text\}`([^`:]+):?([^`]*)`")


def page(name: str) -> Path:
    """The source of a page by its name or by the number of its chapter."""
    found = sorted((ROOT / "book").glob(f"{name}*.md"))
    if not found:
        raise SystemExit(f"book/ has no page {name!r}")
    return found[0]


def run_cell(code: str, names: dict[str, Any], where: str) -> tuple[str, Any]:
    """What a cell prints, and the value of its last expression or its magic, as in a notebook."""
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if code.startswith("%%cuda"):
            from helpers.page.workbench import cell_magic

            line, _, body = code.partition("\n")
            value = cell_magic(line.removeprefix("%%cuda").strip(), body, names)
        else:
            tree = ast.parse(code)
            last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, where, "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), where, "eval"), names)
    return printed.getvalue(), value


def steps(source: str) -> Iterator[tuple[str, str, str]]:
    """The page in pieces: ("prose", text, ""), ("code", code, tags), ("quiz" or "kernel", body,
    title)."""
    at = 0
    for match in PIECE.finditer(source):
        yield "prose", source[at : match.start()], ""
        at = match.end()
        if match["kind"]:
            yield match["kind"], match["body"], match["title"]
        else:
            tags = "".join(re.findall(r"(?m)^:tags:(.*)$", match["code"]))
            yield "code", re.sub(r"\A(?::[\w-]+:[^\n]*\n)+", "", match["code"]), tags
    yield "prose", source[at:], ""


def as_read(kind: str, title: str, body: str) -> str:
    """A quiz with its reasons, or a listing, as plain text."""
    from helpers import page as pages
    from helpers.page.directives import read_kernel, read_quiz

    if kind == "kernel":
        listing = read_kernel(title, body.splitlines())
        return pages.show_kernel(listing.kernel, **listing.keywords).text
    quiz = read_quiz(title, body.splitlines())
    shown = pages.quiz(quiz.question, quiz.options, answer=quiz.answer)
    reasons = [
        f"  {'right' if option in quiz.answer else 'wrong'}: {why}"
        for option, why in quiz.options.items()
    ]
    return "\n".join([shown.text, *reasons])


@contextlib.contextmanager
def record_of(data: Mapping[str, Any] | None) -> Iterator[None]:
    """Let every reader of the record see this one in place of data/measurements/h200.json."""
    from helpers.record import store

    if data is None:
        yield
        return
    store.forget()
    try:
        with mock.patch.object(store, "read", lambda path: store.parsed(path, dict(data))):
            yield
    finally:
        store.forget()


def run(name: str, record: Mapping[str, Any] | None = None) -> list[tuple[str, str]]:
    """Run a page as the book's build does; its pieces as (kind, text).

    Raises what a cell raises.
    """
    from helpers import page as pages
    from helpers.page import claims
    from nogpu.errors import ConfigError

    path = page(name)
    written = path.read_text(encoding="utf-8")
    if wrong := claims.faults(written):
        raise ConfigError("\n".join(f"{path.name}:{line}: {fault}" for line, fault in wrong))
    source = re.sub(r"(?s)\A---\n.*?\n---\n", "", claims.unmarked(written))
    names: dict[str, Any] = {"__name__": "__page__"}
    done: list[tuple[str, str]] = []
    kept = os.getcwd()
    os.chdir(ROOT / "book")
    built = {"TILE_BOOK_BUILD": "1", "TILE_PAGE": path.name}
    try:
        with record_of(record), mock.patch.dict(os.environ, built):
            for number, (kind, text, tags) in enumerate(steps(source)):
                if kind == "prose":
                    done.append((kind, text))
                    continue
                if kind in ("quiz", "kernel"):
                    done.append((kind, as_read(kind, tags, text)))
                    continue
                printed, value = run_cell(text, names, f"{path.name}[{number}]")
                shown = printed + ("" if value is None else _text(value))
                hidden = "remove-output" in tags
                done.append(("code", "" if tags else text))
                done.append(("output", "" if hidden else shown))
    finally:
        os.chdir(kept)
    pairs = [
        (kind, _filled(text, pages) if kind in ("prose", "quiz") else text) for kind, text in done
    ]
    return [(kind, text) for kind, text in pairs if text.strip()]


def _text(value: Any) -> str:
    for name in ("alt", "text", "markdown"):
        if isinstance(found := getattr(value, name, None), str):
            return "\n".join(filter(None, (found, getattr(value, "source", ""))))
    return repr(value)


def _filled(text: str, pages: Any) -> str:
    """Prose with each glued number in its place."""
    return GLUED.sub(lambda m: pages.format_glued(pages.glued(m[1]), m[2]), text)


def main() -> int:
    """The command line; 1, with one sentence, if a claim, a name or a size of the page is wrong."""
    from nogpu.errors import TileError

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("page")
    parser.add_argument("--prose", action="store_true", help="only the prose")
    parser.add_argument(
        "--record", type=Path, help="another record than data/measurements/h200.json"
    )
    options = parser.parse_args()
    record = json.loads(options.record.read_text()) if options.record else None
    try:
        read = run(options.page, record)
    except TileError as error:
        if os.environ.get("TILE_TRACEBACK"):
            raise
        print(f"{page(options.page).name}: {error}", file=sys.stderr)
        return 1
    for kind, text in read:
        if kind == "prose":
            print(text.strip() + "\n")
        elif not options.prose:
            print(
                "\n".join(f"    {kind[:3]}| {line}" for line in text.rstrip().splitlines()) + "\n"
            )
    return 0


if __name__ == "__main__":
    if hasattr(signal, "SIGPIPE"):  # `| head` ends what it has read enough of; Windows has none
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.exit(main())
