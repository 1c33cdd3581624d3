"""Section "transfers": bandwidth of copies in both directions, from pageable and pinned memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from helpers.record import protocol
from helpers.record.entries import Transfer
from tools.recorder.steps import Job, Section, Step

BYTES = tuple(1 << power for power in (16, 18, 20, 22, 24, 26, 28, 29))


def lacking(job: Job) -> Iterator[Step]:
    """All of them at once: they take seconds."""

    def run() -> str:
        rates = []
        for direction, memory in itertools.product(("h2d", "d2h"), ("pageable", "pinned")):
            for nbytes in BYTES:
                with job.session.faults("transfers"):
                    copies = job.session.copies(nbytes, direction, memory == "pinned", 7)
                s = protocol.spread(np.array(copies[1:]))  # the first one warms up
                gbs = nbytes / s.median / 1e6
                spread = (s.median, s.q1, s.q3)
                job.record.merge(Transfer(direction, memory, nbytes, *spread, gbs, dict(job.stamp)))
            rates.append(f"{direction} {memory} {gbs:.1f} GB/s")
        return f"{', '.join(rates)} at {nbytes >> 20} MiB"

    if job.request.again or not job.record.of(Transfer):
        yield Step("transfers", 10.0, run)


SECTIONS = (Section(Transfer, lacking, option="bandwidth of copies, pinned and pageable", rank=40),)
