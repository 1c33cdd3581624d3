"""What each thread of a block does in one step along K, read off a run in the emulator.

    d = duties("block_1d_core")
    d.fetched["A"][37], d.reads["B"][37], d.computes[37]

A thread has two jobs: it copies some elements of A and B into shared memory, and it computes some
elements of C from others. Both are taken from the addresses of the run; no formula of a kernel is
repeated here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.ladder.kernel import DEPTHS, Geometry, Kernel
from helpers.ladder.launch import trace_of
from helpers.ladder.rungs import find, lay_out
from nogpu.device import WARP, WORD
from nogpu.errors import ConfigError, DataError

Array = np.ndarray[Any, np.dtype[np.int64]]
Place = tuple[int, int]


@dataclass(frozen=True)
class Duties:
    """The jobs of all threads of the first block, in a launch of one tile and one step along K.

    launch: that launch. depth: the steps of k of the tiles. By thread, then: fetched: elements
    (row, column) of A and of B within their tiles, row after row, as (accesses, elements of an
    access, 2). reads: the rows of A_tile (of "A") and columns of B_tile (of "B") that it needs at
    each k. computes: elements of C. place: words that a step down and a step right in the tile are
    apart in shared memory.
    """

    launch: Geometry
    depth: int
    fetched: Mapping[str, tuple[Array, ...]]
    reads: Mapping[str, tuple[tuple[int, ...], ...]]
    computes: tuple[tuple[Place, ...], ...]
    place: Mapping[str, Place]

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return self.launch.threads

    def check(self, thread: int) -> int:
        """The thread. Raises ConfigError if the block has no such one."""
        if not isinstance(thread, int) or not 0 <= thread < self.threads:
            raise ConfigError(
                f"{thread=}: a block of {self.launch.kernel.name} has threads 0 to "
                f"{self.threads - 1}"
            )
        return thread

    def lands(self, array: str, row: int, col: int) -> str:
        """Where an element of a tile goes, as the source says it: "A_tile[4][5]"."""
        down, right = self.place[array]
        first, second = (row, col) if down >= right else (col, row)
        return f"{array}_tile[{first}][{second}]"


def duties(kernel: Kernel | str, **params: int) -> Duties:
    """The jobs of the threads of a kernel that stages tiles and sums in FP32 registers.

    Raises ConfigError for another kernel, or a block that is not whole warps, DataError if its
    threads do not compute what they read.
    """
    k = find(kernel)
    depth = next((d for d in DEPTHS if d in k.params), "")
    if k.reuse != "block" or k.dtype != "float32" or not depth:
        raise ConfigError(
            f"{k.name}: its threads do not share FP32 tiles in shared memory, so none has these "
            "two jobs. Take one from tiled_32 on, such as block_1d_core"
        )
    of_any = lay_out(k, 4096, 4096, 4096, **params)
    if of_any.threads % WARP:
        raise ConfigError(
            f"a block of {k.name} with {dict(of_any.params)} has {of_any.threads} threads, which "
            f"are no whole warps of {WARP}: choose a tile whose threads are"
        )
    return _read_off(of_any.tile, of_any.params[depth], k, params)


def _read_off(tile: Place, depth: int, k: Kernel, params: Mapping[str, int]) -> Duties:
    m, n = tile
    launch = lay_out(k, m, n, depth, **params)
    run = trace_of(launch, samples=True)
    columns = {"A": depth, "B": n, "C": n}
    fetched: dict[str, tuple[Array, ...]] = {}
    reads: dict[str, tuple[tuple[int, ...], ...]] = {}
    place: dict[str, Place] = {}
    for name in "AB":
        come = _accesses(run, "global", "load", name)
        put = _accesses(run, "shared", "store", f"{name}_tile")
        fetched[name] = _places(come, columns[name])
        place[name] = _layout(come[0][0, 0], put[0][0, 0], columns[name], name)
        (down, right), first = place[name], min(int(x.min()) for x in put)
        elements = (m if name == "A" else depth) * columns[name]
        word = {
            first + e // columns[name] * down + e % columns[name] * right: e
            for e in range(elements)
        }
        if not word.keys() <= set(np.concatenate([x.ravel() for x in put]).tolist()):
            raise DataError(f"{name}_tile is not filled by one element of {name} after another")
        wanted = [_flat(x) for x in _accesses(run, "shared", "load", f"{name}_tile")]
        reads[name] = _reads(np.concatenate(wanted), word, columns[name], depth, name)
    stores = np.concatenate([_flat(x) for x in _accesses(run, "global", "store", "C")])
    computes = tuple(
        tuple(sorted(divmod(e, n) for e in set(stores[:, t].tolist())))
        for t in range(launch.threads)
    )
    for t, cells in enumerate(computes):
        rows, cols = set(reads["A"][t]), set(reads["B"][t])
        if set(cells) != {(i, j) for i in rows for j in cols}:
            raise DataError(
                f"thread {t} of {k.name} computes {len(cells)} elements of C, and what it reads "
                f"would make {len(rows)} x {len(cols)}: its jobs cannot be read off this run"
            )
    return Duties(launch, depth, fetched, reads, computes, place)


def _accesses(run: Any, space: str, op: str, array: str) -> list[Array]:
    """Elements of each instruction, as (executions, elements of an access, threads)."""
    widths = {
        (a.line, a.array): a.width_bytes for a in run.by_line() if (a.space, a.op) == (space, op)
    }
    accesses, warps = [], run.plan.threads // WARP
    for (line, where, what), samples in sorted(run.report.samples.items()):
        if (where, what) != (space, op):
            continue
        for name, _, offsets in samples:
            if name == array:
                first = offsets.reshape(-1, warps * WARP) // WORD
                more = np.arange(widths[line, name] // WORD)
                accesses.append(first[:, None, :] + more[:, None])
    if not accesses:
        raise DataError(f"{run.plan.kernel.name} made no {space} {op} of {array}")
    return accesses


def _layout(elements: Array, words: Array, columns: int, name: str) -> Place:
    """Words that a step down and a step right are apart, of a load and a store of all threads."""
    rows, cols = np.divmod(elements, columns)
    known = np.stack([rows, cols, np.ones_like(rows)], axis=1)
    solution, _, rank, _ = np.linalg.lstsq(known, words, rcond=None)
    down, right, _ = (int(x) for x in np.rint(solution))
    if rank < 3 or (known @ np.rint(solution) != words).any():
        raise DataError(
            f"{name}_tile does not hold its rows at equal distances: not read off this run"
        )
    return down, right


def _flat(accesses: Array) -> Array:
    """(elements in order, threads)."""
    return accesses.reshape(-1, accesses.shape[2])


def _places(accesses: list[Array], columns: int) -> tuple[Array, ...]:
    """By thread: (accesses, elements of an access, 2)."""
    each = np.concatenate(accesses)
    places = np.stack(np.divmod(each, columns), axis=-1)
    return tuple(places[np.argsort(each[:, 0, t]), :, t] for t in range(each.shape[2]))


def _reads(
    words: Array, word: Mapping[int, int], columns: int, depth: int, name: str
) -> tuple[tuple[int, ...], ...]:
    """By thread: rows of A (columns of B) of what it reads, which must be the same at each k."""
    reads = []
    for t in range(words.shape[1]):
        by_k: list[set[int]] = [set() for _ in range(depth)]
        for w in set(words[:, t].tolist()) & word.keys():
            row, col = divmod(word[w], columns)
            by_k[col if name == "A" else row].add(row if name == "A" else col)
        if len(set(map(frozenset, by_k))) > 1:
            raise DataError(f"thread {t} reads other parts of {name}_tile at one k than at another")
        reads.append(tuple(sorted(by_k[0])))
    return tuple(reads)
