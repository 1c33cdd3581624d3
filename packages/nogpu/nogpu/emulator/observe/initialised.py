"""Uninitialised reads: of shared memory, of registers, and of arrays whose elements count as never
written.

A lane that reads shared memory which nobody has written yet is a suspect. It is judged when the
interval ends: if another thread writes there before the barrier it is a race, in whatever order the
emulator ran them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.attribution import Offender, accuse, first_offender
from nogpu.emulator.machine.events import Access, Bulk, Observer, Stage, Where
from nogpu.emulator.machine.lanes import Array, pick, spread_to
from nogpu.emulator.machine.masks import array_of
from nogpu.emulator.machine.memory import Buffer
from nogpu.emulator.observe.log import ByGranule
from nogpu.emulator.ptx.layout import GROUPS_SCRATCH, SCRATCH_BYTES

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.observe.async_copies import AsyncCopyWatch
    from nogpu.emulator.ptx.sites import Site


def requester(state: State, bulk: Bulk, bad: Array) -> Offender:
    """Who asked an engine for the first of its bad requests: bool, a row a request."""
    row = int(np.argwhere(bad)[0][0])
    return Offender(state, int(bulk.thread[row]), int(bulk.column[row]), int(np.count_nonzero(bad)))


class FirstWrites(Observer):
    """Knows which granules hold something, and reports reads of those that do not."""

    def __init__(self, copies: AsyncCopyWatch, uninitialised: list[Buffer]) -> None:
        """pending: places that a copy is on its way to are a race, which it reports.

        uninitialised: the arrays whose elements count as never written.
        """
        self.copies, self.arrays = copies, uninitialised
        self.written = {id(b): np.zeros(-(-b.nbytes // b.granule), bool) for b in uninitialised}
        self.read: set[int] = set()  # of these arrays, those that some thread read
        self.suspects: list[tuple[int, Array, Array, int]] = []  # site, lanes, granule, granules

    def begin(self, state: State) -> None:
        """A batch of blocks begins."""
        self.state = state
        self.granule = state.launch.program.granule
        self.shift = self.granule.bit_length() - 1
        self.initialised = ByGranule(state, bool)
        if (scratch := state.launch.program.shared_offsets.get(GROUPS_SCRATCH)) is not None:
            self.initialised.values[scratch >> self.shift :][: SCRATCH_BYTES >> self.shift] = True
        self.all_initialised = state.launch.shared_bytes == 0
        self.suspects = []
        self.sound: dict[int, Where] = {}  # accesses whose places are known to be written

    def access(self, access: Access) -> None:
        """Check what is read, mark what is written."""
        if access.space == "shared":
            self._shared(access)
        elif access.space == "global" and self.written:
            self._global(access)

    def counts_only(self, site: Site, target: Buffer) -> bool:
        """Unless it is not known of each element that it was written."""
        return id(target) not in self.written

    def bulk(self, bulk: Bulk) -> None:
        """Mark what a copy engine writes to arrays; what it reads there is looked at piece by
        piece.
        """
        if bulk.space != "global" or not self.written or bulk.stage is not Stage.WHOLE:
            return
        assert isinstance(bulk.target, Buffer)
        have = self.written.get(id(bulk.target))
        if have is None:
            return
        size = bulk.target.granule
        each = np.arange(bulk.width // size)
        there = bulk.present
        at = (bulk.offset // size)[:, :, None] + each
        missing = there & ~pick(have, at).any(
            axis=2
        )  # a piece at the edge may hold what nobody means
        if not bulk.writes:
            self.read.add(id(bulk.target))
        else:
            have[at[there]] = True
            if have.all() and bulk.target.owned is None:
                del self.written[id(bulk.target)]
        if missing.any() and bulk.site.op != "store":
            lane = requester(self.state, bulk, missing)
            where = bulk.target.index_text(int(bulk.offset[missing][0]))
            message = (
                f"{where} is {'added to' if bulk.writes else 'copied'} for {lane}, but nobody has "
                "written it. Set it first"
            )
            accuse(
                "uninitialised", bulk.site.line, lane, message, array=bulk.target.name, index=where
            )

    def gaps(self) -> Iterator[str]:
        """Of each array that nobody had set, after all blocks: the elements that none wrote.

        An array that some thread read is a workspace, which need not be full.
        """
        for array in self.arrays:
            written = self.written.get(id(array))  # None: all of it is
            if id(array) in self.read or written is None or written.all():
                continue
            left = np.unique(np.flatnonzero(~written) * array.granule // array.itemsize)
            every = array.nbytes // array.itemsize
            yield (
                f"{array.name}: no thread wrote {len(left):,} of {every:,} elements, which nobody "
                f"had set; the first is {array.index_text(int(left[0]) * array.itemsize)}"
            )

    def unset(self, lanes: Array, does: str, line: int, first: int) -> None:
        """A value that is made of an uninitialised variable is shown."""
        lane = first_offender(self.state, lanes)
        used = "" if first == line else f", first used in line {first},"
        message = (
            f"{lane} {does} a value that is made of a variable{used} to which it has given none. "
            "Set the variable where it is declared"
        )
        accuse("uninitialised", line, lane, message, other_line=first)

    def allocated(self, target: Buffer, first: int, nbytes: int) -> None:
        """What malloc gives out holds nothing."""
        have = self.written.setdefault(id(target), np.zeros(target.nbytes // target.granule, bool))
        have[first // target.granule : (first + nbytes) // target.granule] = False

    # -- shared memory ---------------------------------------------------------------------------

    def _shared(self, access: Access) -> None:
        if self.all_initialised or access.stage in (Stage.WAITED, Stage.ARRIVED):
            return
        site, where = access.site, access.where
        granule, span = where.granule(self.shift), site.width >> self.shift
        if site.op != "store" and self.sound.get(site.index) is not where:
            missing = ~self.initialised.of(granule, span, np.logical_and, where.owner)
            if missing.any():
                self._suspect(access, missing, granule, span)
            else:
                self.sound[site.index] = where
        if site.op in ("store", "atomic"):
            at = self.initialised.lanes_at(granule, span, where.mask, where.owner)
            self.initialised.flat()[at] = True
            self.all_initialised = bool(self.initialised.values.all())

    def _by_block(self, bulk: Bulk) -> tuple[Array, Array]:
        """Granules of an engine's pieces: (rows of `initialised`, blocks), one column for each
        block from here on.
        """
        self.initialised.part()
        each = np.arange(bulk.width >> self.shift)
        granule = (bulk.offset >> self.shift)[:, :, None] + each
        return granule, np.broadcast_to(bulk.owner[:, None, None], granule.shape)

    def engine_wrote(self, bulk: Bulk) -> None:
        """A copy engine writes shared memory."""
        if not self.all_initialised:
            granule, block = self._by_block(bulk)
            self.initialised.values[granule, block] = True
            self.all_initialised = bool(self.initialised.values.all())

    def engine_reads(self, bulk: Bulk) -> None:
        """An engine reads shared memory: what nobody wrote is a finding at once."""
        if self.all_initialised:
            return
        granule, block = self._by_block(bulk)
        missing = ~self.initialised.values[granule, block]
        if bulk.meant is not None:
            missing &= bulk.meant.reshape(*granule.shape, -1).any(axis=-1)
        if not missing.any():
            return
        lane = requester(self.state, bulk, missing)
        name, where = self.state.shared_name(int(granule[missing][0]) * self.granule)
        message = (
            f"{where} is read by an engine for {lane}, but nobody has written it. Set it, or copy "
            "to it, first"
        )
        accuse("uninitialised", bulk.site.line, lane, message, array=name, index=where)
        self.initialised.values[granule[missing], block[missing]] = True  # said once

    def _suspect(self, access: Access, missing: Array, granule: Array, span: int) -> None:
        mask = access.where.mask
        if mask is not None:
            missing = missing & mask.arr
        if missing.any():
            missing = self.copies.not_under_way(granule, span, missing)
        if missing.any():
            self.suspects.append((access.site.index, missing, granule, span))

    def judge(
        self,
        written_by: tuple[Array, Array] | None = None,
        columns: int = 1,
        racing_lines: set[int] | None = None,
    ) -> None:
        """The interval ends: report the suspects, but those that a race explains.

        written_by: the first and last thread that wrote each place in this interval. racing_lines:
        those with a race, None if they are not known. A write that a warp barrier keeps after the
        read is no race, and no excuse for the read.
        """
        s = self.state
        for site, lanes, granule, count in self.suspects:
            bad = np.broadcast_to(lanes, s.shape)
            explained = racing_lines is None or s.sites[site].line in racing_lines
            if written_by is not None and explained:
                low, high = written_by
                at = np.broadcast_to(granule, s.shape) * columns
                if columns > 1:
                    at = at + s.block_index
                tid = s.thread.astype(np.int32)
                raced = np.zeros(s.shape, bool)
                for j in range(count):
                    first, last = (pick(of, at + j * columns) for of in (low, high))
                    raced |= (last >= 0) & ((first != tid) | (last != tid))
                bad = bad & ~raced
            if not bad.any():
                continue
            lane = first_offender(s, bad)
            name, where = s.shared_name(lane.value(granule) * self.granule)
            message = (
                f"{where} is read by {lane}, but no thread of the block has written it. Set it "
                "first"
            )
            accuse("uninitialised", s.sites[site].line, lane, message, array=name, index=where)
        self.suspects = []

    def hand_on(self, blocks: Array) -> list[tuple[int, Array, Array, int]]:
        """Take away and return the suspects of blocks (bool, four axes) whose interval goes on."""
        remaining = [(s, a & blocks, g, c) for s, a, g, c in self.suspects if (a & blocks).any()]
        self.suspects = [(s, a & ~blocks, g, c) for s, a, g, c in self.suspects]
        return remaining

    # -- global memory ---------------------------------------------------------------------------

    def _global(self, access: Access) -> None:
        where, site = access.where, access.site
        assert isinstance(where.target, Buffer)
        have = self.written.get(id(where.target))
        if have is None:
            return
        granule = where.target.granule
        span = site.width // granule
        arr = array_of(where.mask)
        shape = np.broadcast_shapes(where.offset.shape, arr.shape)
        offset, sound = spread_to(where.offset, shape), spread_to(arr, shape)
        if site.op != "store":
            self.read.add(id(where.target))
            at = np.where(sound, offset, 0) // granule
            absent = [~pick(have, at + j) for j in range(span)]
            if access.length is None:
                absent = [np.any(absent, axis=0)]
            for j, missing in enumerate(absent):  # of a ragged load granule by granule
                missing = sound & missing
                if access.length is not None:
                    missing = missing & (access.length > j * granule)
                if missing.any():
                    self._report(access, where.target, offset + j * granule, missing)
        else:
            at = offset[sound] // granule
            for j in range(span):
                have[at + j] = True
            if have.all() and where.target.owned is None:
                del self.written[id(where.target)]

    def _report(self, access: Access, buffer: Buffer, offset: Array, missing: Array) -> None:
        lane = first_offender(self.state, missing)
        where = buffer.index_text(lane.value(offset))
        message = f"{where} is read by {lane}, but nobody has written it. Set it first"
        accuse("uninitialised", access.site.line, lane, message, array=buffer.name, index=where)
