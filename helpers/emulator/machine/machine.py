"""The lock-step machine: all threads of many blocks at once, one NumPy array per register.

Every value has four axes: (rows, x, p, q), where rows counts threadIdx.y and z, x threadIdx.x,
p blockIdx.y and z, and q blockIdx.x of the blocks that run together. An axis along which a value
does not vary has size one, so a loop counter costs one element and a row index one per row. The
blocks are the inner axes: what all blocks read at one shared address is one contiguous row.

Control flow: groups of threads wait at basic blocks of the program, and the group at the first one
(in the order of `flow`) runs next; groups that reach the same place merge. A barrier holds its
threads until nothing else can run, then releases every block that is complete. Threads that go
round a loop which waits for others (`waits`) are set aside without change in the same way, and go
round again when nothing else can run: so all threads of a launch get on, whoever waits for whom.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.emulator.launching.report import SiteStats
from helpers.emulator.machine import mbarrier
from helpers.emulator.machine.masks import Mask
from helpers.emulator.machine.memory import Heap, Words
from helpers.emulator.observe.counts import WarpShape
from helpers.emulator.observe.order import Ledger, Order
from helpers.emulator.observe.ordered import OrderedLog
from helpers.emulator.observe.races import WARP_SYNC, SharedLog
from helpers.errors import EmulationError

if TYPE_CHECKING:
    from helpers.emulator.ptx.program import Block, FunctionProgram, Program, Spin
    from helpers.emulator.ptx.sites import Site

Array = np.ndarray[Any, np.dtype[Any]]

i4, i8 = np.dtype("i4"), np.dtype("i8")

_PATIENCE = 64  # rounds of a loop made for waiting after which its threads let others run
_IDLE = 20_000  # rounds in which threads wait, count, and nothing else happens


@dataclass(eq=False)
class Waiting:
    """Threads that wait at a barrier."""

    barrier: int  # its number
    block: Block  # which ends with the barrier
    mask: Mask | None
    expected: Array | None  # threads it takes, or None for all of the block
    reduce: tuple[str, int, Array] | None = None  # (operation, register, predicate)

    @property
    def resume(self) -> int:
        """Where the threads go on."""
        return self.block.next

    @property
    def line(self) -> int:
        """The source line of the barrier."""
        return self.block.end_line


@dataclass
class Held:
    """Lanes that wait where their whole warp acts together. member: the lanes that each names."""

    resume: int
    mask: Mask | None
    member: Array  # int64 (warps, 32, blocks)
    line: int


@dataclass
class Round:
    """The last time that threads went round a loop that waits: who, with what, how often so far."""

    arr: Array
    values: list[Array]
    count: int


@dataclass
class Fault:
    """A finding in the making."""

    kind: str
    line: int
    message: str
    count: int
    details: dict[str, Any] = field(default_factory=dict)
    weight: int = 0  # of equal faults the weightiest is described


class StepBudgetError(Exception):
    """The step budget of the launch is used up."""


class Launch:
    """What all batches of one launch share: memory, sums, findings."""

    def __init__(self, program: Program, heap: Heap) -> None:
        self.program = program
        self.heap = heap
        self.stats = [SiteStats() for _ in program.sites]
        self.counts: dict[int, int] = {}  # warp instructions by basic block id
        self.faults: dict[tuple[Any, ...], Fault] = {}
        self.output: list[str] = []
        self.params: bytes = b""
        self.analyse = True
        self.shared_bytes = 0
        self.static_shared = 0
        self.dynamic_shared = 0  # bytes of these that the launch asked for
        self.max_steps = 0
        self.deadline = float("inf")
        self.steps = 0
        self.writable: set[int] | None = None  # slots that the kernel may write; None: all
        self.order = False  # fences and flags may order threads: kept track of
        self.ledger = Ledger()
        self.flagged = False  # a value that others may wait for was just written
        self.writes = 0  # stores and atomics that changed memory
        self.remaining = 0  # blocks that have not been started
        self.sampled = False
        self.together = ""  # why no more blocks run together, in words
        self.schedule = "ascending"
        self.rng = np.random.default_rng(0)
        self.notes: list[str] = []
        self.keep_samples = True
        # Shared accesses of the machine code by the site that they begin with: bytes a lane, and how
        # many of them lie before the site's.
        self.spans: Mapping[int, tuple[int, int]] = {}


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
        self.stats = launch.stats
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
        self.tid_y = row % ty if ty > 1 else row[:1] * 0
        self.tid_z = row // ty if tz > 1 else row[:1] * 0
        self.thread = row.astype(i8) * tx + self.tid_x
        self.block_index = np.arange(self.blocks, dtype=i8).reshape(1, 1, self.p, self.q)
        gx, gy, _ = grid
        linear = (bz.astype(i8) * gy + by) * gx + bx
        self.linear_block = np.broadcast_to(linear, (1, 1, self.p, self.q))
        self._global_thread: Array | None = None
        self.live: Mask | None = None
        self.analyse = launch.analyse
        self.order: Order | None = None
        self.epoch = np.zeros((1, 1, self.p, self.q), np.int32)
        columns = self.block_index
        self.shared = Words(max(launch.shared_bytes, 4), columns)
        self.log: SharedLog | None = None
        if self.analyse and launch.shared_bytes:
            log = OrderedLog if launch.program.mbarriers else SharedLog
            self.log = log(self, launch.shared_bytes, launch.program.granule)
        if launch.order:
            self.order = Order(self, launch.ledger)
        self.local: Words | None = None
        self.local_base = 0
        self.waiting: list[Waiting] = []
        self.asking: list[mbarrier.Asking] = []  # those that wait for an mbarrier
        self.completed = False  # a phase of an mbarrier was completed
        self.fruitless = 0  # questions after such a phase since the last one was completed
        self.parked: dict[int, Mask | None] = {}  # threads that wait in a loop, by its head
        self.rounds: dict[int, Round] = {}
        self.held: list[Held] = []
        self.spins: dict[int, Spin] = {}  # the loops that threads wait in, by their head
        self.still: tuple[Any, ...] | None = None  # all there was when they last went round
        self.idle = 0
        self.moved = False  # a barrier or a gate has opened since
        self.arrived: dict[int, Array] = {}  # bar.arrive counts by barrier
        self.copies: Any = None  # pending cp.async, made on first use
        self._constants: dict[str, Array] = {}
        self._first_lanes: dict[tuple[int, int], tuple[Mask | None, Mask | None]] = {}
        self.depth = 0
        self.ended: Array | None = None  # threads that left the kernel in a device function
        self.steps = 0

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
        found = self._first_lanes.get(key)
        if found is None or found[0] is not mask:
            found = self._first_lanes[key] = (mask, self.narrowed(mask, self.thread % 32 < count))
        return found[1]

    def warps_active(self, mask: Mask | None) -> Array:
        """bool (warps, blocks): which warps have a thread in the mask."""
        if mask is None:
            return np.ones((self.warp_shape.warps, self.blocks), bool)
        arr = np.broadcast_to(mask.arr, self.shape).reshape(self.threads, self.blocks)
        pad = -self.threads % 32
        if pad:
            arr = np.concatenate([arr, np.zeros((pad, self.blocks), bool)])
        return np.asarray(arr.reshape(-1, 32, self.blocks).any(axis=1))

    def count_warps(self, mask: Mask | None) -> int:
        """Warps with at least one thread in the mask."""
        return self.total_warps if mask is None else mask.warps

    # -- special registers -----------------------------------------------------------------------

    def special(self, name: str) -> Array:
        """The value of a special register such as tid.x or clock64."""
        found = self._constants.get(name)
        if found is None:
            found = self._constants[name] = self._special(name)
        return found

    def _special(self, name: str) -> Array:
        def uniform(value: int, kind: np.dtype[Any] = i4) -> Array:
            return np.array(value, "i8").astype(kind).reshape(1, 1, 1, 1)

        base, _, axis = name.partition(".")
        which = "xyzw".find(axis) if axis else 0
        if base == "tid":
            return (self.tid_x, self.tid_y, self.tid_z, uniform(0))[which]
        if base == "ctaid":
            return (self.bx, self.by, self.bz, uniform(0))[which]
        if base == "ntid":
            return uniform((*self.block, 1)[which])
        if base == "nctaid":
            return uniform((*self.grid, 1)[which])
        lane = (self.thread % 32).astype(i4)
        one, full = np.int64(1), np.int64(0xFFFFFFFF)
        values: dict[str, Callable[[], Array]] = {
            "laneid": lambda: lane,
            "warpid": lambda: (self.thread // 32).astype(i4),
            "nwarpid": lambda: uniform(self.warp_shape.warps),
            "smid": lambda: uniform(0),
            "nsmid": lambda: uniform(1),
            "gridid": lambda: uniform(0, i8),
            # Time does not exist here: clocks are defined to stand still.
            "clock": lambda: uniform(0),
            "clock_hi": lambda: uniform(0),
            "clock64": lambda: uniform(0, i8),
            "globaltimer": lambda: uniform(0, i8),
            "globaltimer_lo": lambda: uniform(0),
            "globaltimer_hi": lambda: uniform(0),
            "lanemask_eq": lambda: (one << lane.astype(i8)).astype(i4),
            "lanemask_lt": lambda: ((one << lane.astype(i8)) - 1).astype(i4),
            "lanemask_le": lambda: ((one << (lane.astype(i8) + 1)) - 1).astype(i4),
            "lanemask_gt": lambda: (full & ~((one << (lane.astype(i8) + 1)) - 1)).astype(i4),
            "lanemask_ge": lambda: (full & ~((one << lane.astype(i8)) - 1)).astype(i4),
            "dynamic_smem_size": lambda: uniform(
                self.launch.shared_bytes - self.launch.static_shared
            ),
            "total_smem_size": lambda: uniform(self.launch.shared_bytes),
            "aggr_smem_size": lambda: uniform(self.launch.shared_bytes),
        }
        return values[base]()

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
        return self.block_of(int(self.linear_block.reshape(-1)[column]))

    @property
    def global_thread(self) -> Array:
        """Number of each thread in the whole launch: block number times threads, plus thread."""
        if self._global_thread is None:
            self._global_thread = self.linear_block * self.threads + self.thread
        return self._global_thread

    def global_thread_text(self, gid: int) -> str:
        """threadIdx and blockIdx of a thread of the launch."""
        block = self.block_of(gid // self.threads)
        return f"{self.thread_text(gid % self.threads)} of block {block}"

    def shared_name(self, address: int) -> tuple[str, str]:
        """(variable, variable[element]) at a byte address of shared memory."""
        for symbol in self.launch.program.shared_symbols:
            end = symbol.start + symbol.size if symbol.size else self.launch.shared_bytes
            if symbol.start <= address < max(end, symbol.start + 1):
                return symbol.name, symbol.index_text(address - symbol.start)
        return "shared", f"shared memory byte {address}"

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
        """Enter a fault; equal ones are counted, and the first of the highest weight is described."""
        key = (kind, line, array, other_line)
        found = self.launch.faults.get(key)
        if found is not None:
            found.count += count
            if weight <= found.weight:
                return
            count = found.count
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

    def first_lane(self, chosen: Array) -> tuple[int, int]:
        """(thread, column) of the lowest block's first true lane of a bool array."""
        full = np.broadcast_to(chosen, self.shape).reshape(self.threads, self.blocks)
        column = int(np.flatnonzero(full.any(axis=0))[0])
        return int(np.flatnonzero(full[:, column])[0]), column

    # -- running ---------------------------------------------------------------------------------

    def run(self, program: FunctionProgram, frame: dict[str, Any]) -> None:
        """Run a function from its entry until every thread has left it."""
        registers: list[Any] = [None] * program.nregisters
        zero = {k: np.zeros((1, 1, 1, 1), k) for k in ("b1", "i2", "f2", "i4", "f4", "i8", "f8")}
        for number, kind in enumerate(program.kinds):
            registers[number] = zero[kind]
        outer_waiting, self.waiting = self.waiting, []
        outer_asking, self.asking = self.asking, []
        outer = self.parked, self.rounds, self.held, self.spins, self.still
        self.parked, self.rounds, self.held, self.spins, self.still = {}, {}, [], {}, None
        pools = self._start()
        counts = self.launch.counts
        blocks = program.blocks
        launch = self.launch
        budget, rank = launch.max_steps, program.rank
        while pools:
            pool = pools[-1]
            if not pool:
                pools.pop()
                if not pools:
                    pools = self._next(registers)
                continue
            at = min(pool) if rank is None else min(pool, key=rank.__getitem__)
            if len(pool) > 1:
                # Threads that have nothing left but to return do so at once: the others then are
                # all that live, and need no mask.
                at = next((e for e in program.exits if e in pool), at)
            mask = pool.pop(at)
            block = blocks[at]
            self.steps += block.cost
            if self.steps > budget or time.monotonic() > launch.deadline:
                self._out_of_steps(block.line)
            counts[block.number] = counts.get(block.number, 0) + (
                self.total_warps
                if mask is None and self.live is None
                else (mask or self.live).warps  # type: ignore[union-attr]
            )
            active = self.live if mask is None else mask
            result = block.run(self, registers, frame, mask, active)
            if self.ended is not None:
                mask = self._without_ended(mask)
                if self.live is not None and self.live.n == 0:
                    continue
                if mask is not None and mask.n == 0:
                    continue
            self._leave(pool, block, mask, result, registers)
            if self.completed:
                mbarrier.wake(self, pool, registers)
            if block.spins is not None:
                for spin in block.spins:
                    self._spin(pool, spin, registers)
            if launch.flagged:
                launch.flagged = False
                if launch.program.waits:
                    self._hand_on(pools, active)
        self.waiting, self.asking = outer_waiting, outer_asking
        self.parked, self.rounds, self.held, self.spins, self.still = outer

    def _leave(
        self,
        pool: dict[int, Mask | None],
        block: Block,
        mask: Mask | None,
        result: Any,
        registers: list[Any],
    ) -> None:
        """Send the threads that have run a block where its end says; each of them goes somewhere."""
        match block.kind:
            case "jump":
                self._push(pool, block.target, mask)
            case "branch":
                self._branch(pool, block.target, block.next, mask, result)
            case "exit":
                if block.ends_thread and self.depth:
                    self._end_threads(mask, result)
                self._exit(pool, mask, result, block.next)
            case "barrier":
                self._meet(pool, block, mask, result)
            case "table":
                self._table(pool, block.targets, mask, result)
            case "poll":
                mbarrier.poll(self, pool, block, mask, result, registers)
            case "gate":
                self._gate(pool, block.next, mask, result, block.end_line)
            case _:
                raise AssertionError(f"a basic block ends in {block.kind!r}")

    def _meet(
        self, pool: dict[int, Mask | None], block: Block, mask: Mask | None, result: Any
    ) -> None:
        """Threads come to a barrier: they wait there, or (bar.arrive) are counted and go on."""
        barrier, expected, arrive, reduce = result
        if arrive:
            self._arrive(barrier, mask)
            self._push(pool, block.next, mask)
        else:
            self.waiting.append(Waiting(barrier, block, mask, expected, reduce))

    def _start(self) -> list[dict[int, Mask | None]]:
        if self.launch.schedule == "ascending" or self.depth:
            return [{0: None}]
        return self._permuted([(0, self.live)])

    def _permuted(self, groups: list[tuple[int, Mask | None]]) -> list[dict[int, Mask | None]]:
        """Split groups by warp into a few sets that run one after the other, in random order."""
        warps = self.warp_shape.warps
        sets = min(4, warps)
        order = self.launch.rng.permutation(np.arange(warps) % sets)
        choice = order[np.arange(self.warp_shape.threads) // 32].reshape(self.rows, self.x, 1, 1)
        pools: list[dict[int, Mask | None]] = []
        for k in range(sets):
            pool: dict[int, Mask | None] = {}
            for at, mask in groups:
                part = self.narrowed(mask, choice == k)
                if part is None or part.n:
                    self._push(pool, at, part)
            if pool:
                pools.append(pool)
        return pools

    def _push(self, pool: dict[int, Mask | None], at: int, mask: Mask | None) -> None:
        if at not in pool:
            pool[at] = mask
            return
        other = pool[at]
        if mask is None or other is None:
            pool[at] = None
            return
        union = Mask(self, mask.arr | other.arr, mask.n + other.n)
        full = self.lanes if self.live is None else self.live.n
        pool[at] = None if union.n == full else union

    def _branch(
        self, pool: dict[int, Mask | None], target: int, after: int, mask: Mask | None, pred: Array
    ) -> None:
        if pred.size == 1:
            self._push(pool, target if pred.item() else after, mask)
            return
        base = self.live if mask is None else mask
        if base is None:
            n = int(np.count_nonzero(pred)) * (self.lanes // pred.size)
            full = self.lanes
            taken = pred
        else:
            taken = base.arr & pred
            n = int(np.count_nonzero(taken)) * (self.lanes // taken.size)
            full = base.n
        if n == full:
            self._push(pool, target, mask)
        elif n == 0:
            self._push(pool, after, mask)
        else:
            rest = ~pred if base is None else base.arr & ~pred
            self._push(pool, target, Mask(self, taken, n))
            self._push(pool, after, Mask(self, rest, full - n))

    def _exit(
        self, pool: dict[int, Mask | None], mask: Mask | None, pred: Array | None, after: int
    ) -> None:
        base = self.live if mask is None else mask
        gone = base
        if pred is not None:
            gone = self.narrowed(base, pred)
            if gone is not None and gone.n == 0:
                self._push(pool, after, mask)
                return
            stay = self.narrowed(base, ~pred)
            if stay is None or stay.n:
                self._push(pool, after, stay)
        if gone is None:
            self.live = Mask(self, np.zeros((1, 1, 1, 1), bool), 0)
            return
        old = self.live
        left = ~gone.arr if old is None else old.arr & ~gone.arr
        n = (self.lanes if old is None else old.n) - gone.n
        self.live = Mask(self, left, n)
        if pred is not None and len(pool) == 1 and next(iter(pool)) == after:
            stay = pool[after]
            if stay is not None and stay.n == n and not self.waiting:
                pool[after] = None
        elif len(pool) == 1 and not self.waiting:
            at, only = next(iter(pool.items()))
            if only is not None and only.n == n:
                pool[at] = None

    def _end_threads(self, mask: Mask | None, pred: Array | None) -> None:
        """exit or trap in a device function: the callers lose these threads too."""
        base = self.live if mask is None else mask
        gone = base if pred is None else self.narrowed(base, pred)
        every = np.ones((1, 1, 1, 1), bool) if gone is None else gone.arr
        self.ended = every if self.ended is None else self.ended | every

    def _without_ended(self, mask: Mask | None) -> Mask | None:
        """Take threads that ended inside a call out of this frame."""
        assert self.ended is not None
        stay = ~self.ended
        self.live = self.narrowed(self.live, stay)
        if self.depth == 0:
            self.ended = None
        return None if mask is None else self.narrowed(mask, stay)

    def _table(
        self,
        pool: dict[int, Mask | None],
        targets: tuple[int, ...],
        mask: Mask | None,
        index: Array,
    ) -> None:
        base = self.live if mask is None else mask
        values = np.unique(
            index
            if base is None
            else index[np.broadcast_to(base.arr, np.broadcast_shapes(base.arr.shape, index.shape))]
            if index.size > 1
            else index
        )
        for value in values:
            part = self.narrowed(base, index == value)
            if part is not None and part.n == 0:
                continue
            full = self.lanes if base is None else base.n
            if (self.lanes if part is None else part.n) == full:
                part = mask
            if 0 <= int(value) < len(targets):
                self._push(pool, targets[int(value)], part)

    # -- waiting ---------------------------------------------------------------------------------

    def _spin(self, pool: dict[int, Mask | None], spin: Spin, registers: list[Any]) -> None:
        """Threads have gone back to the start of a loop that waits: set aside those it did not change.

        What their registers held a round ago they hold now, so they go on only when another thread
        has changed memory. Loops that also count (tries, a growing pause) have some patience.
        """
        if spin.head not in pool:
            self.rounds.pop(spin.head, None)
            return
        group = pool[spin.head]
        base = self.live if group is None else group
        arr = np.ones((1, 1, 1, 1), bool) if base is None else base.arr
        values = [registers[n] for n in spin.registers]
        old = self.rounds.get(spin.head)
        count = 1 if old is None else old.count + 1
        self.rounds[spin.head] = Round(arr, values, count)
        if old is None:
            return
        same = arr
        if not spin.strong or count <= _PATIENCE:
            same = arr & old.arr
            for now, then in zip(values, old.values, strict=True):
                if now is not then:
                    same = same & _same_bits(now, then)
                if not same.any():
                    return
        aside = self.narrowed(base, same)
        if aside is not None and aside.n == 0:
            return
        rest = None if aside is None else self.narrowed(base, ~same)
        self._push(self.parked, spin.head, aside)
        self.spins[spin.head] = spin
        if rest is None or rest.n == 0:
            del pool[spin.head]
        else:
            pool[spin.head] = rest

    def _hand_on(self, pools: list[dict[int, Mask | None]], mask: Mask | None) -> None:
        """A flag was set: the other warps go on first, above all those that wait for flags.

        So what they do comes before what the setter does next, and accesses that only the setter's
        haste would keep apart meet.
        """
        if self.launch.schedule != "ascending" and self.launch.rng.random() < 0.5:
            return
        own = self._lanes_of(mask).any(axis=1, keepdims=True)
        shape = (self.warp_shape.warps, 32, self.blocks)
        others = ~np.asarray(self.warp_shape.back(np.broadcast_to(own, shape), (self.p, self.q)))
        first, self.parked = self.parked, {}
        pool = pools[-1]
        for at, group in list(pool.items()):
            base = self.live if group is None else group
            part, stay = self.narrowed(base, others), self.narrowed(base, ~others)
            if part is not None and part.n == 0:
                continue
            self._push(first, at, part)
            if stay is None or stay.n:
                pool[at] = stay
            else:
                del pool[at]
        if first:
            pools.append(first)

    def _gate(
        self, pool: dict[int, Mask | None], after: int, mask: Mask | None, member: Array, line: int
    ) -> None:
        """Lanes come to where their warp acts together: hold them until those that they name come."""
        if mask is None or mask.n == mask.warps * 32:
            self._push(pool, after, mask)
            return
        held = Held(after, mask, self._members(member), line)
        go = self._complete(held, [held])
        stay, part = self.narrowed(mask, ~go), self.narrowed(mask, go)
        if stay is None or stay.n:
            held.mask = stay
            self.held.append(held)
        if part is None or part.n:
            self._push(pool, after, part)

    def _members(self, member: Array) -> Array:
        full = self.warp_shape.full(member, (self.p, self.q))
        shape = (self.warp_shape.warps, 32, self.blocks)
        return np.broadcast_to(full.astype(i8) & 0xFFFFFFFF, shape)

    def _lanes_of(self, mask: Mask | None) -> Array:
        """bool (warps, 32, blocks): the threads of a mask."""
        arr = np.ones((1, 1, 1, 1), bool) if mask is None else mask.arr
        full = self.warp_shape.full(np.broadcast_to(arr, self.shape), (self.p, self.q))
        lanes = np.asarray(full, bool).copy()
        lanes.reshape(-1, self.blocks)[self.threads :] = False
        return lanes

    def _complete(self, held: Held, together: list[Held]) -> Array:
        """bool (four axes): held lanes that name no living lane but those that are held together."""
        away = self._lanes_of(self.live)
        for other in together:
            away &= ~self._lanes_of(other.mask)
        bit = np.int64(1) << np.arange(32, dtype=i8).reshape(1, 32, 1)
        absent = (away * bit).sum(axis=1, keepdims=True)
        return np.asarray(self.warp_shape.back((held.member & absent) == 0, (self.p, self.q)))

    def _next(self, registers: list[Any]) -> list[dict[int, Mask | None]]:
        """Nothing runs: open gates and barriers; then let those go round who wait in a loop."""
        if not self.parked and not self.held:
            return self._release(registers)
        pools = self._open_gates() or self._release(registers, stuck=False)
        if not pools and not self.parked:
            # Lanes wait for others of their warp that never come: they go on without them, and the
            # operation that they come to says so.
            pool: dict[int, Mask | None] = {}
            for held in self.held:
                self._push(pool, held.resume, held.mask)
            self.held, pools = [], [pool]
        if pools:
            self.moved = True
            return pools
        now = (self.launch.writes, dict(self.parked), list(registers))
        if self._nothing_changed(now) and self.idle in (1, _IDLE):
            self._deadlock()
        self.still, self.moved = now, False
        groups, self.parked = self.parked, {}
        if self.launch.schedule != "ascending" and self.depth == 0:
            return self._permuted([(at, self.live if m is None else m) for at, m in groups.items()])
        return [groups]

    def _open_gates(self) -> list[dict[int, Mask | None]]:
        pool: dict[int, Mask | None] = {}
        waiting, keep = self.held, []
        for held, go in [
            (h, self._complete(h, [o for o in waiting if o.resume == h.resume])) for h in waiting
        ]:
            part, stay = self.narrowed(held.mask, go), self.narrowed(held.mask, ~go)
            if part is None or part.n:
                self._push(pool, held.resume, part)
            if part is not None and (stay is None or stay.n):
                held.mask = stay
                keep.append(held)
        self.held = keep
        return [pool] if pool else []

    def _nothing_changed(self, now: tuple[Any, ...]) -> bool:
        """Whether all is as it was a round ago. Sets idle: 1 if to the last bit, else rounds so far
        in which only registers changed."""
        then = self.still
        same = (
            then is not None
            and not self.moved
            and then[0] == now[0]
            and then[1].keys() == now[1].keys()
            and all(_same_threads(m, now[1][at]) for at, m in then[1].items())
        )
        if not same:
            self.idle = 0
            return False
        assert then is not None
        if all(
            a is b or bool(_same_bits(a, b).all()) for a, b in zip(then[2], now[2], strict=True)
        ):
            self.idle = 1
        else:
            self.idle = max(self.idle, 1) + 1
        return True

    def _who_waits(self) -> tuple[int, str]:
        """(line, words): which threads wait, and where."""
        parts, line = [], 0
        places = [(self.spins[at].line, "in the loop at", m) for at, m in self.parked.items()]
        places += [(h.line, "for their warp at", h.mask) for h in self.held]
        places += [(w.line, "at the barrier of", w.mask) for w in self.waiting]
        for at, where, mask in places:
            base = self.live if mask is None else mask
            thread, column = self.first_lane(
                np.ones((1, 1, 1, 1), bool) if base is None else base.arr
            )
            n = self.lanes if base is None else base.n
            more = f" and {n - 1} more" if n > 1 else ""
            parts.append(
                f"thread {self.thread_text(thread)} of block {self.block_tuple(column)}{more} "
                f"{where} line {at}"
            )
            line = line or at
        return line, "; ".join(parts)

    def _deadlock(self) -> None:
        """Threads wait for what nobody does: say who, and stop."""
        line, who = self._who_waits()
        launch = self.launch
        if self.depth:
            raise EmulationError(
                f"line {line}: threads wait in a device function that is not inlined, and such a "
                "function runs to its end before other threads go on. Mark it __forceinline__"
            )
        block = self.block_tuple(self._first_waiting())
        stopped = "The launch was stopped; its results are incomplete"
        if any(self.spins[at].endless for at in self.parked):
            self.find(
                "step-budget",
                line,
                f"an endless loop, which nothing leads out of: {who}. If it is to wait for a flag, the "
                "compiler has read that once, before the loop: declare it volatile, or read it by an "
                f"atomic operation. {stopped}",
                1,
                block=block,
            )
            raise StepBudgetError
        why = "No thread that runs changes what they wait for"
        if launch.sampled:
            why += (
                ". Only a sample of the blocks was run: the one that does may not be among them. "
                "Run the whole grid"
            )
        elif launch.remaining:
            why += (
                f", and {launch.remaining} blocks of higher index have not been started: "
                f"{launch.together}. A block may wait for a higher one only if a GPU holds both at "
                "the same time. Launch no more blocks than it does, or wait for lower ones"
            )
        else:
            why += ". Check who sets the flag or gives the lock back, and whether it can get there"
        self.find(
            "deadlock",
            line,
            f"all threads that are left wait: {who}. {why}. {stopped}",
            1,
            block=block,
        )
        raise StepBudgetError

    def _first_waiting(self) -> int:
        masks = [*self.parked.values(), *(h.mask for h in self.held)]
        base = self.live if masks[0] is None else masks[0]
        return 0 if base is None else self.first_lane(base.arr)[1]

    # -- barriers --------------------------------------------------------------------------------

    def by_block(self, mask: Mask | None) -> Array:
        """Threads of a mask in each block: int64 (1, 1, p, q)."""
        if mask is None:
            return np.full((1, 1, self.p, self.q), self.threads, np.int64)
        arr = mask.arr
        scale = (self.rows // arr.shape[0]) * (self.x // arr.shape[1])
        return np.broadcast_to(
            np.count_nonzero(arr, axis=(0, 1), keepdims=True) * scale, (1, 1, self.p, self.q)
        )

    def _arrive(self, barrier: int, mask: Mask | None) -> None:
        base = self.live if mask is None else mask
        warps = self.warps_active(base).sum(axis=0).reshape(1, 1, self.p, self.q) * 32
        self.arrived[barrier] = self.arrived.get(barrier, 0) + warps

    def _release(self, registers: list[Any], stuck: bool = True) -> list[dict[int, Mask | None]]:
        """Nothing runs any more: open the barriers that are complete, report those that never are.

        stuck: whether no thread waits elsewhere, so that those which are not complete never will be.
        """
        if not self.waiting:
            return mbarrier.time_out(self, registers) if self.asking and stuck else []
        first = self.waiting[0]
        if (
            len(self.waiting) == 1
            and first.mask is None
            and self.live is None
            and first.expected is None
        ):
            self.waiting = []
            return self._open([first], None, registers)
        ready: list[Waiting] = []
        opened = np.zeros((1, 1, self.p, self.q), bool)
        partial = False
        for barrier in sorted({w.barrier for w in self.waiting}):
            here = [w for w in self.waiting if w.barrier == barrier]
            arrived = sum(
                (self.by_block(self.live if w.mask is None else w.mask) for w in here),
                start=np.zeros((1, 1, self.p, self.q), np.int64),
            )
            needed: Array = self.by_block(self.live)
            for w in here:
                if w.expected is not None:
                    needed = np.broadcast_to(w.expected, arrived.shape)
                    warps = sum(
                        (self.warps_active(self.live if v.mask is None else v.mask) for v in here),
                        start=np.zeros((self.warp_shape.warps, self.blocks), bool),
                    )
                    # bar counts whole warps: a warp that arrives adds all of its threads.
                    arrived = (warps > 0).sum(axis=0).reshape(arrived.shape) * 32
                    arrived = arrived + self.arrived.get(barrier, 0)
            done = (arrived >= needed) & (arrived > 0)
            if done.any():
                ready += self._take(here, done)
                opened |= done
                partial = partial or bool((needed < self.by_block(self.live))[done].any())
                if barrier in self.arrived:
                    self.arrived[barrier] = np.where(done, 0, self.arrived[barrier])
        if ready:
            self._judge_lines(ready)
            if partial:
                self._join_clocks(ready)
                return self._open(ready, np.zeros_like(opened), registers)
            return self._open(ready, opened, registers)
        if not stuck:
            return []
        if self.asking:
            return mbarrier.time_out(self, registers)
        # Deadlock: some threads wait for others that never come. Say so, and go on.
        for w in self.waiting:
            base = self.live if w.mask is None else w.mask
            held = self.by_block(base)
            column = int(np.flatnonzero(held.reshape(-1))[0])
            waits = int(held.reshape(-1)[column])
            self.find(
                "divergent-barrier",
                w.line,
                f"{waits} of {self.threads} threads of block {self.block_tuple(column)} wait at "
                "this barrier; the others wait elsewhere or never come. Every thread of the block "
                "must reach the same barrier",
                int(np.count_nonzero(held)),
                block=self.block_tuple(column),
            )
        ready, self.waiting = self.waiting, []
        return self._open(ready, None, registers)

    def _take(self, waiting: list[Waiting], done: Array) -> list[Waiting]:
        """Remove the threads of the opened blocks from the barrier; return them as groups."""
        out = []
        for w in waiting:
            if done.all():
                out.append(w)
                self.waiting.remove(w)
                continue
            base = self.live if w.mask is None else w.mask
            go, stay = self.narrowed(base, done), self.narrowed(base, ~done)
            if go is not None and go.n == 0:
                continue
            self.waiting.remove(w)
            out.append(replace(w, mask=go))
            if stay is None or stay.n:
                self.waiting.append(replace(w, mask=stay))
        return out

    def _judge_lines(self, ready: list[Waiting]) -> None:
        """Barriers that opened: all threads of a block should have come, to the same one.

        CUDA asks for the same __syncthreads() of the source; which of its copies the compiler made
        (by unrolling a loop, say) does not matter. So barriers are told apart by their place there.
        """
        whole = [w for w in ready if w.expected is None]
        for barrier in sorted({w.barrier for w in whole}):
            here = [w for w in whole if w.barrier == barrier]
            counts: dict[tuple[int, tuple[str, ...]], Array] = {}
            for w in here:
                n = self.by_block(self.live if w.mask is None else w.mask)
                key = (w.line, w.block.end_place)
                counts[key] = counts.get(key, np.zeros_like(n)) + n
            self._judge_meeting(counts)

    def _judge_meeting(self, counts: dict[tuple[int, tuple[str, ...]], Array]) -> None:
        """Judge one barrier number. counts: threads by block (1, 1, p, q), by line and place."""
        (first, _), *others = sorted(counts)
        total = sum(counts.values(), start=np.zeros((1, 1, self.p, self.q), np.int64))
        for line, place in others:
            n = counts[line, place]
            mixed = (n > 0) & (n < total)
            if not mixed.any():
                continue
            column = int(np.flatnonzero(mixed.reshape(-1))[0])
            where = f"at line {first}" if line != first else "at another one of this line"
            self.find(
                "divergent-barrier",
                line,
                f"threads of block {self.block_tuple(column)} meet here and {where}: they wait at "
                "different barriers. Every thread of the block must reach the same one",
                int(mixed.sum()),
                other_line=first,
                block=self.block_tuple(column),
            )
        gone = (total > 0) & (total < self.threads)
        if self.depth == 0 and gone.any():
            column = int(np.flatnonzero(gone.reshape(-1))[0])
            missing = self.threads - int(total.reshape(-1)[column])
            self.find(
                "divergent-barrier",
                first,
                f"{missing} of {self.threads} threads of block {self.block_tuple(column)} have "
                "returned and never reach this barrier. Keep every thread of the block to the "
                "end, and guard its loads and stores instead",
                int(gone.sum()),
                block=self.block_tuple(column),
            )

    def _join_clocks(self, ready: list[Waiting]) -> None:
        """A barrier of some warps: what each did before it is now known to the others."""
        if self.order is not None:
            for barrier in {w.barrier for w in ready}:
                here = [w for w in ready if w.barrier == barrier]
                masks = (self.live if w.mask is None else w.mask for w in here)
                self.order.join(np.any([self.warps_active(m) for m in masks], axis=0).T, False)
        if self.log is None:
            return
        if isinstance(self.log, OrderedLog):
            for barrier in {w.barrier for w in ready}:
                self.log.join([w.mask or self.live for w in ready if w.barrier == barrier])
            return
        nwarps = self.warp_shape.warps
        clocks = self.log.clocks
        clocks = np.eye(nwarps, dtype=np.int32) if clocks is None else clocks.copy()
        for barrier in {w.barrier for w in ready}:
            warps = np.zeros(nwarps, bool)
            for w in ready:
                if w.barrier == barrier:
                    warps |= self.warps_active(self.live if w.mask is None else w.mask).any(axis=1)
            together = np.flatnonzero(warps)
            joint = clocks[together].max(axis=0)
            clocks[together] = joint
            clocks[together, together] += 1
        self.log.clocks = clocks

    def _open(
        self, ready: list[Waiting], opened: Array | None, registers: list[Any]
    ) -> list[dict[int, Mask | None]]:
        """Resume the threads of open barriers. opened: blocks whose interval ends (None: all)."""
        self.fruitless = 0
        if opened is None or opened.any():
            if self.log is not None:
                others = opened is not None and (self.waiting or self.parked or self.held)
                self.log.end_interval(~opened if others and opened is not None else None)
            if self.order is not None:
                every = np.ones((self.blocks, self.warp_shape.warps), bool)
                self.order.join(every if opened is None else every & opened.reshape(-1, 1), True)
            self.epoch = self.epoch + (1 if opened is None else opened.astype(np.int32))
            if self.order is not None:
                self.order.viewed = None
        for w in ready:
            if w.reduce is not None:
                self._reduce(ready, w, registers)
        if self.launch.schedule != "ascending" and self.depth == 0:
            return self._permuted(
                [(w.resume, self.live if w.mask is None else w.mask) for w in ready]
            )
        pool: dict[int, Mask | None] = {}
        for w in ready:
            self._push(pool, w.resume, w.mask)
        return [pool]

    def _reduce(self, ready: list[Waiting], w: Waiting, registers: list[Any]) -> None:
        """bar.red: combine the predicates of all threads of each block at this barrier."""
        assert w.reduce is not None
        operation, register, _ = w.reduce
        total = np.zeros((1, 1, self.p, self.q), np.int64)
        every = np.zeros((1, 1, self.p, self.q), np.int64)
        for v in ready:
            if v.barrier != w.barrier or v.reduce is None:
                continue
            base = self.live if v.mask is None else v.mask
            pred = v.reduce[2] if base is None else base.arr & v.reduce[2]
            pred = np.broadcast_to(pred, self.shape)
            total = total + np.count_nonzero(pred, axis=(0, 1), keepdims=True)
            every = every + self.by_block(base)
        value: Array
        if operation == "popc":
            value = total.astype(i4)
        else:
            value = total == every if operation == "and" else total > 0
        old = registers[register]
        base = self.live if w.mask is None else w.mask
        registers[register] = value if w.mask is None else np.where(base.arr, value, old)  # type: ignore[union-attr]

    def warp_sync(self, mask: Mask | None) -> None:
        """__syncwarp and the other warp operations that order the lanes of a warp."""
        if self.log is not None and self.log.log:
            self.log.add(-1, WARP_SYNC, None, 0, mask)

    def fence(self, scope: int, mask: Mask | None) -> None:
        """membar and fence. scope: 0 for the block, 1 for the device and beyond."""
        if self.order is not None:
            self.order.fence(scope, mask)

    def _out_of_steps(self, line: int) -> None:
        launch = self.launch
        what = (
            f"more than {launch.max_steps} instructions were run one after the other"
            if self.steps > launch.max_steps
            else "the time limit is reached"
        )
        self.find(
            "step-budget",
            line,
            f"{what} and the threads are still here: an endless loop, or a launch too large. The "
            "launch was stopped; its results are incomplete. Give max_steps for more"
            + (f". Waiting: {self._who_waits()[1]}" if self.parked or self.held else ""),
            1,
        )
        raise StepBudgetError

    def finish(self) -> None:
        """The blocks have ended: judge the last interval."""
        self.launch.steps = max(self.launch.steps, self.steps)
        if self.log is not None:
            self.log.end_interval()

    # -- local memory ----------------------------------------------------------------------------

    def local_memory(self) -> Words:
        """Local memory of all threads, made when first touched."""
        if self.local is None:
            columns = np.arange(self.lanes, dtype=i8).reshape(self.shape)
            size = max(self.launch.program.local_bytes, 16)
            self.local = Words(size, columns)
        return self.local


def _same_bits(a: Array, b: Array) -> Array:
    """Where two values of one register are the same; NaN equals itself."""
    kind = "u1" if a.dtype == bool else f"u{a.dtype.itemsize}"
    return np.asarray(a.view(kind) == b.view(kind))


def _same_threads(a: Mask | None, b: Mask | None) -> bool:
    if a is None or b is None:
        return a is b
    return a is b or (a.n == b.n and bool((a.arr == b.arr).all()))
