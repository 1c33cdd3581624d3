"""Section "l2": what L2 delivers to the SMs, by how many of them want the same bytes at about the
same time."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.ladder import hopper, launch
from helpers.ladder.kernel import KERNELS
from helpers.record.entries import L2Rate
from helpers.record.gpu import Session
from helpers.record.protocol import ImplausibleError
from nogpu import disk, toolchain
from nogpu.text import read_source
from tools.recorder.steps import Job, Section, Step

SOURCE = KERNELS / "probes" / "l2.cu"
CHUNK, PART = 32 * 1024, 128 * 1024
"""Bytes that a block asks for at a time, and of the buffer for each block: as in the source."""
COLUMNS = 1024
"""Of the matrix of 2-byte elements that the boxes lie in: 64 rows of it are a PART."""
RING = 6 * CHUNK + 1024
"""Bytes of shared memory for the copies under way, and to begin at a multiple of 1024."""
CHUNKS = 1536
"""Of a block in a launch: 48 MB, about half a millisecond and more."""
LAUNCHES = 7
SKEWS = (1, 4, 16)
"""Chunks by which neighbours are apart, besides none."""


@dataclass(frozen=True)
class Way:
    """How blocks ask: the kernel of the source, its cluster, and the oldest GPU that can."""

    name: str
    entry: str
    cluster: int = 1
    min_arch: str = "sm_90a"
    threads: int = 64


WAYS = (
    Way("loads", "l2_loads", min_arch="sm_75", threads=1024),
    Way("bulk copies", "l2_bulk"),
    Way("TMA boxes", "l2_boxes"),
    Way("multicast", "l2_boxes", cluster=2),
)


def fingerprint() -> str:
    """A name for the code that these entries are of."""
    return disk.digest([read_source(SOURCE)])[:16]


def groups(sms: int, cluster: int = 1) -> list[int]:
    """In how large groups so many SMs can be dealt out evenly, each of whole clusters."""
    return [n for n in range(cluster, sms + 1) if sms % n == 0 and n % cluster == 0]


def cases(sms: int, way: Way) -> list[tuple[int, int]]:
    """What is measured of a way: (sharing, skew in chunks)."""
    sizes = groups(sms, way.cluster)
    skewed = [n for n in sizes if n in (sizes[-1], sizes[len(sizes) // 2])]
    return [(n, 0) for n in sizes] + [(n, skew) for n in skewed for skew in SKEWS]


def expected(words: Any, way: Way, sharing: int, skew: int, chunks: int) -> Any:
    """What `seen` must hold after a launch over these 32-bit words (chunks of CHUNK bytes)."""
    blocks = words.size * 4 // PART
    if way.entry == "l2_boxes":  # four boxes side by side, 128 bytes of each of 64 rows
        across = COLUMNS * 2 * 64 // CHUNK
        rows = words.reshape(-1, 64, across, COLUMNS // 2 // across)
        each = np.bitwise_xor.reduce(rows, axis=(1, 3)).ravel()
    else:
        each = np.bitwise_xor.reduce(words.reshape(-1, CHUNK // 4), axis=1)
    seen = np.zeros(blocks, np.uint32)
    for block in range(blocks):
        first, length = block // sharing * sharing * (PART // CHUNK), sharing * PART // CHUNK
        start = block % sharing // way.cluster * skew
        taken = [first + (start + i) % length for i in range(chunks)]
        if way.entry == "l2_loads":
            seen[block] = np.bitwise_xor.reduce(each[taken])
        else:
            seen[block] = each[taken[-1]]
    return seen


class Runner:
    """The probe on a GPU: a buffer of random words, one PART for each SM."""

    def __init__(self, session: Session) -> None:
        self.session, self.cupy = session, session.cupy
        self.sms = session.gpu.sms
        words = np.random.default_rng(1).integers(1 << 32, size=self.sms * PART // 4)
        self.words = words.astype(np.uint32)
        with session.on_stream():
            self.data = self.cupy.asarray(self.words)
            self.clocks = self.cupy.zeros(self.sms, np.int64)
            self.seen = self.cupy.zeros(self.sms, np.uint32)

    def once(self, way: Way, sharing: int, skew: int, chunks: int = CHUNKS) -> tuple[float, float]:
        """Milliseconds of a launch, and the median of the clocks of its blocks.

        Raises ImplausibleError.
        """
        arch = self.session.gpu.arch + ("a" if way.min_arch.endswith("a") else "")
        shared = RING if way.min_arch.endswith("a") else 0
        cubin = toolchain.compile(
            read_source(SOURCE), name=SOURCE.name, arch=arch, defines={"CLUSTER": str(way.cluster)}
        ).cubin
        function = launch.cuda_entry(cubin, way.entry, shared)
        source: Any = self.data
        if way.entry == "l2_boxes":
            matrix = self.data.view(np.uint16).reshape(-1, COLUMNS)
            source = hopper.build_descriptor(matrix, hopper.BOX_ROWS["A_map"])
        numbers = (np.int32(n) for n in (sharing, skew, chunks))
        arguments = (source, *numbers, self.clocks, self.seen)
        with self.session.on_stream():
            self.seen[...] = 0
            began, ended = self.cupy.cuda.Event(), self.cupy.cuda.Event()
            began.record(self.session.stream)
            function((self.sms,), (way.threads,), arguments, shared_mem=shared)
            ended.record(self.session.stream)
            ended.synchronize()
            ms = float(self.cupy.cuda.get_elapsed_time(began, ended))
            seen, clocks = self.seen.get(), self.clocks.get()
        wanted = expected(self.words, way, sharing, skew, chunks)
        if not np.array_equal(seen, wanted):
            raise ImplausibleError(
                f"{way.name} of L2, {sharing} SMs sharing: {np.count_nonzero(seen != wanted)} of"
                f" {self.sms} blocks did not take in the bytes that they asked for, so their time"
                " says nothing"
            )
        return ms, float(statistics.median(clocks.tolist()))

    def fastest(
        self, way: Way, sharing: int, skew: int, runs: int = LAUNCHES
    ) -> tuple[float, float]:
        """The fastest of several launches, after one that brings the buffer into L2."""
        self.once(way, sharing, skew, 8)
        return min(self.once(way, sharing, skew) for _ in range(runs))


def lacking(job: Job) -> Iterator[Step]:
    """A way at a time: seconds each."""
    recorded = {e.way for e in job.record.of(L2Rate) if e.source == fingerprint()}

    def run(way: Way) -> str:
        rates = []
        with job.session.faults(f"l2: {way.name}"):
            runner = Runner(job.session)
            for sharing, skew in cases(runner.sms, way):
                ms, clocks = runner.fastest(way, sharing, skew)
                each = CHUNKS * CHUNK
                gbs, per_clock = each * runner.sms / ms / 1e6, each / clocks
                buffer = runner.words.nbytes
                stamp = dict(job.stamp)
                job.record.merge(
                    L2Rate(
                        way.name, sharing, skew * CHUNK, buffer, gbs, per_clock, ms, LAUNCHES, fingerprint(), stamp,
                    )
                )  # fmt: skip
                if not skew:
                    rates.append(f"{sharing}: {per_clock:.0f}")
        return f"bytes a clock and SM by how many share, {', '.join(rates)}"

    for way in WAYS:
        if job.supports(way.min_arch) and (job.request.again or way.name not in recorded):
            yield Step(f"l2: {way.name}", 5.0, lambda way=way: run(way))  # type: ignore[misc]


SECTIONS = (Section(L2Rate, lacking, option="what L2 delivers, by how many SMs share", rank=42),)
