"""Products of wgmma that are under way, and what may be done to their registers meanwhile.

A product is computed when it is issued; that it is under way until its group has been waited for is
kept here, for each warp: observers learn then that its operands in shared memory have been
read, and its registers may be touched again. Source: PTX ISA, "Asynchronous Warpgroup Level Matrix
Instructions": wgmma.fence, wgmma.commit_group, wgmma.wait_group.

The registers. From wgmma.mma_async until the wgmma.wait_group that covers it, nobody may read or
write the sums, nor write a matrix A in registers; another wgmma of the same shape may add to the
sums. Registers that other instructions wrote need a wgmma.fence before wgmma takes them. A register
copied into another by a plain mov is one with it: the compiler puts such copies around assembly,
and its last stage removes them. Literals, too, it puts into registers where they are wanted, behind
a fence that the source has after them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.attribution import Offender, accuse
from nogpu.emulator.machine.bulk import rows_of
from nogpu.emulator.machine.events import Bulk, Stage
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.ptx.accumulators import NUMBER

if TYPE_CHECKING:
    from nogpu.emulator.machine.masks import Mask
    from nogpu.emulator.machine.state import State

Copies = tuple[tuple[str, str], ...]
"""Registers that are written, each with the one that is copied into it, NUMBER, or "" for any other
value.
"""


@dataclass(eq=False)
class Product:
    """One executed wgmma.mma_async. Arrays are of shape (warps, blocks).

    shape: what another must share to add to the same sums. group: int32, groups that each warp had
    committed before. pending: bool, the warps for which it is under way. operands: what it reads of
    shared memory.
    """

    line: int
    shape: str
    group: Array
    pending: Array
    operands: list[Bulk] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Touched:
    """What was last done to a register; int32 arrays (warps, blocks).

    product: the number of the product whose sum it holds, or -1. written: fences that the warp had
    executed when another instruction wrote it, or -1.
    """

    product: Array
    written: Array


class Products:
    """Products under way in a batch of blocks, by group of the issuing warp."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.shape = (state.warp_shape.warps, state.blocks)
        self.commits = np.zeros(self.shape, np.int32)
        self.fences = np.zeros(self.shape, np.int32)
        self.open: dict[int, Product] = {}
        self.issued = 0
        self.sums: dict[str, Touched] = {}
        self.factors: dict[str, Array] = {}  # registers of A: the product that reads them
        none = np.full(self.shape, -1, np.int32)
        self.untouched = Touched(none, none)
        self.whole: Mask | None = None  # the last mask that was found to hold whole warpgroups

    def start(
        self,
        line: int,
        shape: str,
        here: Array,
        sums: tuple[str, ...],
        factors: tuple[str, ...],
        operands: list[Bulk],
    ) -> None:
        """A product begins. here: bool (warps, blocks). sums, factors: registers of D and of A."""
        self.issued += 1
        number = self.issued
        if self.state.observers:
            self._judge_registers(line, shape, here, sums, factors)
            new = Touched(np.full(self.shape, number, np.int32), self.untouched.written)
            self._put(dict.fromkeys(sums, new), here)
            for name in factors:
                old = self.factors.get(name, self.untouched.product)
                self.factors[name] = np.where(here, np.int32(number), old)
        self.open[number] = Product(line, shape, self.commits, here, operands)

    def wait(self, allowed: int, here: Array) -> None:
        """wgmma.wait_group: all but the latest `allowed` groups of each warp are complete."""
        for number, product in list(self.open.items()):
            done = product.pending & here & (product.group < self.commits - allowed)
            if not done.any():
                continue
            for bulk in product.operands:
                waited = done[bulk.thread // 32, bulk.column]
                self.state.publish_bulk(rows_of(bulk, waited, Stage.WAITED))
            product.pending = product.pending & ~done
            if not product.pending.any():
                del self.open[number]

    def end(self) -> None:
        """The blocks end: report products that nobody has waited for."""
        for product in self.open.values():
            committed = product.group < self.commits
            for lanes, what in (
                (product.pending & committed, "No wgmma.wait_group covers its group"),
                (
                    product.pending & ~committed,
                    "It is in no group: no wgmma.commit_group follows it",
                ),
            ):
                if lanes.any():
                    self._accuse(
                        product.line,
                        lanes,
                        "{who} ends, and the product of this line may still be running. "
                        f"{what}. Execute wgmma.commit_group and wgmma.wait_group before the sums "
                        "are used and before the kernel ends",
                    )

    # -- registers -------------------------------------------------------------------------------

    def _touched(self, names: tuple[str, ...]) -> Iterable[Touched]:
        """What was last done to these registers, each of it once."""
        return {id(t): t for n in names if (t := self.sums.get(n))}.values()

    def read(self, names: tuple[str, ...], line: int, here: Array) -> None:
        """Registers are read by an instruction that is no copy."""
        for touched in self._touched(names):
            self._judge_running(
                touched.product,
                line,
                here,
                "{who} reads a sum while the product of line {other} is still running: what it "
                "gets is undefined. wgmma.wait_group first",
            )

    def write(self, copies: Copies, line: int, here: Array) -> None:
        """Registers are written by something else than a product."""
        fresh = Touched(self.untouched.product, self.fences)
        new: dict[str, Touched] = {}
        judged: set[int] = set()
        for name, source in copies:
            if source and source != NUMBER:
                new[name] = new.get(source) or self.sums.get(source, self.untouched)
                continue
            new[name] = self.untouched if source else fresh
            sums, factors = self.sums.get(name), self.factors.get(name)
            if sums is not None and id(sums.product) not in judged:
                judged.add(id(sums.product))
                self._judge_running(
                    sums.product,
                    line,
                    here,
                    "{who} writes a sum while the product of line {other} is still running: what "
                    "it holds then is undefined. wgmma.wait_group first",
                )
            if factors is not None:
                self._judge_running(
                    factors,
                    line,
                    here,
                    "{who} writes a register of matrix A while the product of line {other}, which "
                    "reads it, is still running. wgmma.wait_group first",
                )
        self._put(new, here)

    def _put(self, new: dict[str, Touched], here: Array) -> None:
        """Enter what was done to registers; those with one past and one present share an object."""
        merged: dict[tuple[int, int], Touched] = {}
        everywhere = bool(here.all())
        past = {name: self.sums.get(name, self.untouched) for name in new}
        for name, now in new.items():
            old = past[name]
            key = id(old), id(now)
            if key not in merged:
                merged[key] = (
                    now
                    if everywhere
                    else Touched(
                        np.where(here, now.product, old.product),
                        np.where(here, now.written, old.written),
                    )
                )
            self.sums[name] = merged[key]

    def _judge_registers(
        self, line: int, shape: str, here: Array, sums: tuple[str, ...], factors: tuple[str, ...]
    ) -> None:
        """Report what is wrong with the registers that a product takes."""
        unfenced = here & (self.fences == 0)
        for touched in self._touched((*sums, *factors)):
            unfenced = unfenced | (here & (touched.written == self.fences))
        if unfenced.any():
            self._accuse(
                line,
                unfenced,
                "{who} begins a product, and no wgmma.fence stands between what wrote its "
                "registers and this line. Execute wgmma.fence before the first wgmma, and after "
                "other instructions have written its registers",
            )
        for touched in self._touched(sums):
            self._judge_running(
                touched.product,
                line,
                here,
                "{who} begins a product of another shape, into sums of the product of line "
                "{other}, which is still running. wgmma.wait_group first",
                unlike=lambda product: product.shape != shape,
            )
        for touched in self._touched(factors):
            self._judge_running(
                touched.product,
                line,
                here,
                "{who} takes as matrix A a sum of the product of line {other}, which is still "
                "running. wgmma.wait_group first",
            )

    def _judge_running(
        self,
        products: Array,
        line: int,
        here: Array,
        message: str,
        unlike: Callable[[Product], bool] = lambda product: True,
    ) -> None:
        """Report warps for which a product of these numbers (warps, blocks) is under way."""
        for number in np.unique(products[here]):
            product = self.open.get(int(number))
            if product is not None and unlike(product):
                lanes = here & (products == number) & product.pending
                if lanes.any():
                    self._accuse(line, lanes, message, product.line)

    def _accuse(self, line: int, warps: Array, message: str, other: int = 0) -> None:
        """Enter a race of the first of these warps; bool (warps, blocks). message: with {who},
        {other}.
        """
        column = int(np.flatnonzero(warps.any(axis=0))[0])
        warp = int(np.flatnonzero(warps[:, column])[0])
        lane = Offender(self.state, 32 * warp, column, 32 * int(np.count_nonzero(warps)))
        text = message.replace("{who}", str(lane)).replace("{other}", str(other))
        accuse("race", line, lane, text, other_line=other)


def under_way(state: State) -> Products:
    """The products of a batch of blocks."""
    if state.products is None:
        state.products = Products(state)
    return state.products


def wgmma_fence(state: State, mask: Mask | None) -> None:
    """wgmma.fence: products that these warps begin now see their registers as they are."""
    products = under_way(state)
    products.fences = products.fences + state.warps_active(mask)


def wgmma_commit(state: State, mask: Mask | None) -> None:
    """wgmma.commit_group: the products that these warps have begun since the last one."""
    products = under_way(state)
    products.commits = products.commits + state.warps_active(mask)


def wgmma_wait(state: State, allowed: int, mask: Mask | None) -> None:
    """wgmma.wait_group: these warps wait until at most `allowed` of their groups are under way."""
    under_way(state).wait(allowed, state.warps_active(mask))


def sums_read(state: State, names: tuple[str, ...], line: int, mask: Mask | None) -> None:
    """An instruction that is no copy reads registers that may be sums under way."""
    if state.observers and state.products is not None:
        state.products.read(names, line, state.warps_active(mask))


def sums_written(state: State, copies: Copies, line: int, mask: Mask | None) -> None:
    """Instructions write registers that products take or give, or copies of them."""
    if state.observers:
        under_way(state).write(copies, line, state.warps_active(mask))
