"""Shared accesses as the machine code makes them: neighbouring ones of the PTX are joined."""

from __future__ import annotations

from collections.abc import Mapping

from nogpu.emulator.machine.events import Access, Observer, Stage, Where
from nogpu.emulator.machine.memory import Buffer
from nogpu.emulator.machine.state import State
from nogpu.emulator.observe.counts import wavefronts
from nogpu.emulator.ptx.sites import Site


class MachineTally(Observer):
    """Counts requests and wavefronts of the accesses of the machine code.

    spans: of a memory instruction of the PTX, the access of the machine code that begins with it:
    its bytes a lane (0: it is part of one that begins elsewhere), and how many of them lie before.
    """

    def __init__(self, spans: Mapping[int, tuple[int, int]]) -> None:
        self.spans = spans
        self.totals: dict[int, tuple[int, int]] = {}
        """(requests, wavefronts) by memory instruction."""

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.before: dict[int, tuple[Where, int, int]] = {}

    def access(self, access: Access) -> None:
        """Add up an access to shared memory, a copy when it begins."""
        if access.space != "shared" or access.stage not in (Stage.WHOLE, Stage.BEGUN):
            return
        where, index = access.where, access.site.index
        cached = self.before.get(index)
        if cached is None or cached[0] is not where:
            cached = self.before[index] = (where, *self._take(access))
        requests, waves = self.totals.get(index, (0, 0))
        self.totals[index] = requests + cached[1], waves + cached[2]

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """Of arrays nothing is counted here."""
        return True

    def _take(self, access: Access) -> tuple[int, int]:
        """Requests and wavefronts of the accesses of the machine code that begin with this one.

        An access that is wider than the PTX's begins where its address is a multiple of its width:
        in an unrolled loop the others are part of one that began before.
        """
        state, site, where = self.state, access.site, access.where
        width, before = self.spans.get(site.index, (0, 0))
        if not width:
            return 0, 0
        start = where.offset - before if before else where.offset
        begins = start & (width - 1) == 0
        whole = width <= site.width or begins.all()
        mask = where.mask if whole else state.narrowed(where.mask, begins)
        if mask is not None and mask.n == 0:
            return 0, 0
        shape, active = state.warp_shape, None if mask is None else mask.active
        waves = wavefronts(shape, shape.lanes(start), width, active, site.op == "load")
        requests = state.total_warps if mask is None else mask.warps
        return requests, int(waves.sum()) * (state.total_warps // waves.size)
