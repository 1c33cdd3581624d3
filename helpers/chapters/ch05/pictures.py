"""The picture of chapter 5: a warp laid over three matrices."""

from __future__ import annotations

from typing import Any

from helpers.colours import BLUE, VERMILION
from helpers.draw.access_maps import recorded
from helpers.draw.columns import Column
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Mark, draw_key
from helpers.wording import counted
from nogpu.device import WORD
from nogpu.emulator.observe.counts import SECTOR
from nogpu.errors import DataError


def warp_over_operands(t: Any) -> Figure:
    """One warp laid over A, B and C: the elements of its first requests, and their sectors.

    t: a trace of a product with samples (`trace(..., samples=True)`), of a kernel whose threads
    read A and B from global memory. A stands left of C and B above it, so that rows and columns
    line up. Raises DataError if the trace kept no request of one of the three.
    """
    plan = t.plan
    first: dict[str, list[int]] = {}
    for (_, space, op), samples in sorted(recorded(t).items()):
        for name, size, offsets in samples:
            if space == "global" and op == ("store" if name == "C" else "load"):
                first.setdefault(
                    name, sorted({int(at) // int(size) for at in offsets[0] if at >= 0})
                )
    missing = [name for name in "ABC" if name not in first]
    if missing:
        raise DataError(f"the trace kept no request for {missing[0]}: give samples=True")
    shapes = {"A": (plan.M, plan.K), "B": (plan.K, plan.N), "C": (plan.M, plan.N)}
    a_sector = SECTOR // WORD
    marks = (
        Mark("element that a lane wants", fill=VERMILION, alpha=0.9, edge=VERMILION),
        Mark("sector that comes with it", fill=BLUE, alpha=0.35, edge=BLUE),
    )
    sectors = {name: sorted({e // a_sector for e in first[name]}) for name in "ABC"}

    def matrix(canvas: Canvas, name: str, x: float, y: float, cell: float) -> None:
        rows, cols = shapes[name]
        for s in sectors[name]:
            row, col = divmod(s * a_sector, cols)
            wide = min(a_sector, cols - col) * cell
            canvas.marked(x + col * cell, y + row * cell, wide, cell, marks[1], edge=None)
        for e in first[name]:
            row, col = divmod(e, cols)
            canvas.marked(x + col * cell, y + row * cell, cell, cell, marks[0], edge=None)
        canvas.rect(x, y, cols * cell, rows * cell, lw=1.1)

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        top = draw_key(canvas, marks) + 4
        gap, words = 14.0, at.small + 6
        (m, k), (_, n) = shapes["A"], shapes["B"]
        cell = min((at.width - gap - 2) / (k + n), 3.2)
        left = 1 + k * cell + gap
        titles = {name: f"{name}: {counted(len(sectors[name]), 'sector')}" for name in "ABC"}
        canvas.text(left, top + words / 2, titles["B"], size=at.small, weight="bold")
        matrix(canvas, "B", left, top + words, cell)
        low = top + words + k * cell + gap
        for name, x in (("A", 1.0), ("C", left)):
            canvas.text(x, low + words / 2, titles[name], size=at.small, weight="bold")
            matrix(canvas, name, x, low + words, cell)
        return canvas.end(low + words + m * cell + 3)

    requests = ", ".join(
        f"{counted(len(first[name]), 'element')} of {name} in "
        f"{counted(len(sectors[name]), 'sector')}"
        for name in "ABC"
    )
    kernel = plan.kernel.name
    alt = (
        f"One warp of {kernel} over the three matrices, A left of C and B above it. It asks for "
        f"{requests}."
    )
    caption = (
        f"{kernel}: the first request of one warp for A and B, and its store to C, from the "
        "emulator."
    )
    return both(draw, alt, caption)
