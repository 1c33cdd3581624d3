"""A picture of chapter 16: where the book is ahead of cuBLAS, shape by shape."""

from dataclasses import replace

from helpers.colours import BLUE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.log_plane import LogPlane
from helpers.draw.surface import Canvas, Column
from helpers.record.shape_sets import Everywhere

EDGE = 8192
"""The largest edge of the drawn shapes."""
DEPTHS = (
    ("K below 64", 1, 64), ("K from 64 to 1023", 64, 1024), ("K from 1024 on", 1024, EDGE + 1),
)  # fmt: skip


def _free(taken: list[tuple[float, float]], u: float, v: float, step: float) -> float:
    """How far a number at (u, v) moves up or down, so that it covers none that is there."""
    shifts = (s * step for s in (0, -1, 1, -2, 2, -3, 3))
    near = 2.2 * step
    far = (s for s in shifts if all(abs(u - a) > near or abs(v + s - b) >= step for a, b in taken))
    return next(far, 0.0)


def ahead(picks: Everywhere, source: str) -> Figure:
    """Each drawn shape at its N and M, in three panels by K: its percent of cuBLAS.

    picks: of a record. source: where they were measured, in a line.
    """
    rows = [(e.m, e.n, e.k, 100 * (e.cublas_ratio or 0.0)) for e in picks.entries]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        side, left = 16.0, 38.0 if at.narrow else 26.0
        across = 1 if at.narrow else len(DEPTHS)
        panel = (at.width - left - 4 - side * (across - 1)) / across
        height = min(panel, 190.0)
        y = 4.0
        for p, (title, low, high) in enumerate(DEPTHS):
            x0 = left + p % across * (panel + side)
            top = y + 16

            canvas.text(x0, top - 8, title, size=at.small + 0.5, weight="bold")
            canvas.rect(x0, top, panel, height, fill=None, lw=0.6)
            ends = 1.0, float(EDGE)
            plane = LogPlane(canvas, (x0, top, x0 + panel, top + height), ends, ends)
            for tick in (1, 10, 100, 1000):
                u, v = plane.x(tick), plane.y(tick)
                canvas.text(u, top + height + 8, str(tick), size=at.tiny, ha="center")
                if not p or at.narrow:
                    canvas.text(x0 - 3, v, str(tick), size=at.tiny, ha="right")
            canvas.text(x0 + panel / 2, top + height + 19, "N", size=at.small, ha="center")
            if not p or at.narrow:
                canvas.text(x0 - 3, top + 5, "M", size=at.small, ha="right")
            taken: list[tuple[float, float]] = []
            for m, n, k, share in rows:
                if low <= k < high:
                    u, v = plane.x(n), plane.y(m)
                    v += _free(taken, u, v, at.tiny + 1.5)
                    taken.append((u, v))
                    u = min(max(u, x0 + 9), x0 + panel - 9)
                    v = min(max(v, top + 6), top + height - 6)
                    ink = BLUE if share >= 100 else VERMILION
                    canvas.centred(
                        u, v, 0, 0, f"{share:.0f}", size=at.tiny + 0.5, colour=ink, bold=True
                    )
            if at.narrow:
                y = top + height + 26
        return canvas.end((y if at.narrow else y + 16 + height + 26) + 2)

    first = [r for r in rows if r[3] >= 100]
    shares = ", ".join(f"{m}x{n}x{k} {share:.0f} percent" for m, n, k, share in rows)
    alt = (
        f"Percent of cuBLAS at {len(rows)} drawn shapes by M, N and K; {len(first)} are ahead of "
        f"the library. {shares}."
    )
    caption = (
        "Each number is a shape's percent of cuBLAS, where its N and M are, both logarithmic: blue "
        "where the book is ahead, red where the library is."
    )
    return replace(both(draw, alt, caption), source=source)
