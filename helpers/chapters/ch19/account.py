"""Where the clocks of the ring go: the account of chapter 19.

What no record holds, clocks with parts of the kernel left out, comes from the notes of the tuning
runs (data/tries/mma.md), of a variant of the kernel; the work and the peak are computed. Each row
says which.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from helpers.chapters.notes import TRIES, numbers, read
from helpers.ladder import model, usage
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from nogpu.device import Gpu
from nogpu.errors import DataError

NOTES = TRIES / "mma.md"
KERNEL = "mma_pipelined"
SIZE = 4096
"""Edge of the matrices in the notes."""
CORES = 4
"""Tensor Cores of an SM, each with a warp scheduler of its own."""
FLOP = 2 * 16 * 8 * 16
"""Of one m16n8k16: two for a multiply-add."""
LOSSES = ("instruction", "rounds", "loop", "rest", "clock")
"""What is lost from one row of the account to the next."""


@dataclass(frozen=True)
class Account:
    """Clocks of the variant and what they are spent on, for the numbers of a text.

    least, each: clocks of one m16n8k16 on a Tensor Core, by its peak and as measured alone. alone:
    TFLOP/s of that instruction and nothing else. rate: TFLOP/s of the variant; ghz:
    its clocks over its time. whole, only: its clocks in thousands, and with all but mma.sync left
    out. without, saved: the clocks with one part left out, and what that saves, in thousands, by
    part. summed: all of saved. math_busy, latency: percent of the stall samples of its loop.
    issuing: percent of the clocks that issuing copies costs. rounds: of tiles on all SMs. lost:
    percent of the rate that each row of the account takes.
    """

    least: float
    each: float
    alone: float
    rate: float
    ghz: float
    whole: float
    only: float
    without: Mapping[str, float]
    saved: Mapping[str, float]
    summed: float
    math_busy: float
    latency: float
    issuing: float
    rounds: float
    lost: Mapping[str, float]
    rows: tuple[Mapping[str, Any], ...]

    @property
    def all_saved(self) -> float:
        """Thousands of clocks that leaving out all but mma.sync saves."""
        return self.whole - self.only


def of_the_ring(gpu: Gpu, notes: str | None = None) -> Account:
    """The account of the variant at 4096, from the notes.

    gpu: on which it ran. notes: their text; None: the file's. Raises DataError if the notes do not
    say what the account needs.
    """
    text = read(NOTES.name) if notes is None else notes
    line = re.search(r"Cycles \(ncu, 4096\): (.*)", text)
    parts = re.findall(r"(?:^|; )(?:no )?([a-z ]+?) (\d+)k", line[1]) if line else []
    clocks = {name.strip().replace(" ", "_"): float(n) for name, n in parts}
    if not {"pipelined", "mma_only", "copies", "ldmatrix", "wait"} <= clocks.keys():
        raise DataError(f"{NOTES.name} has no clocks with parts left out: the notes have changed")
    whole, only = clocks.pop("pipelined"), clocks.pop("mma_only")
    words = r"m16n8k16 takes (\d+) cycles of a sub-core \(peak (\d+) TFLOP/s at"
    each, alone = numbers(NOTES.name, words, text)
    (rate,) = numbers(NOTES.name, r"Run 3, result [^\n]*\npipelined (\d+) \(", text)
    math_busy, latency = numbers(
        NOTES.name, r"HMMA math pipe busy (\d+) %, fixed latency (\d+) %", text
    )
    (issuing,) = numbers(NOTES.name, r"ISSUING the copies costs (\d+)k", text)

    flop = 2 * SIZE**3
    least = FLOP * CORES / gpu.tensor_fp16_flop_per_clock_per_sm
    work = flop / FLOP / (gpu.sms * CORES) / 1e3  # thousands of instructions a Tensor Core
    x, y, _ = geometry(catalog[KERNEL], SIZE, SIZE, SIZE).grid
    rounds = model.waves(gpu, x * y, usage.resources(KERNEL, gpu.arch).occupancy.blocks)
    full = math.ceil(rounds)
    ghz = whole * 1e3 / (flop / (rate * 1e12)) / 1e9
    steps = [
        (f"the work, {least:.0f} clocks an instruction", work * least, "peak of the GPU table"),
        (f"an instruction takes {each:.0f} clocks", work * each, "notes: mma.sync alone"),
        (f"{full} rounds for {rounds:.2f} of tiles", work * each * full / rounds, "computed"),
        ("the loop itself, all but mma.sync left out", only, "notes: ncu"),
        ("copies, barriers, fragments, store of C", whole, "notes: ncu"),
    ]
    peaks = [flop / n * gpu.boost_mhz * 1e3 / 1e12 for _, n, _ in steps]
    rates = [*peaks, rate]
    lost = [100 * (1 - now / before) for before, now in pairwise(rates)]
    steps.append(
        (f"at {ghz:.2f} GHz, not {gpu.boost_mhz / 1e3:.2f}", whole, "notes: clocks over time")
    )
    return Account(
        least=least, each=each, alone=alone, rate=rate, ghz=ghz, whole=whole,
        only=only, without=clocks, saved={name: whole - n for name, n in clocks.items()},
        summed=sum(whole - n for n in clocks.values()), math_busy=math_busy, latency=latency,
        issuing=100 * issuing / whole, rounds=rounds, lost=dict(zip(LOSSES, lost, strict=True)),
        rows=tuple(
            {"after this": what, "1000 clocks": n, "TFLOP/s": r, "lost here "
            "(%)": gone, "source": source}
            for (what, n, source), r, gone in zip(steps, rates, [None, *lost], strict=True)
        ),
    )  # fmt: skip
