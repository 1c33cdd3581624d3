"""Tensor memory of Blackwell: 128 lanes by 512 columns of 32 bits, allocated in columns.

An address has the lane in its upper half and the column in its lower one. A warp reaches the 32
lanes of its place in the warpgroup by tcgen05.ld and tcgen05.st, in one of four shapes; Tensor
Cores reach all (see `tcgen05`). Source: PTX ISA 9.0, "Tensor Memory", "tcgen05.alloc", "Access
restrictions"; which lane and column each register holds: "Data Movement Shape" there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine import clusters
from nogpu.emulator.machine.access import perform
from nogpu.emulator.machine.attribution import Offender, accuse, first_offender
from nogpu.emulator.machine.events import TensorAccess
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.masks import Mask, array_of
from nogpu.emulator.machine.warp import threads, warps

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State

LANES, COLUMNS = 128, 512
GROUP = 16  # lanes that the judges keep together: the fewest that an instruction touches
_LANE = np.arange(32)

i4, u4 = np.dtype("i4"), np.dtype("u4")


class TensorMemory:
    """Tensor memory of a batch of blocks.

    data: uint32 (blocks, lanes, columns). written: bool, the same, what has been stored or
    multiplied into since it was allocated. held: bool (blocks, columns), what is allocated.
    allocated: of each block, how many columns on which line, by the first of them. pairs: of each
    block, the lines that allocated and freed with .cta_group::2, in order. permit: by block, the
    line that gave it back.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.data = np.zeros((state.blocks, LANES, COLUMNS), u4)
        self.written = np.zeros(self.data.shape, bool)
        self.occupied = np.zeros((state.blocks, COLUMNS), bool)
        self.allocated: list[dict[int, tuple[int, int]]] = [{} for _ in range(state.blocks)]
        self.pairs: list[list[int]] = [[] for _ in range(state.blocks)]
        self.permit: dict[int, int] = {}

    def places(self, column: int, count: int) -> list[int]:
        """The free places of `count` columns in a block, multiples of them, the highest first.

        Where a GPU puts them is open: who takes 0 for granted shall see it here.
        """
        taken, starts = self.occupied[column], reversed(range(0, COLUMNS, count))
        return [at for at in starts if not taken[at : at + count].any()]

    def inside(
        self, lane: Offender, line: int, at: int, count: int, does: str, block: int | None = None
    ) -> bool:
        """Whether a block (None: its own) has the columns that a thread means; if not, say so."""
        block = lane.column if block is None else block
        if at + count <= COLUMNS and self.occupied[block, at : at + count].all():
            return True
        own = [f"{a} to {a + n - 1}" for a, (n, _) in sorted(self.allocated[block].items())]
        has = f"columns {', '.join(own)}" if own else "none"
        whose = "its block" if block == lane.column else "the other block of the pair"
        report(
            "out-of-bounds",
            line,
            lane,
            f"{lane} {does} columns {at} to {at + count - 1} of tensor memory; {whose} has "
            f"allocated {has}. Take the address that tcgen05.alloc wrote, and allocate as many "
            "columns as the sums and operands need",
        )
        return False

    def end(self) -> None:
        """The blocks end: report what they have not freed, and pairs that did not meet."""
        for column, done in enumerate(self.pairs):
            if not done:
                continue
            rank = clusters.of(self.state).rank[[column]]
            (other,) = clusters.column_of(self.state, np.array([column]), rank ^ 1)
            if len(done) > len(self.pairs[other]):
                lane = Offender(self.state, 0, column)
                report(
                    "divergent-barrier",
                    done[len(self.pairs[other])],
                    lane,
                    f"a warp of block {lane.block} allocates or frees tensor memory for a pair of "
                    "blocks, and the other block never does: on a GPU it waits. One warp of each "
                    "executes tcgen05.alloc and tcgen05.dealloc with .cta_group::2",
                )
        for column, own in enumerate(self.allocated):
            for count, line in own.values():
                block = self.state.block_tuple(column)
                self.state.find(
                    "divergent-barrier",
                    line,
                    f"block {block} ends and has not freed the {count} columns of tensor memory "
                    "that it allocates here: the next block on the multiprocessor waits for them "
                    "for ever. Let the warp that allocated them execute tcgen05.dealloc before the "
                    "end",
                    1,
                    block=block,
                )


def of(state: State) -> TensorMemory:
    """The tensor memory of a batch of blocks."""
    if state.tensor_memory is None:
        state.tensor_memory = TensorMemory(state)
    return state.tensor_memory


def report(kind: str, line: int, lane: Offender, message: str, other_line: int = 0) -> None:
    """Enter a fault about tensor memory: see `accuse`."""
    accuse(kind, line, lane, message, array="tensor memory", other_line=other_line)


def publish(
    lane: Offender, line: int, does: str, by: str, block: int, lanes: slice, columns: slice,
    shape: str = "",
) -> None:  # fmt: skip
    """Tell of an access of a thread that is about to be made; arguments as for `TensorAccess`."""
    who = lane.thread, lane.column, block
    for o in lane.state.observers:
        o.tensor(TensorAccess(does, by, line, *who, lanes, columns, shape))


def _by_warp(state: State, value: Array, here: Array) -> list[tuple[int, int, int]]:
    """(warp, block, what its first lane there holds), of the warps that have lanes there."""
    full = warps(state, value)
    found = np.argwhere(here.any(axis=1))
    return [(int(w), int(b), int(full[w, int(np.argmax(here[w, :, b])), b])) for w, b in found]


# -- allocation ----------------------------------------------------------------------------------


def tensor_alloc(
    state: State,
    number: int,
    address: Array,
    count: Array,
    pair: bool,
    line: int,
    mask: Mask | None,
) -> None:
    """tcgen05.alloc: the address of `count` columns is stored to shared memory."""
    memory = of(state)
    got = np.zeros((state.warp_shape.warps, 32, state.blocks), i4)
    for warp, column, columns in _by_warp(state, count, state.lanes_active(mask)):
        lane = Offender(state, 32 * warp, column)
        problem = ""
        if columns not in (32, 64, 128, 256, 512):
            problem = f"{columns} columns of tensor memory; a power of two from 32 to 512 is given"
        elif column in memory.permit:
            problem = (
                "tensor memory after its block has given back the permit (line "
                f"{memory.permit[column]}). Allocate all of it before "
                "tcgen05.relinquish_alloc_permit"
            )
        elif not (places := memory.places(column, columns)):
            free = COLUMNS - int(np.count_nonzero(memory.occupied[column]))
            problem = (
                f"{columns} columns of tensor memory where {free} of {COLUMNS} are free, and waits "
                "for ever. Free what is no longer used, or allocate less"
            )
        if problem:
            says = f"{lane} asks for {problem}"
            report("divergent-barrier", line, lane, says)
            continue
        at = places[0]
        if pair:
            memory.pairs[column].append(line)
        memory.occupied[column, at : at + columns] = True
        memory.written[column, :, at : at + columns] = False
        memory.allocated[column][at] = columns, line
        got[warp, :, column] = at
    site = state.sites[number]
    perform(state, site, address, state.first_lanes(mask, 1), (threads(state, got),))


def tensor_dealloc(
    state: State, address: Array, count: Array, pair: bool, line: int, mask: Mask | None
) -> None:
    """tcgen05.dealloc."""
    memory, here = of(state), state.lanes_active(mask)
    for (warp, column, at), (_, _, columns) in zip(
        _by_warp(state, address, here), _by_warp(state, count, here), strict=True
    ):
        lane = Offender(state, 32 * warp, column)
        own = {first: count for first, (count, _) in memory.allocated[column].items()}
        if own.get(at) != columns:
            if memory.inside(lane, line, at & 0xFFFF, columns, "frees"):
                report(
                    "out-of-bounds",
                    line,
                    lane,
                    f"{lane} frees {columns} columns of tensor memory from address {at:#x} on; the "
                    f"block has allocated {own} (columns by address). Free "
                    "what tcgen05.alloc gave, whole",
                )
            continue
        whole = slice(at, at + columns)
        publish(lane, line, "frees", "free", column, slice(0, LANES), whole)
        if pair:
            memory.pairs[column].append(line)
        memory.occupied[column, whole] = False
        del memory.allocated[column][at]


def relinquish(state: State, line: int, mask: Mask | None) -> None:
    """tcgen05.relinquish_alloc_permit."""
    blocks = np.flatnonzero(state.lanes_active(mask).any(axis=(0, 1)))
    of(state).permit |= dict.fromkeys(blocks.tolist(), line)


# -- registers -----------------------------------------------------------------------------------


@lru_cache
def fragment(shape: str, count: int) -> tuple[Array, Array]:
    """(lane, column) from the address on, of each register of a warp's lanes: (registers, 32).

    shape: 32x32b, 16x64b, 16x128b or 16x256b. count: .xN, how often it is repeated along the
    columns.
    """
    i = np.arange(4)[:, None]
    rows, columns, width = {
        "32x32b": (_LANE, np.zeros(32, int), 1),
        "16x64b": (_LANE // 4 + _LANE % 2 * 8, _LANE // 2 % 2, 2),
        "16x128b": (_LANE // 4 + i[:2] * 8, _LANE % 4, 4),
        "16x256b": (_LANE // 4 + i // 2 * 8, 2 * (_LANE % 4) + i % 2, 8),
    }[shape]
    rows, columns = np.broadcast_arrays(rows, columns)
    steps = width * np.arange(count)[:, None, None]
    return np.tile(rows, (count, 1)), (columns + steps).reshape(-1, 32)


def _reached(
    state: State, address: Array, shape: str, count: int, line: int, does: str, mask: Mask | None
) -> list[tuple[int, int, int, int]]:
    """(warp, block, lane, column) of each warp's access that is sound; others are reported."""
    memory, here = of(state), state.lanes_active(mask)
    width = int(fragment(shape, count)[1].max()) + 1
    high = 32 if shape == "32x32b" else 16
    full = warps(state, address)
    out = []
    for warp, column, at in _by_warp(state, address, here):
        lane = Offender(state, 32 * warp, column)
        # Rows 128 to 255 of a pair are lanes 0 to 127 of the second block.
        first, start = at >> 16 & LANES - 1, at & 0xFFFF
        own = 32 * (warp % 4)
        if (full[warp, :, column][here[warp, :, column]] != at).any():
            report(
                "divergent-barrier",
                line,
                lane,
                f"warp {warp} of block {lane.block} {does} tensor memory and its lanes give "
                "different addresses: all 32 give the address of the whole access, without "
                "threadIdx.x % 32",
            )
        if first not in ((own,) if high == 32 else (own, own + 16)):
            report(
                "out-of-bounds",
                line,
                lane,
                f"warp {warp} of block {lane.block} {does} tensor memory from lane {first} on: "
                f"warp {warp % 4} of a warpgroup reaches lanes {own} to {own + 31} alone. Add "
                "(32 * (warp % 4)) << 16 to the address of the column",
            )
            continue
        if memory.inside(lane, line, start, width, does):
            lanes, columns = slice(first, first + high), slice(start, start + width)
            by = "load" if does == "reads" else "store"
            publish(lane, line, does, by, column, lanes, columns)
            out.append((warp, column, first, start))
    return out


def tensor_load(
    state: State, address: Array, shape: str, count: int, packed: bool, line: int, mask: Mask | None
) -> list[Array]:
    """tcgen05.ld: the registers, int32 of four axes. packed: two columns' halves in each."""
    memory = of(state)
    count = count * 2 if packed else count
    rows, columns = fragment(shape, count)
    got = np.zeros((len(rows), state.warp_shape.warps, 32, state.blocks), u4)
    for warp, block, lane, at in _reached(state, address, shape, count, line, "reads", mask):
        place = block, rows + lane, columns + at
        if not memory.written[place].all():
            who = Offender(state, 32 * warp, block)
            report(
                "uninitialised",
                line,
                who,
                f"warp {warp} of block {who.block} reads tensor memory that nothing has written "
                "since it was allocated. Multiply into it, or store, first",
            )
        got[:, warp, :, block] = memory.data[place]
    if packed:
        got = got[0::2] & 0xFFFF | got[1::2] << 16
    return [threads(state, g.view(i4)) for g in got]


def tensor_store(
    state: State,
    address: Array,
    shape: str,
    count: int,
    packed: bool,
    values: Sequence[Array],
    line: int,
    mask: Mask | None,
) -> None:
    """tcgen05.st. packed: each register holds the halves of two columns."""
    memory = of(state)
    put = np.stack([warps(state, v).view(u4) for v in values])  # (registers, warps, 32, blocks)
    if packed:
        put = np.stack([put & 0xFFFF, put >> 16], axis=1).reshape(-1, *put.shape[1:])
        count *= 2
    rows, columns = fragment(shape, count)
    for warp, block, lane, at in _reached(state, address, shape, count, line, "writes", mask):
        place = block, rows + lane, columns + at
        memory.data[place] = put[:, warp, :, block]
        memory.written[place] = True


def loading_used(state: State, lanes: Array, line: int, first: int, mask: Mask | None) -> None:
    """Tell of lanes that use what the load of line `first` has not brought for sure."""
    lanes = lanes & array_of(mask)
    if state.observers and lanes.any():
        lane = first_offender(state, lanes)
        report(
            "race",
            line,
            lane,
            f"{lane} uses here what it loads from tensor memory in line {first}, and has not "
            "waited for it: until then a register need not hold it. Put tcgen05.wait::ld between "
            "the two, on every way",
            other_line=first,
        )


def tensor_wait(state: State, by: str, mask: Mask | None) -> None:
    """tcgen05.wait::ld and wait::st: what these warps have read or written is done."""
    for o in state.observers:
        o.tensor_waited(by, mask)


def tensor_fence(state: State, side: str, mask: Mask | None) -> None:
    """tcgen05.fence::before_thread_sync and ::after_thread_sync, around a barrier of threads."""
    for o in state.observers:
        o.tensor_fenced(side, mask)
