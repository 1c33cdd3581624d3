"""What a page of the built book asks of Python that runs in its reader's browser (Pyodide).

A cell comes in as the text that the page shows, HTML goes out: the words are those of the notebook.
What the book's pages compile runs from stored programs; any other text needs a compiler, which the
page brings when `needs_compiler` says so (`nogpu.clang.set_runner`). book/_run/worker.mjs calls
this.
"""

import ast
import html
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.page.claims import cells
from nogpu.errors import CompileError, ConfigError, TileError, ToolchainError

if sys.platform == "emscripten":
    os.environ.setdefault("TILE_CACHE", "0")  # its disk is memory, and ends with the page


def start() -> None:
    """Import what the first cell needs, so that running it takes no longer than the next."""
    from helpers.page import workbench

    assert workbench


# -- cells -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """What a cell shows. says: the verdict in a few words, where html does not begin with it;
    findings: line of the cell and kind of each, the compiler's errors among them (and their
    column, from 1, where clang says it); fault: what kept it from being judged."""

    html: str
    ok: bool = False
    says: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    fault: Exception | None = None


def run_cell(text: str, page: str = "") -> str:
    """What a cell with a kernel shows in the notebook, as JSON: html, ok, says and findings as of
    `Shown`; compiled: the page's compiler was asked, not what is stored; seconds: {"run": ...}.

    text: the whole cell as the page shows it: `%%cuda NAME TILE=..` over a kernel, `%%cuda lab2`
    over one for a lab, or an exercise's kernel in quotes and its check. page: such as "06_tiling",
    whose arrays a cell with `args=` works on. Raises nothing for a wrong text.
    """
    began = time.perf_counter()
    before = _stored_cell(text, page)
    shown = before or _explained(lambda: _cell(text, page))
    answer = {
        "html": shown.html,
        "ok": shown.ok,
        "says": shown.says,
        "compiled": before is None and not isinstance(shown.fault, ToolchainError),
        "findings": list(shown.findings),
        "seconds": {"run": round(time.perf_counter() - began, 3)},
    }
    return json.dumps(answer)


def needs_compiler(text: str, page: str = "") -> bool:
    """Whether no stored program fits the text of a cell. It is judged on the way, and kept."""
    return _stored_cell(text, page) is None


@lru_cache(maxsize=2)
def _stored_cell(text: str, page: str) -> Shown | None:
    """What the stored programs show of a cell; None if it is not stored."""
    return _before(lambda: _cell(text, page))


def _cell(text: str, page: str) -> Shown:
    text = text.replace("\r\n", "\n")
    first, _, body = text.partition("\n")
    if lab := _LAB.fullmatch(first):
        return _lab(lab["number"], f"// %%cuda lab{lab['number']}\n{body}", lab["variant"] or "")
    if first.startswith("%%cuda"):
        return _kernel(first.removeprefix("%%cuda"), body, page)
    if re.search(r"^check\(", text, re.MULTILINE):
        return _exercise(text)
    raise ConfigError(
        f"the cell begins with {first[:40]!r}: its first line is %%cuda and the name of a kernel,"
        " or it is an exercise's kernel in quotes and its check"
    )


def _kernel(line: str, body: str, page: str) -> Shown:
    from helpers.page.workbench import cell_magic

    arrays: dict[str, Any] = {}
    if re.search(r"\bargs\s*=", line):
        if not (made := makers(_source(page))):
            raise ConfigError(
                "this cell works on arrays that the page's Python cells make: run it in the"
                " notebook"
            )
        exec(made, arrays)  # the book's own lines
    verdict = cell_magic(line, body, arrays)
    places = [
        {"line": at, "kind": f.kind}
        for f in verdict.findings
        for at in dict.fromkeys((f.line, f.other_line or f.line))
    ]
    fault = verdict.facts.fault
    if isinstance(fault, CompileError):
        places += _errors(fault.log)
    return Shown(verdict._repr_html_(), verdict.ok, "", tuple(places), fault)


def _source(page: str) -> str:
    """The source of a page, or what the archive has of it; "" where there is none."""
    path = ROOT / "book" / f"{page}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def makers(source: str) -> str:
    """The statements of a page's Python cells that make what its kernels' cells name in `args=` and
    after it; "" where no cell does."""
    needed: set[str] = set()
    kept: list[str] = []
    for _, code in reversed(cells(source)):
        first = code.partition("\n")[0]
        if code.startswith("%%"):
            needed |= set(re.findall(r"\b[A-Za-z_]\w*", first.partition(" args=")[2]))
            continue
        for statement in reversed(ast.parse(code).body if needed else []):
            made, used = _names(statement)
            if made & needed:
                needed = needed - made | used
                kept.append(ast.unparse(statement))
    return "\n".join(reversed(kept))


def _names(statement: ast.stmt) -> tuple[set[str], set[str]]:
    """The names that a statement makes, and those that it reads."""
    nodes = list(ast.walk(statement))
    made = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    imports = (n for n in nodes if isinstance(n, ast.Import | ast.ImportFrom))
    made |= {a.asname or a.name.partition(".")[0] for n in imports for a in n.names}
    return made, {n.id for n in nodes if isinstance(n, ast.Name)} - made


_ERROR = re.compile(
    r"^[^\s:()]+[:(](\d+)\)?(?::\d+)?: error.*(?:\n *\d+ \|.*\n *\| (.*?)\^)?", re.MULTILINE
)
"""As clang says the place of an error, and as NVRTC does; clang's mark below the text."""


def _errors(log: str) -> Iterator[dict[str, Any]]:
    seen: dict[int, str | None] = {}
    for error in _ERROR.finditer(log):
        seen.setdefault(int(error[1]), error[2])
    for line, before in seen.items():
        column = {} if before is None else {"column": len(before) + 1}
        yield {"line": line, "kind": "compile-error", **column}


# -- exercises -------------------------------------------------------------------------------------

_NAMED = re.compile(r"\bline (\d+)|\.cu:(\d+):")
"""How the words of a check name a line of the kernel, which is that line of the cell."""


def _exercise(text: str) -> Shown:
    from helpers.page.exercises import check

    result = check(*_answer(text))
    places: list[dict[str, Any]] = []
    for one in result.checks:
        if isinstance(one.error, CompileError):
            places += _errors(one.error.log)
        elif not one.ok:
            named = (a or b for a, b in _NAMED.findall(f"{one.what} {one.got}"))
            places += ({"line": int(at), "kind": "not yet"} for at in named)
    fault = next((one.error for one in result.checks if one.error), None)
    return Shown(result._repr_html_(), result.passed, result.verdict, tuple(places), fault)


def _answer(text: str) -> tuple[str, str]:
    """Number and kernel of an exercise's cell. Raises ConfigError for a cell of another form."""
    usage = 'an exercise is its kernel in quotes, and its check: mine = """...""" and below it'
    try:
        match ast.parse(text).body:
            case [
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as source)),
                ast.Expr(ast.Call(args=[ast.Constant(value=str() as id), ast.Name(id=given)])),
            ] if given == name:
                return id, source
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f'{usage} check("06.2", mine). This cell is no Python: {error}') from None
    raise ConfigError(f'{usage} check("06.2", mine). Other Python runs in the notebook')


# -- labs ------------------------------------------------------------------------------------------

_LAB = re.compile(r"%%cuda\s+lab(?P<number>\d+)(?:\s+variant=([\"'])(?P<variant>.*)\2)?\s*")
HERE = (
    "Judged by the lab's own check on its cases for practice, within this page: a browser starts no"
    " processes in which a kernel could be held apart."
)
"""What is said of a lab's kernel that is judged in a browser."""


def _lab(number: str, source: str, variant: str) -> Shown:
    from tilelabs.labs import checking

    with _in_this_process():
        checked = checking.check(number, source, variant=variant, gpu=False)
    marked = checked.marked
    places = [{"line": line, "kind": kind} for run in marked.runs for kind, line, _ in run.findings]
    if marked.log:
        places += _errors(marked.log)
    once = tuple({one["line"]: one for one in places}.values())
    shown = f"{checked._repr_html_()}<p>{HERE}</p>"
    return Shown(shown, checked.ok, checked.foot, once)


@contextmanager
def _in_this_process() -> Iterator[None]:
    """Within it labs compile and run a kernel here: its limits are those of the page's worker."""
    from tilelabs import apart

    before, apart.run = apart.run, apart.here
    try:
        yield
    finally:
        apart.run = before


# -- sliders ---------------------------------------------------------------------------------------


def slider_specs(call: str) -> str:
    """The sliders of a call such as `live.tile("tiled_32")`, as JSON.

    {"kernel": name, "sliders": [{"name", "values", "value"} ...]}, value being the kernel's own.
    Raises ConfigError for another call, or a kernel without tile sizes.
    """
    from helpers.page import live

    kernel, _ = _slid(call)
    choices = live.choices(kernel).items()
    sliders = [{"name": n, "values": values, "value": kernel.params[n]} for n, values in choices]
    return json.dumps({"kernel": kernel.name, "sliders": sliders})


def slider_rule(call: str, values: str) -> str:
    """HTML of whether a tile is legal, as it stands below the sliders. values: JSON by name."""
    from helpers.page import live

    kernel, size = _slid(call, values)
    return live.paragraph(live.broken(kernel, size) or f"{live.words(kernel)} is legal.")


def sliders(call: str, values: str) -> str:
    """HTML of what the emulator says of a tile, and of the time that is recorded of it: what the
    notebook shows but for the diagram, which takes matplotlib.

    values: JSON of the sizes by name; those that it lacks are the kernel's own. Raises ConfigError
    for a call or sizes that are not the sliders'; nothing for a tile that breaks a rule.
    """
    _slid(call, values)
    return _stored_tile(call, values) or _tile(call, values)


def sliders_need_compiler(call: str, values: str) -> bool:
    """Whether no stored program fits a tile. It is run on the way, and what it shows is kept."""
    _slid(call, values)
    return _stored_tile(call, values) is None


@lru_cache(maxsize=32)
def _stored_tile(call: str, values: str) -> str | None:
    shown = _before(lambda: Shown(_tile(call, values, explained=False)))
    return shown.html if shown else None


def _tile(call: str, values: str, explained: bool = True) -> str:
    from helpers.page import live

    kernel, size = _slid(call, values)
    if live.broken(kernel, size):
        return slider_rule(call, values)
    try:
        return live.counted(kernel)
    except Exception as error:  # the page has nobody else to tell
        if isinstance(error, ToolchainError) and not explained:
            raise
        return live.failure(kernel, error)


def _slid(call: str, values: str = "{}") -> tuple[Any, int]:
    """The kernel of a call of `live.tile` with these sizes, and the edge of its matrices."""
    from helpers.ladder.rungs import find
    from helpers.page import live

    try:
        made = ast.parse(call, mode="eval").body
        assert isinstance(made, ast.Call) and ast.unparse(made.func) == "live.tile"
        (name,) = map(ast.literal_eval, made.args)
        size = {str(k.arg): ast.literal_eval(k.value) for k in made.keywords}.get("size", 1024)
    except (SyntaxError, ValueError, AssertionError):
        raise ConfigError(
            f'{call!r} is no call of sliders, such as live.tile("tiled_32")'
        ) from None
    kernel = find(name)
    known = live.choices(kernel)
    if not known:
        raise ConfigError(f"{kernel.name} has no tile sizes to choose")
    chosen = json.loads(values)
    for size_name, value in chosen.items():
        if value not in known.get(size_name, ()):
            raise ConfigError(
                f"{size_name}={value} is on no slider of {kernel.name}: "
                + "; ".join(f"{n} is one of {', '.join(map(str, v))}" for n, v in known.items())
            )
    return kernel.with_params(**chosen), int(size)


# -- with stored programs, and with the page's compiler --------------------------------------------


@contextmanager
def _stored_only() -> Iterator[None]:
    """Within it no clang compiles: what is stored of NVRTC's takes its place."""
    before = os.environ.get("TILE_COMPILER")
    os.environ["TILE_COMPILER"] = "nvrtc"
    try:
        yield
    finally:
        del os.environ["TILE_COMPILER"]
        if before is not None:
            os.environ["TILE_COMPILER"] = before


def _before(make: Callable[[], Shown]) -> Shown | None:
    """What `make` gives without a compiler, or its error; None where that is what it lacks."""
    with _stored_only():
        try:
            shown = make()
        except ToolchainError:
            return None
        except Exception as error:
            return _error(error)
    return None if isinstance(shown.fault, ToolchainError) else shown


def _explained(make: Callable[[], Shown]) -> Shown:
    """What `make` gives, or its error."""
    try:
        return make()
    except Exception as error:
        return _error(error)


def _error(error: Exception) -> Shown:
    """An error as a notebook shows one of this project: its kind and its words."""
    kind = type(error).__name__
    kind += "" if isinstance(error, TileError) else " in the book's own code"
    words = html.escape(f"{kind}: {error}")
    return Shown(f'<pre style="white-space:pre-wrap">{words}</pre>', fault=error)
