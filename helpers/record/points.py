"""One point: a kernel of the catalog, or cuBLAS itself, timed and judged at one size."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from helpers.ladder import rungs
from helpers.ladder.kernel import Kernel, geometry
from helpers.ladder.rungs import find
from helpers.record import protocol
from helpers.record.entries import Point
from helpers.record.gpu import BASELINES, Session
from helpers.record.protocol import Effort
from helpers.record.store import Size, named
from helpers.record.telemetry import Telemetry
from helpers.record.trials import Contender, enter, of_library, of_plan, yardstick
from nogpu.errors import ConfigError

# -- one point -------------------------------------------------------------------------------------


def point(
    session: Session, telemetry: Telemetry, kernel: Kernel | str, size: Size, *,
    effort: Effort | None = None, recorded: Mapping[str, Any],
    rng: np.random.Generator | None = None, params: Mapping[str, int] | None = None,
) -> Point:  # fmt: skip
    """Measure one kernel (with tile sizes `params`) or baseline ("cublas_fp32") at one size.

    Raises a TileError, and nothing is recorded, if the result is wrong, the rate impossible or the
    launch illegal; GpuFaultError if the GPU will not answer this process again.
    """
    name = kernel if isinstance(kernel, str) else kernel.name
    what = "{} at {}x{}x{}".format(name, *size)
    effort = effort or protocol.RECORD
    with session.faults(what):
        k = None if name in BASELINES else find(kernel)
        if k is None:
            contenders, tiles, dtype, baseline = _itself(name, what)
        else:
            p = geometry(k, *size, **(params or {}))
            if not session.supports(k.min_arch):
                raise ConfigError(
                    f"{k.name} needs {k.min_arch} or later; this GPU is {session.gpu.arch}"
                )
            contenders = {"kernel": of_plan(p, what, cold=True), **yardstick(session, p, what)}
            tiles, dtype = dict(p.params), k.dtype
            baseline = k.baseline if k.baseline in BASELINES else "none"
        entered = enter(session, size, contenders)
        timed = entered.trial(tuple(contenders), effort, rng)
        runs = 1 if timed.ms["kernel"].median >= effort.slow_ms else 3
        run, C = entered.operations["kernel"], entered.outputs["kernel"]
        serial = [session.serial_run(entered.problem, run, C) for _ in range(runs)]
    from statistics import median

    parts: dict[str, Any] = {name: median(run[name] for run in serial) for name in serial[0]}
    reading = telemetry.between(timed.rounds.started, timed.rounds.ended)
    beside = "baseline" in timed.ms
    return Point(
        name, tiles, **named(size), **timed.fields("kernel"), **parts,
        repeat=timed.rounds.repeat["kernel"],
        baseline_ms=timed.ms["baseline"].median if beside else None,
        clock_mhz=reading.clock_mhz, power_w=reading.power_w, clock_note=reading.reason,
        dtype=dtype, baseline=baseline, first_ms=entered.first_ms.get("kernel"),
        source=rungs.fingerprint(k) if k else None, checked=entered.problem.checked,
        recorded=dict(recorded),
    )  # fmt: skip


def _itself(name: str, what: str) -> tuple[dict[str, Contender], dict[str, int], str, str]:
    """cuBLAS timed against itself: the ratio should be 1, its spread is the protocol's noise."""
    both = {
        "kernel": of_library(name, what, judged=True),
        "baseline": of_library(name, f"{name} beside {what}"),
    }
    return both, {}, BASELINES[name].dtype, name
