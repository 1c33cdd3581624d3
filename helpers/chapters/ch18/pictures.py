"""A picture of chapter 18: which lane holds which element of an mma."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from helpers.colours import BLUE, PALETTE
from helpers.draw.columns import INK, Column
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Mark, draw_key
from helpers.wording import join
from nogpu.errors import DataError

Holder = Callable[[int, int], tuple[int, int]]
"""From the row and column of an element to the lane that holds it, and the slot within that lane.
"""


@dataclass(frozen=True)
class _Pair:
    """Two neighbours that one lane holds in slots 2i and 2i + 1: where they lie."""

    lane: int
    pair: int
    row: int
    col: int
    rows: int
    cols: int

    @property
    def elements(self) -> str:
        """ "[2, 2–3]"."""

        def span(first: int, count: int) -> str:
            return str(first) if count == 1 else f"{first}–{first + count - 1}"

        return f"[{span(self.row, self.rows)}, {span(self.col, self.cols)}]"


def _pairs(name: str, rows: int, cols: int, holder: Holder) -> tuple[_Pair, ...]:
    """The pairs of an operand, by lane. Raises DataError where the formulas give no fragment."""
    by_slots: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for row in range(rows):
        for col in range(cols):
            lane, slot = holder(row, col)
            by_slots.setdefault((lane, slot // 2), []).append((slot % 2, row, col))
    pairs = []
    for (lane, pair), cells in sorted(by_slots.items()):
        (first, r0, c0), (second, r1, c1) = (sorted(cells) * 2)[:2]
        if (
            len(cells) != 2
            or (first, second) != (0, 1)
            or r1 - r0 + c1 - c0 != 1
            or min(r1 - r0, c1 - c0)
        ):
            where = join([f"{name}[{r}, {c}]" for _, r, c in cells])
            raise DataError(
                f"slots {2 * pair} and {2 * pair + 1} of lane {lane} hold {where}: no neighbours"
            )
        pairs.append(_Pair(lane, pair, r0, c0, r1 - r0 + 1, c1 - c0 + 1))
    return tuple(pairs)


def fragment_layout(operands: Mapping[str, tuple[int, int, Holder]], *, lane: int = 9) -> Figure:
    """Which lane holds which element of A, B and C of one mma, and all that one lane holds.

    operands: "A", "B" and "C", each with its rows, its columns, and the function that says for an
    element its lane and slot. Raises DataError if two slots 2i, 2i + 1 of a lane are no neighbours.
    """
    layout = {name: _pairs(name, *operands[name]) for name in "ABC"}
    mine = {name: [p for p in pairs if p.lane == lane] for name, pairs in layout.items()}
    if not all(mine.values()):
        raise DataError(f"{lane=} holds nothing of some operand; give 0 to 31")
    (m, k, _), (_, n, _) = operands["A"], operands["B"]
    most = max(p.pair for pairs in layout.values() for p in pairs)
    slots = [Mark(f"slots {2 * i}, {2 * i + 1}", PALETTE[i], 0.3, lw=0.5) for i in range(most + 1)]
    elements = [f"of {name} {join([p.elements for p in mine[name]])}" for name in "ABC"]

    def draw(at: Column) -> Canvas:
        canvas, size = Canvas(at), at.small if not at.narrow else at.tiny
        gap, over = 20.0, at.small + 8

        head = draw_key(canvas, [*slots, Mark(f"lane {lane}", BLUE)]) - 2

        def grid(name: str, x: float, y: float, cell: float) -> None:
            rows, cols, _ = operands[name]
            canvas.text(
                x, y - at.small / 2 - 3, f"{name}: {rows} x {cols}", size=at.small, weight="bold"
            )
            for pair, mark in enumerate(
                slots
            ):  # the pairs of a slot fill a rectangle: one patch for all
                part = [p for p in layout[name] if p.pair == pair]
                if part:
                    left, top = min(p.col for p in part), min(p.row for p in part)
                    across = max(p.col + p.cols for p in part) - left
                    down = max(p.row + p.rows for p in part) - top
                    if across * down != 2 * len(part):
                        raise DataError(f"slots {2 * pair}, {2 * pair + 1} of {name} lie apart")
                    w, h = across * cell, down * cell
                    canvas.marked(x + left * cell, y + top * cell, w, h, mark, edge=None)
            one, right, low = layout[name][0], x + cols * cell, y + rows * cell
            starts = [y + i * cell for i in range(0, rows, one.rows)]
            ends = [x + j * cell for j in range(0, cols, one.cols)]
            lines = [(x, v, right, v) for v in starts] + [(u, y, u, low) for u in ends]
            canvas.segments(lines, lw=0.4)
            for p in layout[name]:
                box = x + p.col * cell, y + p.row * cell, p.cols * cell, p.rows * cell
                chosen = p.lane == lane
                if chosen:
                    canvas.rect(*box, fill=BLUE, edge=INK)
                ink = "#ffffff" if chosen else INK
                canvas.centred(*box, p.lane, size=size, colour=ink, bold=chosen)
            canvas.rect(x, y, cols * cell, rows * cell, lw=1.4)

        if at.narrow:
            cell = (at.width - 10) / k
            top = head + over
            grid("A", 1, top, cell)
            low = top + m * cell + over + 6
            grid("B", 1, low, cell)
            grid("C", at.width - 1 - n * cell, low, cell)
            return canvas.end(low + max(k, m) * cell + 4)
        # as in the product: B over C, A to the left of C
        cell = (at.width - 2 - gap) / (k + n)
        right, top = 1 + k * cell + gap, head + over
        grid("B", right, top, cell)
        low = top + k * cell + over + 6
        grid("A", 1, low, cell)
        grid("C", right, low, cell)
        y = top + 8.0
        canvas.text(1, y, f"lane {lane} holds", size=at.font, weight="bold")
        for name in "ABC":
            y += 8
            for p in mine[name]:
                y += at.small + 5
                words = f"{name}{p.elements} in slots {2 * p.pair}, {2 * p.pair + 1}"
                canvas.text(1, y, words, size=at.small)
        return canvas.end(low + m * cell + 4)

    alt = (
        f"Grids of A, {m} x {k}, B, {k} x {n}, and C, {m} x {n}: in each pair of neighbours the "
        f"number of the lane that holds it. Lane {lane} holds {'; '.join(elements)}."
    )
    caption = (
        "The number is the lane that holds the two neighbours; the colour says in which slots. "
        f"Lane {lane} holds {'; '.join(elements)}."
    )
    return both(draw, alt, caption)
