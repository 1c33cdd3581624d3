"""One trial: contenders in turn, every result and every rate judged; on a pretend GPU."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from helpers.ladder.kernel import geometry
from helpers.ladder.rungs import catalog
from helpers.record import ImplausibleError, protocol
from helpers.record.gpu import BASELINES
from helpers.record.trials import PRECISION, enter, of_library, of_plan, trial, yardstick
from nogpu.errors import ConfigError
from tests.test_measure import QUICK, RATES, FakeSession
from tools.recorder.sections.builds import of_build

SIZE = (64, 64, 64)


class Session(FakeSession):
    """A pretend GPU of one's own rates and faults."""

    def __init__(self, rates=None, wrong=()):
        super().__init__()
        self.rates, self.wrong = rates or RATES, frozenset(wrong)


def of(name, **options):
    return of_plan(geometry(catalog[name], *SIZE), f"{name} at 64", **options)


PAIR = {"a": of("naive"), "b": of("tiled_32")}


def test_every_contender_has_its_time_rate_and_error_and_ratios_are_paired():
    found = trial(Session(), SIZE, PAIR, QUICK)
    assert found.rates == pytest.approx({"a": 500.0, "b": 9000.0})
    assert found.errors == {"a": (1e-6, 0.1), "b": (1e-6, 0.1)}
    ratio = found.ratio("b", "a")
    assert ratio is not None and ratio.median == pytest.approx(18.0) and ratio.count == QUICK.pairs
    assert found.ratio("b", "cublas") is None
    assert found.ms["a"].median == pytest.approx(protocol.gflops(*SIZE, 1.0) / 500.0)


@pytest.mark.parametrize("name", ["naive", "tiled_32"])
def test_one_wrong_result_or_impossible_rate_refuses_the_trial(name):
    says = f"{name} at 64, after 3 timed samples, gives a wrong"
    with pytest.raises(ImplausibleError, match=says):
        trial(Session(wrong=(name,)), SIZE, PAIR, QUICK)
    with pytest.raises(ImplausibleError, match=f"{name} at 64 measured 80000 GFLOP/s"):
        trial(Session({**RATES, name: 80_000.0}), SIZE, PAIR, QUICK)


def test_a_yardstick_is_not_judged_by_its_result_and_is_by_its_rate():
    p = geometry(catalog["naive"], *SIZE)
    both = {"kernel": of("naive"), **yardstick(Session(), p, "naive at 64")}
    assert list(both) == ["kernel", "baseline"]
    assert set(trial(Session(wrong=("cublas_fp32",)), SIZE, both, QUICK).errors) == {"kernel"}
    with pytest.raises(ImplausibleError, match="cublas_fp32 beside naive at 64 measured"):
        trial(Session({**RATES, "cublas_fp32": 90_000.0}), SIZE, both, QUICK)
    itself = {"kernel": of_library("cublas_fp32", "cuBLAS", judged=True)}
    with pytest.raises(ImplausibleError, match="cuBLAS, after"):
        trial(Session(wrong=("cublas_fp32",)), SIZE, itself, QUICK)


def test_a_kernel_without_cublas_or_on_an_old_gpu_has_no_yardstick():
    old = Session()
    old.supports = lambda arch: arch == "sm_75"
    for name, k in catalog.items():
        known = k.baseline in BASELINES
        expected = known and old.supports(BASELINES[k.baseline].min_arch)
        assert bool(yardstick(old, geometry(k, 4096, 4096, 4096), name)) == expected
        if known:  # they take the same operands, or `enter` would refuse them
            assert BASELINES[k.baseline].dtype == k.dtype and k.dtype in PRECISION


def test_a_contender_that_writes_nothing_more_is_found_out():
    """It writes in its first two launches: the estimate and the warm-up, before the poison."""

    class Once(Session):
        def kernel_operation(self, plan, A, B, C):
            inner = super().kernel_operation(plan, A, B, C)
            launches = iter((inner, inner))

            def run():
                next(launches, lambda: None)()

            run.ms = inner.ms
            return run

    with pytest.raises(ImplausibleError, match="naive at 64, after"):
        trial(Once(), SIZE, {"a": of("naive")}, QUICK)


def test_a_cold_contender_is_judged_at_its_first_call():
    entered = enter(Session(), SIZE, {"a": of("naive", cold=True), "b": of("tiled_32")})
    assert entered.first_ms == {"a": 120.0}
    with pytest.raises(ImplausibleError, match="naive at 64 gives a wrong"):  # no samples yet
        enter(Session(wrong=("naive",)), SIZE, {"a": of("naive", cold=True)})


@pytest.mark.parametrize(("first_ms", "runs"), [(1500.0, 5), (1500.1, 3)])
def test_a_first_call_far_beyond_slow_stands_for_an_estimate(first_ms, runs):
    """Three times, since it compiles and loads, too."""
    counted: list[str] = []

    class Slow(Session):
        def first_call(self, *given):
            super().first_call(*given)
            return first_ms

        def bench(self, operations):
            made = super().bench(operations)
            took = made.ms
            made.ms = lambda name, call: counted.append(name) or took(name, call)
            return made

    effort = replace(QUICK, slow_ms=500.0, slow_pairs=3)
    timed = enter(Slow(), SIZE, {"a": of("naive", cold=True)}).trial(("a",), effort)
    assert timed.ms["a"].count == 3
    assert counted == ["a"] * runs  # an estimate and a warm-up, or neither


def test_contenders_have_outputs_of_their_types_and_rates_by_their_size():
    size, made = (64, 32, 96), list[Any]()

    class Noting(Session):
        def output(self, dtype, M, N):
            made.append((dtype, M, N))
            return super().output(dtype, M, N)

        def error(self, problem, C, *given):
            made.append(given)
            return super().error(problem, C, *given)

        def baseline_operation(self, name, A, B, C, out=""):
            made.append(out)
            return super().baseline_operation(name, A, B, C, out)

    library = of_library("cublas_tf32", "cuBLAS", judged=True)
    own = replace(of_plan(geometry(catalog["naive"], *size), "naive"), judged=False)
    found = trial(Noting(), size, {"own": own, "library": library}, QUICK)
    roundoff = BASELINES["cublas_tf32"].input_roundoff
    assert made == [("float32", 64, 32)] * 2 + ["float32", ("float32", roundoff)] and roundoff > 0
    assert found.rates["own"] == pytest.approx(500.0) and set(found.errors) == {"library"}
    plain = of_library("cublas_fp32", "cuBLAS", out_dtype="float16", judged=True)
    made.clear()
    trial(Noting(), SIZE, {"library": plain}, QUICK)
    assert made == [("float16", 64, 64), "float16", ("float16",)]


def test_a_kernel_that_is_compiled_already_is_not_compiled_again():
    given: list[Any] = []

    class Loading(Session):
        def kernel_operation(self, plan, A, B, C, **options):
            given.append(options)
            return super().kernel_operation(plan, A, B, C)

    enter(Loading(), SIZE, {"a": of("naive", cubin=b"made"), "b": of("naive")})
    assert given == [{"cubin": b"made"}, {}]


def test_a_second_trial_of_some_leaves_the_others_out():
    entered = enter(Session(), SIZE, {**PAIR, "c": of("coalesced")})
    found = entered.trial(["a", "c"], QUICK)
    assert set(found.ms) == set(found.rates) == set(found.errors) == {"a", "c"}
    with pytest.raises(ImplausibleError, match="off by nan"):
        entered.error("b")  # poisoned, and not run


def test_contenders_of_one_trial_take_the_same_operands():
    with pytest.raises(ConfigError, match="the same operands"):
        trial(Session(), SIZE, {"a": of("naive"), "b": of("naive_int")}, QUICK)


def test_a_build_is_a_contender_like_any_other():
    p = geometry(catalog["naive"], *SIZE)
    build = of_build(p, catalog["naive"].source, ("--use_fast_math",), "a build of naive")
    found = trial(Session(), SIZE, {"build": build, "default": of("naive")}, QUICK)
    assert found.rounds.ratio("build", "default").median == pytest.approx(1.0)
    with pytest.raises(ImplausibleError, match="a build of naive"):
        trial(Session(wrong=("naive",)), SIZE, {"build": build}, QUICK)
    assert math.isfinite(found.errors["build"][1])
