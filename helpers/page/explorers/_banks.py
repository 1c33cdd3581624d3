"""Explorer of chapters 07 and 10: the banks and wavefronts of one request to shared memory."""

import numpy as np

from helpers.colours import BLUE, VERMILION
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.wording import counted
from nogpu.emulator.observe import counts

WALKS = {"row": "along a row", "column": "down a column", "same": "nowhere: all want the same"}
WIDTHS = {4: "4 (float)", 8: "8 (float2)", 16: "16 (float4)"}
_SHAPE = counts.WarpShape(1, counts.WARP)


def first_words(state: State) -> np.ndarray:
    """First 4-byte word that each lane wants, in a tile whose rows are padded."""
    lane = np.arange(counts.WARP, dtype=np.int64)
    pitch, vec = state["columns"] + state["pad"], state["width"] // 4
    if state["walk"] == "same":
        return 0 * lane
    if state["walk"] == "column":
        return lane * state["stride"] * pitch
    element = lane * state["stride"] * vec
    return element // state["columns"] * pitch + element % state["columns"]


def cost(starts: np.ndarray, width: int, load: bool) -> int:
    """Wavefronts of one request, by the emulator's rule. width: bytes a lane."""
    address = _SHAPE.lanes(4 * starts.reshape(1, -1, 1, 1))
    return int(counts.wavefronts(_SHAPE, address, width, None, load).item())


def phases(starts: np.ndarray, width: int, load: bool) -> int:
    """Groups of lanes that are served one after the other: a warp, halves or quarters; loads merge
    neighbouring groups whose lanes agree (see nogpu.emulator.observe.counts)."""
    if width == 4:
        return 1
    groups = starts.reshape(width // 8, -1)
    index = np.arange(groups.shape[1])
    agree = np.zeros(len(groups), bool)
    for distance in (1, 2):
        agree |= (groups == groups[:, index ^ distance]).all(axis=1)
    return int(sum(1 if load and merged else 2 for merged in agree))


def read(state: State) -> Reading:
    """Wavefronts of one request."""
    starts, width, load = first_words(state), state["width"], state["op"] == "load"
    if (starts % (width // 4)).any():
        return Reading("misaligned", {"width": str(width)})
    n, groups = cost(starts, width, load), phases(starts, width, load)
    distinct = len(np.unique(starts)) * width // 4
    shown = {
        "takes": counted(n, "wavefront"), "wants": counted(distinct, "different word"),
        "wavefronts": text(n), "phases": text(groups), "words": text(distinct),
        "least": text(-(-distinct // counts.BANKS)), "bytes": text(4 * distinct / n, 1),
    }  # fmt: skip
    return Reading("conflict" if n > groups else "clean", shown)


def _picture(state: State) -> str:
    """The wavefronts of a 4-byte request: one row each, lit where a bank delivers a word."""
    words_of = np.bincount(np.unique(first_words(state)) % counts.BANKS, minlength=counts.BANKS)
    body = words(0, 9, "bank 0", size=10.5) + words(320, 9, "bank 31", "end", size=10.5)
    for row in range(words_of.max()):
        for bank in range(counts.BANKS):
            lit = row < words_of[bank]
            paint = (VERMILION if row else BLUE) if lit else "currentColor"
            body += rect(bank * 10, 14 + row * 7, 8.8, 5.5, paint, "" if lit else 'opacity=".1"')
    return svg(
        320, 18 + 7 * int(words_of.max()), body, f"{words_of.max()} wavefronts over 32 banks."
    )


def banks(
    *, columns: int = 32, pad: int = 0, walk: str = "column", width: int = 4, stride: int = 1
) -> Explorer:
    """The wavefronts that a warp's request to shared memory takes, and from which banks.

    columns and pad: words in a row of the tile. walk: "row", "column" or "same". width: bytes a
    lane (4, 8, 16). stride: accesses of that width from one lane to the next, or rows. All of them
    are what the explorer begins with.
    """
    controls = (
        Control("columns", "tile width (words)", (8, 16, 32, 64, 128), columns),
        Control("pad", "padding of each row (words)", (0, 1, 2, 3, 4, 8), pad),
        choice("walk", "lanes walk", WALKS, walk),
        choice("width", "bytes a lane", WIDTHS, width),
        Control("stride", "step from lane to lane", (1, 2, 3, 4, 8), stride),
        Control("op", "access", ("load", "store"), "load", "select"),
    )
    state = {c.name: c.value for c in controls}
    narrow = {**state, "width": 4}
    lesson = (
        "Walk down a column of 32 words without padding, and one bank does all the work; one word "
        "of padding spreads it over all of them."
    )
    examples: tuple[State, ...] = (
        {},
        {"pad": 1},
        {"pad": 4},
        {"walk": "row"},
        {"walk": "same"},
        {"walk": "row", "width": 16, "pad": 0},
        {"walk": "row", "width": 16, "stride": 2, "pad": 0},
        {"width": 16, "pad": 1},
    )
    if width == 16:
        lesson = (
            "Take steps of an even number of fours, and lanes meet in a bank; an odd one is free."
        )
        examples = tuple({"stride": step} for step in (1, 2, 3, 4, 8))
    return Explorer(
        kind="banks",
        title="One request to shared memory: how many wavefronts?",
        caption=(
            "A column of squares is a bank, a row is a wavefront: in each, a bank delivers one "
            "word. Squares in the second colour are words that had to wait for a bank. " + lesson
        ),
        controls=controls,
        labels={
            "wavefronts": "wavefronts",
            "phases": "phases (groups of lanes)",
            "words": "different words",
            "least": "wavefronts at least",
            "bytes": "bytes for each wavefront",
        },
        sentences={
            "clean": "{takes} for {wants}: no bank conflict.",
            "conflict": "{takes} for {wants}, where {least} would do: lanes collide in their "
            "banks.",
            "misaligned": "Some lane's address is no multiple of {width} bytes: the access is not "
            "allowed. Pad by a multiple of the width.",
        },
        data={},
        compute=read,
        picture=_picture(narrow),
        examples=examples,
    )
