"""Section "flags": a kernel built with other compiler flags or pragmas, beside its default build."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from helpers.ladder import rungs
from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from helpers.record.steps import Job, Section, Step
from helpers.record.store import Count, Entry, Key, MaybeText, Note, Params, Positive, Text
from helpers.record.trials import of_build, of_plan, trial
from nogpu.errors import ConfigError

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


@dataclass(frozen=True)
class Build(Entry, section="flags", required=True):
    """One build; speedup: paired, over the default build."""

    kernel: Key[Text]
    params: Key[Params]
    build: Key[Text]
    m: Key[Count]
    n: Key[Count]
    k: Key[Count]
    ms: Positive
    q1: Positive
    q3: Positive
    gflops: Positive
    speedup: Positive
    speedup_q1: Positive
    speedup_q3: Positive
    source: MaybeText
    recorded: Note


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
            name,
            dict(p.params),
            build,
            *(n, n, n),
            *(ms.median, ms.q1, ms.q3, timed.rates["build"]),
            *(gain.median, gain.q1, gain.q3),
            rungs.fingerprint(k),
            dict(job.stamp),
        )
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
