"""Section "flags": a kernel built with other compiler flags or pragmas, beside the default."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from helpers.ladder import rungs
from helpers.ladder.kernel import Geometry, geometry
from helpers.ladder.rungs import catalog
from helpers.record.entries import Build
from helpers.record.gpu import Problem
from helpers.record.trials import PRECISION, Contender, Operation, of_plan, trial
from nogpu.errors import ConfigError
from tools.recorder.steps import Job, Section, Step

KERNELS = ("naive", "coalesced", "tiled_32", "tiled_rect")
SIZES = (1024, 4096)
BUILDS: Mapping[str, tuple[tuple[str, ...], str | None]] = {
    "default": ((), None),
    "fast math": (("--use_fast_math",), None),
    "unroll": ((), "#pragma unroll"),
    "no unrolling": ((), "#pragma unroll 1"),
}
"""Builds of one kernel: options of the compiler, and a pragma before its loop over k in the tile.
"""


def with_pragma(source: str, pragma: str | None) -> str:
    """Source with a pragma before each loop `for (int k = 0; ...`, in place of one that stands
    there.

    Raises ConfigError if it has no such loop.
    """
    if pragma is None:
        return source
    loop = "for (int k = 0;"
    if loop not in source:
        raise ConfigError(f"there is no loop {loop!r} to put {pragma!r} before")
    bare = re.sub(rf"(?m)^[ \t]*#pragma unroll\b[^\n]*\n(?=[ \t]*{re.escape(loop)})", "", source)
    return bare.replace(loop, f"\n{pragma}\n{loop}")


def of_build(p: Geometry, source: str, options: tuple[str, ...], what: str) -> Contender:
    """A kernel compiled from other source or with other options. Its shared memory is static."""

    def prepare(session: Any, problem: Problem, C: Any) -> Operation:
        return session.build_operation(p, source, options, problem.A, problem.B, C)

    k = p.kernel
    return Contender(what, k.dtype, k.out_dtype, PRECISION[k.dtype], prepare)


def _compare(job: Job, what: str, name: str, n: int) -> str:
    """The builds of BUILDS, each paired with the default build of the same kernel."""
    k, shares = catalog[name], []
    p = geometry(k, n, n, n)
    for build, (options, pragma) in BUILDS.items():
        source = with_pragma(k.source, pragma)
        with job.session.faults(what):
            contenders = {
                "build": of_build(p, source, options, f"a build of {name}"),
                "default": of_plan(p, f"the default build of {name}"),
            }
            timed = trial(job.session, (n, n, n), contenders)
        ms, gain = timed.ms["build"], timed.rounds.ratio("build", "default")
        entry = Build(
            name, dict(p.params), build, *(n, n, n),
            *(ms.median, ms.q1, ms.q3, timed.rates["build"]), *(gain.median, gain.q1, gain.q3),
            rungs.fingerprint(k), dict(job.stamp),
        )  # fmt: skip
        job.record.merge(entry)
        shares.append(f"{build} {100 * gain.median:.1f} %")
    return ", ".join(shares)


def lacking(job: Job) -> Iterator[Step]:
    """A step for each kernel and size of which a build is not there, or of other code."""
    for name, n in itertools.product(KERNELS, SIZES):
        here = [e for e in job.record.of(Build) if (e.kernel, e.m) == (name, n)]
        today = all(e.source == rungs.fingerprint(name) for e in here)
        if job.request.again or len(here) < len(BUILDS) or not today:
            what = f"builds of {name} at {n}"
            yield Step(what, 1.0 * len(BUILDS), partial(_compare, job, what, name, n))


SECTIONS = (Section(Build, lacking, option="a kernel built with other compiler flags", rank=30),)
