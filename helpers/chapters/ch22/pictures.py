"""A picture of chapter 22: when a tile of C leaves."""

from helpers.colours import BLUE, GREY, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.wording import number
from nogpu.errors import DataError


def _leaving(tiles: int, store: float, during: bool) -> list[tuple[float, float, float]]:
    """Of each tile: when its products begin, end, and when it has been stored."""
    times: list[tuple[float, float, float]] = []
    free, stored = 0.0, 0.0
    for _ in range(tiles):
        end = free + 1.0
        stored = max(end, stored) + store
        times.append((free, end, stored))
        free = end if during else stored
    return times


def leaving(tiles: int = 4, *, store: float = 0.15) -> Figure:
    """Tiles of one SM over time: stored when complete, and stored during the next one's products.

    A model: the products of a tile take 1, its store `store`. Raises DataError for no tile, or a
    store that takes less than nothing or longer than a tile's products.
    """
    if tiles < 1 or not 0 <= store <= 1:
        raise DataError(
            f"{tiles=}, {store=}: give at least a tile, and a store of 0 to 1 of its time"
        )
    plans = [(during, _leaving(tiles, store, during)) for during in (False, True)]
    longest = max(spans[-1][2] for _, spans in plans)
    works = Mark("its products run", VERMILION, 0.4, VERMILION)
    leaves = Mark("it is stored", BLUE, 0.4, BLUE)
    parts = [
        f"{'during the next one' if during else 'when it is complete'}: {tiles} tiles take "
        f"{number(spans[-1][2])}, the Tensor Cores busy for {number(100 * tiles / spans[-1][2])} %"
        for during, spans in plans
    ]

    def draw(at: Column) -> Canvas:
        canvas, small, thick = Canvas(at), at.small, 17.0
        left = text_width("Tensor Cores", small) + 7
        span = at.width - left - 4
        y = draw_key(canvas, [works, leaves])
        for words, (_, spans) in zip(parts, plans, strict=True):
            words = f"Stored {words}"
            y = canvas.lines(0, y + small, words, width=at.width, size=small, weight="bold")
            y += small + 2
            for name, mark, first in (("Tensor Cores", works, 0), ("store of C", leaves, 1)):
                canvas.text(left - 5, y + thick / 2, name, size=small, ha="right")
                canvas.rect(left, y, span, thick, edge=GREY, lw=0.5)
                for tile, times in enumerate(spans):
                    x, end = (left + span * t / longest for t in times[first : first + 2])
                    canvas.marked(x, y, end - x, thick, mark, lw=0.9)
                    canvas.fitted(x, y, end - x, thick, str(tile), room=2)
                y += thick + 3
            y += 7
        canvas.text(left + span / 2, y + 2, "time", size=small, ha="center")
        return canvas.end(y + 12)

    alt = f"Two time lines of {tiles} tiles on one SM. A tile is stored {'; stored '.join(parts)}."
    caption = f"A model: storing a tile takes {number(100 * store)} % of the time of its products."
    return both(draw, alt, caption)
