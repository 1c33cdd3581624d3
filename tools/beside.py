"""What the tools share that run a product beside the catalog on a GPU: compute-sanitizer, the
emulator in several processes, cuBLASLt, times in turn, the command line."""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from helpers.ladder.kernel import ROOT
from helpers.record import protocol, stamps, trials
from helpers.record.gpu import Session
from helpers.record.telemetry import Telemetry
from nogpu.errors import ConfigError, TileError
from tools.recorder import campaign, sanitizer, tile_builds


def side_by_side(function: Callable[..., Any], cases: Sequence[tuple[Any, ...]]) -> list[Any]:
    """What a function of a module gives for each case, in processes of their own."""
    with tile_builds.pool(max(1, (os.cpu_count() or 2) - 1)) as pool:
        return list(pool.map(function, *zip(*cases, strict=True)))


def watched(module: str) -> dict[str, str]:
    """What each check of compute-sanitizer says at the end of `python -m module --launches`."""
    tool, logs = sanitizer.tool_path(), {}
    for check in ("memcheck", "racecheck", "synccheck", "initcheck"):
        command = [tool, "--tool", check, "--report-api-errors", "no", sys.executable, "-m"]
        done = subprocess.run(
            [*command, module, "--launches"],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        errors, logs[check] = sanitizer.read_log(done.stdout + done.stderr, check)
        print(f"{check}: {errors} errors", flush=True)
    return logs


def distance(C: Any, want: Any) -> float:
    """Norm of the difference over the norm of what is wanted; arrays of NumPy or CuPy."""
    return float(((C - want) ** 2).sum() ** 0.5 / (want**2).sum() ** 0.5)


def on_stream(session: Session, start: Callable[[], None]) -> Callable[[], None]:
    """The same launch, on the session's stream."""

    def run() -> None:
        with session.stream:
            start()

    return run


# -- cuBLASLt --------------------------------------------------------------------------------------

# As in library_types.h, cublas_api.h and cublasLt.h.
E4M3, BF16, _F32, COMPUTE_32F = 28, 14, 0, 68
_WORKSPACE, _EPILOGUE, _BIAS = 1, 7, 8
WORKSPACE_BYTES = 64 << 20


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def library(name: str = "cublasLt") -> Callable[..., None]:
    """A call of cuBLASLt (or cuBLAS) by name, which raises ConfigError where it refuses."""
    for major in (13, 12):
        try:
            loaded = ctypes.CDLL(f"lib{name}.so.{major}")
            break
        except OSError:
            continue
    else:
        raise ConfigError(f"{name} was not found: install what brings cuBLAS")

    def call(function: str, *given: Any) -> None:
        if not hasattr(loaded, name + function):
            raise ConfigError(f"this {name} has no {name}{function}")
        status = getattr(loaded, name + function)(*given)
        if status:
            raise ConfigError(f"{name}{function} refuses, with status {status}")

    return call


def library_end(bias: Any, gelu: bool) -> dict[int, Any]:
    """Attributes of a product that ends with a bias (of C's rows; CuPy, or None) and GELU."""
    attributes: dict[int, Any] = {}
    if bias is not None or gelu:
        does = {(True, False): 4, (False, True): 32, (True, True): 36}[bias is not None, gelu]
        attributes[_EPILOGUE] = ctypes.c_uint32(does)
    if bias is not None:
        attributes[_BIAS] = ctypes.c_void_p(bias.data.ptr)
    return attributes


Layout = tuple[int, int, int, int]
"""A column-major matrix: type, rows, columns, elements from a column to the next."""


def library_products(
    session: Session, operands: Sequence[Any], layouts: Sequence[Layout],
    attributes: Mapping[int, Any], beta: float = 0.0, most: int = 1,
) -> list[Callable[[], None]]:  # fmt: skip
    """D = A B + beta C by cuBLASLt, on the session's stream, by its first `most` algorithms.

    operands: A, B, C, D, CuPy arrays. layouts: of A, B, and of C and D. attributes: of the product
    (cublasLtMatmulDescAttributes_t), C values; what they point to the caller keeps. Raises
    ConfigError where it refuses or has no algorithm.
    """
    call, cupy = library(), session.cupy
    pointer, size_t, long = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64

    def made(name: str, *given: Any) -> ctypes.c_void_p:
        handle = pointer()
        call(name, ctypes.byref(handle), *given)
        return handle

    def put(what: str, to: ctypes.c_void_p, attribute: int, value: Any) -> None:
        call(f"{what}SetAttribute", to, attribute, ctypes.byref(value),
             size_t(ctypes.sizeof(value)))  # fmt: skip

    handle = made("Create")
    product = made("MatmulDescCreate", COMPUTE_32F, _F32)
    for attribute, value in attributes.items():
        put("MatmulDesc", product, attribute, value)
    a, b, c = (
        made("MatrixLayoutCreate", kind, long(rows), long(cols), ctypes.c_int64(step))
        for kind, rows, cols, step in layouts
    )
    wish = made("MatmulPreferenceCreate")
    put("MatmulPreference", wish, _WORKSPACE, long(WORKSPACE_BYTES))
    candidates, found = (Heuristic * most)(), ctypes.c_int()
    call("MatmulAlgoGetHeuristic", handle, product, a, b, c, c, wish, most, candidates,
         ctypes.byref(found))  # fmt: skip
    if not found.value:
        raise ConfigError("cuBLASLt has no algorithm for this product")
    room = cupy.empty(WORKSPACE_BYTES, np.uint8)
    one, more = ctypes.c_float(1), ctypes.c_float(beta)
    A, B, C, D = (pointer(x.data.ptr) for x in operands)
    stream = pointer(session.stream.ptr)

    def start(algorithm: Any, _kept: Any = (operands, attributes, room)) -> None:
        call("Matmul", handle, product, ctypes.byref(one), A, a, B, b, ctypes.byref(more), C, c,
             D, c, ctypes.byref(algorithm), pointer(room.data.ptr), size_t(WORKSPACE_BYTES),
             stream)  # fmt: skip

    return [partial(start, of.algorithm) for of in candidates[: found.value]]


# -- times -----------------------------------------------------------------------------------------


def quickest(session: Session, operations: Mapping[Any, Callable[[], None]]) -> Any:
    """The name of what takes the least time, by the median of a few samples; what raises
    ConfigError is left out. Raises ConfigError where all do.
    """
    able, fault = {}, ConfigError("there is nothing to time")
    for name, start in operations.items():
        try:
            start()
        except ConfigError as refusal:
            fault = refusal
        else:
            able[str(name)] = name
    session.stream.synchronize()
    if not able:
        raise fault
    bench = session.bench({key: operations[name] for key, name in able.items()})
    ms = {key: np.median([bench.sample(key, 3) for _ in range(7)]) for key in able}
    return able[min(ms, key=lambda key: ms[key])]


def timed(
    session: Session, operations: Mapping[str, Callable[[], None]], telemetry: Telemetry, *,
    gflop: float, error: Callable[[str], float], peak: Callable[[str], float | None], what: str,
) -> list[dict[str, Any]]:  # fmt: skip
    """A row a contender: ms of a launch and quartiles, TFLOP/s, its time against each other's, clock
    and power meanwhile, and its error in percent.

    gflop: of one run. error, peak: of a contender, the relative error of what it has left behind,
    and GFLOP/s that it cannot pass. Raises ImplausibleError.
    """
    session.stream.synchronize()
    for start in operations.values():
        start()
    session.stream.synchronize()
    done = protocol.interleaved(session.bench(operations), list(operations))
    rows = []
    for name in operations:
        with session.on_stream():
            off = 100 * error(name)
        if not off < 10:
            raise protocol.ImplausibleError(f"{name} at {what} is off by {off:.1f} %")
        took = _took(done, name, protocol.spread(done.ms[name]), operations, telemetry)
        rate = gflop / took["ms"] * 1e3
        protocol.refuse_above_peak(name, rate, peak(name))
        rows.append({"kernel": name, "tflops": rate / 1e3, "error_percent": off, **took})
        print(f"{what} {name:15s} {took['ms']:8.4f} ms {rate / 1e3:7.1f} TFLOP/s, error "
              f"{off:.2f} %", flush=True)  # fmt: skip
    return rows


def tried(done: trials.Trial, telemetry: Telemetry) -> dict[str, dict[str, Any]]:
    """By contender of a trial, the same of its time: ms, quartiles, samples, its time against each
    other's, clock and power meanwhile."""
    return {n: _took(done.rounds, n, ms, done.ms, telemetry) for n, ms in done.ms.items()}


def _took(
    done: protocol.Rounds, name: str, ms: protocol.Spread, others: Iterable[str],
    telemetry: Telemetry,
) -> dict[str, Any]:  # fmt: skip
    meanwhile = telemetry.between(done.started, done.ended)
    return {
        **protocol.fields(ms), "samples": ms.count,
        "ratio": {to: done.ratio(name, to).median for to in others},
        "clock_mhz": meanwhile.clock_mhz, "power_w": meanwhile.power_w,
    }  # fmt: skip


# -- the command line ------------------------------------------------------------------------------


def main(
    name: str, about: str | None, given: Sequence[str] | None, *,
    times: Callable[[Session, Telemetry], dict[str, Any]],
    checks: Callable[[Session], dict[str, Any]] = lambda _: {},
    launches: Callable[[], None] | None = None,
) -> int:  # fmt: skip
    """The command line of tools.{name}_on_a_gpu. Status 2 where no GPU answers, or on a refusal, 1
    where an element is wrong.

    times, checks: sections of the record, among them perhaps `shapes`. launches: what
    compute-sanitizer watches, if anything.
    """
    module = f"tools.{name}_on_a_gpu"
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=about)
    parser.add_argument("--out", type=Path, help=f"default: data/validation/{name}_GPU.json")
    parser.add_argument("--launches", action="store_true", help="only launch, at a few shapes")
    options = parser.parse_args(given)
    try:
        campaign.require_gpu()
        if options.launches and launches:
            launches()
            return 0
        session = Session()
        gpu = campaign.gpu_key(session.gpu, None)
        record: dict[str, Any] = {
            "command": f"python -m {module}",
            "gpu": stamps.gpu_facts(session),
            "recorded": stamps.stamp(session.versions(), stamps.commit()),
            **({"sanitizer": watched(module)} if launches else {}),
            **checks(session),
        }
        with Telemetry(session.bus_id) as telemetry:
            session.warm_up()
            record |= times(session, telemetry)
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out = options.out or ROOT / "data" / "validation" / f"{name}_{gpu}.json"
    out.write_text(json.dumps(record, indent=1, default=np.ndarray.tolist) + "\n", encoding="utf-8")
    shapes = record.get("shapes", [])
    tally = {w: sum(r.get(w, 0) for r in shapes) for w in ("elements", "wrong", "again", "differ")}
    print(f"{len(shapes)} launches: {tally} -> {out}")
    return 1 if tally["wrong"] else 0
