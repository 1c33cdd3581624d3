"""Checks for the exercises of chapter 20, Hopper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from helpers.exercises import Check, close_to, exercise
from helpers.hopper import BOX_BYTES, BOX_COLS, DESCRIPTOR, stream_k_pieces, wgmma_descriptor

CHUNK = 8
"""Elements of two bytes in the 16 bytes that the swizzle moves as one."""


def _walk(stages: int, steps: int) -> Iterator[tuple[int, int, int]]:
    """Stage and both parities of each step, counted as kernels/common/mbarrier.cuh counts them."""
    stage, parity = 0, 0
    for _ in range(steps):
        yield stage, parity, parity ^ 1
        stage += 1
        if stage == stages:
            stage, parity = 0, parity ^ 1


@exercise("20.1", kind="python")
def ring_place(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """Where a step lies in the ring, and the parities that its two waits name."""
    if answer(0, 2) is ...:
        yield Check(False, "the function returns three numbers", got="...")
        return
    for stages in (2, 3, 4):
        wrong = ""
        for step, right in enumerate(_walk(stages, 3 * stages + 1)):
            got = tuple(int(value) for value in answer(step, stages))
            if got != right:
                wrong = f"step {step}: {got}"
                if got[:1] != right[:1]:
                    hint = "after the last stage the first comes again: step modulo stages"
                elif got[:2] == right[:2]:
                    hint = "the producer's first round must not wait: it names the phase before the first"
                elif step == 0:
                    hint = "the first phase of a barrier has parity 0"
                else:
                    hint = "the parity changes once a round, not once a step"
                yield Check(False, f"a ring of {stages}", got=wrong, hint=hint)
                break
        if not wrong:
            yield Check(True, f"a ring of {stages}, three rounds and a step")


BOX_ROWS = 64


def _swizzled(row: int, col: int) -> int:
    """Byte offset of an element of a tile of B, box after box (kernels/common/tma.cuh)."""
    box, col = divmod(col, BOX_COLS)
    chunk = col // CHUNK ^ row % 8
    return BOX_BYTES * box + 2 * (row * BOX_COLS + chunk * CHUNK + col % CHUNK)


@exercise("20.2", kind="python")
def swizzled_offset(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """A 64 x 256 tile of two-byte elements: four boxes with the 128-byte swizzle."""
    if answer(0, 0) is ...:
        yield Check(False, "the function returns a number of bytes", got="...")
        return
    places = [(row, col) for row in range(BOX_ROWS) for col in range(4 * BOX_COLS)]
    given = {place: int(answer(*place)) for place in places}
    apart = len(set(given.values())) == len(places)
    yield Check(
        apart,
        "every element has a place of its own",
        hint="an element keeps its place within its chunk, col % 8, and an XOR keeps the chunks apart",
    )
    elements = all(2 * given[place] == _swizzled(*place) for place in places)
    boxes = all(given[row, col] // BOX_BYTES == col // BOX_COLS for row, col in places)
    yield Check(
        boxes,
        "a box is whole before the next one begins",
        hint="count bytes: an element has two"
        if elements
        else "64 columns are a box of 64 rows of 128 bytes; the next 64 lie behind all of them",
    )
    stays = all(given[row, col] % BOX_BYTES // 128 == row for row, col in places)
    yield Check(stays, "an element stays in its row of the box", hint="a row is 128 bytes")
    banks = {given[row, 0] % 128 // 16 for row in range(8)}
    yield Check(
        len(banks) == 8,
        "the first chunks of eight rows lie in eight different groups of banks",
        got=f"{len(banks)} different",
        hint="exclusive or with the row",
    )
    off = next((place for place in places if given[place] != _swizzled(*place)), None)
    yield Check(
        off is None,
        "the copy engine puts every element there, too",
        got="" if off is None else f"element {off} at byte {given[off]}",
        hint="chunk c of row r lies at chunk c ^ (r % 8)",
    )


def _deepest(stage_bytes: int, c_bytes: int) -> int:
    """Stages that fit beside the boxes of C, by the rule that the catalog states."""
    return (225 * 1024 - c_bytes) // stage_bytes


@exercise("20.3", kind="python")
def announced_and_deepest(answer: Callable[[int, int, int, int], Any]) -> Iterator[Check]:
    """Bytes that a producer announces for a stage, and the deepest ring that fits."""
    if not isinstance(answer(128, 128, 1, 0), (tuple, list)):
        yield Check(False, "the function returns two numbers", got=str(answer(128, 128, 1, 0)))
        return
    for bm, bn, cluster, c_bytes in (
        (128, 128, 1, 0),
        (128, 256, 1, 0),
        (128, 256, 2, 0),
        (128, 256, 2, 32 * 1024),
        (64, 256, 2, 16 * 1024),
        (128, 128, 1, 32 * 1024),  # the bytes for C cost a stage
    ):
        announced, stages = (int(value) for value in answer(bm, bn, cluster, c_bytes))
        stage = 2 * BOX_COLS * (bm + bn)
        what = (
            f"{bm} x {bn}, {cluster} block{'s' * (cluster > 1)} a cluster, {c_bytes:,} bytes for C"
        )
        fetched = 2 * BOX_COLS * (bm + bn // cluster)
        yield Check(
            announced == stage,
            f"bytes announced, {what}",
            got=f"{announced:,}",
            hint="its own part is not all that lands: the other block's part counts at this barrier, too"
            if announced == fetched
            else "a stage holds BM x 64 elements of A and 64 x BN of B, two bytes each",
        )
        deepest = _deepest(stage, c_bytes)
        yield Check(
            stages == deepest,
            f"deepest ring, {what}",
            got=str(stages),
            hint="one more would not fit beside C"
            if stages > deepest
            else "a whole tile of A and of B lies in each block's stage, whoever fetched it",
        )


@exercise("20.4", kind="python")
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
        wrong = [f for f in DESCRIPTOR if f.of(word) != f.of(right)]
        what = f"start {start:#x}, leading stride {leading}, stride {stride}"
        if word == right:
            yield Check(True, what, got=f"{word:#018x}")
            continue
        hint = "some bit is set that belongs to no field"
        if wrong:
            field = wrong[0]
            hint = (
                f"bits {field.first} to {field.last}, {field.name}, should hold {field.of(right)}"
            )
            if start >> 18:
                hint += "; the upper bits of this address name the block of the cluster"
        yield Check(False, what, got=f"{word:#018x}", hint=hint)


@exercise("20.5", kind="python")
def rounds(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """Time of tiles over workers, in tiles: whole, and with the last ones cut along k."""
    if not isinstance(answer(5, 4), (tuple, list)):
        yield Check(False, "the function returns two numbers", got=str(answer(5, 4)))
        return
    for tiles, workers in ((5, 4), (3, 4), (8, 4), (400, 66), (2048, 132)):
        whole, cut = (float(value) for value in answer(tiles, workers))
        what = f"{tiles} tiles on {workers}"
        yield close_to(
            whole,
            -(-tiles // workers),
            tolerance=0,
            what=f"{what}, whole",
            hint="how many tiles does the busiest worker get?",
            wrong={
                tiles / workers: "a tile that has begun takes its whole time: round up",
                tiles // workers: "the last round is not full, and takes its time all the same",
            },
        )
        steps = 64 * workers  # of k in a tile: as many as divide evenly
        longest = max(
            sum(piece.end - piece.begin for piece in stream_k_pieces(w, workers, tiles, steps))
            for w in range(workers)
        )
        yield close_to(
            cut,
            longest / steps,
            what=f"{what}, cut",
            hint="all the tiles, shared evenly among the workers",
            wrong={
                tiles / workers: "with no more tiles than workers nothing is cut",
                float(-(-tiles // workers)): "all get an equal share, and nobody waits",
            },
        )
