"""A picture of work dealt to the SMs of a GPU: tiles of C, or slices of them."""

from collections.abc import Sequence

from helpers.colours import BLUE
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column
from helpers.ladder.kernel import cdiv
from nogpu.device import Gpu
from nogpu.errors import ConfigError

ACROSS = 12
"""SMs in a row of the drawing."""


def tiles_per_sm(
    size: int, tiles: Sequence[tuple[int, int]], gpu: Gpu, *, slices: Sequence[int] = ()
) -> Figure:
    """How many tiles of a size x size product each SM gets, one panel for each (BM, BN) of `tiles`.

    Tiles are dealt one by one, SM after SM. tiles: (BM, BN), a panel each. slices: of K that each
    panel's tiles are cut into; then slices are dealt. Raises ConfigError: a size, a tile or slices
    below 1, no tile, or slices for some tiles only.
    """
    cuts = tuple(slices) or (1,) * len(tiles)
    small = size < 1 or not tiles or any(min(tile) < 1 for tile in tiles) or min(cuts) < 1
    if small or len(cuts) != len(tiles):
        raise ConfigError(
            f"{size=}, tiles={tuple(tiles)}, {slices=}: give a size, tiles of at least 1 x 1, and "
            "no slices or as many numbers of at least 1 as tiles"
        )
    heads = [
        f"{bm}x{bn}" + (f", {s} slices" if s > 1 else "")
        for (bm, bn), s in zip(tiles, cuts, strict=True)
    ]
    what_each = ["slices" if s > 1 else "tiles" for s in cuts]
    counts = [cdiv(size, bm) * cdiv(size, bn) * s for (bm, bn), s in zip(tiles, cuts, strict=True)]
    shares = [
        [count // gpu.sms + (sm < count % gpu.sms) for sm in range(gpu.sms)] for count in counts
    ]
    most = max(max(each) for each in shares)

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        side = 20.0
        across = 1 if at.narrow else len(tiles)
        panel = (at.width - 2 - side * (across - 1)) / across
        cell = min(panel / ACROSS, 22.0)
        y = low = 4.0
        for p, (head, each, count) in enumerate(zip(heads, shares, counts, strict=True)):
            x0 = 1 + p % across * (panel + side)
            top = low + 12 if at.narrow and p else y
            canvas.text(
                x0, top + 6, f"{head}: {count} {what_each[p]}", size=at.small + 0.5, weight="bold"
            )
            for sm, share in enumerate(each):
                box = x0 + sm % ACROSS * cell, top + 18 + sm // ACROSS * cell, cell, cell
                canvas.rect(*box, fill=BLUE if share else None, alpha=share / most, lw=0.5)
                if share:
                    ink = "#ffffff" if share / most > 0.6 else INK
                    canvas.centred(*box, share, size=at.tiny, colour=ink)
            words = f"busiest: {max(each)}, idle: {each.count(0)} of {gpu.sms} SMs"
            end = top + 18 + cdiv(gpu.sms, ACROSS) * cell + 11
            low = max(low, canvas.lines(x0, end, words, width=panel, size=at.small) + at.small)
        return canvas.end(low)

    summary = "; ".join(
        f"with tiles of {head} there are {count}, the busiest SM has {max(each)} and "
        f"{each.count(0)} SMs have none"
        for head, each, count in zip(heads, shares, counts, strict=True)
    )
    what = f"{size} x {size} on the {gpu.sms} SMs of an {gpu.name.removeprefix('NVIDIA ')}"
    alt = f"Tiles of C dealt to SMs, {what}: {summary}."
    what = f"Each square is an SM, its number the tiles or slices that it gets: {what}."
    return both(draw, alt, what)
