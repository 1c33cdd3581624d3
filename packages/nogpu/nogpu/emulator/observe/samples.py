"""What access maps show: the lanes of each line's first requests, and the least they need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.events import Access, Where
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.memory import Buffer
from nogpu.emulator.observe import counts

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site

_MOST = 256  # requests of an instruction that are kept


@dataclass
class Sample:
    """Of one memory instruction: its first requests, and the least that all of them need."""

    # (array, itemsize, byte offsets by warp and lane)
    rows: list[tuple[str, int, Array]] = field(default_factory=list)
    count: int = 0
    ideal_sectors: int = 0
    ideal_wavefronts: int = 0


class Sampler(counts.BankWatch):
    """Keeps the first requests of the first block, and counts them all as if elements lay side by
    side.
    """

    def __init__(self, sites: int) -> None:
        """sites: memory instructions of the program."""
        self.samples = [Sample() for _ in range(sites)]

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        super().begin(state)
        self.first = int(state.linear_block.ravel()[0]) == 0  # the first block is here

    def access(self, access: Access) -> None:
        """Note an access."""
        if access.stage not in counts.COUNTED or access.space == "local":
            return
        sample = self.samples[access.site.index]
        if access.space == "global":
            sample.ideal_sectors += self._ideal(access, counts.SECTOR)
        else:
            sample.ideal_wavefronts += self.taken(access)[0]
        if self.first and sample.count < _MOST:
            self._keep(sample, access.where)

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """Once no more requests are kept."""
        return not self.first or self.samples[site.index].count >= _MOST

    def repeated(self, site: Site, target: Buffer, times: int) -> None:
        """Add up what requests of one lane need."""
        self.samples[site.index].ideal_sectors += times

    def _take(self, access: Access) -> tuple[int, ...]:
        return (self._ideal(access, counts.BANKS * 4),)

    def _ideal(self, access: Access, room: int) -> int:
        """Units of `room` bytes that the distinct elements of each request fill, summed."""
        state, width, mask = self.state, access.site.width, access.where.mask
        six = state.warp_shape.lanes(access.where.offset)
        keys, active = six >> (width.bit_length() - 1), None if mask is None else mask.active
        elements = counts.distinct(state.warp_shape, keys, active)
        units = -(-elements * width // room)
        return int(units.sum()) * (state.total_warps // elements.size)

    def _keep(self, sample: Sample, where: Where) -> None:
        """The lanes of the first block's requests."""
        state, target, offset = self.state, where.target, where.offset
        if isinstance(target, Buffer):
            name, itemsize = target.name, target.itemsize
        else:
            symbol = state.shared_symbol(counts.first_offset(where))
            if symbol is None:
                return
            name, itemsize, offset = symbol.name, symbol.itemsize, offset - symbol.start
        shape = (state.rows, state.x)
        at = np.broadcast_to(offset[:, :, 0, 0], shape).ravel()
        if where.mask is not None:
            there = np.broadcast_to(where.mask.arr[:, :, 0, 0], shape).ravel()
            at = np.where(there, at, -1)
        rows = np.concatenate([at, np.full(-state.threads % 32, -1, np.int64)]).reshape(-1, 32)
        rows = rows[(rows >= 0).any(axis=1)]
        if len(rows):
            sample.rows.append((name, itemsize, rows))
            sample.count += len(rows)
