"""Diagrams drawn from the code's own numbers: access maps, tiles, threads, memories, loop orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.device import WARP, Gpu
from helpers.device import gpu as find_gpu
from helpers.errors import ConfigError, DataError
from helpers.kernel import Kernel, Plan, plan
from helpers.plots._svg import (
    BLUE,
    GREEN,
    GREY,
    INK,
    PURPLE,
    VERMILION,
    Canvas,
    Column,
    Figure,
    both,
    bytes_text,
    join,
    number,
    text_width,
    wrap,
)
from helpers.rungs import find

SECTOR = 32
"""Bytes of a sector, the unit in which L1 and L2 move data (Nsight Compute, Profiling Guide)."""
BANKS = 32
WORD = 4
"""Shared memory: 32 banks, each one word of 4 bytes wide (CUDA C++ Programming Guide)."""


@dataclass(frozen=True)
class _Mark:
    """One entry of a diagram's legend: how the patch looks, and its words."""

    words: str
    fill: str | None = None
    alpha: float = 1.0
    edge: str | None = INK
    hatch: str | None = None
    lw: float = 1.0


def _draw_key(canvas: Canvas, marks: Sequence[_Mark]) -> float:
    """Draw a legend; returns the y below it."""

    def patch(mark: _Mark) -> Callable[[float, float], None]:
        return lambda x, y: canvas.rect(
            x, y, 13, 10, fill=mark.fill, alpha=mark.alpha, edge=mark.edge, hatch=mark.hatch,
            lw=mark.lw,
        )  # fmt: skip

    return canvas.legend([(mark.words, patch(mark)) for mark in marks]) + 2


# -- access map ----------------------------------------------------------------------------------


def _line_of(report: Any, line: int | str, space: str, op: str, array: str | None) -> Any:
    """The LineAccess rows of one source line. Raises DataError, saying which lines there are."""
    rows = [row for row in report.by_line() if row.space == space and row.op == op]
    if array is not None:
        rows = [row for row in rows if row.array == array] or rows
    if isinstance(line, str):
        hits = [row for row in rows if line in row.text]
    else:
        hits = [row for row in rows if row.line == line]
    numbers = sorted({row.line for row in hits})
    if len(numbers) != 1:
        have = "; ".join(f"{n}: {t.strip()}" for n, t in sorted({(r.line, r.text) for r in rows}))
        what = f"{len(numbers)} lines" if numbers else "no line"
        raise DataError(
            f"{what} with a {space} {op} fit {line=}. Lines that have one: {have or 'none'}"
        )
    return hits


def recorded(report: Any) -> Any:
    """The lanes that a launch kept, by line, space and op. Raises DataError if it kept none."""
    samples = getattr(report, "report", report).samples
    if samples is None:
        raise DataError("this launch kept no lanes. Give samples=True to `trace` or `launch`")
    return samples


def _request(
    report: Any, line: int, space: str, op: str, request: int, array: str | None
) -> tuple[str, int, list[int]]:
    """Array, bytes of its elements, and byte offset of each lane (below 0: inactive) in a request."""
    kept = recorded(report).get((line, space, op), ())
    found = [s for s in kept if array is None or s[0] == array]
    left = request
    for name, size, offsets in found:
        if 0 <= left < len(offsets):
            return name, int(size), [int(at) for at in offsets[left]]
        left -= len(offsets)
    count = sum(len(offsets) for _, _, offsets in found)
    raise DataError(
        f"{request=}: {count} requests of line {line} are recorded, {space} {op}"
        f"{f' of {array}' if array else ''}; "
        + (f"give 0 to {count - 1}" if count else "choose another line or array")
    )


def _columns(report: Any, array: str) -> int | None:
    """Columns of a matrix argument, where the trace knows them."""
    p = getattr(report, "plan", None)
    return {"A": p.K, "B": p.N, "C": p.N}.get(array) if p else None


def _element(array: str, first: int, count: int, columns: int | None) -> str:
    """ "A[3, 0–7]" for a matrix of known width, "A[24–31]" otherwise."""
    if columns is None:
        return f"{array}[{first}–{first + count - 1}]" if count > 1 else f"{array}[{first}]"
    row, col = divmod(first, columns)
    end_row, end_col = divmod(first + count - 1, columns)
    if count == 1:
        return f"{array}[{row}, {col}]"
    if row != end_row:
        return f"{array}[{row}, {col}] …"
    return f"{array}[{row}, {col}–{end_col}]"


def access_map(
    report: Any,
    line: int | str,
    *,
    space: str = "global",
    op: str = "load",
    request: int = 0,
    array: str | None = None,
    caption: str | None = None,
) -> Figure:
    """What the 32 lanes of a warp touch in one request: 32-byte sectors, or shared-memory banks.

    report: what trace() or emulator.launch() returned. line: a source line, by number or by text
    that only one such line contains. array: count only requests of this array (a line may load
    two). request: which one, from 0. Raises DataError if there is no such access.
    """
    if space not in ("global", "shared") or op not in ("load", "store"):
        raise ConfigError(f'{space=}, {op=}: give "global" or "shared", and "load" or "store"')
    rows = _line_of(report, line, space, op, array)
    at = rows[0].line
    name, item, offsets = _request(report, at, space, op, request, array)
    row = next((r for r in rows if r.array == name), rows[0])
    if space == "shared":  # banks deal in words, whatever the array holds
        item = WORD
    users: dict[int, list[int]] = {}
    for lane, offset in enumerate(offsets):
        if offset >= 0:
            for element in range(offset // item, (offset + row.width_bytes - 1) // item + 1):
                users.setdefault(element, []).append(lane)
    active = sum(offset >= 0 for offset in offsets)
    if space == "shared":
        return _bank_map(name, at, op, users, active, row, caption)
    columns = _columns(report, name)
    return _sector_map(name, at, op, users, active, item, columns, row, caption)


def _count(value: float, noun: str) -> str:
    """ "1 sector", "2.5 sectors"."""
    return f"{number(value)} {noun}{'' if value == 1 else 's'}"


def _lane_words(lanes: Sequence[int]) -> str:
    return str(lanes[0]) if len(lanes) == 1 else "•"


def _sharing(users: Mapping[int, list[int]], what: str) -> str:
    """A sentence for the elements that several lanes touch, or nothing."""
    most = max(len(lanes) for lanes in users.values())
    if most == 1:
        return ""
    if len(users) == 1:
        return f" All {most} lanes touch the same {what}."
    return f" Up to {most} lanes share one {what}."


def _sector_map(
    name: str, line: int, op: str, users: Mapping[int, list[int]], active: int, item: int,
    columns: int | None, row: Any, caption: str | None,
) -> Figure:  # fmt: skip
    per_sector = SECTOR // item
    sectors = sorted({element // per_sector for element in users})
    used, moved = len(users) * item, len(sectors) * SECTOR
    shared = any(len(lanes) > 1 for lanes in users.values())
    verb, rest = ("used", "fetched for nothing") if op == "load" else ("written", "not written")
    who = "a lane, or • for several" if shared else "the number is its lane"
    marks = [_Mark(f"{verb}; {who}", BLUE, edge=BLUE)]
    if used < moved:
        marks.append(_Mark(rest, VERMILION, 0.25, VERMILION, "////"))

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        head = _draw_key(canvas, marks)
        per_row = (4 if per_sector <= 8 else 2) // (2 if at.narrow else 1)
        gap, tall = 12.0, at.tiny + 6.5
        over = at.tiny + 5
        pitch = tall + over + 6.5
        strip = (at.width - 2 - gap * (per_row - 1)) / per_row
        cell = strip / per_sector
        for i, sector in enumerate(sectors):
            x = 1 + (i % per_row) * (strip + gap)
            y = head + (i // per_row) * pitch + over
            first = sector * per_sector
            label = _element(name, first, per_sector, columns)
            canvas.text(x, y - at.tiny / 2 - 3, label, size=at.tiny + 0.5)
            if any(first + j not in users for j in range(per_sector)):
                canvas.rect(
                    x, y, strip, tall, fill=VERMILION, alpha=0.25, edge=VERMILION, hatch="////",
                    lw=0,
                )  # fmt: skip
            for j in range(per_sector):
                lanes = users.get(first + j)
                if not lanes:
                    continue
                canvas.rect(x + j * cell, y, cell, tall, fill=BLUE, edge=None)
                words, middle = _lane_words(lanes), x + (j + 0.5) * cell
                canvas.text(
                    middle, y + tall / 2, words, size=at.tiny, ha="center", colour="#ffffff"
                )
            inner = [x + j * cell for j in range(1, per_sector)]
            canvas.segments([(u, y, u, y + tall) for u in inner], lw=0.6, alpha=0.6)
            canvas.rect(x, y, strip, tall, lw=1.2)
        return canvas.end(head + pitch * math.ceil(len(sectors) / per_row) + 2)

    moves, uses = ("moved", "used") if op == "load" else ("in them", "written")
    finding = (
        f"One {op} of {name} in line {line} by {_count(active, 'lane')} touches "
        f"{_count(len(sectors), 'sector')}: {moved:,} bytes {moves}, {used:,} {uses} "
        f"({number(100 * used / moved)} %)."
    )
    mean = f" The line's mean is {_count(row.sectors_per_request, 'sector')} a request."
    more = _sharing(users, "element")
    alt = f"Map of the sectors of one warp request. {finding}{more}{mean}"
    return both(draw, alt, finding + more if caption is None else caption)


def _span(group: int) -> str:
    """The words of shared memory in one row of all banks, from the first to the last."""
    return f"{group * BANKS}–{group * BANKS + BANKS - 1}"


def _bank_map(
    name: str, line: int, op: str, words: Mapping[int, list[int]], active: int, row: Any,
    caption: str | None,
) -> Figure:  # fmt: skip
    per_bank = [sum(1 for word in words if word % BANKS == bank) for bank in range(BANKS)]
    lines = sorted({word // BANKS for word in words})
    # more than a word a lane is served in turns of so many lanes (helpers/emulator/observe/counts.py)
    at_once = WARP * WORD // max(row.width_bytes, WORD)
    turns = [
        [word for word, lanes in words.items() if any(i // at_once == turn for i in lanes)]
        for turn in range(WARP // at_once)
    ]
    depths = [[sum(word % BANKS == bank for word in t) for bank in range(BANKS)] for t in turns]
    wide, worst = len(turns) > 1, max(map(max, depths))
    clash = [any(depth[bank] > 1 for depth in depths) for bank in range(BANKS)]
    verb = "read" if op == "load" else "written"
    shared = any(len(lanes) > 1 for lanes in words.values())
    who = "a lane, or • for several" if shared else "the number is its lane"
    marks = [_Mark(f"word {verb}; {who}", BLUE, edge=BLUE)]
    if worst > 1:
        marks.append(
            _Mark(
                f"bank that is asked for several words{' in a turn' * wide}",
                VERMILION,
                edge=VERMILION,
                hatch=None,
            )
        )

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        tiny, tall = at.tiny, at.tiny + 6.5
        beside = [text_width("words", tiny + 0.5), *(text_width(_span(g), tiny) for g in lines)]
        left = 8 + max(beside) if at.narrow else 46.0
        y = _draw_key(canvas, marks)
        for banks in (range(16), range(16, BANKS)) if at.narrow else (range(BANKS),):
            cell = (at.width - 1 - left) / len(banks)
            x0 = left - banks[0] * cell
            here = [g for g in lines if any(g * BANKS + bank in words for bank in banks)]
            canvas.text(left + len(banks) * cell / 2, y + 4, "bank", size=at.small, ha="center")
            canvas.text(left - 5, y + 4, "words", size=tiny + 0.5, ha="right")
            for bank in banks:
                if bank % 4 == 0 or bank == BANKS - 1:
                    middle = x0 + (bank + 0.5) * cell
                    canvas.text(middle, y + at.small + 7.5, str(bank), size=tiny, ha="center")
            top = y = y + at.small + at.tiny + 7
            for group in here:
                canvas.text(left - 5, y + tall / 2, _span(group), size=tiny, ha="right")
                for bank in banks:
                    lanes = words.get(group * BANKS + bank)
                    x = x0 + bank * cell
                    if lanes:
                        canvas.rect(x, y, cell, tall, fill=BLUE, edge=None)
                        canvas.text(
                            x + cell / 2, y + tall / 2, _lane_words(lanes), size=tiny, ha="center",
                            colour="#ffffff",
                        )  # fmt: skip
                        if clash[bank]:
                            canvas.rect(
                                x + 0.8, y + 0.8, cell - 1.6, tall - 1.6, edge=VERMILION, lw=1.8
                            )
                canvas.rect(left, y, len(banks) * cell, tall, lw=0.6)
                y += tall
            edges = [left + i * cell for i in range(len(banks) + 1)]
            canvas.segments([(x, top, x, y) for x in edges], lw=0.4, alpha=0.4)
            for bank in banks:
                if per_bank[bank]:
                    middle = x0 + (bank + 0.5) * cell
                    canvas.text(middle, y + 11, str(per_bank[bank]), size=tiny, ha="center")
            canvas.text(left - 5, y + 11, "sum" if here else "none", size=tiny + 0.5, ha="right")
            y += 24
        return canvas.end(y - 4)

    asked, most = _count(len(words), "word"), max(per_bank)
    in_turns = wide and sum(map(max, depths)) == row.wavefronts_per_request  # else they are merged
    if in_turns:
        asked += f", served in {len(turns)} turns of {at_once} lanes"
        most = worst
    banks = f"the busiest bank holds {most} of them" if most > 1 else "no bank is asked for two"
    banks += " in a turn" * in_turns
    finding = (
        f"One {op} of {name} in line {line} by {_count(active, 'lane')} asks for {asked}; "
        f"{banks}.{_sharing(words, 'word')}"
    )
    mean, ideal = row.wavefronts_per_request, row.ideal_wavefronts_per_request
    mean = f" The line takes {_count(mean, 'wavefront')} a request, {number(ideal)} at best."
    alt = f"Map of the 32 banks of shared memory in one warp request. {finding}{mean}"
    return both(draw, alt, finding + mean if caption is None else caption)


# -- tiles ---------------------------------------------------------------------------------------


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


def _tiles(p: Plan) -> _Tiles:
    q = p.params
    bm, bn = p.tile
    staged = p.kernel.reuse == "block"
    bk = q.get("BK") or q.get("TILE") or q.get("TILE_COLS") or 0
    tm, tn = q.get("TM", 1), q.get("TN", q.get("REG_TILE", q.get("COARSE", 1)))
    if p.kernel.dtype in ("float16", "bfloat16"):  # Tensor Cores: no thread owns a rectangle
        tm = tn = 0
    return _Tiles(bm, bn, bk if staged else 0, q.get("WM", 0), q.get("WN", 0), tm, tn)


def _scatter(p: Plan, t: _Tiles) -> tuple[int, int, int, int]:
    """How a thread's rows and columns of C lie: rows in one piece, rows from one piece to the next,
    and the same for columns. A single piece has no next one: its step is its length.
    """
    if "REG_TILE" in p.params:
        return 1, 1, 1, p.params["TILE"]
    if t.wm:  # lanes of a warp take turns, four elements each
        rows, cols = min(4, t.tm), min(4, t.tn)
        return rows, t.wm // t.tm * rows, cols, t.wn // t.tn * cols
    if "COL_STEP" in p.kernel.source:  # float4 kernels: neighbouring threads take turns
        cols = min(4, t.tn)
        return t.tm, t.tm, cols, t.bn // t.tn * cols
    return t.tm, t.tm, t.tn, t.tn


def _pieces(p: Plan, t: _Tiles, element: tuple[int, int]) -> list[tuple[int, int, int, int]]:
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
    return [
        (row0 + row + r * row_step, col0 + col + c * col_step, rows, cols)
        for r in range(t.tm // rows)
        for c in range(t.tn // cols)
    ]


def _inside(what: str, value: tuple[int, int], limit: tuple[int, int]) -> tuple[int, int]:
    if not (0 <= value[0] < limit[0] and 0 <= value[1] < limit[1]):
        raise ConfigError(
            f"{what}={value} is outside: rows 0 to {limit[0] - 1}, columns 0 to {limit[1] - 1}"
        )
    return value


class _Product:
    """A, B and C in their places: A left of C, B above it, all to one scale."""

    def __init__(self, canvas: Canvas, x: float, y: float, m: int, n: int, k: int, scale: float,
                 gap: float) -> None:  # fmt: skip
        self.canvas, self.scale = canvas, scale
        self.m, self.n, self.k = m, n, k
        self.ax, self.ay = x, y + k * scale + gap
        self.bx, self.by = x + k * scale + gap, y
        self.cx, self.cy = self.bx, self.ay

    def _origin(self, matrix: str) -> tuple[float, float, int, int]:
        return {
            "A": (self.ax, self.ay, self.m, self.k),
            "B": (self.bx, self.by, self.k, self.n),
            "C": (self.cx, self.cy, self.m, self.n),
        }[matrix]

    def box(
        self, matrix: str, row: float, col: float, rows: float, cols: float, **style: Any
    ) -> None:
        """A rectangle of matrix elements, cut at the matrix's edge and never thinner than 1.5 px."""
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


def tile_diagram(
    kernel: str | Kernel | Plan,
    M: int | None = None,
    N: int | None = None,
    K: int | None = None,
    *,
    step: int = 0,
    block: tuple[int, int] = (0, 0),
    thread: tuple[int, int] | None = None,
    caption: str | None = None,
    **params: int,
) -> Figure:
    """A, B and C to proportion, with the tiles of one block, its k slice, a warp and a thread.

    kernel: name, Kernel, or a Plan (then without M, N, K). block: row and column of the block's
    tile in C. step: which slice along K. thread: an element of the block's tile, as (row, column);
    the thread that computes it is marked. A second drawing magnifies the block's tile where it has parts to show. Sizes come
    from the catalog. Raises the errors of catalog.plan, and ConfigError for a place outside.
    """
    if isinstance(kernel, Plan):
        p = kernel
    elif M is None or N is None or K is None:
        raise ConfigError("tile_diagram() needs M, N and K, or a Plan that has them")
    else:
        p = plan(find(kernel), M, N, K, **params)
    m, n, k = p.M, p.N, p.K
    t = _tiles(p)
    counts = math.ceil(m / t.bm), math.ceil(n / t.bn)
    _inside("block", block, counts)
    steps = math.ceil(k / t.bk) if t.bk else 1
    if not 0 <= step < steps:
        raise ConfigError(f"{step=}: this launch walks along K in steps 0 to {steps - 1}")
    has_thread = thread is not None or (t.tm * t.tn > 1)
    if t.tm == 0:
        has_thread = False
    element = _inside("thread", thread or (0, 0), (t.bm, t.bn))
    pieces = _pieces(p, t, element) if has_thread else []
    row0, col0 = block[0] * t.bm, block[1] * t.bn
    magnified = bool(t.bk)

    marks = [_Mark(f"block tile of C: {t.bm} × {t.bn}", BLUE, 0.45, BLUE)]
    if t.bk:
        words = f"slices of A and B, step {step + 1} of {steps}: {t.bk} deep"
        marks.append(_Mark(words, VERMILION, 0.3, VERMILION, "////"))
    marks.append(_Mark("rows of A and columns of B that the block needs", BLUE, 0.2, None))
    if t.wm:
        marks.append(_Mark(f"warp tile: {t.wm} × {t.wn}", None, 1, PURPLE, lw=2.2))
    if has_thread:
        shape = f"{t.tm} × {t.tn}" if t.tm * t.tn > 1 else "1 element"
        what = f"one thread: {shape}" + (f" in {len(pieces)} pieces" if len(pieces) > 1 else "")
        marks.append(_Mark(what, GREEN, edge=GREEN))

    gap, side, over = 14.0, 22.0, 20.0

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        room = at.width - side - gap - 4
        head = _draw_key(canvas, marks)
        scale = min(room / (k + n), 330 / (k + m))
        left = (at.width - ((k + n) * scale + gap)) / 2 + side / 2
        big = _Product(canvas, left, head + over, m, n, k, scale, gap)
        big.box("A", row0, 0, t.bm, k, fill=BLUE, alpha=0.2, edge=None)
        big.box("B", 0, col0, k, t.bn, fill=BLUE, alpha=0.2, edge=None)
        big.grid("C", t.bm, t.bn, lw=0.5, alpha=0.35)
        big.box("C", row0, col0, t.bm, t.bn, fill=BLUE, alpha=0.45, edge=BLUE, lw=1.2)
        if t.bk:
            slice_style = {"fill": VERMILION, "alpha": 0.3, "edge": VERMILION, "hatch": "////"}
            big.box("A", row0, step * t.bk, t.bm, t.bk, **slice_style)
            big.box("B", step * t.bk, col0, t.bk, t.bn, **slice_style)
        elif has_thread:
            for r, c, rows, cols in pieces:
                big.box("A", row0 + r, 0, rows, k, fill=GREEN, edge=None)
                big.box("B", 0, col0 + c, k, cols, fill=GREEN, edge=None)
                big.box("C", row0 + r, col0 + c, rows, cols, fill=GREEN, edge=GREEN, lw=2)
        big.outlines()
        big.names(f"M = {m}", f"N = {n}", f"K = {k}")
        low = head + over + (k + m) * scale + gap
        if magnified:
            zoom = min(room / (t.bk + t.bn), 270 / (t.bk + t.bm))
            words = "The same block, magnified: its slices of A and B, its tile of C"
            low = canvas.lines(0, low + 22, words, width=at.width, size=at.small + 0.5) + 18
            left = (at.width - ((t.bk + t.bn) * zoom + gap)) / 2 + side / 2
            small = _Product(canvas, left, low + over - 8, t.bm, t.bn, t.bk, zoom, gap)
            small.box(
                "A", 0, 0, t.bm, t.bk, fill=VERMILION, alpha=0.3, edge=VERMILION, hatch="////"
            )
            small.box(
                "B", 0, 0, t.bk, t.bn, fill=VERMILION, alpha=0.3, edge=VERMILION, hatch="////"
            )
            small.box("C", 0, 0, t.bm, t.bn, fill=BLUE, alpha=0.45, edge=None)
            if t.tm:
                high, wide = (1, 1) if "REG_TILE" in p.params else (t.tm, t.tn)
                if t.wm:
                    high, wide = 0, 0
                small.grid("C", high, wide, lw=0.4, alpha=0.4)
            for r, c, rows, cols in pieces:
                small.box("A", r, 0, rows, t.bk, fill=GREEN, edge=None)
                small.box("B", 0, c, t.bk, cols, fill=GREEN, edge=None)
                small.box("C", r, c, rows, cols, fill=GREEN, edge=GREEN, lw=0.6)
            if t.wm:
                small.grid("C", t.wm, t.wn, lw=1.0, colour=PURPLE)
                wr, wc = element[0] // t.wm, element[1] // t.wn
                small.box("C", wr * t.wm, wc * t.wn, t.wm, t.wn, edge=PURPLE, lw=2.6)
            small.outlines()
            small.names(f"{t.bm}", f"{t.bn}", f"{t.bk}")
            low += over - 8 + (t.bk + t.bm) * zoom + gap
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
    if caption is None:
        caption = (
            f"{p.kernel.name} with {params_text}: {counts[0] * counts[1]} blocks; the marked one "
            f"computes rows {row0}–{min(row0 + t.bm, m) - 1}, columns "
            f"{col0}–{min(col0 + t.bn, n) - 1} of C."
        )
    return both(draw, alt, caption)


# -- threads -------------------------------------------------------------------------------------


def thread_hierarchy(p: Plan, *, caption: str | None = None) -> Figure:
    """A launch from the grid to a warp's lanes: blocks of the grid, threads of a block by warp.

    Blocks and threads are drawn where their elements of C lie: where the grid's x counts rows of C, x
    runs down.
    """
    gx, gy, gz = p.grid
    bx, by, bz = p.block
    threads = bx * by * bz
    warps = math.ceil(threads / WARP)
    lanes = min(WARP, threads)
    down = by * bz > 1 and "M" in p.kernel.grid[0] and "N" not in p.kernel.grid[0]
    # lines of a block along x: as it is numbered, or 32 a line where it has one dimension
    line_of = bx if by * bz > 1 else min(bx, WARP)
    lines = math.ceil(threads / line_of)
    cols, rows = (lines, line_of) if down else (line_of, lines)
    across, along_y = (gy, gx) if down else (gx, gy)
    shown_x, shown_y, shown_rows = min(across, 12), min(along_y, 12), min(rows, 40)

    def draw(at: Column) -> Canvas:
        canvas, left, top = Canvas(at), 4.0 * (not at.narrow), 20.0
        tiny, title = at.tiny + 0.5, at.small + 0.5
        edge = min(150 / max(shown_x, shown_y), 30.0)
        cell = min(240 / cols, 240 / shown_rows, 16.0)
        grid_h, block_h = shown_y * edge, shown_rows * cell
        bx0 = at.width - max(cols * cell, 150)
        words = f"grid: {gx} × {gy}{f' × {gz}' if gz > 1 else ''} blocks"
        canvas.text(left, 8, words, size=title, weight="bold")
        for i in range(shown_y):
            for j in range(shown_x):
                chosen = i == 0 and j == 0
                canvas.rect(
                    left + j * edge, top + i * edge, edge - 2, edge - 2,
                    fill=BLUE if chosen else GREY, alpha=0.5 if chosen else 0.18, lw=1.4 if chosen else 0.7,
                )  # fmt: skip
        low = top + grid_h
        if shown_x < across or shown_y < along_y:
            canvas.text(left, low + 8, f"{shown_y} × {shown_x} of them drawn", size=tiny)
            low += at.tiny + 3
        canvas.text(left, low + 8, "x runs down, y to the right" if down else "x runs to the right",
                    size=tiny)  # fmt: skip
        low += 8
        words = f"block: {bx} × {by}{f' × {bz}' if bz > 1 else ''} = {threads} threads"
        from_x, from_y = left + edge - 2, top + edge - 2
        if at.narrow:  # the block stands below the grid
            bx0, top = 0.0, low + 38
        else:
            canvas.line(from_x, from_y - edge + 2, bx0 - 3, top, lw=0.7, alpha=0.5)
            canvas.line(from_x, from_y, bx0 - 3, top + block_h, lw=0.7, alpha=0.5)
        canvas.text(bx0, top - 12, words, size=title, weight="bold")
        shown = threads if down else min(threads, shown_rows * cols)
        for warp in range(math.ceil(shown / WARP)):
            t, end = warp * WARP, min((warp + 1) * WARP, shown)
            while t < end:  # a warp is drawn as the pieces of lines that it covers
                count = min(line_of - t % line_of, end - t)
                at_x, at_y, wide, high = t % line_of, t // line_of, count, 1
                if down:
                    at_x, at_y, wide, high = at_y, at_x, 1, min(count, max(0, shown_rows - at_x))
                canvas.rect(
                    bx0 + at_x * cell, top + at_y * cell, wide * cell, high * cell,
                    fill=(BLUE, VERMILION, GREEN, PURPLE)[warp % 4], alpha=0.9 if warp == 0 else 0.35,
                    edge=None,
                )  # fmt: skip
                t += count
        if cell >= 5:
            edges = [bx0 + j * cell for j in range(cols + 1)]
            canvas.segments([(x, top, x, top + block_h) for x in edges], lw=0.3, alpha=0.4)
        edges = [top + i * cell for i in range(shown_rows + 1)]
        canvas.segments([(bx0, y, bx0 + cols * cell, y) for y in edges], lw=0.3, alpha=0.5)
        note = f"{warps} warps" + (
            f", {shown_rows * cols // WARP} drawn" if shown_rows < rows and not down else ""
        )
        note += "; colours change from warp to warp"
        note += "; x runs down" if down else ""
        low = max(low, canvas.lines(bx0, top + block_h + 8, note, width=at.width - bx0, size=tiny))
        words = f"warp 0: {lanes} lanes that run together (lane number; threadIdx.x, threadIdx.y)"
        room = at.width if at.narrow else math.inf
        y = canvas.lines(0, low + 30, words, width=room, size=title, weight="bold") + 10
        line = WARP // 2 if at.narrow else WARP  # lanes drawn side by side
        lane_cell, tall = at.width / line, at.tiny + 8.5
        for first in range(0, lanes, line):
            last = min(first + line, lanes) - 1
            for lane in range(first, last + 1):
                x = (lane - first) * lane_cell
                canvas.rect(x, y, lane_cell, tall, fill=BLUE, alpha=0.9, edge=None)
                canvas.text(
                    x + lane_cell / 2, y + tall / 2, str(lane), size=tiny, ha="center",
                    colour="#ffffff",
                )  # fmt: skip
                canvas.line(x, y, x, y + tall, lw=0.5, alpha=0.6)
            middle = (first, lanes // 2) if lanes > 2 and line == WARP else (first,)
            for lane in dict.fromkeys((*middle, last)):
                ha: Any = "left" if lane == first else "right" if lane == last else "center"
                where = {"left": 0.0, "right": 1.0, "center": 0.5}[ha]
                x = (lane - first + where) * lane_cell
                canvas.text(x, y + tall + 10, f"({lane % bx}, {lane // bx})", size=tiny, ha=ha)
            y += tall + 22
        return canvas.end(y - 2)

    along = (
        "32 neighbours in x" if bx % WARP == 0
        else f"{WARP // bx} rows of {bx} threads" if WARP % bx == 0
        else "32 threads in the order of their numbers, across rows"
    )  # fmt: skip
    alt = (
        f"Launch of {p.kernel.name} for M = {p.M}, N = {p.N}, K = {p.K}: a grid of {gx} by {gy} "
        f"blocks, each of {bx} by {by} threads, {threads} in all, in {warps} warps of 32. Warp 0 is "
        f"threads 0 to {lanes - 1}: {along}."
        + (" x counts rows of C and is drawn downwards." if down else "")
    )
    if caption is None:
        caption = (
            f"{p.kernel.name} for M = {p.M}, N = {p.N}: {gx * gy * gz} blocks of {warps} warps. "
            f"threadIdx.x counts fastest, so a warp is {along}"
            + (", which this kernel lays down a column of C." if down else ".")
        )
    return both(draw, alt, caption)


# -- memories ------------------------------------------------------------------------------------


def memory_hierarchy(gpu: str | Gpu = "h200", *, caption: str | None = None) -> Figure:
    """The memories of a GPU from registers to DRAM: size, who sees them, and known bandwidths.

    Sizes and the DRAM bandwidth are the specification's; shared memory's bandwidth is 32 banks of
    4 bytes a clock on every SM at the boost clock.
    """
    card = gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
    lim = card.limits
    registers = lim.registers_per_sm * WORD
    shared_rate = BANKS * WORD * card.sms * card.boost_mhz / 1e3
    levels = [
        ("registers", "one thread", f"{bytes_text(registers)} an SM, {bytes_text(registers * card.sms)} in all", ""),
        (
            "shared memory", "one block",
            f"up to {bytes_text(lim.shared_per_sm)} an SM, {bytes_text(lim.shared_per_sm * card.sms)} in all",
            f"{number(shared_rate)} GB/s",
        ),
        ("L2 cache", "the whole GPU", bytes_text(card.l2_bytes), ""),
        ("global memory (DRAM)", "the whole GPU", bytes_text(card.memory_bytes), f"{number(card.bandwidth_gbs)} GB/s"),
    ]  # fmt: skip

    def draw(at: Column) -> Canvas:
        canvas, small, gap = Canvas(at), at.small, 22.0
        # on a phone every fact of a memory has a line of its own
        box, step = (82.0, 8.0) if at.narrow else (46.0, 26.0)
        y = 2.0
        for i, (name, scope, size, rate) in enumerate(levels):
            colour = (BLUE, GREEN, GREY, VERMILION)[i]
            inset = (len(levels) - 1 - i) * step
            w, x = at.width - 2 * inset - 2, inset + 12
            canvas.rect(inset + 1, y, w, box, fill=colour, alpha=0.2, edge=colour, lw=1.6)
            canvas.text(x, y + 15, name, size=at.font, weight="bold")
            seen = f"seen by {scope}"
            if at.narrow:
                lines = [seen, *([rate] if rate else []), *wrap(size, small, w - 16)]
                for k, words in enumerate(lines):
                    canvas.text(x, y + 33 + k * (small + 4), words, size=small)
            else:
                canvas.text(inset + w - 8, y + 15, seen, size=small, ha="right")
                canvas.text(x, y + 33, size, size=small)
                canvas.text(inset + w - 8, y + 33, rate, size=small, ha="right")
            if i < len(levels) - 1:
                middle = at.width / 2
                canvas.arrow(middle, y + box + 1.5, middle, y + box + gap - 1.5, both=True)
            y += box + gap
        words = "smaller, nearer, faster above; larger, farther, slower below"
        y = canvas.lines(at.width / 2, y - 2, words, width=at.width, size=small, ha="center")
        return canvas.end(y + 14)

    ratio = shared_rate / card.bandwidth_gbs
    alt = (
        f"Memories of {card.name}, from the nearest: "
        + "; ".join(
            f"{name}, {size}, seen by {scope}{f', {rate}' if rate else ''}"
            for name, scope, size, rate in levels
        )
        + f". Shared memory delivers {number(ratio)} times as many bytes a second as DRAM."
    )
    if caption is None:
        caption = f"{card.name}, {card.sms} SMs. Sizes and DRAM bandwidth: {card.source}."
    return both(draw, alt, caption)


# -- loop orders ---------------------------------------------------------------------------------

_ORDERS: Mapping[str, Mapping[str, str]] = {
    "ijk": {"A": "row", "B": "column", "C": "stays"},
    "ikj": {"A": "stays", "B": "row", "C": "row"},
    "jki": {"A": "column", "B": "stays", "C": "column"},
}


def loop_orders(*, caption: str | None = None) -> Figure:
    """Which way the inner loop of the orders ijk, ikj and jki walks through A, B and C (row-major)."""
    cells, cell = 5, 15.0
    side, mid = cells * cell, 2.5 * cell
    words = {"row": "along a row", "column": "down a column", "stays": "stays"}
    stride = {"row": "1 element", "column": "a whole row", "stays": "none"}
    colours = {"row": GREEN, "column": VERMILION, "stays": BLUE}

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny + 0.5 * (not at.narrow)
        # on a phone an order's name stands over its matrices
        left, gap, over = (17.0, 31.0, 24.0) if at.narrow else (66.0, 46.0, 0.0)
        pitch = side + over + 44 + small + tiny
        for i, (order, walks) in enumerate(_ORDERS.items()):
            y = 24.0 + over + i * pitch
            inner = f"inner loop: {order[-1]}"
            if at.narrow:
                canvas.text(0, y - 38, order, size=at.font + 2, weight="bold")
                canvas.text(36, y - 38, inner, size=small)
            else:
                canvas.text(0, y + side / 2 - 8, order, size=at.font + 2, weight="bold")
                canvas.text(0, y + side / 2 + 8, inner, size=tiny + 0.5)
            for j, matrix in enumerate("ABC"):
                x = left + j * (side + gap)
                walk = walks[matrix]
                rows, cols = {"A": ("i", "k"), "B": ("k", "j"), "C": ("i", "j")}[matrix]
                canvas.text(
                    x + side / 2, y - 9, f"{matrix}[{rows}, {cols}]", size=small, ha="center"
                )
                hot = {
                    "row": (0, 2, cells, 1), "column": (2, 0, 1, cells), "stays": (2, 2, 1, 1)
                }[walk]  # fmt: skip
                u, v, across, down = (cell * part for part in hot)
                canvas.rect(x + u, y + v, across, down, fill=colours[walk], alpha=0.45, edge=None)
                steps = [cell * i for i in range(cells + 1)]
                canvas.segments(
                    [(x, y + z, x + side, y + z) for z in steps]
                    + [(x + z, y, x + z, y + side) for z in steps],
                    lw=0.5,
                )
                if walk == "row":
                    canvas.arrow(x + 3, y + mid, x + side - 3, y + mid, lw=1.6)
                elif walk == "column":
                    canvas.arrow(x + mid, y + 3, x + mid, y + side - 3, lw=1.6)
                else:
                    canvas.axes.plot([x + mid], [y + mid], "o", ms=6, color=INK, mew=0)
                low = y + side + 10
                canvas.text(x + side / 2, low, words[walk], size=small, ha="center")
                low += small + 2.5
                canvas.text(x + side / 2, low, f"stride: {stride[walk]}", size=tiny, ha="center")
        return canvas.end(len(_ORDERS) * pitch + 8)

    told = [
        f"{order}: " + join([f"{matrix} {words[walk]}" for matrix, walk in walks.items()])
        for order, walks in _ORDERS.items()
    ]
    alt = (
        "Which way the inner loop walks through the row-major matrices. "
        + "; ".join(told)
        + ". Walking along a row touches neighbours in memory; down a column skips a whole row each time."
    )
    if caption is None:
        caption = (
            "One step of the inner loop, for three loop orders. Arrows show which way it walks; "
            "a dot means that the element stays."
        )
    return both(draw, alt, caption)


# -- a ring of stages ----------------------------------------------------------------------------


def _ring_schedule(stages: int, steps: int, fill: float) -> list[tuple[float, float, float, float]]:
    """Of each step: when its copy is asked for and lands, when its products begin and end.

    A copy takes `fill`, the products of a step 1; copies into different stages overlap, products do
    not, and a stage may be filled again when its products are complete.
    """
    found: list[tuple[float, float, float, float]] = []
    for step in range(steps):
        free = found[step - stages][3] if step >= stages else 0.0
        asked = max(free, found[-1][0]) if found else 0.0
        begin = max(asked + fill, found[-1][3]) if found else asked + fill
        found.append((asked, asked + fill, begin, begin + 1.0))
    return found


def ring(
    stages: Sequence[int] = (1, 3),
    *,
    steps: int = 7,
    fill: float = 2.0,
    caption: str | None = None,
) -> Figure:
    """Rings of these numbers of stages over time: tiles on their way, waiting, and being multiplied.

    A model, not a measurement: a copy takes `fill` times as long as the products of a step.
    Raises DataError for a ring without stages, no step, or a negative time.
    """
    if not stages or min(stages) < 1 or steps < 1 or not 0 <= fill < math.inf:
        raise DataError(f"{stages=}, {steps=}, {fill=}: give at least 1 stage and step, fill >= 0")
    plans = [(count, _ring_schedule(count, steps, fill)) for count in stages]
    longest = max(schedule[-1][3] for _, schedule in plans)
    copies = _Mark("tile on its way", BLUE, 0.28, BLUE)
    waits = _Mark("landed, waits", None, 1.0, GREY)
    products = _Mark("its products run", VERMILION, 0.4, VERMILION)

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        thick, gap, head = 16.0, 4.0, 24.0
        left = 2.0 if at.narrow else 96.0  # on a phone a lane's name stands over it
        span = at.width - left - 8
        y = _draw_key(canvas, [copies, waits, products])

        def bar(mark: _Mark, begin: float, end: float, words: str) -> None:
            if end <= begin:
                return
            x, w = left + span * begin / longest, span * (end - begin) / longest
            canvas.rect(x, y, w, thick, fill=mark.fill, alpha=mark.alpha, edge=mark.edge, lw=0.9)
            if w >= text_width(words, small) + 3:
                canvas.text(x + w / 2, y + thick / 2, words, size=small, ha="center")

        def lane(name: str) -> None:
            nonlocal y
            if at.narrow:
                canvas.text(left + 3, y + 6, name, size=small)
                y += 15
            else:
                canvas.text(left - 6, y + thick / 2, name, size=small, ha="right")

        for count, schedule in plans:
            title = f"{count} stage{'s' * (count != 1)}"
            canvas.text(0, y + head / 2, title, size=at.font, weight="bold")
            y += head
            top = y
            for stage in range(min(count, steps)):
                lane(f"stage {stage}")
                for step in range(stage, steps, count):
                    asked, landed, begin, end = schedule[step]
                    bar(copies, asked, landed, str(step))
                    bar(waits, landed, begin, "")
                    bar(products, begin, end, str(step))
                y += thick + gap
            lane("Tensor Cores")
            for step, (_, _, begin, end) in enumerate(schedule):
                bar(products, begin, end, str(step))
            y += thick + gap
            canvas.line(left, top - 3, left, y, lw=0.8)
            y += 8
        canvas.line(left, y, left + span, y, lw=0.8)
        for tick in range(int(longest + 1e-9) + 1):
            x = left + span * tick / longest
            canvas.line(x, y, x, y + 4, lw=0.8)
            if tick % 5 == 0:
                half = text_width(str(tick), small) / 2
                canvas.text(max(x, half), y + 11, str(tick), size=small, ha="center")
        words = "time, in products of one step"
        canvas.text(left + span / 2, y + 25, words, size=small, ha="center")
        return canvas.end(y + 34)

    told = []
    for count, schedule in plans:
        total = schedule[-1][3]
        told.append(
            f"{count} stage{'s' * (count != 1)}: {steps} steps take {number(total)}, the Tensor Cores "
            f"are busy for {number(100 * steps / total)} % of the time"
        )
    alt = (
        f"A model of a ring of stages, where a copy takes {number(fill)} times as long as the "
        f"products of a step. {'; '.join(told)}."
    )
    if caption is None:
        caption = f"A model: a copy takes {number(fill)} steps. {'; '.join(told)}."
    return both(draw, alt, caption)
