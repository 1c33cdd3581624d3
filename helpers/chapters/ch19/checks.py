"""Checks for the exercises of chapter 19: a warp tile by bytes a clock, a ring's missing wait, how
many stages fit."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.page.exercises import Check, exercise, number
from nogpu import emulator, toolchain

EDGES = (16, 32, 64, 128)
"""Edges of the warp tiles to choose from."""
SMS = (  # FLOP a clock of an SM, bytes a clock that its shared memory delivers, registers for sums
    (4096, 128, 128),
    (1024, 64, 128),
    (2048, 128, 128),
    (4096, 128, 64),
    (8192, 128, 256),
    (1024, 128, 16),
)
"""An H200, a T4, an A100, an H200 whose sums may take half as much, and two that there are not."""


def need(flop: float, wm: int, wn: int) -> float:
    """Bytes a clock that a warp tile asks of shared memory at the full rate, FP16."""
    return flop * (1 / wm + 1 / wn)


@exercise("19.1", kind="python")
def warp_tile(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """The warp tile with the fewest sums that shared memory can feed; None where there is none."""
    for flop, delivered, registers in SMS:
        small = [(wm, wn) for wm in EDGES for wn in EDGES if wm * wn // 32 <= registers]
        fits = [(wm, wn) for wm, wn in small if need(flop, wm, wn) <= delivered]
        fewest = min((wm * wn for wm, wn in fits), default=0)
        right = [tile for tile in fits if tile[0] * tile[1] == fewest]
        returned = answer(flop, delivered, registers)
        got = tuple(returned) if isinstance(returned, (tuple, list)) else returned
        hint = "return (WM, WN), both of 16, 32, 64 or 128, or None"
        if isinstance(got, tuple) and len(got) == 2 and all(edge in EDGES for edge in got):
            wm, wn = got
            needed, sums = need(flop, wm, wn), wm * wn // 32
            if needed > delivered:
                hint = f"{wm} x {wn} asks for {needed:g} bytes a clock, and {delivered} are there"
            elif sums > registers:
                hint = f"a lane of {wm} x {wn} keeps {sums} sums, and {registers} is the most"
            else:
                hint = f"{right[0][0]} x {right[0][1]} will do, with fewer sums"
        elif got is None and fits:
            hint = f"{right[0][0]} x {right[0][1]} does: {need(flop, *right[0]):g} bytes a clock"
        elif not fits:
            hint = "no tile is fed within these registers: return None"
        yield Check(
            got in right if fits else got is None,
            f"{flop} FLOP a clock, {delivered} bytes a clock, {registers} sums a lane",
            got=str(got),
            expected=" or ".join(map(str, right)) or "None",
            hint=hint,
        )


@exercise("19.2", kind="kernel")
def missing_wait(answer: object) -> Iterator[Check]:
    """A ring of three slots: right, without a race, with copies under way while it multiplies."""
    source = str(answer)
    rng = np.random.default_rng(19)
    runs: dict[str, int] = {}
    work = tiles = 0
    for k in (16, 48, 160):
        a = rng.integers(-8, 9, (16, k)).astype(np.float16)
        b = rng.integers(-8, 9, (k, 16)).astype(np.float16)
        c = np.full((16, 16), np.nan, np.float32)
        report = emulator.launch(source, "ring", (1, 1, 1), (32, 1, 1), [a, b, c, k], arch="sm_80")
        differ = int((c != a.astype(np.float64) @ b.astype(np.float64)).sum())
        got = f"{differ} wrong elements of {c.size}"
        hint = "keep the copies and the products of the starter; only a wait is missing"
        yield Check(differ == 0, f"K = {k} is right", got=got, hint=hint)
        faults = [str(f) for f in report.findings]
        yield Check(
            not faults,
            f"no race at K = {k}",
            got=faults[0] if faults else "",
            hint="a tile is read while its copy is under way: wait for its group before the "
            "barrier that lets the warp read it"
            if any("still under way" in f for f in faults)
            else "a wait counts for the thread that waits: the barrier must come after it",
        )
        if differ or faults:
            return
        for op, n in report.instructions.items():
            runs[op] = runs.get(op, 0) + n
        work += 2 * k // 16
        tiles += k // 16
    products, read, copied, straight = (
        sum(n for op, n in runs.items() if op.startswith(start))
        for start in ("mma.sync", "ldmatrix", "cp.async.c", "st.shared")
    )
    copied -= runs.get("cp.async.commit_group", 0)
    yield Check(
        products == work and read == work and copied >= 2 * tiles and straight == 0,
        "copied by cp.async, read by ldmatrix, multiplied by mma.sync",
        got=f"{copied} copies, {read} reads, {products} products, {straight} other stores to "
        "shared memory",
        hint="keep copy_slot, load_fragments and multiply as they are",
    )
    text = toolchain.ptx(source, arch="sm_80")
    left = sorted({int(n) for n in re.findall(r"cp\.async\.wait_group\s+(\d+)", text)})
    yield Check(
        bool(left) and left[0] >= 1 and "cp.async.wait_all" not in text,
        "a younger copy may stay under way",
        got=f"waits that leave {' or '.join(map(str, left)) or 'no'} groups under way",
        hint="wait_groups<n>() lets the n latest groups of this thread fly on: how many tiles "
        "beyond this one are under way where you wait?",
    )


number(
    "19.3",
    "Stages of 128x256 tiles with BK = 32 in the shared memory of a block on an H200",
    9,
    what="stages",
    hint="bytes of a stage: a tile of A and a tile of B, two bytes an element",
    mistakes={
        18: "an element of FP16 has two bytes, not one",
        4: "an element of FP16 has two bytes, not four",
        28: "a stage holds a tile of B beside the tile of A",
        14: "a stage holds a tile of A beside the tile of B",
        9.46: "a part of a stage is of no use",
    },
)
