"""A picture of chapter 19: which tile lies in which stage of the ring, what must have arrived."""

from __future__ import annotations

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.draw.columns import Column
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Mark, draw_key, text_width
from helpers.wording import counted
from nogpu.errors import ConfigError


def role(stage: int, tile: int, stages: int) -> tuple[int, str]:
    """The tile in a stage while `tile` is multiplied, and what happens to it.

    Multiplied; awaited: it must have landed when this tile is done; issued: its copies start now;
    under way. With two stages the tile that is issued is awaited too, and counts as issued.
    """
    ahead = (stage - tile) % stages
    if ahead == 0:
        return tile, "multiplied"
    if ahead == stages - 1:
        return tile + ahead, "issued"
    return tile + ahead, "awaited" if ahead == 1 else "under way"


def ring(stages: int, tiles: int = 6) -> Figure:
    """The stages of a ring by the tile that is multiplied: a row a stage, a column a tile.

    Raises ConfigError for fewer than two stages, or fewer tiles than two.
    """
    if stages < 2 or tiles < 2:
        raise ConfigError(
            f"{stages=}, {tiles=}: one stage is read while another is filled; give two or more"
        )
    grid = [[role(stage, tile, stages) for tile in range(tiles)] for stage in range(stages)]
    seen = {what for row in grid for _, what in row}
    looks = {
        "multiplied": Mark("multiplied now", GREEN, 0.45, GREEN),
        "awaited": Mark("must have landed by the end of this column", BLUE, 0.35, BLUE),
        "under way": Mark("under way", BLUE, 0.12, BLUE),
        "issued": Mark("its copies are issued now", VERMILION, 0.25, VERMILION),
    }
    marks = [mark for what, mark in looks.items() if what in seen]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        size = at.small
        side = text_width("stage 0", size) + 8
        top = draw_key(canvas, marks) + 2 * size + 12
        wide = (at.width - side - 4) / tiles
        high = 26.0
        canvas.text(side, top - 1.6 * size - 6, "while this tile is multiplied", size=size)
        for tile in range(tiles):
            x = side + tile * wide
            canvas.text(x + wide / 2, top - 8, str(tile), size=size, ha="center")
        for stage, row in enumerate(grid):
            y = top + stage * high
            canvas.text(0, y + high / 2, f"stage {stage}", size=size)
            for tile, (content, what) in enumerate(row):
                box = side + tile * wide + 1, y + 1, wide - 2, high - 2
                canvas.marked(*box, looks[what])
                canvas.centred(*box, content, size=size, bold=what == "multiplied")
        return canvas.end(top + stages * high + 6)

    events = "; ".join(
        f"while tile {tile} is multiplied, stage {tile % stages} holds it and tile "
        f"{tile + stages - 1} is copied to stage {(tile + stages - 1) % stages}"
        for tile in range(2)
    )
    alt = (
        f"A ring of {stages} stages over {tiles} tiles along K: {events}. Tile 1 must have landed "
        "when tile 0 is done."
    )
    caption = (
        f"A ring of {stages} stages: the number is the tile in the stage. A tile's copies are issued "
        f"{counted(stages - 1, 'column')} before it is multiplied, into the stage that was read in "
        "the column before."
    )
    return both(draw, alt, caption)
