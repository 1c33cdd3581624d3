"""What a page of the built book asks of Python that runs in its reader's browser (Pyodide).

A cell comes in as the text that the page shows, HTML goes out: the words are those of the notebook.
What the book's pages compile runs from stored programs; any other text needs a compiler, which the
page brings when `needs_compiler` says so (`nogpu.clang.set_runner`). book/_run/worker.mjs calls
this.
"""

from __future__ import annotations

import ast
import html
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from nogpu.errors import CompileError, ConfigError, TileError, ToolchainError

if sys.platform == "emscripten":
    os.environ.setdefault("TILE_CACHE", "0")  # its disk is memory, and ends with the page


def start() -> None:
    """Import what the first cell needs, so that running it takes no longer than the next."""
    from helpers.page import workbench

    assert workbench


# -- cells -----------------------------------------------------------------------------------------


def run_cell(text: str) -> str:
    """What a whole `%%cuda` cell shows in the notebook, as JSON.

    html: the verdict's own, or the words of an error; ok: nothing was found; compiled: the page's
    compiler was asked, not what is stored; findings: line of the cell and kind of each, the
    compiler's errors among them (and their column, from 1, where clang says it); seconds: {"run":
    ...}. Raises nothing for a wrong text.
    """
    began = time.perf_counter()
    before = _stored_cell(text)
    verdict = before or _told(lambda: _cell(text))
    fault = None if isinstance(verdict, str) else verdict.facts.fault
    answer = {
        "html": verdict if isinstance(verdict, str) else verdict._repr_html_(),
        "ok": not isinstance(verdict, str) and verdict.ok,
        "compiled": before is None and not isinstance(fault, ToolchainError),
        "findings": [] if isinstance(verdict, str) else list(_places(verdict)),
        "seconds": {"run": round(time.perf_counter() - began, 3)},
    }
    return json.dumps(answer)


def needs_compiler(text: str) -> bool:
    """Whether no stored program fits the text of a cell. It is judged on the way, and kept."""
    return _stored_cell(text) is None


@lru_cache(maxsize=2)
def _stored_cell(text: str) -> Any:
    """What the stored programs show of a cell, a verdict or HTML; None if it is not stored."""
    return _before(lambda: _cell(text), lambda verdict: verdict.facts.fault)


def _cell(text: str) -> Any:
    from helpers.page.workbench import cell_magic

    first, _, body = text.replace("\r\n", "\n").partition("\n")
    if not first.startswith("%%cuda"):
        raise ConfigError(
            f"the cell begins with {first[:40]!r}: its first line is %%cuda and the name of a kernel"
        )
    if re.search(r"\bargs\s*=", first):
        raise ConfigError(
            "this cell works on arrays that the page's Python cells make: run it in the notebook"
        )
    return cell_magic(first.removeprefix("%%cuda"), body, {})


_ERROR = re.compile(
    r"^[^\s:()]+[:(](\d+)\)?(?::\d+)?: error.*(?:\n *\d+ \|.*\n *\| (.*?)\^)?", re.MULTILINE
)
"""As clang says the place of an error, and as NVRTC does; clang's mark below the text."""


def _places(verdict: Any) -> Iterator[dict[str, Any]]:
    for f in verdict.findings:
        yield {"line": f.line, "kind": f.kind}
    if isinstance(verdict.facts.fault, CompileError):
        seen: dict[int, str | None] = {}
        for error in _ERROR.finditer(verdict.facts.fault.log):
            seen.setdefault(int(error[1]), error[2])
        for line, before in seen.items():
            column = {} if before is None else {"column": len(before) + 1}
            yield {"line": line, "kind": "compile-error", **column}


# -- sliders ---------------------------------------------------------------------------------------


def slider_specs(call: str) -> str:
    """The sliders of a call such as `live.tile("tiled_32")`, as JSON.

    {"kernel": name, "sliders": [{"name", "values", "value"} ...]}, value being the kernel's own.
    Raises ConfigError for another call, or a kernel without tile sizes.
    """
    from helpers.page import live

    kernel, _ = _slid(call)
    sliders = [
        {"name": name, "values": values, "value": kernel.params[name]}
        for name, values in live.choices(kernel).items()
    ]
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
    told: str = _stored_tile(call, values) or _tile(call, values)
    return told


def sliders_need_compiler(call: str, values: str) -> bool:
    """Whether no stored program fits a tile. It is run on the way, and what it shows is kept."""
    _slid(call, values)
    return _stored_tile(call, values) is None


@lru_cache(maxsize=32)
def _stored_tile(call: str, values: str) -> Any:
    return _before(lambda: _tile(call, values, told=False), lambda _: None)


def _tile(call: str, values: str, told: bool = True) -> str:
    from helpers.page import live

    kernel, size = _slid(call, values)
    if live.broken(kernel, size):
        return slider_rule(call, values)
    try:
        return live.counted(kernel)
    except Exception as error:  # the page has nobody else to tell
        if isinstance(error, ToolchainError) and not told:
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


def _before(make: Callable[[], Any], fault: Callable[[Any], Any]) -> Any:
    """What `make` gives without a compiler; None where that is what it lacks.

    fault: what a result says that went wrong. An error is told in HTML.
    """
    with _stored_only():
        try:
            result = make()
        except ToolchainError:
            return None
        except Exception as error:
            return _error(error)
    return None if isinstance(fault(result), ToolchainError) else result


def _told(make: Callable[[], Any]) -> Any:
    """What `make` gives, or its error in HTML."""
    try:
        return make()
    except Exception as error:
        return _error(error)


def _error(error: Exception) -> str:
    """HTML of an error, as a notebook shows one of this project: its kind and its words."""
    kind = (
        type(error).__name__
        if isinstance(error, TileError)
        else f"{type(error).__name__} in the book's own code"
    )
    return f'<pre style="white-space:pre-wrap">{html.escape(f"{kind}: {error}")}</pre>'
