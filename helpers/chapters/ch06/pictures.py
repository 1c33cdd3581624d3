"""Pictures of chapter 6: a tiled product by hand, and what each barrier is for."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.colours import BLUE, GREEN, GREY, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.wording import join
from nogpu.errors import DataError

# -- a tiled product, phase by phase -------------------------------------------------------------

LARGEST = 6
"""Rows or columns of a matrix that is drawn with its numbers in it."""
BY_HAND = (
    np.array([[1, 2, 3, 1], [2, 1, 1, 3], [4, 1, 2, 2], [1, 3, 1, 2]], np.float32),
    np.array([[1, 2, 2, 1], [3, 1, 1, 2], [2, 2, 1, 3], [1, 1, 4, 1]], np.float32),
)
"""A and B of the product that the chapter does by hand."""


@dataclass(frozen=True)
class Phase:
    """One step of a block along K: the tiles it fetched, and its sums before and after."""

    k0: int
    a_tile: np.ndarray
    b_tile: np.ndarray
    before: np.ndarray
    after: np.ndarray


def _cut(matrix: np.ndarray, row: int, col: int, tile: int) -> np.ndarray:
    """A tile of a matrix, with zeros where it leaves the matrix, as 06_tiled.cu fetches it."""
    out = np.zeros((tile, tile), matrix.dtype)
    part = matrix[row : row + tile, col : col + tile]
    out[: part.shape[0], : part.shape[1]] = part
    return out


def _phases(A: np.ndarray, B: np.ndarray, tile: int, block: tuple[int, int]) -> list[Phase]:
    """What the block in this row and column of tiles of C holds, step by step."""
    sums = np.zeros((tile, tile), A.dtype)
    phases = []
    for k0 in range(0, A.shape[1], tile):
        a, b = _cut(A, block[0] * tile, k0, tile), _cut(B, k0, block[1] * tile, tile)
        phases.append(Phase(k0, a, b, sums, sums + a @ b))
        sums = phases[-1].after
    return phases


def _sum_in_words(phase: Phase, ty: int, tx: int) -> str:
    """ "4 + 3·1 + 1·2 = 9": what one thread adds in a phase."""
    terms = [f"{a:g}·{b:g}" for a, b in zip(phase.a_tile[ty], phase.b_tile[:, tx], strict=True)]
    return f"{phase.before[ty, tx]:g} + {' + '.join(terms)} = {phase.after[ty, tx]:g}"


def _rows_in_words(matrix: np.ndarray) -> str:
    return "; ".join(" ".join(f"{value:g}" for value in row) for row in matrix)


def _numbers(
    canvas: Canvas, x: float, y: float, values: np.ndarray, cell: float, size: float
) -> None:
    """A matrix with its numbers in it, from this corner."""
    rows, cols = values.shape
    for (row, col), value in np.ndenumerate(values):
        canvas.centred(x + col * cell, y + row * cell, cell, cell, f"{value:g}", size=size)
    inner = [(x, y + r * cell, x + cols * cell, y + r * cell) for r in range(1, rows)]
    inner += [(x + c * cell, y, x + c * cell, y + rows * cell) for c in range(1, cols)]
    canvas.segments(inner, lw=0.5, alpha=0.5)
    canvas.rect(x, y, cols * cell, rows * cell, lw=1.1)


def tile_phases(
    A: Any, B: Any, *, tile: int = 2, block: tuple[int, int] = (0, 0),
    thread: tuple[int, int] = (1, 0),
) -> Figure:  # fmt: skip
    """A tiled product of small matrices: what one block fetches and adds in each phase.

    A: M x K, B: K x N, at most 6 rows and columns, best of small integers. block: row and column of
    its tile in C. thread: (ty, tx) of the thread whose sum is written out. Raises DataError if the
    shapes do not fit, a matrix is too large to print, or the block or thread does not exist.
    """
    a, b = np.asarray(A), np.asarray(B)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or not a.size or not b.size:
        raise DataError(f"shapes {a.shape} and {b.shape}: give A as M x K and B as K x N")
    if max(*a.shape, *b.shape) > LARGEST or not 1 <= tile <= LARGEST:
        raise DataError(f"{a.shape}, {b.shape}, {tile=}: at most {LARGEST} rows, columns or tile")
    counts = -(-a.shape[0] // tile), -(-b.shape[1] // tile)
    if not all(0 <= i < n for i, n in zip(block, counts, strict=True)):
        raise DataError(f"{block=}: C has {counts[0]} x {counts[1]} tiles")
    ty, tx = thread
    if not (0 <= ty < tile and 0 <= tx < tile):
        raise DataError(f"{thread=}: a block has {tile} x {tile} threads")
    phases = _phases(a, b, tile, block)
    row0, col0 = block[0] * tile, block[1] * tile
    marks = [
        Mark("fetched in this phase", VERMILION, 0.3, VERMILION),
        Mark("sums of the block, in registers", BLUE, 0.3, BLUE),
        Mark(f"what thread ty = {ty}, tx = {tx} reads and adds", None, 1, GREEN, lw=2.4),
    ]

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        y = draw_key(canvas, marks) + 4
        full, cell, gap = (26.0, 34.0, 26.0) if at.narrow else (19.0, 27.0, 15.0)
        across_all, across_tiles = (a.shape[1] + b.shape[1]) * full, 3 * tile * cell
        if at.narrow:  # the tiles stand below the matrices
            full *= min(1.0, (at.width - gap - 4) / across_all)
            cell *= min(1.0, (at.width - 42) / across_tiles)
        else:
            fit = min(1.0, (at.width - 2 * gap - 67) / (across_all + across_tiles))
            full, cell = full * fit, cell * fit
        for i, phase in enumerate(phases):
            last = min(phase.k0 + tile, a.shape[1]) - 1
            span = f"k = {phase.k0}" + (f" to {last}" if last > phase.k0 else "")
            canvas.text(0, y + 6, f"Phase {i + 1}: {span}", size=at.font, weight="bold")
            y += 34
            x = 2.0
            for name, matrix, row, col in (("A", a, row0, phase.k0), ("B", b, phase.k0, col0)):
                rows, cols = matrix.shape
                canvas.text(x + cols * full / 2, y - 9, name, size=small, ha="center")
                high, across = min(tile, rows - row), min(tile, cols - col)
                part = x + col * full, y + row * full, across * full, high * full
                canvas.rect(*part, fill=VERMILION, alpha=0.3, edge=None)
                _numbers(canvas, x, y, matrix, full, small)
                canvas.rect(*part, edge=VERMILION, lw=2)
                x += cols * full + gap
            deep = max(a.shape[0], b.shape[0]) * full
            if at.narrow:
                x, middle = 2.0, y + deep + 28
            else:
                middle = y + (deep - tile * cell) / 2
                canvas.arrow(x - 5, y + deep / 2, x + 15, y + deep / 2)
                x += 25
            side = tile * cell
            for name, matrix, fill, own in (
                ("A_tile", phase.a_tile, VERMILION, (0.0, ty * cell, side, cell)),
                ("B_tile", phase.b_tile, VERMILION, (tx * cell, 0.0, cell, side)),
                ("sums", phase.after, BLUE, (tx * cell, ty * cell, cell, cell)),
            ):
                canvas.rect(x, middle, side, side, fill=fill, alpha=0.3, edge=None)
                _numbers(canvas, x, middle, matrix, cell, at.font)
                u, v, w, h = own
                canvas.rect(x + u + 1, middle + v + 1, w - 2, h - 2, edge=GREEN, lw=2.4)
                canvas.text(x + side / 2, middle - 9, name, size=small, ha="center")
                if name == "B_tile":
                    canvas.arrow(x + side + 4, middle + side / 2, x + side + 20, middle + side / 2)
                    x += 12
                x += side + 13
            low = middle + tile * cell if at.narrow else max(y + deep, middle + tile * cell)
            words = f"sum of the thread: {_sum_in_words(phase, ty, tx)}"
            canvas.text(0, low + 15, words, size=at.font)
            y = low + 36
        return canvas.end(y - 8)

    steps = [
        f"Phase {i + 1}: A_tile {_rows_in_words(p.a_tile)}, B_tile {_rows_in_words(p.b_tile)}, "
        f"sums {_rows_in_words(p.after)}; thread ty = {ty}, tx = {tx} adds "
        f"{_sum_in_words(p, ty, tx)}"
        for i, p in enumerate(phases)
    ]
    alt = (
        f"A tiled product by hand: A is {_rows_in_words(a)}, B is {_rows_in_words(b)}, tiles are "
        f"{tile} by {tile}, and the block computes rows {row0} to {row0 + tile - 1} and columns "
        f"{col0} to {col0 + tile - 1} of C. {'. '.join(steps)}."
    )
    caption = (
        f"The block for rows {row0}–{row0 + tile - 1}, columns {col0}–{col0 + tile - 1} of C: "
        f"{len(phases)} phases of {tile}. After the last one its sums are its tile of C."
    )
    return both(draw, alt, caption)


# -- what each barrier is for --------------------------------------------------------------------


@dataclass(frozen=True)
class Span:
    """What a warp does from begin to end: "fetch", "wait" or "multiply", of one step."""

    warp: int
    kind: str
    step: int
    begin: float
    end: float


@dataclass(frozen=True)
class Clash:
    """From begin to end, reader multiplies words of a tile that writer has not stored, or replaces.

    early: the reader came too early; otherwise the writer did.
    """

    reader: int
    writer: int
    step: int
    early: bool
    begin: float
    end: float


def _two_warps(
    fetch: Sequence[float], multiply: Sequence[float], steps: int, *, first: bool, second: bool
) -> tuple[list[Span], list[float], list[Clash]]:
    """The spans of each warp, the times of the barriers, and the clashes between warps.

    A step is a fetch of that long, a barrier if `first`, the products, a barrier if `second`.
    """
    now = [0.0] * len(fetch)
    spans: list[Span] = []
    met: list[float] = []

    def work(kind: str, step: int, lengths: Sequence[float]) -> None:
        for warp, length in enumerate(lengths):
            spans.append(Span(warp, kind, step, now[warp], now[warp] + length))
            now[warp] += length

    def barrier(step: int) -> None:
        met.append(max(now))
        for warp, arrived in enumerate(now):
            if arrived < met[-1]:
                spans.append(Span(warp, "wait", step, arrived, met[-1]))
            now[warp] = met[-1]

    for step in range(steps):
        work("fetch", step, fetch)
        if first:
            barrier(step)
        work("multiply", step, multiply)
        if second and step < steps - 1:
            barrier(step)
    clashes = []
    for read in (s for s in spans if s.kind == "multiply"):
        for wrote in (s for s in spans if s.kind == "fetch" and s.warp != read.warp):
            if wrote.step == read.step and wrote.end > read.begin:
                end = min(wrote.end, read.end)
                clashes.append(Clash(read.warp, wrote.warp, read.step, True, read.begin, end))
            if wrote.step == read.step + 1 and wrote.begin < read.end:
                begin = max(wrote.begin, read.begin)
                clashes.append(Clash(read.warp, wrote.warp, read.step, False, begin, read.end))
    return spans, met, clashes


def _clashes_in_words(clashes: Sequence[Clash]) -> list[str]:
    """A sentence for each pair of warps that clash, with the tiles on which they do."""
    by_pair: dict[tuple[int, int, bool], list[int]] = {}
    for c in clashes:
        by_pair.setdefault((c.reader, c.writer, c.early), []).append(c.step)
    out = []
    for (reader, writer, early), steps in by_pair.items():
        which = f"tile{'s' * (len(steps) > 1)} {join([str(step) for step in steps])}"
        it = "them" if len(steps) > 1 else "it"
        words = f"Warp {writer} fetches over {which} while warp {reader} still multiplies {it}."
        if early:
            words = f"Warp {reader} multiplies {which} while warp {writer} still fetches {it}: it"
            words += " reads what stood there before."
        out.append(words)
    return out


def barriers(
    *, fetch: Sequence[float] = (2.0, 4.0), multiply: Sequence[float] = (3.0, 5.0), steps: int = 2
) -> Figure:
    """Two warps of a tiled kernel over time: with both barriers, without the first, the second.

    A model, not a measurement. fetch, multiply: how long each warp takes for them, in any unit.
    Raises DataError unless both have a positive time for the same warps and there are two steps.
    """
    if len(fetch) != len(multiply) or len(fetch) < 2 or steps < 2:
        raise DataError(f"{fetch=}, {multiply=}, {steps=}: give two warps or more, and two steps")
    if not all(0 < t < math.inf for t in (*fetch, *multiply)):
        raise DataError(f"{fetch=}, {multiply=}: a time is above 0")
    cases = {
        name: _two_warps(fetch, multiply, steps, first=first, second=second)
        for name, first, second in (
            ("Both barriers", True, True),
            ("Without the first", False, True),
            ("Without the second", True, False),
        )
    }
    longest = max(span.end for spans, _, _ in cases.values() for span in spans)
    looks = {"fetch": Mark("fetches a tile", BLUE, 0.28, BLUE)}
    looks |= {"multiply": Mark("multiplies it", GREEN, 0.28, GREEN)}
    looks["wait"] = Mark("waits", None, 1.0, GREY)
    unsafe = Mark("wrong words are read", VERMILION, 0.35, VERMILION, "////")

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        y = draw_key(canvas, [*looks.values(), unsafe])
        thick, gap = 18.0, 5.0
        left = text_width("warp 0", small) + 8
        span_width = at.width - left - 4
        for name, (spans, met, clashes) in cases.items():
            canvas.text(0, y + 11, name, size=at.font, weight="bold")
            y += 27
            top = y
            for warp in range(len(fetch)):
                canvas.text(left - 6, y + thick / 2, f"warp {warp}", size=small, ha="right")
                for span in (s for s in spans if s.warp == warp):
                    x = left + span_width * span.begin / longest
                    w = span_width * (span.end - span.begin) / longest
                    canvas.marked(x, y, w, thick, looks[span.kind], lw=0.9)
                    hit = [c for c in clashes if c.reader == warp and c.step == span.step]
                    if span.kind == "multiply":
                        for clash in hit:
                            cx = left + span_width * clash.begin / longest
                            cw = span_width * (clash.end - clash.begin) / longest
                            canvas.marked(cx, y, cw, thick, unsafe, lw=1.6)
                        # the number stands where nothing is hatched
                        free = max((c.end for c in hit if c.early), default=span.begin)
                        stop = min((c.begin for c in hit if not c.early), default=span.end)
                        x = left + span_width * free / longest
                        w = span_width * (stop - free) / longest
                    if span.kind != "wait":
                        canvas.fitted(x, y, w, thick, str(span.step))
                y += thick + gap
            for time in met:
                x = left + span_width * time / longest
                canvas.line(x, top - 4, x, y - gap + 4, lw=2)
            for words in _clashes_in_words(clashes):
                y = canvas.lines(left, y + 9, words, width=at.width - left, size=small) + 6
            y += 8
        canvas.arrow(left, y + 2, left + span_width, y + 2)
        canvas.text(left, y + 13, "time; numbers are tiles, a thick line is a barrier", size=small)
        return canvas.end(y + 22)

    parts = []
    for name, (_, met, clashes) in cases.items():
        words = " ".join(_clashes_in_words(clashes)) or "No word is read too early or too late."
        parts.append(f"{name}: {len(met)} times the warps meet. {words}")
    alt = f"A model of {len(fetch)} warps of a tiled kernel in {steps} steps. {' '.join(parts)}"
    caption = (
        "A model of two warps, the second one slower. Each step fetches a tile and multiplies "
        "it; at a barrier the faster warp waits."
    )
    return both(draw, alt, caption)
