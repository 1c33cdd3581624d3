"""A picture of chapter 14: how a kernel numbers tiles of C."""

from collections.abc import Sequence

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column, Mark, draw_key, text_width
from helpers.ladder import model
from helpers.wording import counted
from nogpu.errors import ConfigError


def tile_order(
    rows: int = 8, columns: int = 8, *, running: int = 12, groups: Sequence[int] = (1, 4),
    turn: bool = False,
) -> Figure:  # fmt: skip
    """C in tiles, numbered as blocks take them, once for each height of a band in `groups`.

    rows, columns: of tiles in C. running: blocks that run together, the first ones; their tiles are
    shaded, and so are the rows of tiles of A and the columns of tiles of B that they read. The
    order is `model.tile_order`, with its `turn`. Raises ConfigError for a number below 1, more
    blocks than tiles, or no group.
    """
    if not groups or not 1 <= running <= rows * columns:
        raise ConfigError(
            f"{running=}, groups={tuple(groups)}: give 1 to {rows * columns} blocks and one group"
        )
    orders = [(group, model.tile_order(rows, columns, group, turn=turn)) for group in groups]
    titles = ["numbered row by row" if n == 1 else f"in bands of {n} rows" for n in groups]
    marks = [
        Mark(f"the {running} blocks that run first", BLUE, lw=0.6),
        Mark("what they read of A", GREEN, 0.55, lw=0.6),
        Mark("what they read of B", VERMILION, 0.55, lw=0.6),
    ]

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny
        y = draw_key(canvas, marks) - 2
        strip, gap = 11.0, 4.0  # of A to the left of C and of B above it, and from them to C
        side = 26.0 if at.narrow else 22.0  # between panels
        across = 1 if at.narrow else len(orders)
        left = text_width("A", small) + 5
        room = (at.width - 2 - side * (across - 1)) / across - left - strip - gap
        cell = min(room / columns, 34.0)
        low = y
        for i, ((_, order), title) in enumerate(zip(orders, titles, strict=True)):
            x0 = 1 + i % across * (left + strip + gap + room + side) + left
            top = low + 8 if at.narrow and i else y
            canvas.text(x0, top + 8, title, size=at.font, weight="bold")
            b_top = top + 22
            x, c_top = x0 + strip + gap, b_top + strip + gap
            first = order[:running]
            a_rows, b_columns = {row for row, _ in first}, {column for _, column in first}
            canvas.text(x0 - 5, c_top + rows * cell / 2, "A", size=small, ha="right")
            canvas.text(x - gap - 2, b_top + strip / 2, "B", size=small, ha="right")
            for row in range(rows):
                fill = GREEN if row in a_rows else None
                canvas.rect(x0, c_top + row * cell, strip, cell, fill=fill, alpha=0.55, lw=0.6)
            for column in range(columns):
                fill = VERMILION if column in b_columns else None
                canvas.rect(x + column * cell, b_top, cell, strip, fill=fill, alpha=0.55, lw=0.6)
            for block, (row, column) in enumerate(order):
                box = x + column * cell, c_top + row * cell, cell, cell
                fill, ink = (BLUE, "#ffffff") if block < running else (None, INK)
                canvas.rect(*box, fill=fill, lw=0.6)
                canvas.centred(*box, block, size=tiny, colour=ink)
            a, b = len(a_rows), len(b_columns)
            words = f"{counted(a, 'row')} of A + {counted(b, 'column')} of B = {a + b}"
            wide = strip + gap + room + side - 6
            end = canvas.lines(x0, c_top + rows * cell + 13, words, width=wide, size=small)
            low = max(low, end + small)
        return canvas.end(low)

    parts = []
    for (_, order), title in zip(orders, titles, strict=True):
        a, b = (len(set(read)) for read in zip(*order[:running], strict=True))
        parts.append(
            f"{title}, they need {counted(a, 'tile row')} of A and {counted(b, 'tile column')} of B"
        )
    what = f"C in {rows} by {columns} tiles; the first {running} blocks run together."
    told_in_words = f"{'; '.join(parts)}."
    caption = f"{what} {told_in_words[0].upper()}{told_in_words[1:]}"
    ways = "Two ways" if len(orders) == 2 else counted(len(orders), "way")
    return both(draw, f"{ways} to number blocks. {caption}", caption)
