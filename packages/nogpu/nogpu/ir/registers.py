"""Which values share a register: what is copied into each other, where nothing stands in the way.

Without this a loop would copy its sums in every turn, and those of wgmma while it still works on
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nogpu.ir.values import Unit


class Use(NamedTuple):
    """What an instruction reads and makes.

    early: it may write before it has read. tied: makes and reads that should be one register.
    """

    reads: Sequence[Unit]
    makes: Sequence[Unit]
    early: bool = False
    tied: Sequence[tuple[Unit, Unit]] = ()


class Edge(NamedTuple):
    """A way from a block to another one, and what is copied on it: (phi, value)."""

    source: str
    to: str
    moves: Sequence[tuple[Unit, Unit]]


def shared(
    code: Mapping[str, Sequence[Use]],
    phis: Mapping[str, Sequence[Unit]],
    edges: Sequence[Edge],
    families: Mapping[Unit, str],
) -> dict[Unit, Unit]:
    """For each unit that may share a register the one that stands for all that share it.

    code, phis: by block. Two values stand in each other's way if one is needed where the other is
    made. Source: Z. Budimlic et al., Fast copy coalescing and live-range identification, 2002.
    """
    tied = [pair for uses in code.values() for use in uses for pair in use.tied]
    pairs = [*tied, *(move for edge in edges for move in edge.moves)]
    number: dict[Unit, int] = {}
    for pair in pairs:
        for unit in pair:
            number.setdefault(unit, len(number))

    def mask(units: Iterable[Unit]) -> int:
        bits = 0
        for unit in units:
            if unit in number:
                bits |= 1 << number[unit]
        return bits

    tops = {name: mask(phis.get(name, ())) for name in code}
    masks = {n: [(mask(u.reads), mask(u.makes), u) for u in uses] for n, uses in code.items()}
    leaving = {name: list[tuple[str, int]]() for name in code}
    for edge in edges:
        leaving[edge.source].append((edge.to, mask(value for _, value in edge.moves)))
    ends = _live_at_ends(masks, tops, leaving)
    in_way = [0] * len(number)
    for name, uses in masks.items():
        live = ends[name]
        for reads, makes, use in reversed(uses):
            live &= ~makes
            beside = live | makes | (reads if use.early else 0)
            own = {number[a]: 1 << number[b] for a, b in use.tied}
            for n in _ones(makes):
                in_way[n] |= beside & ~(own.get(n, 0) & ~live)
            live |= reads
        for n in _ones(tops[name]):
            in_way[n] |= live | tops[name]
    return _joined(pairs, number, in_way, families)


def _live_at_ends(
    masks: Mapping[str, Sequence[tuple[int, int, Use]]],
    tops: Mapping[str, int],
    leaving: Mapping[str, Sequence[tuple[str, int]]],
) -> dict[str, int]:
    """What is needed at the end of each block, by those that follow."""
    needs, kept = dict[str, int](), dict[str, int]()
    for name, uses in masks.items():
        needed, passed = 0, -1
        for reads, makes, _ in reversed(uses):
            needed = needed & ~makes | reads
            passed &= ~makes
        needs[name], kept[name] = needed, passed
    before = {name: list[str]() for name in masks}
    for name, ways in leaving.items():
        for to, _ in ways:
            before[to].append(name)
    begins, ends = dict.fromkeys(masks, -1), dict.fromkeys(masks, 0)
    todo = list(masks)
    while todo:
        name = todo.pop()
        end = 0
        for to, carried in leaving[name]:
            end |= carried | (max(begins[to], 0) & ~tops[to])
        ends[name] = end
        begin = needs[name] | end & kept[name]
        if begin != begins[name]:
            begins[name] = begin
            todo += before[name]
    return ends


def _ones(bits: int) -> Iterator[int]:
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


def _joined(
    pairs: Sequence[tuple[Unit, Unit]],
    number: Mapping[Unit, int],
    in_way: Sequence[int],
    families: Mapping[Unit, str],
) -> dict[Unit, Unit]:
    """Union of what is copied into each other, in the order of the pairs, if nothing forbids it."""
    head = {unit: unit for unit in number}
    members = {unit: 1 << n for unit, n in number.items()}
    forbids = {unit: in_way[n] & ~(1 << n) for unit, n in number.items()}

    def find(unit: Unit) -> Unit:
        while head[unit] != unit:
            head[unit] = unit = head[head[unit]]
        return unit

    for a, b in pairs:
        x, y = find(a), find(b)
        if x == y or families[x] != families[y]:
            continue
        if members[x] & forbids[y] or members[y] & forbids[x]:
            continue
        head[y] = x
        members[x] |= members.pop(y)
        forbids[x] |= forbids.pop(y)
    return {unit: find(unit) for unit in number}
