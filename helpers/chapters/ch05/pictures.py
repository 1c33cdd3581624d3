"""The picture of chapter 5: a warp laid over three matrices."""

from typing import Any

from helpers.colours import BLUE, VERMILION
from helpers.draw.access_maps import recorded
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key
from helpers.wording import counted, join
from nogpu.device import WORD
from nogpu.emulator.observe.counts import SECTOR
from nogpu.errors import DataError

MARKS = (
    Mark("element that a lane wants", fill=VERMILION, alpha=0.9, edge=VERMILION),
    Mark("sector that comes with it", fill=BLUE, alpha=0.35, edge=BLUE),
)
A_SECTOR = SECTOR // WORD
"""Floats of a sector."""


def _first_requests(t: Any) -> dict[str, list[int]]:
    """The elements of the first request of a trace for A, B and C."""
    first: dict[str, list[int]] = {}
    for (_, space, op), samples in sorted(recorded(t).items()):
        for name, size, offsets in samples:
            if space == "global" and op == ("store" if name == "C" else "load"):
                first.setdefault(
                    name, sorted({int(at) // int(size) for at in offsets[0] if at >= 0})
                )
    if missing := [name for name in "ABC" if name not in first]:
        raise DataError(f"the trace kept no request for {missing[0]}: give samples=True")
    return first


def _sectors(elements: list[int]) -> list[int]:
    return sorted({element // A_SECTOR for element in elements})


def _matrix(
    canvas: Canvas, shape: tuple[int, int], elements: list[int], x: float, y: float, cell: float
) -> None:
    """One matrix with the elements that are wanted, and their sectors."""
    rows, cols = shape
    for s in _sectors(elements):
        row, col = divmod(s * A_SECTOR, cols)
        wide = min(A_SECTOR, cols - col) * cell
        canvas.marked(x + col * cell, y + row * cell, wide, cell, MARKS[1], edge=None)
    for e in elements:
        row, col = divmod(e, cols)
        canvas.marked(x + col * cell, y + row * cell, cell, cell, MARKS[0], edge=None)
    canvas.rect(x, y, cols * cell, rows * cell, lw=1.1)


def _panel(canvas: Canvas, t: Any, x: float, y: float, width: float) -> float:
    """One kernel's matrices, A left of C and B above it; returns the lower end."""
    at, plan, first = canvas.at, t.plan, _first_requests(t)
    gap, words = 14.0, at.small + 6
    cell = min((width - gap - 2) / (plan.K + plan.N), 4.2)
    left = x + 1 + plan.K * cell + gap
    low = y + words + plan.K * cell + gap
    canvas.text(x + 1, y + words / 2, plan.kernel.name, size=at.font, weight="bold")
    shapes = {"A": (plan.M, plan.K), "B": (plan.K, plan.N), "C": (plan.M, plan.N)}
    for name, at_x, at_y in (("B", left, y), ("A", x + 1, low), ("C", left, low)):
        title = f"{name}: {counted(len(_sectors(first[name])), 'sector')}"
        canvas.text(at_x, at_y + words / 2, title, size=at.small, weight="bold")
        _matrix(canvas, shapes[name], first[name], at_x, at_y + words, cell)
    return low + words + plan.M * cell


def warps_over_operands(*traces: Any) -> Figure:
    """One warp of each kernel laid over A, B and C: the elements of its first requests, and
    their sectors.

    traces: of products with samples (`trace(..., samples=True)`), of kernels whose threads read A
    and B from global memory. A stands left of C and B above it, so that rows and columns line up.
    Side by side on a desk, below each other on a phone. Raises DataError if a trace kept no request
    of one of the three.
    """
    requests = {t.plan.kernel.name: _first_requests(t) for t in traces}

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        top = draw_key(canvas, MARKS) + 6
        if at.narrow:
            for t in traces:
                top = _panel(canvas, t, 0, top, at.width) + 14
            return canvas.end(top - 11)
        space = 30.0
        width = (at.width - space * (len(traces) - 1)) / len(traces)
        ends = [_panel(canvas, t, i * (width + space), top, width) for i, t in enumerate(traces)]
        return canvas.end(max(ends) + 3)

    alt = "One warp over the three matrices, A left of C and B above it."
    for kernel, first in requests.items():
        parts = [
            f"{counted(len(found), 'element')} of {name} in "
            f"{counted(len(_sectors(found)), 'sector')}"
            for name, found in first.items()
        ]
        alt += f" {kernel} asks for {join(parts)}."
    caption = (
        f"{join(list(requests))}: the first request of one warp for A and B, and its store to C, "
        "from the emulator."
    )
    return both(draw, alt, caption)
