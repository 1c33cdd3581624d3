"""cp.async: touching a place in shared memory while a copy to it is under way is a race.

For the copying thread too. When the copy has been waited for it is an ordinary write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.attribution import UNDER_WAY, accuse, first_offender
from nogpu.emulator.machine.events import Access, Observer, Stage
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.observe.log import ByGranule

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.memory import Buffer
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site


class AsyncCopyWatch(Observer):
    """Counts the copies on their way to each granule of shared memory."""

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.granule = state.launch.program.granule
        self.shift = self.granule.bit_length() - 1
        self.pending = ByGranule(state, np.int32)

    def access(self, access: Access) -> None:
        """Report those who touch a pending place; enter copies that begin or end."""
        under_way = self.state.copies is not None and self.state.copies.open
        if access.stage is Stage.WHOLE and not under_way:
            return
        if access.space != "shared" or access.site.op in ("barrier", "commit"):
            return
        if access.where.owner is not None:
            return  # a peer's: nobody here waits for its copies, and the judges of races see it
        site, where = access.site, access.where
        granule, span = where.granule(self.shift), site.width >> self.shift
        if access.stage is Stage.WHOLE or access.stage is Stage.BEGUN:
            if under_way:
                self._check(site, granule, span, where.mask)
            if access.stage is Stage.BEGUN:
                places = self.pending.lanes_at(granule, span, where.mask)
                self.pending.flat()[places] += 1
            return
        places = self.pending.lanes_at(granule, span, where.mask)
        flat = self.pending.flat()
        flat[places] = np.maximum(flat[places] - 1, 0)

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """Copies are on their way to shared memory, not to arrays."""
        return True

    def _check(self, site: Site, granule: Array, span: int, mask: Mask | None) -> None:
        """Report lanes that touch a place whose copy is still under way."""
        flat = self._lookup(granule, span)
        if not flat.any():
            return
        if mask is not None:
            flat = flat & mask.arr
            if not flat.any():
                return
        state = self.state
        lane = first_offender(state, flat)
        place = lane.value(granule)
        name, where = state.shared_name(place * self.granule)
        line = self._line_of(place)
        message = (
            f"{where}: {lane} {'reads' if site.op == 'load' else 'writes'} it while the cp.async "
            f"of line {line} is still under way. Wait for its group (cp.async.wait_group), then "
            "__syncthreads()"
        )
        accuse(
            "race",
            site.line,
            lane,
            message,
            array=name,
            index=where,
            other_line=line,
            weight=UNDER_WAY,
        )

    def _lookup(self, granule: Array, span: int) -> Array:
        return self.pending.of(granule, span, np.maximum) > 0

    def _line_of(self, granule: int) -> int:
        assert self.state.copies is not None
        begun = (copy.begun for copy in self.state.copies.open)
        lines = (
            int(access.site.line)
            for access in begun
            for j in range(access.site.width >> self.shift)
            if (access.where.granule(self.shift) + j == granule).any()
        )
        return next(lines, 0)

    def not_under_way(self, granule: Array, span: int, missing: Array) -> Array:
        """Lanes of `missing` that do not wait for a copy: those are reported as races."""
        return missing & ~self._lookup(granule, span)
