"""Explorer of chapter 18: chunks of eight rows in shared memory, and what ldmatrix pays for one."""

from helpers.colours import BLUE, VERMILION
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.wording import counted
from nogpu.emulator.observe import counts

LAYOUTS = {"plain": "as they are", "swizzled": "swizzled: chunk XOR row"}
LAYOUTS["padded"] = "padded by a chunk"
CHUNK = 16
"""Bytes: the row of an 8 x 8 matrix that a lane asks ldmatrix for, in four banks."""


def place(layout: str, row: int, chunk: int) -> int:
    """Where a chunk of a row lies, in chunks from the beginning of the tile; rows have eight."""
    if layout == "padded":
        return 9 * row + chunk
    return 8 * row + (chunk ^ row if layout == "swizzled" else chunk)


def cost(layout: str, chunk: int) -> int:
    """Wavefronts of one ldmatrix of that chunk of eight rows, by the emulator's rule."""
    first = [place(layout, row, chunk) * CHUNK // 4 for row in range(8)]
    return counts.wide_load([*first, *[-1] * (counts.WARP - 8)])


def read(state: State) -> Reading:
    """What ldmatrix pays for a chunk of eight rows, and where the chunk of one row lies."""
    layout, row, chunk = state["layout"], state["row"], state["chunk"]
    at, waves = place(layout, row, chunk), cost(layout, chunk)
    sums = {"plain": f"{chunk}", "swizzled": f"{chunk} XOR {row} = {at % 8}",
            "padded": f"({chunk} + {row}) mod 8 = {at % 8}"}  # fmt: skip
    shown = {
        "waves": counted(waves, "wavefront"),
        "wavefronts": text(waves),
        "groups": text(len({place(layout, r, chunk) % 8 for r in range(8)})),
        "address": text(CHUNK * at),
        "bytes": text(CHUNK * (72 if layout == "padded" else 64)),
        "chunk": str(chunk), "row": str(row), "sum": sums[layout],
        "banks": f"{at % 8 * 4} to {at % 8 * 4 + 3}",
    }  # fmt: skip
    return Reading("apart" if waves == 1 else "together", shown)


def _picture(state: State) -> str:
    """Eight rows over eight groups of banks: in each place the number of its chunk."""
    layout, body = state["layout"], words(0, 9, "bank")
    for group in range(8):
        body += words(60 + 34 * group, 9, str(4 * group), "middle", 10.5)
    for row in range(8):
        body += words(0, 27 + 17 * row, f"row {row}")
        for chunk in range(8):
            x, y = 44 + place(layout, row, chunk) % 8 * 34, 14 + 17 * row
            lit = chunk == state["chunk"]
            paint = (VERMILION if row == state["row"] else BLUE) if lit else "none"
            body += rect(x, y, 32, 15.5, paint, 'stroke="currentColor" stroke-width=".5"')
            ink = "#fff" if lit else "currentColor"
            body += (f'<text x="{x + 16}" y="{y + 12}" font-size="10.5" text-anchor="middle" '
                     f'fill="{ink}">{chunk}</text>')  # fmt: skip
    return svg(318, 152, body, f"Where the chunks of eight rows lie: {LAYOUTS[layout]}.")


def swizzle() -> Explorer:
    """Where eight rows of eight 16-byte chunks lie, and the wavefronts of one ldmatrix."""
    controls = (
        choice("layout", "rows of 128 bytes", LAYOUTS, "swizzled"),
        Control("row", "row to look at", tuple(range(8)), 5),
        Control("chunk", "ldmatrix reads chunk", tuple(range(8)), 3, plays=900),
    )
    return Explorer(
        kind="swizzle",
        title="Where does a chunk lie?",
        caption=(
            "A line of fields is a row of the tile, a column four banks, a number the chunk that"
            " lies there. Filled is what one ldmatrix reads, in the second colour of the row that"
            " you look at, whose address stands above bit by bit: its three coloured bits choose"
            " the banks. Below you see which wavefront brings which row. Choose a chunk by a click"
            " on it."
        ),
        controls=controls,
        labels={
            "wavefronts": "wavefronts",
            "groups": "groups of banks used",
            "address": "address (byte)",
            "bytes": "bytes for eight rows",
        },
        sentences={
            "apart": (
                "Chunk {chunk} of eight rows lies in eight groups of banks, so ldmatrix takes "
                "{waves}. That of row {row} has place {sum}, in banks {banks}."
            ),
            "together": (
                "Chunk {chunk} of all eight rows has place {sum}, in banks {banks}, so "
                "ldmatrix takes {waves}, one for each row."
            ),
        },
        data={},
        compute=read,
        picture=_picture({c.name: c.value for c in controls}),
        examples=(*({"layout": name} for name in LAYOUTS), *({"row": r} for r in (0, 1))),
    )
