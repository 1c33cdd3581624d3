"""What blocks at work together read, by the order in which they walk C."""

from helpers.ladder import model
from helpers.ladder.kernel import Kernel, cdiv, geometry
from helpers.ladder.rungs import find


def elements(kernel: Kernel | str, n: int, group: int, *, running: int) -> int:
    """Different elements of A and B that the first blocks need for each k of an n x n product.

    group: rows of tiles in a band, 1 for row by row. running: how many blocks are at work together.
    """
    bm, bn = geometry(find(kernel), n, n, n).tile
    together = model.tile_order(cdiv(n, bm), cdiv(n, bn), group)[:running]
    rows, columns = ({tile[i] for tile in together} for i in (0, 1))
    return len(rows) * bm + len(columns) * bn
