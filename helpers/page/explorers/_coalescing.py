"""Explorer of chapter 05: the sectors that one request of 32 lanes touches."""

import numpy as np

from helpers.colours import BLUE
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.wording import counted
from nogpu.emulator.observe import counts

FOLLOWS = {"column": "the column", "row": "the row", "none": "neither: all lanes the same"}
ELEMENTS = {
    1: "1 byte (int8)", 2: "2 bytes (half)", 4: "4 bytes (float)", 8: "8 bytes (double)",
    16: "16 bytes (float4)",
}  # fmt: skip
COLUMNS = 64
"""Elements in a row of the matrix that is read."""


def lanes(follows: str, stride: int, offset: int) -> np.ndarray:
    """Element that each of the 32 lanes reads, in a row-major matrix of COLUMNS columns."""
    step = {"column": stride, "row": stride * COLUMNS, "none": 0}[follows]
    return offset + np.arange(counts.WARP, dtype=np.int64) * step


def sectors(elements: np.ndarray, size: int) -> int:
    """Sectors of one request, by the emulator's rule. size: bytes of an element."""
    keys = (elements * size // counts.SECTOR).reshape(1, 1, 1, -1, 1, 1)
    return int(counts.distinct(counts.WarpShape(1, counts.WARP), keys, None).item())


def read(state: State) -> Reading:
    """Sectors and bytes of one request."""
    elements = lanes(state["follows"], state["stride"], state["offset"])
    n = sectors(elements, state["size"])
    used = len(np.unique(elements)) * state["size"]
    shown = {
        "touched": counted(n, "sector"), "sectors": text(n), "fetched": text(counts.SECTOR * n),
        "used": text(used), "share": text(100 * used / (counts.SECTOR * n), 1),
        "least": text(-(-used // counts.SECTOR)),
    }  # fmt: skip
    return Reading("request", shown)


def _picture(follows: str) -> str:
    elements = lanes(follows, 1, 0)
    taken = sorted({int(e) * 4 // counts.SECTOR for e in elements})
    body = ""
    for i, at in enumerate(taken):
        x, y = i % 4 * 78 + 4, i // 4 * 32 + 13
        for c in range(8):
            if at * 8 + c in elements:
                body += rect(x + c * 8.5, y, 8.5, 14, BLUE)
        body += rect(x, y, 68, 14, "none", 'stroke="currentColor"')
        body += words(x, y - 2, f"sector {at}", size=10.5)
    return svg(
        312, -(-len(taken) // 4) * 32 + 4, body, f"{len(taken)} sectors touched by 32 lanes."
    )


def coalescing() -> Explorer:
    """Which sectors 32 lanes touch: by the index that follows threadIdx.x, stride, offset, size."""
    return Explorer(
        kind="coalescing",
        title="One request, 32 lanes: which sectors light up?",
        caption=(
            "Each frame is a sector of 32 bytes that the request touches, filled where a lane uses "
            f"it. The matrix is row-major with {COLUMNS} elements in a row. Let the row follow "
            "threadIdx.x, and every lane pays for a sector of its own."
        ),
        controls=(
            choice("follows", "threadIdx.x chooses", FOLLOWS, "column"),
            choice("size", "element", ELEMENTS, 4),
            Control("stride", "stride between lanes", tuple(range(1, 33)), 1),
            Control("offset", "first element", tuple(range(33)), 0),
        ),
        labels={
            "sectors": "sectors per request", "fetched": "bytes fetched", "used": "bytes used",
            "share": "used (%)", "least": "sectors at least",
        },
        sentences={
            "request": "The request touches {touched}: {fetched} bytes are fetched and "
            "{used} of them used, {share} %. Those would fit in {least}."
        },
        data={"columns": COLUMNS},
        compute=read,
        picture=_picture("column"),
        examples=(
            {},
            {"offset": 1},
            {"stride": 2},
            {"stride": 8},
            {"follows": "row"},
            {"follows": "none"},
            {"size": 16},
        ),
    )  # fmt: skip
