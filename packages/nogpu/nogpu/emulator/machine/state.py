"""The facts of the machine: what a launch shares, and one batch of its blocks.

Every value has four axes: (rows, x, p, q), where rows counts threadIdx.y and z, x threadIdx.x,
p blockIdx.y and z, and q blockIdx.x of the blocks that run together. An axis along which a value
does not vary has size one, so a loop counter costs one element and a row index one per row. The
blocks are the inner axes: what all blocks read at one shared address is one contiguous row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import specials
from nogpu.emulator.machine.events import Access, Bulk, Observer, Served, Where
from nogpu.emulator.machine.lanes import Array, WarpShape
from nogpu.emulator.machine.masks import Mask
from nogpu.emulator.machine.memory import Buffer, Heap, Words
from nogpu.emulator.ptx.sites import Site, calls_of

if TYPE_CHECKING:
    from nogpu.emulator.machine.asynchronous import Copies
    from nogpu.emulator.machine.bulk import Stores
    from nogpu.emulator.machine.cluster_barriers import Meetings
    from nogpu.emulator.machine.clusters import Peers
    from nogpu.emulator.machine.grouping import Call, Running
    from nogpu.emulator.machine.ports import Port
    from nogpu.emulator.machine.products import Products
    from nogpu.emulator.machine.spinning import Snapshot
    from nogpu.emulator.machine.tensor_memory import TensorMemory
    from nogpu.emulator.ptx.program import Program, SharedSymbol


i4, i8 = np.dtype("i4"), np.dtype("i8")


@dataclass
class Fault:
    """A finding in the making."""

    kind: str
    line: int
    message: str
    count: int
    details: dict[str, Any]
    weight: int  # of equal faults the weightiest is described


class StepBudgetError(Exception):
    """The step budget of the launch is used up."""


class Launch:
    """What all batches of one launch share: memory, sums, findings."""

    # Set by who launches.
    observers: Sequence[Observer]
    params: bytes
    shared_bytes: int
    static_shared: int
    dynamic_shared: int  # bytes of these that the launch asked for
    cluster: tuple[int, int, int]  # blocks a cluster, by axis
    explicit_cluster: bool  # the launch or the kernel says so
    cooperative: bool  # all blocks run at once, and the grid may wait for itself
    max_steps: int
    deadline: float
    chip: specials.Chip
    sampled: bool
    together: str  # why no more blocks run together, in words
    remaining: int  # blocks that have not been started
    schedule: str
    rng: np.random.Generator

    def __init__(self, program: Program, heap: Heap) -> None:
        self.program = program
        self.heap = heap
        self.nearest: dict[int, Buffer] = {}  # array that each instruction accessed last
        self.counts: dict[int, int] = {}  # warp instructions by basic block id
        self.faults: dict[tuple[Any, ...], Fault] = {}
        self.output: list[str] = []
        self.steps = 0
        self.turns = count()  # blocks of code that were run: the clock is not asked at each
        self.before = 0  # steps of the batches that have ended
        self.readings = 0  # of clocks
        self.flagged = False  # a value that others may wait for was just written
        self.memory = object()  # another one whenever a store or an atomic has changed memory
        # First blocks of clusters that have not started, where the kernel may take them over.
        self.pending: deque[tuple[int, int, int]] = deque()
        self.box_rows: set[int] = set()  # of 128 bytes, modulo 8, where swizzled boxes began
        self.notes: list[str] = []

    def remark(self, note: str) -> None:
        """Say something of the launch that is no fault, once."""
        if note not in self.notes:
            self.notes.append(note)

    def stored(self, site: Site) -> None:
        """Note that memory was written: those who wait may find what they wait for."""
        self.memory = object()
        if site.strong:
            self.flagged = True


class State:
    """One batch of blocks: their registers, shared memory, masks and barriers."""

    def __init__(
        self,
        launch: Launch,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        bx: Array,
        by: Array,
        bz: Array,
    ) -> None:
        """bx, by, bz: block indices, int32, broadcast over the axes (1, 1, p, q)."""
        self.launch = launch
        self.sites: list[Site] = launch.program.sites
        self.grid, self.block = grid, block
        tx, ty, tz = block
        self.rows, self.x = ty * tz, tx
        self.threads = tx * ty * tz
        shape = np.broadcast_shapes(bx.shape, by.shape, bz.shape)
        self.p, self.q = shape[2], shape[3]
        self.blocks = self.p * self.q
        self.shape = (self.rows, self.x, self.p, self.q)
        self.lanes = self.threads * self.blocks
        self.warp_shape = WarpShape(self.rows, self.x)
        self.total_warps = self.warp_shape.warps * self.blocks
        self.bx, self.by, self.bz = bx, by, bz
        row = np.arange(self.rows, dtype=i4).reshape(-1, 1, 1, 1)
        self.tid_x = np.arange(tx, dtype=i4).reshape(1, -1, 1, 1)
        self.tid_y = row % ty if ty > 1 else row[:1]
        self.tid_z = row // ty if tz > 1 else row[:1]
        self.thread = row.astype(i8) * tx + self.tid_x
        self.block_index = np.arange(self.blocks, dtype=i8).reshape(1, 1, self.p, self.q)
        gx, gy, _ = grid
        linear = (bz.astype(i8) * gy + by) * gx + bx
        self.linear_block = np.broadcast_to(linear, (1, 1, self.p, self.q))
        self.live: Mask | None = None
        self.shared = Words(launch.shared_bytes, self.block_index)
        # Of each instruction the last shared access without a fault, and its address.
        self.checked: dict[int, tuple[Site, Array, Where]] = {}
        self.local: Words | None = None
        self.local_set: Array | None = None  # which of its words were written, made on first use
        self.local_at: list[tuple[Array, ...]] = []  # of the last store, where its elements lie
        self.local_unset: list[Array] = []  # of the last load, lanes that read what was not
        self.local_base = 0
        self.completed = False  # a phase of an mbarrier was completed
        self.failed_polls = 0  # questions after such a phase since the last one was completed
        self.unchanged_polls = 0  # of these, the last ones between which no register changed
        self.last_registers: list[Array] = []  # all registers when threads last learnt "no"
        self.idle: int  # rounds of loops that wait in which nothing else happened
        self.snapshot: Snapshot | None = None  # of when threads last went round such loops
        self.moved: bool  # a barrier or a gate has opened since
        self.peers: Peers | None = None  # the clusters of its blocks: see `clusters.of`
        self.meetings: Meetings | None = None  # their barriers: see `cluster_barriers.of`
        self.arrived: dict[int, Array] = {}  # bar.arrive counts by barrier
        self.copies: Copies | None = None  # pending cp.async, made on first use
        self.stores: Stores | None = None  # of TMA, that still read, made on first use
        # PTX's tx-count: bytes that phases of mbarriers wait for, by place, on first use.
        self.tx_count: Array | None = None
        self.tx_lines: dict[int, int] = {}  # who announced last, by offset of the mbarrier
        self.products: Products | None = None  # of wgmma, made on first use
        self.tensor_memory: TensorMemory | None = None  # made on first use
        self.refused: dict[int, int] = {}  # blocks that were told that no cluster is left: the line
        self._constants: dict[str, Array] = {}
        self._first_lanes: dict[tuple[int, int], tuple[Mask | None, Mask | None]] = {}
        self.ports: list[Port] = []  # of memory instructions, in a program made for one thread
        self.scratch: tuple[memoryview, ...] = ()  # where such a program rounds
        self.frames: list[Running] = []  # the functions that are run, callers first
        self.current: Running | None = None  # the one that runs now
        self.calls: list[Call] = []  # that the block which runs now has come to
        self.steps = 0
        self.observers = launch.observers
        self._watching = [o.access for o in self.observers if type(o).access is not Observer.access]
        for o in self.observers:
            o.begin(self)

    # -- observers -------------------------------------------------------------------------------

    def publish(self, access: Access) -> None:
        """Tell of an access that is about to be made."""
        for watch in self._watching:
            watch(access)

    def publish_bulk(self, bulk: Bulk) -> None:
        """Tell of what an engine is about to do, or of what has been waited for."""
        for o in self.observers:
            o.bulk(bulk)

    def publish_served(self, served: Served) -> None:
        """Tell of atomics that have been performed."""
        for o in self.observers:
            o.served(served)

    # -- masks -----------------------------------------------------------------------------------

    def mask(self, arr: Array) -> Mask | None:
        """A mask of a bool array; None if it holds every thread of the batch."""
        n = int(np.count_nonzero(arr)) * (self.lanes // arr.size)
        return None if n == self.lanes else Mask(self, arr, n)

    def narrowed(self, base: Mask | None, pred: Array) -> Mask | None:
        """The threads of base whose predicate holds."""
        return self.mask(pred if base is None else base.arr & pred)

    def first_lanes(self, mask: Mask | None, count: int) -> Mask | None:
        """The threads of a mask among the first `count` lanes of their warps."""
        if count >= 32:
            return mask
        key = (id(mask), count)
        entry = self._first_lanes.get(key)
        if entry is None or entry[0] is not mask:
            entry = self._first_lanes[key] = (mask, self.narrowed(mask, self.thread % 32 < count))
        return entry[1]

    def by_thread(self, value: Array) -> Array:
        """A value of four axes for every thread: (threads, blocks)."""
        return np.broadcast_to(value, self.shape).reshape(self.threads, self.blocks)

    def lanes_active(self, mask: Mask | None) -> Array:
        """bool (warps, 32, blocks): which lanes are threads of the mask."""
        lanes = np.zeros((32 * self.warp_shape.warps, self.blocks), bool)
        lanes[: self.threads] = True if mask is None else self.by_thread(mask.arr)
        return lanes.reshape(-1, 32, self.blocks)

    def warps_active(self, mask: Mask | None) -> Array:
        """bool (warps, blocks): which warps have a thread in the mask."""
        if mask is None:
            return np.ones((self.warp_shape.warps, self.blocks), bool)
        return np.asarray(self.lanes_active(mask).any(axis=1))

    @property
    def alive(self) -> Mask | None:
        """The threads that have not left the kernel; `live`: of the function that runs now."""
        entry = self.frames[0]
        return self.live if entry is self.current else entry.live

    def within(self, mask: Mask | None) -> Mask | None:
        """The threads of a group: those of its mask, or all that live."""
        return self.live if mask is None else mask

    def count(self, mask: Mask | None) -> int:
        """Threads in the mask."""
        return self.lanes if mask is None else mask.n

    def count_warps(self, mask: Mask | None) -> int:
        """Warps with at least one thread in the mask."""
        return self.total_warps if mask is None else mask.warps

    def by_block(self, mask: Mask | None) -> Array:
        """Threads of a mask in each block: int64 (1, 1, p, q)."""
        if mask is None:
            return np.full((1, 1, self.p, self.q), self.threads, np.int64)
        arr = mask.arr
        scale = (self.rows // arr.shape[0]) * (self.x // arr.shape[1])
        return np.broadcast_to(
            np.count_nonzero(arr, axis=(0, 1), keepdims=True) * scale, (1, 1, self.p, self.q)
        )

    # -- special registers -----------------------------------------------------------------------

    def special(self, name: str) -> Array:
        """The value of a special register such as tid.x or clock64."""
        if name in specials.TIMED:
            return specials.now(self, name)
        value = self._constants.get(name)
        if value is None:
            value = self._constants[name] = specials.value(self, name)
        return value

    # -- words about places ----------------------------------------------------------------------

    def thread_tuple(self, thread: int) -> tuple[int, int, int]:
        """threadIdx of a linear thread number."""
        tx, ty, _ = self.block
        return thread % tx, thread // tx % ty, thread // (tx * ty)

    def thread_text(self, thread: int) -> str:
        """threadIdx as text."""
        return "({}, {}, {})".format(*self.thread_tuple(thread))

    def block_of(self, linear: int) -> tuple[int, int, int]:
        """blockIdx of a linear block number."""
        gx, gy, _ = self.grid
        return linear % gx, linear // gx % gy, linear // (gx * gy)

    def block_tuple(self, column: int) -> tuple[int, int, int]:
        """blockIdx of a block of this batch."""
        return self.block_of(int(self.linear_block.flat[column]))

    @cached_property
    def global_thread(self) -> Array:
        """Number of each thread in the whole launch: block number times threads, plus thread."""
        return self.linear_block * self.threads + self.thread

    def global_thread_text(self, gid: int) -> str:
        """threadIdx and blockIdx of a thread of the launch."""
        block = self.block_of(gid // self.threads)
        return f"{self.thread_text(gid % self.threads)} of block {block}"

    def shared_symbol(self, address: int) -> SharedSymbol | None:
        """The variable at a byte address of shared memory."""
        for symbol in self.launch.program.shared_symbols:
            end = symbol.start + symbol.size if symbol.size else self.launch.shared_bytes
            if symbol.start <= address < max(end, symbol.start + 1):
                return symbol
        return None

    def shared_name(self, address: int) -> tuple[str, str]:
        """(variable, variable[element]) at a byte address of shared memory."""
        symbol = self.shared_symbol(address)
        if symbol is None:
            return "shared", f"shared memory byte {address}"
        return symbol.name, symbol.index_text(address - symbol.start)

    def find(
        self,
        kind: str,
        line: int,
        message: str,
        count: int,
        *,
        array: str = "",
        index: str = "",
        threads: tuple[int, ...] = (),
        other_line: int = 0,
        block: tuple[int, int, int] | None = None,
        weight: int = 0,
    ) -> None:
        """Enter a fault; equal ones are counted, the first of the highest weight is described."""
        key = (kind, line, array, calls_of(line), other_line)
        old = self.launch.faults.get(key)
        if old is not None:
            old.count += count
            if weight <= old.weight:
                return
            count = old.count
        self.launch.faults[key] = Fault(
            kind,
            line,
            message,
            count,
            {
                "array": array,
                "index": index,
                "block": block,
                "threads": tuple(self.thread_tuple(t) for t in threads),
                "other_line": other_line,
            },
            weight,
        )

    def waited_in_vain(self) -> bool:
        """Whether threads of this launch waited for what never came, and were let go."""
        return any(kind == "divergent-barrier" for kind, *_ in self.launch.faults)

    # -- local memory ----------------------------------------------------------------------------

    def local_memory(self) -> Words:
        """Local memory of all threads, made when first touched."""
        if self.local is None:
            columns = np.arange(self.lanes, dtype=i8).reshape(self.shape)
            self.local = Words(self.launch.program.local_bytes, columns)
        return self.local
