"""Checks for the exercises of chapter 07: banks, occupancy, a transpose."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from helpers.page.exercises import Axis, Check, check_table, exercise, number, unseen
from nogpu import emulator

number(
    "07.1",
    "Wavefronts of a column read with 36 words a row",
    4,
    tolerance=0,
    what="wavefronts",
    mistakes={
        1: "36·i modulo 32 takes only eight values",
        8: "eight banks are used; how many lanes meet in each?",
        32: "that is with 32 words a row",
        2: "that is with 34 words a row: count the banks of 36·i modulo 32",
        36: "that is the width of a row; a wavefront takes one word from each bank",
    },
    hint="Lane i wants bank 36·i modulo 32; the busiest bank decides.",
)


number(
    "07.2",
    "Blocks of 128 threads, 80 registers and 20 KB on an SM of a T4",
    3,
    tolerance=0,
    what="blocks an SM",
    mistakes={
        8: "that is by threads alone", 6: "that is by registers; count shared memory too",
        16: "that is the limit on blocks alone", 64 / 20: "blocks are whole: round down",
        4: "4 blocks would need 80 KB of shared memory",
        2: "2 blocks take 40 KB of 64: one more fits", 12: "that is warps; the question is blocks",
    },
    hint="Threads, registers and shared memory each allow a number of blocks; the least counts.",
)  # fmt: skip


SHAPES = ((64, 64), (33, 70), (1, 40), (95, 2))
"""Rows and columns of the matrices to transpose; requests are counted on the first."""


BOUNDS = "Each store needs the bounds of y, which has cols rows and rows columns."
SWAP = (
    "Each tile is turned, but stays in its place: the block at (x, y) of x holds the tile at (y, "
    "x) of y. Swap blockIdx.x and blockIdx.y for the store."
)
PLACE = "Element (r, c) of x belongs in row c and column r of y, which has rows columns."


def misplaced(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether each 32x32 tile of y is the turned tile of x in the same place."""
    tiles = [(slice(r, r + 32), slice(c, c + 32)) for r in (0, 32) for c in (0, 32)]
    return all((y[at] == x[at].T).all() for at in tiles)


@exercise("07.3", kind="kernel")
def transpose(answer: object) -> Iterator[Check]:
    """A transpose of any shape, coalesced both ways and free of bank conflicts."""
    faults: dict[tuple[str, int], str] = {}
    mistakes, counted, hint = [], [], BOUNDS
    for rows, cols in SHAPES:
        x = np.arange(rows * cols, dtype=np.float32).reshape(rows, cols) + 1
        y = np.full((cols, rows), np.nan, np.float32)
        grid = (-(-cols // 32), -(-rows // 32), 1)
        report = emulator.launch(str(answer), "transpose", grid, (32, 32, 1), [x, y, rows, cols])
        bad = int((y != x.T).sum())
        if bad:
            mistakes.append(f"{bad} of {y.size} elements of {rows}x{cols}")
        for f in report.findings:
            where = f"at {rows}x{cols}, line {f.line}, {f.kind}: {f.message}"
            faults.setdefault((f.kind, f.line), where)
        if (rows, cols) == SHAPES[0]:
            counted = [r for r in report.by_line() if r.requests]
            if bad:  # whole tiles: the bounds are not to blame
                hint = SWAP if misplaced(x, y) else PLACE
    shown = ", ".join(f"{rows}x{cols}" for rows, cols in SHAPES)
    got = "wrong: " + "; ".join(mistakes) if mistakes else ""
    yield Check(not mistakes, f"{shown} come out transposed", got=got, hint=hint)
    for text in faults.values():
        yield Check(False, text)
    if not faults:
        yield Check(True, "no race, and nothing out of bounds")
    for r in counted:
        everywhere = r.space == "global"
        cost = r.sectors_per_request if everywhere else r.wavefronts_per_request
        least, unit = (4, "sectors") if everywhere else (1, "wavefront")
        yield Check(
            cost <= least,
            f"{r.space} {r.op} on line {r.line}",
            got=f"{cost:g} {unit if cost == 1 or everywhere else unit + 's'} a request",
            expected=f"{least} {unit}",
            hint="The 32 lanes go down a column of the matrix: let threadIdx.x run along its rows."
            if everywhere
            else "The 32 lanes go down a column of the tile: give its rows a word more.",
        )
    # A request of one lane touches few sectors too: the lanes of a warp have to ask together.
    rows, cols = SHAPES[0]
    requests = sum(r.requests for r in counted if r.space == "global")
    together = 2 * rows * cols // 32
    yield Check(
        requests <= together,
        f"global requests at {rows}x{cols}: each element is read once and written once, 32 a "
        "request",
        got=f"{requests:,}",
        expected=f"{together:,} or fewer",
        hint="Let each thread move one element, so that the 32 lanes of a warp ask together.",
    )


unseen.predictions("07.4", unseen.AFTER_LATENCY)


@exercise("07.5", kind="python")
def paddings(answer: Any) -> Iterator[Check]:
    """Wavefronts of a column and bytes of its tile, by padding."""
    from helpers.page import explorers

    walk = explorers.banks(walk="column")
    counted: dict[float, float] = {
        pad: float(walk.read(pad=pad).text["wavefronts"]) for pad in range(5)
    }
    yield from check_table(
        answer,
        Axis("padding (floats)", ("pad", "float|word|element")),
        {
            Axis("wavefronts", ("wavefront",)): counted,
            Axis("tile (bytes)", ("byte",)): {pad: 4.0 * 32 * (32 + pad) for pad in counted},
        },
        hint="The padding makes every row longer: lane i reads word i * (32 + padding), and the "
        "tile has 32 such rows of 4 bytes a word.",
    )
