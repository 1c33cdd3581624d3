"""Sliders that run a kernel: the chosen tile, compiled and timed on a GPU; or emulated, beside the
time that is recorded of it.

    from helpers import live
    live.tile("tiled_32")

They need a running notebook with ipywidgets 7.7 or 8. The book is built with TILE_BOOK_BUILD set;
there, and without ipywidgets, a sentence says what appears when the page is run. What is computed
and said is in functions without widgets; `_widget` only connects them. A tile is a Kernel with its
params replaced (Kernel.with_params).
"""

import html
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

from helpers.ladder import model
from helpers.ladder.hopper import BOX_COLS
from helpers.ladder.kernel import DEPTHS, Kernel, broken_rules
from helpers.ladder.launch import Trace, trace
from helpers.ladder.rungs import find
from helpers.page import Html, inline, provenance, table
from helpers.page.judging import roomy_arch, whole_tiles
from helpers.record import DEFAULT_GPU, Measurement, measure
from helpers.record.gpu import PRECISION
from helpers.record.tile_times import SIZE as BY_TILE
from helpers.record.tile_times import times as by_tile
from nogpu import device
from nogpu.errors import ConfigError, DataError
from nogpu.toolchain import arch_number, runs


def choices(kernel: Kernel) -> dict[str, tuple[int, ...]]:
    """The values of each slider: the catalog's, and the default where it is not among them."""
    offered = ((n, values) for n, values in kernel.choices.items() if n in kernel.params)
    return {name: tuple(sorted({*values, kernel.params[name]})) for name, values in offered}


def words(kernel: Kernel) -> str:
    """ "BM=64, BN=64, BK=8"."""
    return ", ".join(f"{name}={value}" for name, value in kernel.params.items())


def bar_name(kernel: Kernel) -> str:
    """A label for a tile's bar: names and values, or the values alone where the label is narrow."""
    text = words(kernel)
    return text if len(text) < 28 else "/".join(map(str, kernel.params.values()))


def broken(kernel: Kernel, size: int) -> str:
    """Which rule a tile breaks and why, in words; empty for a legal one."""
    rules = broken_rules(kernel, size, size, size)
    if not rules:
        return ""
    why = f"{rules[0].reason} (the rule is `{rules[0].expr}`)"
    return f"{words(kernel)} is not legal and is not run: {why}."


def paragraph(text: str, role: str = "") -> str:
    """HTML of a line of words; role="status" is read aloud when it changes."""
    return f"<p{f' role={role!r}' if role else ''}>{inline(text)}</p>"


def failure(kernel: Kernel, error: BaseException) -> str:
    """HTML of what went wrong, in the error's own words (a CompileError holds the compiler's)."""
    message = paragraph(f"{words(kernel)} did not run ({type(error).__name__}).")
    return f'{message}<pre style="white-space:pre-wrap">{html.escape(str(error))}</pre>'


def able(kernel: Kernel) -> bool:
    """Whether the GPU at hand can run the kernel; one for sm_90a runs on no later GPU either."""
    gpu = device.current()
    return gpu is not None and runs(gpu.arch, kernel.min_arch)


def needs(kernel: Kernel) -> str:
    """Which GPU a kernel takes, in words: "a GPU of compute capability 9.0"."""
    number = arch_number(kernel.min_arch)
    only = "" if kernel.min_arch.endswith("a") else " or newer"
    return f"a GPU of compute capability {number // 10}.{number % 10}{only}"


def promise(kernel: Kernel, size: int = 1024) -> Html:
    """What stands in the book in place of the sliders; data-slide is the call that makes them."""
    sliders = f"sliders for {', '.join(choices(kernel))} of {kernel.name} appear here"
    text = f"When you run this page in Jupyter or Colab, {sliders}: "
    gpu = "a GPU" if kernel.host == "plain" else needs(kernel)
    text += (
        f"{gpu} compiles and times the tile that you choose, and without one the emulator "
        "counts its memory accesses."
    )
    call = html.escape(f'live.tile("{kernel.name}", size={size})')
    return Html(f'<div class="tile-note" data-slide="{call}">{paragraph(text)}</div>', text)


def verdict(t: Trace, arch: str = "") -> str:
    """What the emulator found, in words. arch: the GPU that the tile needs, if worth saying."""
    message = f"{words(t.plan.kernel)} on {t.plan.M}x{t.plan.N}x{t.plan.K}, one block"
    message += f", compiled for {arch}, whose SM has the shared memory: " if arch else ": "
    if not t.ok:
        return message + f"{t.wrong} wrong elements of C, {len(t.report.findings)} kinds of fault."
    if not t.wavefronts:
        return message + "the result is right."
    if not t.multiply_adds:
        return (
            f"{message}the result is right, and nothing races. Copies and products of engines have "
            "no lanes, and no wavefronts are counted for them."
        )
    per = t.multiply_adds / t.wavefronts
    return message + f"{per:.2f} multiply-adds for each wavefront of shared memory."


def trace_rows(t: Trace) -> list[dict[str, Any]]:
    """A row of the table for each source line that touches memory."""
    return [
        {"source": a.text.strip(), "array": a.array, "op": a.op, "requests": a.requests,
         "sectors": a.sectors if a.space == "global" else None,
         "wavefronts": a.wavefronts if a.space == "shared" else None}
        for a in t.by_line()
    ]  # fmt: skip


def recorded(kernel: Kernel) -> str:
    """What the emulator cannot tell, a tile's time: what is recorded of it, or that nothing is."""
    known = by_tile(kernel, DEFAULT_GPU)
    ms = known.ms.get(tuple(kernel.params.values()))
    if ms is None:
        return "The emulator counts and takes no time, and no time of this tile is recorded."
    took = f"This tile took {ms:.3f} ms at {BY_TILE[0]}, {known.label}"
    return f"The emulator counts and takes no time. {took}."


def emulated(kernel: Kernel) -> str:
    """HTML of a run in the emulator: what `counted` says, and the diagram."""
    from helpers import draw as plots

    m, n, k = _shape(kernel)
    step = int(any(name in kernel.params for name in DEPTHS))
    return counted(kernel) + plots.tile_diagram(kernel, 2 * m, 2 * n, k, step=step)._repr_html_()


def _shape(kernel: Kernel) -> tuple[int, int, int]:
    """M, N, K of what is emulated: one block."""
    m, n, k = whole_tiles(kernel)
    if kernel.host != "plain":
        k = BOX_COLS * (kernel.params.get("STAGES", 1) + 1)  # once round the ring, and a stage more
    return m, n, k


def counted(kernel: Kernel) -> str:
    """HTML of a run in the emulator in words and numbers: the verdict, what is recorded of the
    tile's time, the findings, the trace by line."""
    arch = roomy_arch(kernel)
    t = trace(kernel, *_shape(kernel), arch=arch)
    findings = "".join(f"<pre>{html.escape(str(f))}</pre>" for f in t.report.findings[:5])
    caption = f"{kernel.name} with {words(kernel)}, counted in the emulator."
    counts = table(trace_rows(t), caption=caption).html
    message = paragraph(verdict(t, arch if arch != kernel.min_arch else ""))
    return message + paragraph(recorded(kernel)) + findings + counts


def timed(kernel: Kernel, size: int) -> tuple[dict[str, Any], Measurement]:
    """The row of a tile measured now, with its intensity (FLOP per byte), and its measurement."""
    m = measure(kernel, size)
    return {
        **m.rows[0],
        "kernel": bar_name(kernel),
        "intensity": model.arithmetic_intensity(kernel, size, size, size),
        "origin": "measured",
        "source": f"measured here, {m.gpu}",
    }, m


def times(default: Kernel, size: int, rows: Sequence[Mapping[str, Any]], m: Measurement) -> str:
    """HTML of the tiles timed so far: the last in words, bars beside the record, the roofline."""
    from helpers import draw as plots

    last = rows[-1]
    message = f"{last['kernel']} at {size}: {last['ms']:.3f} ms, {last['gflops']:,.0f} GFLOP/s."
    known: list[Measurement] = []
    with suppress(DataError):  # nothing recorded at this size: the bars stand alone
        known.append(measure(default.name, size, gpu=DEFAULT_GPU))
        message += f" The bar of {default.name} is the recorded default, {words(default)}."
    parts = [paragraph(message), plots.bars([*rows, *known])._repr_html_()]
    with suppress(ConfigError):  # a GPU whose driver does not tell its clocks has no roofs
        roofs = replace(m, rows=())  # says which GPU's
        roofline = plots.roofline(
            [*rows, roofs], intensity="kernel", precision=PRECISION[default.dtype]
        )
        parts.append(roofline._repr_html_())
    return "".join([*parts, provenance(m, *known).html])


class Latest:
    """Does one piece of work at a time in the background; of those that wait, only the latest."""

    def __init__(self, work: Callable[[Kernel], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._next: Kernel | None = None
        self._thread: threading.Thread | None = None

    def submit(self, kernel: Kernel) -> bool:
        """Begin at once, or, if something runs, wait in place of what waited; whether it began."""
        with self._lock:
            self._next = kernel
            if self._thread is not None and self._thread.is_alive():
                return False
            self._thread = threading.Thread(target=self._run, name="live tile", daemon=True)
            self._thread.start()
            return True

    def _run(self) -> None:
        while True:
            with self._lock:
                kernel, self._next = self._next, None
                if kernel is None:
                    self._thread = None
                    return
            self._work(kernel)

    def wait(self, seconds: float = 60.0) -> None:
        """Return when nothing runs or waits."""
        if (thread := self._thread) is not None:
            thread.join(seconds)


def tile(kernel: Kernel | str, size: int = 1024) -> Any:
    """Sliders for a kernel's tile sizes and a button that runs the chosen tile.

    size: the edge of the matrices that a GPU times. Returns an ipywidgets box, or a sentence (Html)
    in the book. Raises UnknownKernelError, ConfigError for a kernel without tile sizes to choose.
    """
    k = find(kernel)
    if not choices(k):
        raise ConfigError(f"{k.name} has no tile sizes to choose; take tiled_32 or block_2d, say")
    if os.environ.get("TILE_BOOK_BUILD") or find_spec("ipywidgets") is None:
        return promise(k, size)
    return _widget(k, size)


def _widget(default: Kernel, size: int) -> Any:
    import ipywidgets as widgets

    look = {"description_width": "7em"}
    sliders = {
        name: widgets.SelectionSlider(
            options=values, value=default.params[name], description=name, style=look
        )
        for name, values in choices(default).items()
    }
    button = widgets.Button(description="Run this tile")
    rule, status, result = widgets.HTML(), widgets.HTML(), widgets.HTML()
    on_gpu = able(default)
    how = f"compiled and timed at {size} on the GPU" if on_gpu else "run in the emulator"
    rows: dict[str, dict[str, Any]] = {}

    def chosen() -> Kernel:
        return default.with_params(**{name: slider.value for name, slider in sliders.items()})

    def judge(_: Any = None) -> None:
        kernel = chosen()
        rule.value = paragraph(broken(kernel, size) or f"{words(kernel)} is legal.")

    def work(kernel: Kernel) -> None:
        judge()
        status.value = paragraph(f"Running: {words(kernel)} is being {how}.", "status")
        began = time.perf_counter()
        try:
            if on_gpu:
                row, m = timed(kernel, size)
                rows.pop(row["kernel"], None)  # timed again: it is the last one now
                rows[row["kernel"]] = row
                result.value = times(default, size, list(rows.values()), m)
            else:
                result.value = emulated(kernel)
            end = "Done"
        except Exception as error:  # a thread has nobody else to tell
            result.value = failure(kernel, error)
            end = "Failed"
        seconds = time.perf_counter() - began
        status.value = paragraph(f"{end}: {words(kernel)}, after {seconds:.1f} s.", "status")

    runner = Latest(work)

    def clicked(_: Any) -> None:
        kernel = chosen()
        judge()
        if not broken(kernel, size) and not runner.submit(kernel):
            rule.value = paragraph(f"{words(kernel)} is next, when the running tile is done.")

    for slider in sliders.values():
        slider.observe(judge, names="value")
    button.on_click(clicked)
    judge()
    status.value = paragraph(f"Nothing runs yet. The tile that you choose is {how}.", "status")
    box = widgets.VBox([*sliders.values(), rule, button, status, result])
    box.runner = runner
    return box
