"""Checks for the exercises of chapter 20, the copy engine."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from helpers.ladder.hopper import BOX_BYTES, BOX_COLS
from helpers.page.exercises import Check, exercise, number
from helpers.page.exercises.results import raised
from nogpu import emulator
from nogpu.errors import TileError
from nogpu.text import without_comments

Array = np.ndarray[Any, np.dtype[Any]]

CHUNK = 8
"""Elements of two bytes in the 16 bytes that the swizzle moves as one."""


BOX_ROWS = 64


def _swizzled(row: int, col: int) -> int:
    """Byte offset of an element of a tile of B, box after box (kernels/common/tma.cuh)."""
    box, col = divmod(col, BOX_COLS)
    chunk = col // CHUNK ^ row % 8
    return BOX_BYTES * box + 2 * (row * BOX_COLS + chunk * CHUNK + col % CHUNK)


@exercise("20.1", kind="python")
def swizzled_offset(answer: Callable[[int, int], Any]) -> Iterator[Check]:
    """A 64 x 256 tile of two-byte elements: four boxes with the 128-byte swizzle."""
    if answer(0, 0) is ...:
        yield Check(False, "the function returns a number of bytes", got="...")
        return
    places = [(row, col) for row in range(BOX_ROWS) for col in range(4 * BOX_COLS)]
    offsets = {place: int(answer(*place)) for place in places}
    apart = len(set(offsets.values())) == len(places)
    yield Check(
        apart,
        "every element has a place of its own",
        hint="an element keeps its place within its chunk, col % 8, and an XOR keeps the chunks "
        "apart",
    )
    elements = all(2 * offsets[place] == _swizzled(*place) for place in places)
    boxes = all(offsets[row, col] // BOX_BYTES == col // BOX_COLS for row, col in places)
    yield Check(
        boxes,
        "a box is whole before the next one begins",
        hint="count bytes: an element has two"
        if elements
        else "64 columns are a box of 64 rows of 128 bytes; the next 64 lie behind all of them",
    )
    stays = all(offsets[row, col] % BOX_BYTES // 128 == row for row, col in places)
    yield Check(stays, "an element stays in its row of the box", hint="a row is 128 bytes")
    banks = {offsets[row, 0] % 128 // 16 for row in range(8)}
    what = "the first chunks of eight rows lie in eight different groups of banks"
    got = f"{len(banks)} different"
    yield Check(len(banks) == 8, what, got=got, hint="exclusive or with the row")
    off = next((place for place in places if offsets[place] != _swizzled(*place)), None)
    yield Check(
        off is None,
        "the copy engine puts every element there, too",
        got="" if off is None else f"element {off} at byte {offsets[off]}",
        hint="chunk c of row r lies at chunk c ^ (r % 8)",
    )


STEPS = 7
"""More than twice around a ring of two stages, or of three."""
DEPTH = 3
ROWS, COLS = 8, 32
BYTES = "Announce in each phase the bytes"
"""Of a finding about bytes that did not come, or came beside those that were announced."""

BARS = "the two roles meet at full and empty alone, so that one may be a stage ahead"


@exercise("20.2", kind="repair")
def relay(answer: object) -> Iterator[Check]:
    """The copy engine fills a ring of stages box by box, and a warp adds up the columns of each."""
    source = str(answer)
    try:
        findings, y, want, stages = _relayed(source, "ascending")
        if not findings and np.array_equal(y, want):
            findings, y, want, stages = _relayed(source, "permuted")
    except TileError as error:
        yield raised("the kernel runs", error)
        return
    yield Check(
        not findings,
        "no stage is filled before it was read, nor read before it is full, and nobody waits for "
        "ever",
        got="".join(f"line {f.line}, {f.kind}: {f.message}" for f in findings[:1]),
        hint=_next_fault(source, findings),
    )
    yield Check(
        bool(np.array_equal(y, want)),
        f"the columns of {STEPS} boxes are added up, the last one partly outside the matrix",
        hint="both roles go through the stages in the same order, one step at a time",
    )
    bars = without_comments(source).count("__syncthreads")
    what = "the whole block meets once, when the barriers are set up"
    yield Check(bars == 1, what, got=f"{bars} times in the text", hint=BARS)
    yield Check(
        stages == DEPTH,
        f"the ring has {DEPTH} stages",
        got=f"the engine filled {stages} different ones",
        hint="how many stages and barriers there are, which stage a step has and in which round it "
        "is: see what each of them hangs on",
    )


def _relayed(source: str, schedule: str) -> tuple[list[emulator.Finding], Array, Array, int]:
    """Findings, those of barriers first and of bytes before them; what the kernel wrote, and what
    it should have; how many places in shared memory the engine copied to."""
    height = ROWS * STEPS - 3  # the engine fills in zeros
    x = np.random.default_rng(20).integers(-99, 100, (height, COLS)).astype(np.float32)
    y = np.full((STEPS, COLS), np.nan, np.float32)
    arguments = [emulator.TensorMap(x, (ROWS, COLS)), y, STEPS]
    report = emulator.launch(
        source, "relay", 1, 64, arguments, arch="sm_90", name="relay.cu", max_seconds=20,
        schedule=schedule, engines=True,
    )  # fmt: skip
    stages = len({step.at for step in report.engine_steps() if step.what == "copy begun"})
    want = np.add.reduceat(x, np.arange(0, height, ROWS), axis=0)

    def order(f: emulator.Finding) -> tuple[bool, bool]:
        return BYTES not in f.message, f.kind != "divergent-barrier"

    return sorted(report.findings, key=order), y, want, stages


def _next_fault(source: str, findings: list[emulator.Finding]) -> str:
    """What to look at next: bytes, then who hands stages back, then which phase is waited for."""
    messages = " ".join(f.message for f in findings)
    barriers = [f.message for f in findings if f.kind == "divergent-barrier"]
    code = without_comments(source)
    if BYTES in messages or "bytes that were announced" in messages:
        return (
            "the phase of full ends when as many bytes have come as were announced for it. How "
            "many does the engine bring for one box?"
        )
    if "misaligned" in {f.kind for f in findings}:
        return "a box begins at a multiple of 128 bytes: see how stage is declared"
    empty, full = (rf"\w*\(\s*&?\s*{name}\b" for name in ("empty", "full"))
    if not re.search("wait" + empty, code) or not re.search("arrive" + empty, code):
        return (
            "a stage is filled again that the other warp may still read: the producer waits for "
            "empty before it asks, where the consumer has arrived once it has read"
        )
    if not re.search("wait" + full, code):
        return "a stage is read before it is full: the consumer waits for full"
    if code.count("__syncthreads") != 1:
        return BARS
    fixed = re.search(r"wait\w*\([^;]*,\s*[01]u?\s*\)", code)
    if not fixed and any("at empty" in words for words in barriers):
        return (
            "the producer waits for a phase of empty that does not end. Its first round must not "
            "wait, and as many threads must arrive as the barrier was set up for"
        )
    return (
        "a wait goes on as soon as the phase of its parity has ended, and in the second round that "
        "of the first has. Which parity has the round of this step, for the one role and for the "
        "other?"
    )


number(
    "20.3",
    "Stages of a ring whose copies take 900 clocks and whose steps take 256",
    5,
    tolerance=0,
    what="stages",
    hint="While a stage is filled, the products of all the others must last for 900 clocks.",
    mistakes={
        4: "so many others are needed; the stage that is being filled comes on top",
        3: "a part of a stage does not cover what is left of a copy: round up, and count the stage "
        "that is being filled",
        6: "one is to spare: four others last for 1,024 clocks",
    },
)
