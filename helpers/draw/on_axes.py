"""The charts in plain Matplotlib, in data coordinates, on an Axes that the reader goes on with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helpers.draw.chart_marks import PREDICTED
from helpers.draw.series import Look
from helpers.wording import number
from nogpu.device import Gpu


@dataclass(frozen=True)
class Bar:
    """A bar along x from start to end. words: its legend entry; spread: ends of its whisker."""

    look: Look
    words: str
    end: float
    start: float = 0.0
    spread: tuple[float, float] | None = None


@dataclass(frozen=True)
class Mark:
    """A kernel at x FLOP per byte and y GFLOP/s. words: its legend entry."""

    name: str
    x: float
    y: float
    look: Look
    words: str


def horizontal_bars(
    ax: Any, rows: Sequence[tuple[str, Sequence[Bar]]], words: str, *, log: bool = False,
    in_line: bool = False,
) -> None:  # fmt: skip
    """A row of bars for each tick, the first on top: row i lies at y = i. words: of the x axis.

    in_line: all bars of a row at the same height, one after another, instead of side by side.
    """
    named: set[str] = set()
    for y, (_, bars) in enumerate(rows):
        thick = 0.8 if in_line else 0.8 / len(bars)
        for i, bar in enumerate(bars):
            middle = y if in_line else y + thick * (i - (len(bars) - 1) / 2)
            error = None
            if bar.spread:
                error = [[max(bar.end - bar.spread[0], 0)], [max(bar.spread[1] - bar.end, 0)]]
            ax.barh(
                middle, bar.end - bar.start, thick, bar.start, color=bar.look.colour, xerr=error,
                capsize=2, hatch=bar.look.hatch, edgecolor="white" if bar.look.hatch else "none",
                label=None if bar.words in named else bar.words,
            )  # fmt: skip
            named.add(bar.words)
    ax.set_yticks(range(len(rows)), [name for name, _ in rows])
    ax.set_ylim(len(rows) - 0.4, -0.6)
    if log:
        ax.set_xscale("log")
    ax.set_xlabel(words)
    ax.legend(fontsize="small")


def roofs_and_marks(
    ax: Any, roofs: Sequence[Gpu], precision: str, marks: Sequence[Mark],
    between: tuple[float, float],
) -> None:  # fmt: skip
    """Roofs of GPUs over FLOP per byte between two ends, and kernels; both axes logarithmic."""
    import matplotlib

    ink = matplotlib.rcParams["text.color"]
    low, high = between
    ax.set_xscale("log")
    ax.set_yscale("log")
    for i, card in enumerate(roofs):
        peak, wide = card.peak_gflops(precision), card.bandwidth_gbs
        ax.plot(
            [low, peak / wide, high], [low * wide, peak, peak], color=ink,
            linestyle="--" if i else "-",
            label=f"{card.name}: {number(peak)} GFLOP/s, {number(wide)} GB/s",
        )  # fmt: skip
    named: set[str] = set()
    for mark in marks:
        hollow = mark.look is PREDICTED
        ax.plot(
            [mark.x], [mark.y], mark.look.marker, linestyle="none", color=mark.look.colour,
            markeredgecolor=ink if hollow else mark.look.colour,
            label=None if mark.words in named else mark.words,
        )  # fmt: skip
        named.add(mark.words)
        if not hollow:
            ax.annotate(
                mark.name, (mark.x, mark.y), (6, 0), textcoords="offset points", va="center",
                fontsize="small",
            )  # fmt: skip
    ax.set_xlabel("arithmetic intensity, FLOP/byte")
    ax.set_ylabel("GFLOP/s")
    ax.legend(fontsize="small")
