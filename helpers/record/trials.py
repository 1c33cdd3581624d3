"""One trial: contenders that compute the same C, timed in turn on the same operands, and judged.

Every time that is recorded comes out of here, but for copies and overlapped runs, which are no
launches: points, builds with other flags, tiles of a sweep and their confirmation. A result that is
wrong or a rate that the hardware cannot reach is refused, and nothing of the trial is kept.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from helpers.ladder.kernel import Geometry
from helpers.record import protocol
from helpers.record.gpu import BASELINES, PRECISION, Problem, Session
from helpers.record.protocol import Effort, Spread
from helpers.record.store import Size
from nogpu.errors import ConfigError

Operation = Callable[[], None]
Prepare = Callable[["Session", "Problem", Any], Operation]
"""Makes the function that computes C of a problem's operands into an array."""


@dataclass(frozen=True)
class Contender:
    """Something that computes C. what: its name in messages; precision: whose peak bounds its rate.

    judged: whether its result is checked. cuBLAS beside a kernel is a yardstick, and is checked
    where it is measured itself. cold: a plan whose first call (compile, load, launch) is timed,
    too.
    """

    what: str
    dtype: str
    out_dtype: str
    precision: str
    prepare: Prepare = field(repr=False)
    input_roundoff: float = 0.0
    judged: bool = True
    cold: Geometry | None = None


def of_plan(p: Geometry, what: str, *, cubin: bytes = b"", cold: bool = False) -> Contender:
    """A kernel of the catalog as it stands. cubin: compiled already."""

    def prepare(session: Session, problem: Problem, C: Any) -> Operation:
        options = {"cubin": cubin} if cubin else {}
        return session.kernel_operation(p, problem.A, problem.B, C, **options)

    k = p.kernel
    precision = PRECISION[k.dtype]
    return Contender(what, k.dtype, k.out_dtype, precision, prepare, cold=p if cold else None)


def of_library(
    name: str, what: str, *, out_dtype: str = "float32", judged: bool = False
) -> Contender:
    """A cuBLAS product. what: how messages call its rate; its result goes by its title."""
    b = BASELINES[name]

    def prepare(session: Session, problem: Problem, C: Any) -> Operation:
        return session.baseline_operation(name, problem.A, problem.B, C, out_dtype)

    return Contender(what, b.dtype, out_dtype, b.precision, prepare, b.input_roundoff, judged)


def yardstick(session: Session, p: Geometry, what: str) -> dict[str, Contender]:
    """ "baseline": cuBLAS of a kernel's own precision, where it has one that this GPU can run."""
    k = p.kernel
    if k.baseline not in BASELINES or not session.supports(BASELINES[k.baseline].min_arch):
        return {}
    beside = f"{k.baseline} beside {what}"
    return {"baseline": of_library(k.baseline, beside, out_dtype=k.out_dtype)}


@dataclass(frozen=True)
class Trial:
    """What came of it, by the contenders' names.

    ms: a launch. rates: GFLOP/s by the median. errors: the largest error, and the largest over its
    tolerance, of those that were judged. rounds: the samples, for ratios round by round.
    """

    ms: Mapping[str, Spread]
    rates: Mapping[str, float]
    errors: Mapping[str, tuple[float, float]]
    rounds: protocol.Rounds

    def ratio(self, name: str, to: str) -> Spread | None:
        """Time of `to` over time of `name`, round by round; None where `to` did not take part."""
        return self.rounds.ratio(name, to) if to in self.ms else None

    def fields(self, name: str) -> dict[str, Any]:
        """What an entry says of a contender that was judged: time, rate, share of cuBLAS, error."""
        ms, share = self.ms[name], self.ratio(name, "baseline")
        worst, over = self.errors[name]
        found = {"gflops": self.rates[name], "pairs": ms.count, "max_error": worst}
        found |= {"error_over_tolerance": over, **protocol.fields(share, "cublas_ratio", "ratio_")}
        return found | protocol.fields(ms)


@dataclass(frozen=True)
class Entered:
    """Contenders at the start: operands, an output for each, and what runs each.

    first_ms: of the first call of those that are cold. Trials of some or all of them may follow.
    """

    session: Session
    size: Size
    contenders: Mapping[str, Contender]
    problem: Problem
    outputs: Mapping[str, Any]
    operations: Mapping[str, Operation]
    first_ms: Mapping[str, float]

    def error(self, name: str, when: str = "") -> tuple[float, float]:
        """Largest error of a result, absolute and over its tolerance. Raises ImplausibleError."""
        return _judge(self.session, self.problem, self.contenders[name], self.outputs[name], when)

    def poison(self) -> None:
        """Make the outputs that will be judged NaN, or the smallest integer, again."""
        for name, c in self.contenders.items():
            if c.judged:
                self.session.poison(self.outputs[name], c.out_dtype)

    def trial(
        self,
        names: Sequence[str],
        effort: Effort | None = None,
        rng: np.random.Generator | None = None,
    ) -> Trial:
        """Time these contenders in turn, judge their results and their rates."""
        effort = effort or protocol.RECORD
        slow = {n: ms for n, ms in self.first_ms.items() if n in names and ms > 3 * effort.slow_ms}
        done = protocol.interleaved(
            self.session.bench(dict(self.operations)), names, effort=effort, rng=rng,
            estimates=slow, before=self.poison,
        )  # fmt: skip
        ms = {name: protocol.spread(done.ms[name]) for name in names}
        errors, rates = {}, {}
        for name in names:
            if self.contenders[name].judged:
                errors[name] = self.error(name, f", after {ms[name].count} timed samples,")
        for name in names:
            c, rate = self.contenders[name], protocol.gflops(*self.size, ms[name].median)
            protocol.refuse_above_peak(c.what, rate, self.session.peak_gflops(c.precision))
            rates[name] = rate
        return Trial(ms, rates, errors, done)


def _judge(
    session: Session, problem: Problem, c: Contender, C: Any, when: str
) -> tuple[float, float]:
    options = (c.input_roundoff,) if c.input_roundoff else ()
    worst, ratio = session.error(problem, C, c.out_dtype, *options)
    protocol.refuse_wrong(ratio, c.what + when, worst, problem.checked)
    return worst, ratio


def enter(session: Session, size: Size, contenders: Mapping[str, Contender]) -> Entered:
    """Bring contenders of one type of operands to the start; a cold one runs, and is judged, once.

    Raises ImplausibleError for a wrong result, ConfigError for one that this GPU cannot launch.
    """
    dtypes = {c.dtype for c in contenders.values()}
    if len(dtypes) != 1:
        raise ConfigError(f"contenders of {dtypes} in one trial: they need the same operands")
    problem = session.problem(dtypes.pop(), *size)
    outputs: dict[str, Any] = {}
    operations: dict[str, Operation] = {}
    first_ms: dict[str, float] = {}
    for name, c in contenders.items():
        C = outputs[name] = session.output(c.out_dtype, size[0], size[1])
        if c.cold is not None:
            first_ms[name] = session.first_call(c.cold, problem.A, problem.B, C)
            _judge(session, problem, c, C, "")
        operations[name] = c.prepare(session, problem, C)
    return Entered(session, size, contenders, problem, outputs, operations, first_ms)


def trial(
    session: Session, size: Size, contenders: Mapping[str, Contender], effort: Effort | None = None,
    rng: np.random.Generator | None = None,
) -> Trial:  # fmt: skip
    """Enter contenders and try all of them once: most trials are this. Raises as `enter`."""
    return enter(session, size, contenders).trial(tuple(contenders), effort, rng)
