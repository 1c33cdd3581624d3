"""The judge of tensor memory: products, loads and stores of it that are under way.

They finish when somebody has waited for them: products by the mbarrier that tcgen05.commit names,
loads and stores of a warp by tcgen05.wait. Who knows of that, and how it is handed on, is kept by
`EngineWatch`, whose units stand here for a thread's products, copies and shifts, and for a warp's
loads and stores. Some of a thread are done in order (`_pipelined`); so are those of two threads
where tcgen05.fence::before_thread_sync and a barrier order them.

Barriers that release and acquire order what has ended: PTX says that the mechanisms of its memory
model hold for tcgen05, too. Whoever touches tensor memory after a relaxed wait for another needs
tcgen05.fence::after_thread_sync behind that wait; where a load or a store of another warp is handed
on by a relaxed arrival, the other fence as well, after its tcgen05.wait. tcgen05.commit needs none
before it, and neither does who hands on that an mbarrier's phase is over; tcgen05.dealloc, and what
a warp has waited for itself, need none at all. Lanes of a warp count as one. Where PTX's text says
nothing (a copy beside another copy, or after a product) nothing is reported. Source: PTX ISA 9.0,
"Memory Consistency Model for 5th generation of TensorCore operations".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.attribution import Offender, accuse
from nogpu.emulator.machine.events import Observer, TensorAccess
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.tensor_memory import COLUMNS, GROUP, LANES

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.engines import EngineWatch

Cells = tuple[Array, Array]
"""By cell of tensor memory, when it was touched last, and in which line."""
_COPIES = {"copy", "refresh"}
_KINDS = {"product": "tensor", "load": "tensor load", "store": "tensor store", "free": ""}
_UNDER_WAY = {
    "tensor": (
        "the {what} of line {line} may still be running",
        "Wait for the phase of an mbarrier at which tcgen05.commit lets it arrive",
    ),
    "tensor load": (
        "the load of line {line} may still read it",
        "Let the warp that loads execute tcgen05.wait::ld, then meet at a barrier",
    ),
    "tensor store": (
        "the store of line {line} may still be under way",
        "Let the warp that stores execute tcgen05.wait::st, then meet at a barrier",
    ),
}


class TensorWatch(Observer):
    """Keeps the last write and the last reads of each 16 lanes of each column."""

    def __init__(self, engines: EngineWatch) -> None:
        """engines: who keeps what warps know."""
        self.engines = engines
        engines.of_tensors = self

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.cells = state.blocks, LANES // GROUP, COLUMNS
        self.wrote: dict[int, Cells] = {}  # by unit
        self.read: dict[int, Cells] = {}
        self.kind: dict[int, tuple[str, int]] = {}  # of each unit: what, and its thread or warp
        self.shape: dict[tuple[int, int], str] = {}  # of products by unit and time
        self.issued: dict[tuple[int, int], tuple[int, TensorAccess]] = {}  # the last by unit, block
        self.order: dict[int, int] = {}  # units of what fences have put in order, by those of it
        # As `known`, when a warp last executed tcgen05.fence::after_thread_sync.
        self.fenced = np.zeros_like(self.engines.known)

    def _unit(self, kind: str, number: int) -> int:
        unit = self.engines._unit(kind, number)
        self.kind[unit] = kind, number
        return unit

    def tensor(self, access: TensorAccess) -> None:
        """Tensor memory is about to be read, written or freed."""
        groups = slice(
            access.lanes.start // GROUP,
            -(-access.lanes.stop // GROUP),
            max((access.lanes.step or 1) // GROUP, 1),
        )
        cells = access.owner, groups, access.columns
        kind = _KINDS[access.by]
        seen = self.engines._seen(np.array([access.thread]), np.array([access.column]))
        thread, block = (int(number[0]) for number in seen)
        unit = self._unit(kind, thread if kind == "tensor" else thread >> 5)
        tables = [self.wrote] if access.does == "reads" else [self.wrote, self.read]
        for table in tables:
            for other, (times, lines) in table.items():
                at = times[cells]
                if other == unit and table is self.wrote and kind == "tensor" and unit in self.read:
                    # What a product has read since stands for it: that is judged itself.
                    at = np.where(self.read[unit][0][cells] > at, 0, at)
                self._against(access, unit, other, (block, thread >> 5), (at, lines[cells]))
        self.engines.time += 1
        if not kind:
            for times, _ in (*self.wrote.values(), *self.read.values()):
                times[cells] = 0  # who allocates the columns again finds nothing under way
            return
        table = self.read if access.does == "reads" else self.wrote
        if unit not in table:
            table[unit] = np.zeros(self.cells, np.int64), np.zeros(self.cells, np.int32)
        table[unit][0][cells] = self.engines.time
        table[unit][1][cells] = access.line
        if kind == "tensor":
            self.shape[unit, self.engines.time] = access.shape
            self.issued[unit, block] = self.engines.time, access

    def _against(
        self, access: TensorAccess, unit: int, other: int, who: tuple[int, int], last: Cells
    ) -> None:
        """An access against the last ones of a unit to the same cells. who: block and warp."""
        times, lines = last
        kind, number = self.kind[other]
        known, fenced = self.engines.known[who], self.fenced[who]
        order = self.order.get(other, -1)
        past, shown = known[other], fenced[other]
        if kind == "tensor" and access.by == "product":
            pipelined = [t for t in np.unique(times) if t and self._pipelined(other, t, access)]
            if unit == other:
                times = np.where(np.isin(times, pipelined), 0, times)
            elif order >= 0:
                follows = self.engines.follows.setdefault((unit, who[0]), {})
                ordered = (int(t) for t in pipelined if t <= known[order])
                follows[other] = max([follows.get(other, 0), *ordered])
                past = np.where(np.isin(times, pipelined), max(past, known[order]), past)
                shown = max(shown, fenced[order])
        late = times > past
        if late.any():
            what, cure = _UNDER_WAY[kind]
            self._accuse(access, other, (times, lines), late, f"while {what}", cure)
            return
        if access.does == "frees" or (kind != "tensor" and number == who[1]):
            return
        ended = "after the {what} of line {line} has ended, and no tcgen05.fence::"
        if kind != "tensor":
            handed = known[order] if order >= 0 else 0
            if (times > handed).any():
                self._accuse(
                    access, other, (times, lines), times > handed,
                    f"{ended}before_thread_sync says so at the relaxed barrier between them",
                    "Put it behind the tcgen05.wait of the warp there, or arrive with .release",
                )  # fmt: skip
                return
            shown = min(shown, fenced[order])
        if (times > shown).any():
            self._accuse(
                access, other, (times, lines), times > shown,
                f"{ended}after_thread_sync stands between the relaxed wait for it and this",
                "Put that fence behind the wait, or wait with .acquire",
            )  # fmt: skip

    def _pipelined(self, unit: int, time: int, access: TensorAccess) -> bool:
        """Whether PTX keeps an earlier product, copy or shift, and one that follows, in order."""
        before, after = self.shape.get((unit, int(time)), ""), access.shape
        if "shift" in (before, after):
            others = {"refresh"} if before == "shift" else set()
            return after != before and {before, after} & _COPIES <= others
        if {before, after} & _COPIES:
            return True
        return access.does == "writes" and before == after

    def _accuse(
        self, access: TensorAccess, other: int, last: Cells, bad: Array, reason: str, cure: str
    ) -> None:
        """Report the first bad cell of an access."""
        times, lines = last
        at = tuple(int(i) for i in np.argwhere(bad)[0])
        line = int(lines[at])
        lane = Offender(self.state, access.thread, access.column)
        shape = self.shape.get((other, int(times[at])), "")
        what = self.kind[other][0].removeprefix("tensor ")
        if what == "tensor":
            what = "shift" if shape == "shift" else "copy" if shape in _COPIES else "product"
        message = (
            f"{lane} {access.does} column {access.columns.start + at[1]} of tensor memory "
            f"{reason.format(what=what, line=line)}. {cure}"
        )
        accuse("race", access.line, lane, message, array="tensor memory", other_line=line)

    # -- what is waited for ----------------------------------------------------------------------

    def tensor_waited(self, by: str, mask: Mask | None) -> None:
        """Warps know that their loads or stores of tensor memory are done."""
        here = self.engines._warps(mask)  # (blocks, warps)
        for unit, (kind, warp) in self.kind.items():
            if kind == _KINDS[by]:
                self.engines.known[here[:, warp], warp, unit] = self.engines.time

    def tensor_fenced(self, side: str, mask: Mask | None) -> None:
        """Before: what these threads have issued, and what their warps have waited for, comes
        before what follows a barrier. After: what these warps know comes before what they do.
        """
        here = self.engines._warps(mask)
        if side == "after":
            self.fenced[here] = self.engines.known[here]
        else:
            self.released(here, issued=True)

    def released(self, here: Array, issued: bool = False) -> None:
        """What warps, bool (blocks, warps), have waited for comes before what follows a barrier.

        issued: what their threads have issued, too.
        """
        for unit, (kind, number) in list(self.kind.items()):
            warp = number >> 5 if kind == "tensor" else number
            if here[:, warp].any() and (issued or kind != "tensor"):
                order = self.order.setdefault(unit, self.engines._unit(f"{kind} order", number))
                known = self.engines.known
                done = self.engines.time if kind == "tensor" else known[here[:, warp], warp, unit]
                known[here[:, warp], warp, order] = done

    def tensor_committed(self, at: Array, owner: Array, thread: Array, column: Array) -> None:
        """What threads have issued will arrive at mbarriers."""
        for one in np.unique(self.engines._seen(thread, column)[0]):
            self._unit("tensor", int(one))
        self.engines.behind(at, owner, thread, column)

    def finish(self) -> None:
        """The blocks have ended: report products that nobody has waited for."""
        if self.state.tensor_memory is not None:
            self.state.tensor_memory.end()
        if self.state.waited_in_vain():
            return
        for (unit, block), (time, access) in self.issued.items():
            if time > self.engines.known[block, :, unit].max():
                lane = Offender(self.state, access.thread, access.column)
                message = (
                    f"the block of {lane} ends while this product may still be running: nobody has "
                    "waited for the phase of an mbarrier at which tcgen05.commit lets it arrive"
                )
                accuse("race", access.line, lane, message, array="tensor memory")
