"""Explorer of chapter 05: a request of the naive and of the coalesced kernel, lane by lane."""

import numpy as np

from helpers.colours import BLUE, VERMILION, tint
from helpers.page.explorers._coalescing import sectors
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.wording import counted
from nogpu.device import WORD
from nogpu.emulator.observe.counts import SECTOR, WARP

KERNELS = ("naive", "coalesced")
LOADS = {"AB": "A and B", "A": "only A[row * K + k]", "B": "only B[k * N + col]"}
"""The requests of a step that are shown: the arrays that they read, and their words."""
ROW = 32
"""Floats in a row of A."""
PER_SECTOR = SECTOR // WORD


def loads(kernel: str, row_floats: int = ROW) -> dict[str, np.ndarray]:
    """Element that each lane of the first warp loads at k = 0, by array.

    The lanes differ in the row of C (naive) or in its column (coalesced).
    """
    lane, same = np.arange(WARP), np.zeros(WARP, np.int64)
    row, col = (lane, same) if kernel == "naive" else (same, lane)
    return {"A": row * row_floats, "B": col}


def touched(elements: np.ndarray, lanes: int) -> int:
    """Sectors that the first lanes of a request touch, by the emulator's rule."""
    if not lanes:
        return 0
    # The lanes that are still to come repeat the last one, which adds nothing.
    return sectors(np.pad(elements[:lanes], (0, WARP - lanes), "edge"), WORD)


def read(state: State) -> Reading:
    """Sectors and bytes of the lanes so far, for both kernels."""
    lanes, arrays = state["lanes"], state["loads"]
    shown, fetched = {"lanes": text(lanes), "last": text(lanes - 1)}, {}
    for kernel in KERNELS:
        wanted = [loads(kernel)[array] for array in arrays]
        n = sum(touched(elements, lanes) for elements in wanted)
        before = sum(touched(elements, max(0, lanes - 1)) for elements in wanted)
        used = WORD * sum(len(np.unique(elements[:lanes])) for elements in wanted)
        fetched[kernel] = SECTOR * n
        shown |= {
            kernel: f"{counted(n, 'sector')}: {text(SECTOR * n)} bytes fetched, {text(used)} used",
            f"{kernel}_new": counted(n - before, "new sector"),
            f"{kernel}_bytes": text(SECTOR * n),
            f"{kernel}_used": text(used),
        }
    most, least = max(fetched.values()), min(fetched.values())
    factor = most / max(1, least)
    shown["factor"] = text(factor, 0 if factor == int(factor) else 1)
    return Reading("none" if not lanes else arrays if lanes == WARP else "way", shown)


def _picture() -> str:
    """The sectors of both kernels when all lanes have come, below each other."""
    body, y = "", 0
    for kernel in KERNELS:
        body += words(0, y + 11, kernel, size=12)
        for array, elements in loads(kernel).items():
            taken = sorted({int(e) // PER_SECTOR for e in elements})
            body += words(0, y + 27, f"{array}: {counted(len(taken), 'sector')}", size=10.5)
            for i, sector in enumerate(taken):
                x, top = i % 8 * 39, y + 32 + i // 8 * 14
                body += rect(x, top, 36, 11, tint(BLUE, "0.35"), f'stroke="{BLUE}"')
                for at in {int(e) % PER_SECTOR for e in elements if e // PER_SECTOR == sector}:
                    body += rect(x + at * 4.5, top, 4.5, 11, VERMILION)
            y += 18 + -(-len(taken) // 8) * 14
        y += 26
    return svg(312, y, body, "The sectors that both kernels touch, and the floats that they use.")


def request() -> Explorer:
    """The requests of one warp of naive and of coalesced for A and B, lane by lane."""
    return Explorer(
        kind="request",
        title="A warp's request in flight: what does each kernel fetch?",
        caption=(
            "Each box is a sector of eight floats, blue once it is fetched; what the lanes want is "
            "orange. Beside A and B stand their sectors so far, and lines lead from the lane at "
            "work to its floats. The hardware takes all lanes at once, the figure one after the "
            "other. Choose a lane or a sector to go there."
        ),
        controls=(
            choice("loads", "the lanes load", LOADS, "AB"),
            Control(
                "lanes", "lanes so far", tuple(range(WARP + 1)), WARP,
                labels=tuple(f"{n} of {WARP}" for n in range(WARP + 1)), plays=250,
            ),
        ),
        labels={kernel: kernel for kernel in KERNELS},
        sentences={
            "none": "No lane has come yet, and nothing has been fetched.",
            "way": "Lane {last} adds {naive_new} to the naive kernel and {coalesced_new} to the "
            "coalesced one. So far they have fetched {naive_bytes} and {coalesced_bytes} bytes.",
            "AB": "Both kernels use {naive_used} bytes, but the naive one fetches {factor} times "
            "as many as the coalesced one, {naive_bytes} against {coalesced_bytes}, because each "
            "of its lanes pays for a sector in another row of A. Coalesced lanes share their float "
            "of A, and those of B lie side by side.",
            "A": "Of A the naive kernel fetches {factor} times as many bytes as the coalesced one, "
            "{naive_bytes} against {coalesced_bytes}, because each of its lanes wants a float from "
            "another row and pays for its sector. Coalesced lanes all want the same float.",
            "B": "Of B the coalesced kernel fetches {factor} times as many bytes as the naive one, "
            "{coalesced_bytes} against {naive_bytes}, because its lanes want neighbours and use "
            "every byte. Naive lanes all want the same float.",
        },
        data={"kernels": {k: {a: e.tolist() for a, e in loads(k).items()} for k in KERNELS}},
        compute=read,
        picture=_picture(),
        examples=tuple({"lanes": n} for n in (1, 9, 32)) + ({"loads": "A"}, {"loads": "B"}),
        spoken=KERNELS,
    )  # fmt: skip
