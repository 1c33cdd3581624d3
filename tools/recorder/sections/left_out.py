"""Section "left_out": kernels built without one of their parts, in turn with the kernel as it is.

The parts are macros of the kernels' files (`rungs.LEFT_OUT`), and the larger tile: without it the
kernel has the tile of the rung before. All builds of a kernel take part in every round, so that the
clock cancels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from helpers.ladder import rungs
from helpers.ladder.kernel import Geometry, geometry
from helpers.ladder.rungs import LEFT_OUT, catalog
from helpers.record.entries import LeftOut
from helpers.record.trials import of_plan, trial, yardstick
from tools.recorder.steps import MATRIX, Job, Section, Step

KERNELS = ("warp_tiled", "fp32_best")
WHOLE = "all"
SMALL = {"BM": 128, "BN": 128, "BK": 8, "WM": 32, "WN": 64, "TM": 8, "TN": 8, "MIN_BLOCKS": 2}
"""The block and the patches of lane_map, in the terms of the kernels that follow it."""
BUILDS: Mapping[str, tuple[tuple[str, ...], Mapping[str, int]]] = {
    WHOLE: ((), {}),
    "fragments ahead": (("FRAGMENTS_AHEAD",), {}),
    "back and forth": (("BACK_AND_FORTH",), {}),
    "added zeros": (("ZEROS_ADDED",), {}),
    "larger tiles": ((), SMALL),
    "all of them": (LEFT_OUT, SMALL),
}
"""What is left out: macros that are 0, and other tile sizes."""


def plans(name: str, size: tuple[int, int, int] = MATRIX) -> dict[str, Geometry]:
    """The launches of a kernel's builds, by what each leaves out."""
    return {
        build: geometry(rungs.without(name, *parts), *size, **tile)
        for build, (parts, tile) in BUILDS.items()
    }


def _compare(job: Job, what: str, name: str) -> str:
    """All builds of a kernel and cuBLAS in one set of rounds."""
    with job.session.faults(what):
        built = plans(name)
        contenders = {b: of_plan(p, f"{name} without {b}") for b, p in built.items()}
        beside = yardstick(job.session, built[WHOLE], what)
        timed = trial(job.session, MATRIX, contenders | beside)
    shares = []
    for build, plan in built.items():
        ms, share = timed.ms[build], timed.rounds.ratio(build, WHOLE)
        entry = LeftOut(
            *(name, build, *MATRIX, dict(plan.params)),
            *(ms.median, ms.q1, ms.q3, timed.rates[build]),
            *(share.median, share.q1, share.q3),
            rungs.fingerprint(name),
            dict(job.stamp),
        )
        job.record.merge(entry)
        shares.append(f"{build} {100 * share.median:.1f} %")
    return f"without {', '.join(shares)}"


def lacking(job: Job) -> Iterator[Step]:
    """A step for each kernel of which a build is not there, or of other code."""
    for name in KERNELS:
        here = {e.without: e.source for e in job.record.of(LeftOut) if e.kernel == name}
        today = here == dict.fromkeys(BUILDS, rungs.fingerprint(name))
        if job.runs(catalog[name]) and (job.request.again or not today):
            what = f"parts of {name} left out"
            yield Step(what, 1.5 * len(BUILDS), partial(_compare, job, what, name))


SECTIONS = (Section(LeftOut, lacking, option="kernels without one of their parts each", rank=31),)
