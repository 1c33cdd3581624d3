"""Explorer of chapter 11: stages of a pipeline, and what of the copies they hide."""

from dataclasses import dataclass

from helpers.colours import BLUE, GREEN, VERMILION
from helpers.page.explorers.core import Control, Explorer, Reading, State, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.wording import counted

TILES = 8
"""Tiles along K in the drawing."""
TILE_BYTES = 8192  # of one tile of A and one of B
CLOCKS = tuple(range(100, 1001, 50))


@dataclass(frozen=True)
class Run:
    """Clocks at which each tile's copy is issued and its computation begins; and of the end."""

    issue: tuple[int, ...]
    start: tuple[int, ...]
    end: int


def run(tiles: int, stages: int, copy: int, compute: int) -> Run:
    """A block that computes tile after tile, with so many buffers.

    stages - 1 copies are asked for before the first tile is used, and one more at each step; with
    one stage a copy is asked for when the last computation is done. A copy takes `copy` clocks from
    the asking, however many are under way: a latency, not a bandwidth.
    """
    issue: list[int] = []
    start: list[int] = []
    for t in range(tiles):
        before = start[-1] + compute if t else 0
        if t < stages - 1:
            issue.append(0)
        elif stages == 1:
            issue.append(before)
        else:
            at = t - stages + 1
            issue.append(start[at] if at < len(start) else 0)
        start.append(max(before, issue[-1] + copy))
    return Run(tuple(issue), tuple(start), start[-1] + compute)


def pipeline() -> Explorer:
    """Timeline of copies and computation by stages, copy latency and compute time (clocks)."""

    def read(state: State) -> Reading:
        n, length, work = state["stages"], state["copy"], state["compute"]
        times = run(TILES, n, length, work)
        stall = times.end - TILES * work
        waits = length if n == 1 else max(0, length - (n - 1) * work)
        shown = {
            "total": text(times.end), "stall": text(stall),
            "share": text(100 * stall / times.end, 1), "need": text(-(-length // work) + 1),
            "tiles": text(TILES), "shared": text(n * TILE_BYTES), "stages": counted(n, "stage"),
        }  # fmt: skip
        return Reading("stalls" if waits else "hidden", shown)

    stages, copy, compute = 1, 600, 300  # with which it begins
    first = run(TILES, stages, copy, compute)
    scale, body, was = 272 / first.end, words(0, 12, "copies") + words(0, 38, "math"), 0
    for t in range(TILES):
        body += rect(52 + first.issue[t] * scale, 3, copy * scale, 11, GREEN)
        wait = (first.start[t] - was) * scale
        body += rect(52 + was * scale, 25, wait, 18, "none", f'stroke="{VERMILION}"')
        body += rect(52 + first.start[t] * scale, 25, compute * scale - 1, 18, BLUE)
        was = first.start[t] + compute
    return Explorer(
        kind="pipeline",
        title="How many stages hide the copies?",
        caption=(
            "Time runs to the right. Green: copies under way, one line a buffer. Blue: "
            "computation. Dashed: the block waits. With one stage copies and computation take "
            "turns; each further stage lets one more copy travel meanwhile, and takes a buffer of "
            "shared memory."
        ),
        controls=(
            Control("stages", "stages (buffers)", (1, 2, 3, 4, 5), stages),
            Control("copy", "a copy takes (clocks)", CLOCKS, copy),
            Control("compute", "a tile's multiply-adds take (clocks)", CLOCKS, compute),
        ),
        labels={
            "total": "clocks in all", "stall": "of them waiting", "share": "waiting (%)",
            "need": "stages that hide the copy", "shared": "shared memory (bytes)",
        },
        sentences={
            "stalls": "{stages}: {tiles} tiles take {total} clocks, and the block waits for "
            "{stall} of them, {share} %. It would take {need} stages to wait for the first copy "
            "only.",
            "hidden": "{stages}: {tiles} tiles take {total} clocks. Only the first copy is waited "
            "for, {stall} clocks; every other one is hidden.",
        },
        data={"tiles": TILES, "bytes": TILE_BYTES},
        compute=read,
        picture=svg(324, 46, body, "Copies and computation in turns, with one stage."),
        examples=tuple({"stages": n} for n in (1, 2, 3, 4)),
    )  # fmt: skip
