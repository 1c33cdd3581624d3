"""Checks for the exercises of chapter 05, coalescing."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from helpers.chapters.ch05 import requests
from helpers.page.exercises import (
    Axis,
    Check,
    KernelTask,
    check_chart,
    checked_report,
    exercise,
    number,
)

number(
    "05.1",
    "Sectors of one request when lanes read every third float",
    12,
    tolerance=0,
    what="sectors of the request",
    mistakes={
        4: "four sectors hold 32 floats side by side",
        11: "count the sector that holds the last float too",
        11.625: "sectors are whole, and the last one counts",
        11.75: "sectors are whole",
        13: "counted from 0, float 93 lies in sector 11, and x starts at a sector boundary",
        24: "a sector holds eight floats, not four",
        32: "a sector holds eight floats, and lanes are three apart: neighbours share sectors",
        94: "those are the floats from the first to the last; eight of them lie in a sector",
        96: "that is 3 times 32 floats; eight of them lie in a sector",
    },
    hint="Find the float that lane 31 reads, and the sector that it lies in.",
)


EDGE = 64
"""Edge of the matrices on which requests are counted."""


@exercise("05.2", kind="kernel")
def fixed_grid(answer: object) -> Iterator[Check]:
    """A 32x8 block on a grid over rows, coalesced by renumbering its threads."""
    grid, most = ("cdiv(M, 32)", "cdiv(N, 8)", "1"), {"A": 4, "B": 4, "C": 4}
    task = KernelTask("fixed_grid", block=("32", "8", "1"), grid=grid, max_sectors=most)
    report = yield from checked_report(answer, task, (EDGE, EDGE, EDGE))
    if report is None:
        return
    # A request of one lane touches few sectors too: the lanes of a warp have to ask together.
    requests = sum(row.requests for row in report.by_line() if row.space == "global")
    together = (2 * EDGE**3 + EDGE**2) // 32
    yield Check(
        requests <= together,
        f"requests for one {EDGE}x{EDGE}x{EDGE} product",
        got=f"{requests:,}",
        expected=f"{together:,} or fewer",
        hint="Fewer lanes a request is no cure: each thread computes one element of C, and the 32 "
        "lanes of a warp ask together.",
    )


number(
    "05.3",
    "Share of fetched bytes used when each lane reads one double of a column, in percent",
    25,
    what="share of bytes used",
    unit="%",
    mistakes={
        12.5: "that is a float; a double has 8 bytes",
        0.25: "give it as a percentage",
        50: "a sector has 32 bytes, not 16",
        6.25: "that would be a line of 128 bytes; memory is fetched in sectors",
        75: "that is the share that is not used",
        100: "neighbouring lanes read 1000 doubles apart: each fetches a sector of its own",
    },
    hint="How many bytes are fetched for one lane, and how many of them does it use?",
)


@exercise("05.4", kind="python")
def both_prices(answer: Any) -> Iterator[Check]:
    """Sectors and wavefronts of one request against the stride of its lanes."""
    apart = {s: s * np.arange(32) for s in (1, 2, 4, 8, 16, 32)}
    yield from check_chart(
        answer,
        Axis("stride (floats)", ("stride|distance|apart", "float|element|word"), log=True),
        Axis(
            "sectors, wavefronts of a request",
            ("sector|wavefront|number|count", "request"),
            log=True,
        ),
        {
            "sectors": {s: requests.sectors(where) for s, where in apart.items()},
            "wavefronts": {s: requests.wavefronts(where) for s, where in apart.items()},
        },
        hint="The positions of the 32 lanes are the stride times 0 to 31.",
    )
