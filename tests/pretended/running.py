"""Run the code cells of a notebook in this process, on a pretended machine, for what they show."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.pretended import clock
from tests.pretended.machines import be

SITE = Path(__file__).resolve().parent / "site"
ROOT = SITE.parent.parent.parent


@dataclass(frozen=True)
class Ran:
    """A cell that ran: what it showed, as plain text, what it said on stderr, and its error."""

    source: str
    shown: tuple[str, ...]
    stderr: str
    error: str


def pretend(machine):
    """Make this process the machine's. Call it before anything of helpers is imported."""
    be(machine)
    os.environ.pop("TILE_BOOK_BUILD", None)
    os.environ.pop("COLAB_RELEASE_TAG", None)
    os.environ["MPLBACKEND"] = "agg"
    sys.path.insert(0, os.fspath(SITE))
    # jsonschema does without it, and its import takes longer than most pages do.
    sys.modules["rfc3987_syntax"] = None
    tools = Path(tempfile.mkdtemp(prefix="pretended-"))
    if machine.gpu and "nvidia-smi" not in machine.lacks:
        smi = tools / "nvidia-smi"
        smi.write_text(NVIDIA_SMI, encoding="utf-8")
        smi.chmod(0o755)
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
    clock.install()
    if "compiler" in machine.lacks:
        _without_compiler()
    _remember_cubins()
    _remember_launches()
    _pretend_telemetry(machine)


NVIDIA_SMI = """#!/bin/sh
case "$*" in
  *clocks.sm,*) echo "777, 66.6" ;;
  *clocks.max.sm*) echo 1590 ;;
  *driver_version*) echo 570.86.15 ;;
  *name*) echo "Tesla T4" ;;
  *) echo 66.6 ;;
esac
"""


def _pretend_telemetry(machine):
    """Clock and power as nvidia-smi would say them; loops of the CPU take times that are drawn."""
    from helpers.record import host, telemetry

    host.time = clock.OfTheHost
    if machine.gpu and "nvidia-smi" not in machine.lacks:
        telemetry.Telemetry.between = lambda *_: telemetry.Reading(
            float(round(700 + 99 * clock.drawn("clock"))),
            round(60 + 9 * clock.drawn("power"), 1),
            None,
        )


def begin(seed):
    """A run on the GPU of this seed: nothing that was measured before is kept."""
    from helpers.record import host, sources

    clock.begin(seed)
    for module in (sources, host):
        for kept in vars(module).values():
            if hasattr(kept, "cache_clear") and getattr(kept, "__module__", "") == module.__name__:
                kept.cache_clear()


def _without_compiler():
    """Neither NVRTC nor clang, and no disassembler, among the wheels or on the PATH."""
    import types

    from nogpu import clang, toolchain

    def refuse(*_):
        raise toolchain.ToolchainError(
            f"no NVRTC library was found on this machine. {toolchain.INSTALL_HINT}"
        )

    toolchain._open_nvrtc = refuse
    clang.available = lambda: False
    toolchain.sys = types.SimpleNamespace(path=[])
    toolchain.shutil = types.SimpleNamespace(which=lambda *_, **__: None)


def _remember_cubins():
    """Let the pretended driver know what a cubin was compiled from."""
    from nogpu import toolchain

    compile_ = toolchain.compile

    def compiled(source, **named):
        from cupy.cuda.kernels import Made, remember

        made = compile_(source, **named)
        name, arch = named.get("name", "kernel.cu"), named.get("arch", "sm_75")
        defines = tuple(sorted((named.get("defines") or {}).items()))
        remember(made.cubin, Made(source, name, arch, defines, tuple(named.get("options", ()))))
        return made

    toolchain.compile = compiled


def _remember_launches():
    """Let a launch in the emulator that was made before not be made again: its arrays come out as
    then."""
    import numpy as np

    from nogpu import emulator

    launch, kept = emulator.launch, {}

    def launched(source, entry, grid, block, args, *rest, **named):
        symbols = named.get("symbols") or {}
        arrays = [x for x in [*args, *symbols.values()] if isinstance(x, np.ndarray)]
        key = repr((
            source, entry, grid, block, rest, [_identify(x) for x in args],
            sorted((name, _identify(value)) for name, value in named.items()),
        ))  # fmt: skip
        if key not in kept:
            report = launch(source, entry, grid, block, args, *rest, **named)
            kept[key] = report, [x.copy() for x in arrays]
            return report
        report, after = kept[key]
        for x, then in zip(arrays, after, strict=True):
            x[...] = then
        return report

    emulator.launch = launched


def _identify(x):
    """What tells an argument from another."""
    if isinstance(x, dict):
        return sorted((key, _identify(value)) for key, value in x.items())
    if isinstance(x, list | tuple):
        return [_identify(value) for value in x]
    if hasattr(x, "tobytes"):
        return x.shape, str(x.dtype), hash(x.tobytes())
    return repr(x)


def code_cells(notebook):
    """The code of a notebook's cells, from top to bottom."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]


def run(cells, folder):
    """Run cells one after the other in a fresh namespace, as "Run all" does, errors or not."""
    from IPython.core.displayhook import CapturingDisplayHook
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output
    from traitlets.config import Config

    if not InteractiveShell.initialized():
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "NoColor"
        InteractiveShell.instance(config=config)
    shell = InteractiveShell.instance()
    shell.reset(new_session=True)
    kept, path = os.getcwd(), list(sys.path)
    os.chdir(folder)
    try:
        for source in cells:
            values: list[Any] = []
            shell.display_trap.hook = CapturingDisplayHook(shell, values)
            with capture_output() as captured:
                done = shell.run_cell(source, store_history=False)
            fault = done.error_before_exec or done.error_in_exec
            shown = [captured.stdout] if captured.stdout.strip() and fault is None else []
            shown += [_text(output.data) for output in captured.outputs]
            shown += [_text(value["data"]) for value in values]
            error = f"{type(fault).__name__}: {fault}" if fault is not None else ""
            yield Ran(source, tuple(shown), captured.stderr, error)
    finally:
        os.chdir(kept)
        sys.path[:] = path


def _text(data):
    if "<table" in data.get("text/html", ""):
        return str(data["text/html"])
    return str(data.get("text/markdown") or data.get("text/plain") or data.get("text/html") or "")


# -- the same page on another GPU, and beside another record ---------------------------------------


def once(cells, seed=0):
    """Run cells in book/, on the GPU of this seed."""
    begin(seed)
    return list(run(cells, ROOT / "book"))


def thrice(cells):
    """Run cells as they are, on a GPU with other times, and beside a record with other times."""
    from helpers import page as pages
    from helpers.page import claims
    from helpers.record import store

    passes = {"own": once(cells)}
    if not clock.waited:  # nothing was measured: no number has anybody else's name
        return passes | {"other_gpu": passes["own"], "other_record": passes["own"]}
    there, read = ROOT / "data" / "measurements" / "h200.json", store.read
    record = slower(there)  # other GPUs' records, of L2's rates for one, stay as they are
    silent = {"holds": lambda *_, **__: None}  # a sentence need not be true of that record
    with _in_words():
        passes["other_gpu"] = once(cells, seed=1)
        with (
            mock.patch.object(
                store,
                "read",
                lambda path: store.parsed(path, record) if path.name == there.name else read(path),
            ),
            mock.patch.multiple(claims, **silent),
            mock.patch.multiple(pages, **silent),
        ):
            store.forget()  # what a pass before has read
            passes["other_record"] = once(cells)
        store.forget()
    return passes


@contextlib.contextmanager
def _in_words():
    """Figures have their words and no picture: a second run needs no more."""
    from helpers.draw import figures

    def in_words(draw, alt, caption="", chart=None, source=""):
        drawn_later = lambda: draw(figures.DESK).figure  # noqa: E731
        return figures.Figure("<svg></svg>", alt, caption, "", drawn_later, chart, source)

    drawn = figures.both
    ours = [m for n, m in sys.modules.items() if n.startswith("helpers.")]
    modules = [m for m in ours if vars(m).get("both") is drawn]
    for module in modules:
        module.both = in_words
    try:
        yield
    finally:
        for module in modules:
            module.both = drawn


def slower(record, factor=1.37):
    """A record in which everything takes longer by a factor."""

    def changed(x, name=""):
        if isinstance(x, dict):
            return {key: changed(value, key) for key, value in x.items()}
        if isinstance(x, list):
            return [changed(value, name) for value in x]
        if isinstance(x, float):
            if name == "ms" or name.endswith("_ms") or name in ("q1", "q3"):
                return x * factor
            if name in ("gflops", "gbs"):
                return x / factor
        return x

    made: dict[str, Any] = changed(json.loads(record.read_text(encoding="utf-8")))
    return made
