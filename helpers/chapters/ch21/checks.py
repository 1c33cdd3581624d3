"""Checks for the exercises of chapter 21, wgmma."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.ladder.hopper import DESCRIPTOR, wgmma_descriptor
from helpers.ladder.hopper import WGMMA_ROWS as ROWS
from helpers.page.exercises import Check, exercise, number
from helpers.page.exercises.results import raised
from nogpu import emulator
from nogpu.errors import TileError

Array = np.ndarray[Any, np.dtype[Any]]


@exercise("21.1", kind="python")
def descriptor(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """The 64 bits that wgmma finds an operand by, from three numbers of bytes."""
    if answer(0x400, 16, 1024) is ...:
        yield Check(False, "the function returns a number", got="...")
        return
    for start, leading, stride in (
        (0x400, 16, 1024),
        (0x4400, 8192, 1024),
        (3 << 24 | 0x4400, 8192, 1024),
        (0x37C20, 64, 512),
    ):
        word, right = int(answer(start, leading, stride)), wgmma_descriptor(start, leading, stride)
        differ = [f for f in DESCRIPTOR if f.of(word) != f.of(right)]
        what = f"start {start:#x}, leading stride {leading}, stride {stride}"
        if word == right:
            yield Check(True, what, got=f"{word:#018x}")
            continue
        hint = "some bit is set that belongs to no field"
        if differ:
            field = differ[0]
            hint = (
                f"bits {field.first} to {field.last}, {field.name}, should hold {field.of(right)}"
            )
            if start >> 18:
                hint += "; the upper bits of this address name the block of the cluster"
        yield Check(False, what, got=f"{word:#018x}", hint=hint)


SUMS = 128
"""Columns of the product of exercise 21.2."""


@exercise("21.2", kind="repair")
def product(answer: object) -> Iterator[Check]:
    """A warpgroup fills its tiles by ordinary stores, multiplies them by wgmma, writes its sums."""
    source = str(answer)
    try:
        for depth, schedule in ((64, "ascending"), (192, "permuted")):
            findings, differ, unwritten = _multiplied(source, depth, schedule)
            if findings or len(differ):
                break
    except TileError as error:
        yield raised("the kernel runs", error)
        return
    yield Check(
        not findings,
        "the products see what was stored, and nobody touches tiles or sums while they run",
        got="".join(f"line {f.line}, {f.kind}: {f.message}" for f in findings[:1]),
        hint=_hint(" ".join(f.message for f in findings[:1])),
    )
    yield Check(
        not len(differ),
        f"C is right, {ROWS} x {SUMS}",
        got=f"row {differ[0]} and {len(differ) - 1} more are not" if differ else "",
        hint=f"{len(unwritten)} rows were never written, {unwritten[0]} the first: of each eight "
        "columns a thread has four sums, two of a row, then two of the row eight further down"
        if unwritten
        else "the first tiles are right: what the next ones add is not"
        if depth > ROWS
        else "a warp of the group has 16 rows; look at the picture for where a thread's sums lie",
    )


def _multiplied(
    source: str, depth: int, schedule: str
) -> tuple[list[emulator.Finding], list[int], list[int]]:
    """Findings, rows of C that are wrong, and rows never written, for so many steps of k."""
    rng = np.random.default_rng(depth)
    A, B = (rng.integers(-9, 10, s).astype(np.float16) for s in ((ROWS, depth), (depth, SUMS)))
    C = np.full((ROWS, SUMS), np.nan, np.float32)
    report = emulator.launch(
        source, "product", 1, 128, [A, B, C, depth], arch="sm_90a", name="product.cu",
        schedule=schedule, max_seconds=20,
    )  # fmt: skip
    # Whole numbers: their sums are exact in any order.
    differ = (A.astype(np.float32) @ B.astype(np.float32) != C).any(axis=1)
    # The fence first: what is stale is so whether or not somebody waits.
    findings = sorted(report.findings, key=lambda f: "two ways to memory" not in f.message)
    unwritten = np.isnan(C).all(axis=1)
    return findings, np.flatnonzero(differ).tolist(), np.flatnonzero(unwritten).tolist()


def _hint(messages: str) -> str:
    """What to look at next, by what the findings say."""
    if "two ways to memory" in messages:
        return (
            "the Tensor Cores may see what lay in the tiles before. Each thread says of its own "
            "stores that an engine may read them, and then all of them meet"
        )
    phrases = ("while the product of line", "may still read it", "wait_group")
    if any(words in messages for words in phrases):
        return (
            "wgmma runs on its own. Until a wait has covered its group nobody may refill the tiles "
            "or read the sums"
        )
    return (
        "all threads store their part of a tile before anybody multiplies it, and the products are "
        "done before anybody stores the next one: between them stands a barrier of the block"
    )


number(
    "21.3",
    "Registers of a consumer's thread beside a producer's 24, with three consumers",
    160,
    tolerance=0,
    what="registers a thread",
    hint="The producer's warpgroup keeps 128 times 24; three warpgroups share the rest.",
    mistakes={
        162: "it must be a multiple of eight",
        162.67: "it must be a multiple of eight",
        488: "that is what a single consumer would have; there are three",
        240: "that is for two consumers; this tile needs three",
        232: "that is for two consumers and a producer with 40",
        168: "the producer's threads keep some, too",
        128: "so many each has at launch, before registers move",
    },
)
