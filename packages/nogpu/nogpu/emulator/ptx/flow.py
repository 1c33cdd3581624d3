"""The basic blocks of a function as a graph: in which order they run, and what holds in each.

Of waiting groups of threads, the one at the first block in this order runs next. So that lanes
which took different ways are together again where the ways join, a block must come after all that
lead to it, and a loop's blocks before what follows the loop. PTX is mostly written so; but the
compiler puts what it thinks unlikely behind the rest, and then the place where the ways join stands
before one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import TypeVar

from nogpu.emulator.ptx import syntax as P

Graph = Mapping[int, Sequence[int]]
Node = TypeVar("Node", bound=Hashable)
Fact = TypeVar("Fact")


def on_entry(
    function: P.Function,
    nothing: Fact,
    after: Callable[[P.Instruction, Fact], Fact],
    join: Callable[[Fact, Fact], Fact],
) -> dict[int, Fact]:
    """What may hold where each basic block begins; `nothing` where the function does.

    after: what holds behind an instruction, by what holds before. join: of two ways.
    """
    entry = dict.fromkeys(function.spans, nothing)
    todo = list(reversed(entry))
    while todo:
        start = todo.pop()
        now = entry[start]
        for ins in function.code[start : function.spans[start]]:
            now = after(ins, now)
        for to in function.after[start]:
            joined = join(entry[to], now)
            if joined != entry[to]:
                entry[to] = joined
                todo.append(to)
    return entry


def order(after: Graph, entry: int) -> list[int]:
    """Blocks from first to last: a weak topological order, as near to the text's as that allows.

    after: the blocks that may follow each block, named by their place in the text. entry: the
    first. Source: F. Bourdoncle, Efficient chaotic iteration strategies with widenings, 1993.
    """
    return _arrange(sorted(after), after, {entry})


def _arrange(nodes: Sequence[int], after: Graph, heads: set[int]) -> list[int]:
    """Components in topological order; within a loop its head first, then the rest without it."""
    inside = set(nodes)
    edges = {n: [m for m in after[n] if m in inside] for n in nodes}
    groups = components(edges)
    group_of = {n: i for i, group in enumerate(groups) for n in group}
    before = [0] * len(groups)
    for n, nexts in edges.items():
        for m in nexts:
            before[group_of[m]] += group_of[n] != group_of[m]
    ready = [(min(group), i) for i, group in enumerate(groups) if not before[i]]
    heapify(ready)
    out: list[int] = []
    while ready:
        _, i = heappop(ready)
        group = groups[i]
        if len(group) == 1:
            out += group
        else:
            members = set(group)
            entered = {m for n in nodes if n not in members for m in edges[n] if m in members}
            head = min((heads | entered) & members or members)
            rest = [n for n in sorted(group) if n != head]
            out.append(head)
            out += _arrange(rest, after, {m for m in after[head] if m in members})
        for n in group:
            for m in edges[n]:
                if group_of[m] != i:
                    before[group_of[m]] -= 1
                    if not before[group_of[m]]:
                        heappush(ready, (min(groups[group_of[m]]), group_of[m]))
    return out


def inverse(edges: Mapping[Node, Sequence[Node]]) -> dict[Node, list[Node]]:
    """From where edges lead to each node."""
    into: dict[Node, list[Node]] = {n: [] for n in edges}
    for n, targets in edges.items():
        for m in targets:
            into[m].append(n)
    return into


def components(edges: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Strongly connected components, each before those that it leads to (Kosaraju's algorithm,
    without recursion).
    """
    done: list[Node] = []
    seen: set[Node] = set()
    for start in edges:
        if start in seen:
            continue
        seen.add(start)
        stack = [(start, iter(edges[start]))]
        while stack:
            node, nexts = stack[-1]
            new = next((m for m in nexts if m not in seen), None)
            if new is None:
                done.append(node)
                stack.pop()
            else:
                seen.add(new)
                stack.append((new, iter(edges[new])))
    into, groups, placed = inverse(edges), [], set[Node]()
    for root in reversed(done):
        if root in placed:
            continue
        placed.add(root)
        group = [root]
        for node in group:  # grows while it is walked
            fresh = [n for n in dict.fromkeys(into[node]) if n not in placed]
            placed.update(fresh)
            group += fresh
        groups.append(group)
    return groups
