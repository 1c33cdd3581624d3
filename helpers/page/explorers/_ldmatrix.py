"""Explorer below chapter 18: 32 addresses go into an ldmatrix, four 8 x 8 matrices come out."""

from helpers.colours import BLUE, VERMILION, tint
from helpers.ladder.fragments import holder_a
from helpers.page.explorers._fragments import span
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice
from helpers.page.explorers.fallbacks import rect, svg, words

WAYS = {"plain": "as they lie, for A", "trans": "turned on their sides (.trans), for B"}
LANE = 9  # with which it begins
SIDE = 16
"""Rows and columns of the piece of a tile; a matrix is a quarter of it, 8 x 8."""
GIVES = [(lane % SIDE, lane // SIDE * 8) for lane in range(32)]
"""Row and first column whose address a lane gives, as in kernels/cores/18_mma_ldmatrix.cu."""


def receiver(way: str, row: int, col: int) -> tuple[int, int]:
    """Lane, slot 0 to 7 that element (row, col) goes to; slots 2i, 2i + 1 share register i."""
    r, c = (row % 8, col % 8) if way == "plain" else (col % 8, row % 8)
    return holder_a(row // 8 * 8 + r, col // 8 * 8 + c)


PLACES = [(row, col) for row in range(SIDE) for col in range(SIDE)]
TABLES = {way: [lane * 8 + slot for lane, slot in (receiver(way, *at) for at in PLACES)]
          for way in WAYS}  # fmt: skip
"""Of each element, row by row, lane * 8 + slot."""


def read(state: State) -> Reading:
    """The row that a lane gives, who receives it, and what the lane receives itself."""
    way, lane = state["way"], state["lane"]
    row, col = GIVES[lane]
    to = sorted({receiver(way, row, c)[0] for c in range(col, col + 8)})
    gets = []
    for register in range(4):
        pair = [PLACES[TABLES[way].index(8 * lane + 2 * register + half)] for half in (0, 1)]
        rows, cols = ([at[i] for at in pair] for i in (0, 1))
        gets.append(f"r{register}\xa0[{span(rows)},\xa0{span(cols)}]")
    shown = {
        "lane": str(lane), "matrix": str(lane // 8),
        "gives": f"row {row}, columns {col} to {col + 7}",
        "to": f"{to[0]} to {to[-1]}" if way == "plain" else ", ".join(map(str, to)),
        "gets": ", ".join(gets), "t": str(2 * (lane % 4)), "next": str(2 * (lane % 4) + 1),
        "g": str(lane // 4),
    }  # fmt: skip
    return Reading(way, shown)


def _picture() -> str:
    """The piece: in each pair its receiver, the given row framed, in blue what the lane gets."""
    body, w, h, left = "", 16, 14, 31
    for own, (row, col) in enumerate(GIVES):
        x, ink = (26, "end") if col == 0 else (2 * left + SIDE * w - 26, "start")
        body += words(x, row * h + 11, f"{own}", ink, 10.5)
    for (row, col), key in zip(PLACES, TABLES["plain"], strict=True):
        if key % 2:
            continue
        wide, high = 2 * w, h
        lit, x, y = key // 8 == LANE, left + col * w, row * h
        given = tint(VERMILION, "0.35") if (row, col // 8 * 8) == GIVES[LANE] else "none"
        paint = BLUE if lit else given
        body += rect(x, y, wide, high, paint, 'stroke="currentColor" stroke-width=".5"')
        body += (
            f'<text x="{x + wide / 2:g}" y="{y + high / 2 + 4:g}" font-size="10.5"'
            f' text-anchor="middle" fill="{"#fff" if lit else "currentColor"}">{key // 8}</text>'
        )
    return svg(318, SIDE * h + 2, body, f"Who gives which row, and who receives what: lane {LANE}.")


def ldmatrix() -> Explorer:
    """Whose address of which row goes into ldmatrix.x4, and which elements each lane gets."""
    keys = [{"way": way, "lane": at} for way in WAYS for at in range(32)]
    return Explorer(
        kind="ldmatrix",
        title="Whose address, and whose elements?",
        caption=(
            "A piece of 16 x 16 of a tile in shared memory. Beside each row of eight elements "
            "stands the lane that gives its address, and in each pair the lane that receives it. "
            "Framed is the row of the chosen lane, blue is what that lane gets, with the register. "
            "Point at a lane or choose it, beside the piece or in it."
        ),
        controls=(
            choice("way", "the matrices arrive", WAYS, "plain"),
            Control("lane", "lane", tuple(range(32)), LANE, plays=700),
        ),
        labels={"gives": "it gives the address of", "to": "received by lanes", "gets": "it gets"},
        sentences={
            "plain": (
                "Lane {lane} gives the address of {gives}, as one of eight lanes of matrix "
                "{matrix}, and lanes {to} receive what lies there. Itself it gets elements {t} and "
                "{next} of row {g} of each matrix."
            ),
            "trans": (
                "Lane {lane} gives the address of {gives}, as one of eight lanes of matrix"
                " {matrix}, and each of lanes {to} receives one element of it. Itself it gets"
                " elements {t} and {next} of column {g} of each matrix."
            ),
        },
        data={
            "gives": GIVES,
            "tables": TABLES,
            "text": {way: [dict(read(k).text) for k in keys if k["way"] == way] for way in WAYS},
        },
        compute=read,
        picture=_picture(),
        examples=(*({"lane": at} for at in (0, 1, 8, LANE, 31)), {"way": "trans"}),
        spoken=("gives", "to", "gets"),
    )
