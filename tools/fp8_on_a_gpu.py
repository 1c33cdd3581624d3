"""The product of 8-bit floats on the GPU at hand: data/validation/fp8_<gpu>.json.

    python -m tools.fp8_on_a_gpu [--out FILE]

At SHAPES it is compared with float64, with itself run again and, bit by bit, with the emulator; at
a few of them compute-sanitizer watches. Then: what promotion is worth, and times in turn with
cuBLASLt's FP8 and this book's BF16 at SIZES.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from helpers.chapters.ch22 import fp8
from helpers.ladder.kernel import ROOT
from helpers.record import plans, protocol, stamps
from helpers.record.gpu import Session
from helpers.record.telemetry import Telemetry
from nogpu.bfloat16 import from_bfloat16, to_bfloat16
from nogpu.errors import ConfigError, TileError
from tools.recorder import campaign, sanitizer

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = (
    (1, 1, 1), (7, 5, 3), (64, 64, 64), (65, 33, 17), (128, 128, 128), (129, 127, 129),
    (256, 128, 256), (257, 129, 100), (200, 312, 136), (300, 520, 330), (1, 640, 96), (640, 1, 96),
    (130, 70, 1000), (127, 256, 513), (384, 384, 128), (31, 1000, 15), (512, 130, 271),
    (255, 257, 511), (2, 2, 2049), (640, 640, 16),
)  # fmt: skip
"""M, N, K: one element, less than a tile, whole tiles, edges of each kind, odd N and K."""
TILES: tuple[dict[str, int], ...] = ({}, {"BM": 128, "STAGES": 6})
WATCHED: tuple[Shape, ...] = ((129, 127, 129), (300, 520, 330))
SIZES: tuple[Shape, ...] = (
    (2048, 2048, 2048), (4096, 4096, 4096), (4096, 7168, 2048), (8192, 8192, 8192),
)  # fmt: skip
DEPTHS = (128, 512, 2048, 8192)
"""K at which sums are promoted or not."""


def operands(shape: Shape, positive: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """A (M, K) and B (N, K), float32, N(0, 1) or uniform from 0 to 1."""
    M, N, K = shape
    rng = np.random.default_rng(M + N + K)
    draw = rng.random if positive else rng.standard_normal
    return draw((M, K), dtype=np.float32), draw((N, K), dtype=np.float32)


def blocks(shape: Shape) -> tuple[fp8.Scaled, fp8.Scaled]:
    """The same, rounded by blocks."""
    A, B = operands(shape)
    return fp8.scaled(A), fp8.scaled(B, fp8.BLOCK)


def by_the_emulator(shape: Shape, tile: int) -> tuple[np.ndarray, tuple[str, ...]]:
    """C and the kinds of what is found, in a process of its own."""
    A, B = blocks(shape)
    C, report = fp8.emulated(fp8.plan(A, B, **TILES[tile]), A, B)
    return C, tuple(sorted({f.kind for f in report.findings}))


def compared() -> list[dict[str, Any]]:
    """A row a shape and tile: elements beyond the tolerance, with other bits in a second run and in
    the emulator, and what that found.
    """
    todo = [(shape, tile) for shape in SHAPES for tile in range(len(TILES))]
    workers, spawn = max(1, (os.cpu_count() or 2) - 1), multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn) as pool:
        here = list(pool.map(by_the_emulator, *zip(*todo, strict=True)))
    rows = []
    for (shape, tile), (emulated, kinds) in zip(todo, here, strict=True):
        A, B = blocks(shape)
        C, again = (fp8.multiply(A, B, backend="cuda", **TILES[tile]) for _ in range(2))
        apart = np.abs(from_bfloat16(C).astype(np.float64) - fp8.reference(A, B))
        rows.append(
            {"m": shape[0], "n": shape[1], "k": shape[2], "params": TILES[tile],
             "elements": int(C.size), "wrong": int((~(apart <= fp8.tolerance(A, B))).sum()),
             "again": int((C != again).sum()), "differ": int((C != emulated).sum()),
             "findings": list(kinds)}
        )  # fmt: skip
    return rows


def watched() -> dict[str, str]:
    """What each check of compute-sanitizer says at the end of the launches at WATCHED."""
    tool, said = sanitizer.tool_path(), {}
    for check in ("memcheck", "racecheck", "synccheck", "initcheck"):
        command = [tool, "--tool", check, "--report-api-errors", "no", sys.executable, "-m"]
        done = subprocess.run(
            [*command, "tools.fp8_on_a_gpu", "--launches"],
            cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip
        errors, said[check] = sanitizer.read_log(done.stdout + done.stderr, check)
        print(f"{check}: {errors} errors", flush=True)
    return said


def promoted() -> list[dict[str, Any]]:
    """Error of C in percent of the exact product of the same e4m3, by how often sums are promoted."""
    rows = []
    for K in DEPTHS:
        for positive in (False, True):
            A, B = operands((256, 256, K), positive)
            a, b = fp8.scaled(A, 1, K), fp8.scaled(B, 256, K)
            want = fp8.reference(a, b)
            row: dict[str, Any] = {"k": K, "data": "uniform" if positive else "normal"}
            for name, stages in (("promoted", 1), ("every_512", 4), ("never", K // fp8.BLOCK)):
                tile = {**TILES[1], "PROMOTE": max(1, stages)}
                C = from_bfloat16(fp8.multiply(a, b, backend="cuda", **tile))
                row[name] = 100 * distance(C.astype(np.float64), want)
            row["rounded"] = 100 * distance(want, A.astype(np.float64) @ B.T.astype(np.float64))
            print(row, flush=True)
            rows.append(row)
    return rows


def distance(C: Any, want: Any) -> float:
    """Norm of the difference over the norm of what is wanted; arrays of NumPy or CuPy."""
    return float(((C - want) ** 2).sum() ** 0.5 / (want**2).sum() ** 0.5)


# -- cuBLASLt --------------------------------------------------------------------------------------

# As in library_types.h, cublas_api.h and cublasLt.h.
_E4M3, _BF16, _F32, _COMPUTE_32F, _TRANSPOSED = 28, 14, 0, 68, 1
_TRANS_A, _A_SCALE, _B_SCALE, _FAST, _A_MODE, _B_MODE = 3, 17, 18, 25, 31, 32
_ONE_SCALE, _BY_128, _BY_128_X_128 = 0, 4, 5
_WORKSPACE = 1
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


def library() -> Callable[..., None]:
    """A call of cuBLASLt by name, which raises ConfigError where it refuses."""
    for major in (13, 12):
        try:
            loaded = ctypes.CDLL(f"libcublasLt.so.{major}")
            break
        except OSError:
            continue
    else:
        raise ConfigError("cuBLASLt was not found: install what brings cuBLAS")

    def call(name: str, *given: Any) -> None:
        status = getattr(loaded, f"cublasLt{name}")(*given)
        if status:
            raise ConfigError(f"cublasLt{name} refuses, with status {status}")

    return call


def library_operation(
    session: Session, A: fp8.Scaled, B: fp8.Scaled, C: Any, scales: Sequence[np.ndarray],
    *, block: bool, fast: bool = False,
) -> Callable[[], None]:  # fmt: skip
    """C = A times the transpose of B by cuBLASLt, on the session's stream, by its first algorithm.

    block: scales are those of A and B by blocks, else one float32 for each matrix. fast: sums stay
    in the Tensor Core's form (CUBLASLT_MATMUL_DESC_FAST_ACCUM).
    """
    call, cupy = library(), session.cupy
    M, N, K = A.rows, B.rows, A.cols
    kept = [cupy.asarray(x) for x in (B.bits, A.bits, *reversed(scales))]
    b, a, b_scale, a_scale = kept
    pointer, size_t = ctypes.c_void_p, ctypes.c_size_t

    def made(name: str, *given: Any) -> ctypes.c_void_p:
        handle = pointer()
        call(name, ctypes.byref(handle), *given)
        return handle

    def put(what: str, to: ctypes.c_void_p, attribute: int, value: Any) -> None:
        call(f"{what}SetAttribute", to, attribute, ctypes.byref(value),
             size_t(ctypes.sizeof(value)))  # fmt: skip

    handle = made("Create")
    product = made("MatmulDescCreate", _COMPUTE_32F, _F32)
    # It is column-major, so its A is our B, and the transpose of it.
    modes = (_BY_128_X_128, _BY_128) if block else (_ONE_SCALE, _ONE_SCALE)
    for attribute, value in (
        (_TRANS_A, ctypes.c_int32(_TRANSPOSED)),
        (_FAST, ctypes.c_int8(fast)),
        (_A_MODE, ctypes.c_int32(modes[0])),
        (_B_MODE, ctypes.c_int32(modes[1])),
        (_A_SCALE, pointer(b_scale.data.ptr)),
        (_B_SCALE, pointer(a_scale.data.ptr)),
    ):
        put("MatmulDesc", product, attribute, value)
    long, row = ctypes.c_uint64, A.bits.shape[1]
    layouts = [
        made("MatrixLayoutCreate", kind, long(rows), long(cols), ctypes.c_int64(step))
        for kind, rows, cols, step in ((_E4M3, K, N, row), (_E4M3, K, M, row), (_BF16, N, M, N))
    ]
    wish = made("MatmulPreferenceCreate")
    put("MatmulPreference", wish, _WORKSPACE, long(WORKSPACE_BYTES))
    best, found = Heuristic(), ctypes.c_int()
    call("MatmulAlgoGetHeuristic", handle, product, *layouts, layouts[2], wish, 1,
         ctypes.byref(best), ctypes.byref(found))  # fmt: skip
    if not found.value:
        raise ConfigError("cuBLASLt has no algorithm for this product")
    room = cupy.empty(WORKSPACE_BYTES, np.uint8)
    one, zero = ctypes.c_float(1), ctypes.c_float(0)
    out, stream = pointer(C.data.ptr), pointer(session.stream.ptr)
    kept.append(room)

    def start(_kept: Any = kept) -> None:
        call("Matmul", handle, product, ctypes.byref(one), pointer(b.data.ptr), layouts[0],
             pointer(a.data.ptr), layouts[1], ctypes.byref(zero), out, layouts[2], out, layouts[2],
             ctypes.byref(best.algorithm), pointer(room.data.ptr), size_t(WORKSPACE_BYTES),
             stream)  # fmt: skip

    return start


# -- times -----------------------------------------------------------------------------------------


def timed(session: Session, shape: Shape, telemetry: Telemetry) -> list[dict[str, Any]]:
    """A row a contender: ms of a launch and quartiles, TFLOP/s, its time against each other's, clock
    and power meanwhile, and the error against the product of the unrounded operands, in percent.
    """
    M, N, K = shape
    cupy = session.cupy
    A, B = operands(shape)
    with session.on_stream():
        want = cupy.asarray(A).astype(np.float64) @ cupy.asarray(B).T.astype(np.float64)
    a, b = fp8.scaled(A), fp8.scaled(B, fp8.BLOCK)
    whole = fp8.scaled(A, M, K), fp8.scaled(B, N, K)
    single = [m.scales[:1, 0] for m in whole]
    by_block = fp8.arguments(fp8.plan(a, b), a, b)[:2]
    names = ("fp8", "fp8, 128 rows", "cublaslt_block", "cublaslt", "cublaslt_fast", "hopper_5")
    outs = {name: session.output("bfloat16", M, N) for name in names}
    operations: dict[str, Callable[[], None]] = {}

    def here(start: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            with session.stream:
                start()

        return run

    with session.on_stream():
        for name, tile in zip(names, TILES, strict=False):
            operations[name] = here(fp8.on_gpu(fp8.plan(a, b, **tile), a, b, outs[name]))
        for name in names[2:5]:
            block = name == "cublaslt_block"
            pair, scales = ((a, b), by_block) if block else (whole, single)
            try:
                operations[name] = library_operation(
                    session, *pair, outs[name], scales, block=block, fast=name == "cublaslt_fast"
                )
            except ConfigError as error:
                print(f"{name} is left out: {error}", file=sys.stderr, flush=True)
        bf16 = [cupy.asarray(to_bfloat16(np.ascontiguousarray(x))) for x in (A, B.T)]
        operations["hopper_5"] = session.kernel_operation(
            plans.plan("hopper_5", M, N, K), bf16[0], bf16[1], outs["hopper_5"]
        )
    session.stream.synchronize()
    for start in operations.values():
        start()
    session.stream.synchronize()
    rows = []
    done = protocol.interleaved(session.bench(operations), list(operations))
    meanwhile = telemetry.between(done.started, done.ended)
    for name in operations:
        with session.on_stream():
            values = (outs[name].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
            off = 100 * distance(values, want)
        if not off < 10:
            raise protocol.ImplausibleError(f"{name} at {shape} is off by {off:.1f} %")
        took = protocol.spread(done.ms[name])
        rate = protocol.gflops(M, N, K, took.median)
        peak = session.peak_gflops("bf16")
        times = 1 if name == "hopper_5" else 2  # FP8 against BF16, by the data sheet
        protocol.refuse_above_peak(name, rate, None if peak is None else times * peak)
        rows.append(
            {"m": M, "n": N, "k": K, "kernel": name, "ms": took.median, "q1": took.q1,
             "q3": took.q3, "tflops": rate / 1e3, "samples": took.count,
             "ratio": {to: done.ratio(name, to).median for to in operations},
             "error_percent": off, "clock_mhz": meanwhile.clock_mhz,
             "power_w": meanwhile.power_w}
        )  # fmt: skip
        print(f"{M}x{N}x{K} {name:15s} {took.median:8.4f} ms {rate / 1e3:7.1f} TFLOP/s, error "
              f"{off:.2f} %", flush=True)  # fmt: skip
    return rows


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 2 where no GPU answers or something is refused."""
    parser = argparse.ArgumentParser(prog="python -m tools.fp8_on_a_gpu", description=__doc__)
    parser.add_argument("--out", type=Path, help="default: data/validation/fp8_GPU.json")
    parser.add_argument("--launches", action="store_true", help="only launch, at a few shapes")
    options = parser.parse_args(given)
    try:
        campaign.require_gpu()
        if options.launches:
            for shape in WATCHED:
                A, B = blocks(shape)
                for tile in TILES:
                    fp8.multiply(A, B, backend="cuda", **tile)
            return 0
        session = Session()
        gpu = campaign.gpu_key(session.gpu, None)
        record: dict[str, Any] = {
            "command": "python -m tools.fp8_on_a_gpu",
            "gpu": stamps.gpu_facts(session),
            "recorded": stamps.stamp(session.versions(), stamps.commit()),
            "sanitizer": watched(),
            "shapes": compared(),
            "promotion": promoted(),
            "times": [],
        }
        with Telemetry(session.bus_id) as telemetry:
            session.warm_up()
            for shape in SIZES:
                record["times"] += timed(session, shape, telemetry)
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out = options.out or ROOT / "data" / "validation" / f"fp8_{gpu}.json"
    out.write_text(json.dumps(record, indent=1, default=np.ndarray.tolist) + "\n", encoding="utf-8")
    tally = {w: sum(r[w] for r in record["shapes"]) for w in ("elements", "wrong", "differ")}
    print(f"{len(record['shapes'])} launches: {tally} -> {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
