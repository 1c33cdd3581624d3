"""Checks for the exercises of chapter 06, tiling."""

from collections.abc import Iterator

from helpers.page.exercises import Check, KernelTask, checked_report, exercise, number

number(
    "06.1",
    "Arithmetic intensity of a 64x16 tile of C, FLOP per byte",
    64 * 16 / (2 * (64 + 16)),
    what="intensity",
    unit="FLOP/byte",
    mistakes={
        3.2: "a multiply-add is two operations",
        12.8: "a float has four bytes, and a multiply-add is two operations",
        25.6: "that is FLOP per float; a float has four bytes",
        8: "that is the square tile of the same area",
        16: "T / 4 is for a square tile; this one is not",
        4: "T / 4 is for a square tile; this one is not",
        0.15625: "that is bytes for each FLOP: turn it round",
    },
    hint="FLOP of one step along K, over the bytes that this step fetches.",
)


EDGE, TILE = 64, 16
"""Edge of the matrices on which requests are counted, and of the exercise's tile."""


@exercise("06.2", kind="repair")
def repaired(answer: object) -> Iterator[Check]:
    """A tiled kernel with three faults, to be made right for every shape."""
    grid = ("cdiv(N, 16)", "cdiv(M, 16)", "1")
    task = KernelTask("repaired", block=(TILE, TILE), grid=grid, require=("__shared__",))
    report = yield from checked_report(answer, task, (EDGE, EDGE, EDGE))
    if report is None:
        return

    # A kernel that leaves the tiles out is right, too, and no repair.

    def requests(space: str) -> int:
        return sum(r.requests for r in report.by_line() if (r.space, r.op) == (space, "load"))

    warps = EDGE * EDGE // 32
    fetched = 2 * warps * EDGE // TILE
    yield Check(
        requests("global") <= fetched,
        f"loads from global memory, {EDGE}x{EDGE}x{EDGE}: one element of A and one of B a thread "
        "and tile",
        got=f"{requests('global'):,} requests",
        expected=f"{fetched:,} or fewer",
        hint="Fetch each tile into shared memory, and read the operands of the product from there.",
    )
    yield Check(
        requests("shared") > 0,
        "the product reads its operands from shared memory",
        got=f"{requests('shared'):,} requests",
        hint="Keep the two tiles, and the loop over k that multiplies them.",
    )


number(
    "06.3",
    "Largest power of two T with two TxT float tiles in 48 KB",
    64,
    tolerance=0,
    what="largest tile edge",
    mistakes={
        128: "two tiles of 128x128 floats take 128 KB",
        78: "that fits, but is not a power of two",
        110: "one tile of 110x110 fits; there are two",
        32: "that is the limit by threads; the question is about memory",
        78.384: "that fits but for the fraction, and is not a power of two",
        156: "a float has four bytes, and there are two tiles",
        16: "a larger power of two fits as well",
    },
    hint="Two tiles of T x T floats of 4 bytes have to fit in 48 x 1024 bytes.",
)
