"""A, B and C to proportion, with the tiles of one block, its slices, a warp and a thread."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.colours import BLUE, GREEN, PURPLE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.ladder.kernel import DEPTHS, Geometry, Kernel
from helpers.ladder.rungs import lay_out
from nogpu.errors import ConfigError

Box = tuple[int, int, int, int]
"""Row, column, rows, columns."""
SIDE, OVER = 22.0, 20.0
"""Pixels for names at the left of a product, and over it."""
SLICE: Mapping[str, Any] = {"fill": VERMILION, "alpha": 0.3, "edge": VERMILION, "hatch": "////"}


@dataclass(frozen=True)
class _Tiles:
    """Tile sizes of a launch in elements; 0 where the kernel has no such level."""

    bm: int
    bn: int
    bk: int
    wm: int
    wn: int
    tm: int
    tn: int


def _tiles(p: Geometry) -> _Tiles:
    q = p.params
    bm, bn = p.tile
    staged = p.kernel.reuse == "block"
    bk = next((q[name] for name in DEPTHS if name in q), 0)
    tm, tn = q.get("TM", 1), q.get("TN", q.get("REG_TILE", q.get("COARSE", 1)))
    # Tensor Cores, or warps that add their sums of one column: no thread owns a rectangle
    if p.kernel.dtype in ("float16", "bfloat16") or p.kernel.entry.startswith("thin_"):
        tm = tn = 0
    return _Tiles(bm, bn, bk if staged else 0, q.get("WM", 0), q.get("WN", 0), tm, tn)


def _scatter(p: Geometry, t: _Tiles) -> tuple[int, int, int, int]:
    """How a thread's rows and columns of C lie: rows in one piece, rows from one piece to the next,
    and the same for columns. A single piece has no next one: its step is its length."""
    if "REG_TILE" in p.params:
        return 1, 1, 1, p.params["TILE"]
    if t.wm:  # lanes of a warp take turns, four elements each
        rows, cols = min(4, t.tm), min(4, t.tn)
        return rows, t.wm // t.tm * rows, cols, t.wn // t.tn * cols
    if "COL_STEP" in p.kernel.source:  # float4 kernels: neighbouring threads take turns
        cols = min(4, t.tn)
        rows = min(4, t.tm) if "ROW_STEP" in p.kernel.source else t.tm  # rows in fours, too
        return rows, t.bm // t.tm * rows if rows < t.tm else rows, cols, t.bn // t.tn * cols
    return t.tm, t.tm, t.tn, t.tn


def _pieces(p: Geometry, t: _Tiles, element: tuple[int, int]) -> list[Box]:
    """Rectangles (row, column, rows, columns) of the block's tile that one thread computes.

    element: one of the elements that the thread computes.
    """
    rows, row_step, cols, col_step = _scatter(p, t)
    high, wide = (t.wm, t.wn) if t.wm else (t.bm, t.bn)  # the region in which threads take turns
    i, j = element
    row0, col0 = i // high * high, j // wide * wide
    # within the region, the first piece that the thread owns
    row = i % high % row_step // rows * rows if t.tm > rows else i % high // rows * rows
    col = j % wide % col_step // cols * cols if t.tn > cols else j % wide // cols * cols
    places = [
        (r * row_step, c * col_step) for r in range(t.tm // rows) for c in range(t.tn // cols)
    ]
    return [(row0 + row + down, col0 + col + right, rows, cols) for down, right in places]


def _inside(what: str, value: tuple[int, int], limit: tuple[int, int]) -> tuple[int, int]:
    if not (0 <= value[0] < limit[0] and 0 <= value[1] < limit[1]):
        raise ConfigError(
            f"{what}={value} is outside: rows 0 to {limit[0] - 1}, columns 0 to {limit[1] - 1}"
        )
    return value


class Product:
    """A, B and C in their places: A left of C, B above it, all to one scale."""

    def __init__(self, canvas: Canvas, x: float, y: float, m: int, n: int, k: int, scale: float,
                 gap: float) -> None:  # fmt: skip
        self.canvas, self.scale = canvas, scale
        self.m, self.n, self.k = m, n, k
        self.ax, self.ay = x, y + k * scale + gap
        self.bx, self.by = x + k * scale + gap, y
        self.cx, self.cy = self.bx, self.ay

    @classmethod
    def fitting(cls, canvas: Canvas, y: float, sizes: tuple[int, int, int], tall: float,
                gap: float = 14.0) -> Product:  # fmt: skip
        """As large as the canvas's width and so many pixels of height allow, from y down."""
        m, n, k = sizes
        scale = min((canvas.width - SIDE - gap - 4) / (k + n), tall / (k + m))
        left = (canvas.width - ((k + n) * scale + gap)) / 2 + SIDE / 2
        return cls(canvas, left, y, m, n, k, scale, gap)

    @property
    def low(self) -> float:
        """The y of the lower edge."""
        return self.ay + self.m * self.scale

    def thread(self, pieces: Sequence[Box], origin: tuple[int, int] = (0, 0), *, lw: float) -> None:
        """The pieces of C that a thread computes, and the rows and columns that they need."""
        for r, c, rows, cols in pieces:
            row, col = origin[0] + r, origin[1] + c
            self.box("A", row, 0, rows, self.k, fill=GREEN, edge=None)
            self.box("B", 0, col, self.k, cols, fill=GREEN, edge=None)
            self.box("C", row, col, rows, cols, fill=GREEN, edge=GREEN, lw=lw)

    def _origin(self, matrix: str) -> tuple[float, float, int, int]:
        return {
            "A": (self.ax, self.ay, self.m, self.k),
            "B": (self.bx, self.by, self.k, self.n),
            "C": (self.cx, self.cy, self.m, self.n),
        }[matrix]

    def box(
        self, matrix: str, row: float, col: float, rows: float, cols: float, **style: Any
    ) -> None:
        """A rectangle of elements, cut at the matrix's edge and never thinner than 1.5 pixels."""
        x, y, height, width = self._origin(matrix)
        rows, cols = min(rows, height - row), min(cols, width - col)
        self.canvas.rect(
            x + col * self.scale, y + row * self.scale, max(cols * self.scale, 1.5),
            max(rows * self.scale, 1.5), **style,
        )  # fmt: skip

    def grid(self, matrix: str, rows: int, cols: int, **style: Any) -> None:
        """Lines every so many rows and columns (0: none); left out where they would crowd."""
        x, y, height, width = self._origin(matrix)
        z, parts = self.scale, []
        if rows and rows * z >= 3.5:
            parts += [(x, y + r * z, x + width * z, y + r * z) for r in range(rows, height, rows)]
        if cols and cols * z >= 3.5:
            parts += [(x + c * z, y, x + c * z, y + height * z) for c in range(cols, width, cols)]
        self.canvas.segments(parts, **style)

    def outlines(self) -> None:
        for matrix in "ABC":
            _, _, rows, cols = self._origin(matrix)
            self.box(matrix, 0, 0, rows, cols, lw=1.3)

    def names(self, m: str, n: str, k: str) -> None:
        """Names beside the matrices and the three extents along their edges."""
        canvas, small = self.canvas, self.canvas.at.small
        x, y, _, _ = self._origin("B")
        canvas.text(x + self.n * self.scale / 2, y - 8, n, size=small, ha="center")
        middle = self.ay + self.m * self.scale / 2
        canvas.text(self.ax - 8, middle, m, size=small, ha="center", rotation=90)
        width = text_width(k, small)
        if self.k * self.scale >= width - 4:
            canvas.text(self.ax + self.k * self.scale / 2, self.ay - 8, k, size=small, ha="center")
        else:
            right = max(self.ax + self.k * self.scale, width)
            canvas.text(right, self.ay - 8, k, size=small, ha="right")
        for matrix in "ABC":
            ox, oy, rows, cols = self._origin(matrix)
            low, right = oy + rows * self.scale, ox + cols * self.scale
            if min(rows, cols) * self.scale >= 14:
                size = canvas.at.font + 1
                canvas.text(right - 4, low - 8, matrix, ha="right", weight="bold", size=size)


def _magnify(
    product: Product, t: _Tiles, pieces: Sequence[Box], element: tuple[int, int], spread: bool
) -> None:
    """A block's slices and tile of C, with a warp and a thread, whose elements may be spread."""
    product.box("A", 0, 0, t.bm, t.bk, **SLICE)
    product.box("B", 0, 0, t.bk, t.bn, **SLICE)
    product.box("C", 0, 0, t.bm, t.bn, fill=BLUE, alpha=0.45, edge=None)
    if t.tm:
        high, wide = (0, 0) if t.wm else (1, 1) if spread else (t.tm, t.tn)
        product.grid("C", high, wide, lw=0.4, alpha=0.4)
    product.thread(pieces, lw=0.6)
    if t.wm:
        product.grid("C", t.wm, t.wn, lw=1.0, colour=PURPLE)
        row, col = element[0] // t.wm * t.wm, element[1] // t.wn * t.wn
        product.box("C", row, col, t.wm, t.wn, edge=PURPLE, lw=2.6)
    product.outlines()
    product.names(f"{t.bm}", f"{t.bn}", f"{t.bk}")


def tile_diagram(
    kernel: str | Kernel | Geometry, M: int | None = None, N: int | None = None,
    K: int | None = None, *, step: int = 0, block: tuple[int, int] = (0, 0),
    thread: tuple[int, int] | None = None, **params: int,
) -> Figure:  # fmt: skip
    """A, B and C to proportion, with the tiles of one block, its k slice, a warp and a thread.

    A second drawing magnifies the block's tile where it has parts to show. Sizes come from the
    catalog. kernel: name, Kernel, or a Geometry (then without M, N, K). step: which slice along K.
    block: row and column of the block's tile in C. thread: an element of the block's tile, as (row,
    column): the thread that computes it is marked. Raises ConfigError: a place is outside; and the
    errors of catalog.plan.
    """
    if isinstance(kernel, Geometry):
        p = kernel
    elif M is None or N is None or K is None:
        raise ConfigError("tile_diagram() needs M, N and K, or a Geometry that has them")
    else:
        p = lay_out(kernel, M, N, K, **params)
    m, n, k = p.M, p.N, p.K
    t = _tiles(p)
    counts = math.ceil(m / t.bm), math.ceil(n / t.bn)
    _inside("block", block, counts)
    steps = math.ceil(k / t.bk) if t.bk else 1
    if not 0 <= step < steps:
        raise ConfigError(f"{step=}: this launch walks along K in steps 0 to {steps - 1}")
    has_thread = t.tm > 0 and (thread is not None or t.tm * t.tn > 1)
    element = _inside("thread", thread or (0, 0), (t.bm, t.bn))
    pieces = _pieces(p, t, element) if has_thread else []
    row0, col0 = block[0] * t.bm, block[1] * t.bn
    marks = [Mark(f"block tile of C: {t.bm} × {t.bn}", BLUE, 0.45, BLUE)]
    if t.bk:
        words = f"slices of A and B, step {step + 1} of {steps}: {t.bk} deep"
        marks.append(Mark(words, VERMILION, 0.3, VERMILION, "////"))
    marks.append(Mark("rows of A and columns of B that the block needs", BLUE, 0.2, None))
    if t.wm:
        marks.append(Mark(f"warp tile: {t.wm} × {t.wn}", None, 1, PURPLE, lw=2.2))
    if has_thread:
        shape = f"{t.tm} × {t.tn}" if t.tm * t.tn > 1 else "1 element"
        what = f"one thread: {shape}" + (f" in {len(pieces)} pieces" if len(pieces) > 1 else "")
        marks.append(Mark(what, GREEN, edge=GREEN))

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        head = draw_key(canvas, marks)
        big = Product.fitting(canvas, head + OVER, (m, n, k), 330)
        big.box("A", row0, 0, t.bm, k, fill=BLUE, alpha=0.2, edge=None)
        big.box("B", 0, col0, k, t.bn, fill=BLUE, alpha=0.2, edge=None)
        big.grid("C", t.bm, t.bn, lw=0.5, alpha=0.35)
        big.box("C", row0, col0, t.bm, t.bn, fill=BLUE, alpha=0.45, edge=BLUE, lw=1.2)
        if t.bk:
            big.box("A", row0, step * t.bk, t.bm, t.bk, **SLICE)
            big.box("B", step * t.bk, col0, t.bk, t.bn, **SLICE)
        else:
            big.thread(pieces, (row0, col0), lw=2)
        big.outlines()
        big.names(f"M = {m}", f"N = {n}", f"K = {k}")
        low = big.low
        if t.bk:
            words = "The same block, magnified: its slices of A and B, its tile of C"
            low = canvas.lines(0, low + 22, words, width=at.width, size=at.small + 0.5) + 18
            small = Product.fitting(canvas, low + OVER - 8, (t.bm, t.bn, t.bk), 270)
            _magnify(small, t, pieces, element, "REG_TILE" in p.params)
            low = small.low
        return canvas.end(low + 8)

    params_text = ", ".join(f"{name} = {value}" for name, value in p.params.items())
    alt = (
        f"Tiles of {p.kernel.name} ({params_text}) for A {m} by {k}, B {k} by {n}, C {m} by {n}: "
        f"{counts[0]} by {counts[1]} blocks, each a {t.bm} by {t.bn} tile of C. The block in row "
        f"{block[0]}, column {block[1]} computes rows {row0} to {min(row0 + t.bm, m) - 1} and "
        f"columns {col0} to {min(col0 + t.bn, n) - 1}"
    )
    if t.bk:
        alt += (
            f", in {steps} steps along K; step {step + 1} uses k from {step * t.bk} to "
            f"{min((step + 1) * t.bk, k) - 1}"
        )
    alt += "."
    if t.wm:
        alt += f" A warp computes {t.wm} by {t.wn}."
    if has_thread:
        alt += f" A thread computes {t.tm} by {t.tn}" + (
            f" in {len(pieces)} pieces." if len(pieces) > 1 else "."
        )
    caption = (
        f"{p.kernel.name} with {params_text}: {counts[0] * counts[1]} blocks; the marked one "
        f"computes rows {row0}–{min(row0 + t.bm, m) - 1}, columns "
        f"{col0}–{min(col0 + t.bn, n) - 1} of C."
    )
    return both(draw, alt, caption)
