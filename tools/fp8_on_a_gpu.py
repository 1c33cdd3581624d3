"""The product of 8-bit floats on the GPU at hand: data/validation/fp8_<gpu>.json.

    python -m tools.fp8_on_a_gpu [--out FILE]

At SHAPES it is compared with float64, with itself run again and, bit by bit, with the emulator; at
a few of them compute-sanitizer watches. Then: what promotion is worth, and times in turn with
cuBLASLt's FP8 and this book's BF16 at SIZES.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from helpers.chapters.ch22 import epilogue, fp8
from helpers.record import plans
from helpers.record.gpu import Session
from helpers.record.telemetry import Telemetry
from nogpu.bfloat16 import from_bfloat16, to_bfloat16
from nogpu.errors import ConfigError
from tools import beside
from tools.beside import distance

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
    the emulator, and what that found."""
    todo = [(shape, tile) for shape in SHAPES for tile in range(len(TILES))]
    here = beside.side_by_side(by_the_emulator, todo)
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


# As in cublasLt.h.
_TRANSPOSED = 1
_TRANS_A, _A_SCALE, _B_SCALE, _FAST, _A_MODE, _B_MODE = 3, 17, 18, 25, 31, 32
_ONE_SCALE, _BY_128, _BY_128_X_128 = 0, 4, 5


def library_operation(
    session: Session, A: fp8.Scaled, B: fp8.Scaled, C: Any, scales: Sequence[np.ndarray],
    *, block: bool, fast: bool = False, end: epilogue.End = fp8.PLAIN, most: int = 1,
) -> list[Callable[[], None]]:  # fmt: skip
    """C = f(A times the transpose of B) by cuBLASLt, by its first `most` algorithms.

    block: scales are those of A and B by blocks, else one float32 for each matrix. fast: sums stay
    in the Tensor Core's form (CUBLASLT_MATMUL_DESC_FAST_ACCUM).
    """
    M, N, K = A.rows, B.rows, A.cols
    b, a, b_scale, a_scale = map(session.cupy.asarray, (B.bits, A.bits, *reversed(scales)))
    # It is column-major, so its A is our B, and the transpose of it.
    modes = (_BY_128_X_128, _BY_128) if block else (_ONE_SCALE, _ONE_SCALE)
    attributes = {
        _TRANS_A: ctypes.c_int32(_TRANSPOSED),
        _FAST: ctypes.c_int8(fast),
        _A_MODE: ctypes.c_int32(modes[0]),
        _B_MODE: ctypes.c_int32(modes[1]),
        _A_SCALE: ctypes.c_void_p(b_scale.data.ptr),
        _B_SCALE: ctypes.c_void_p(a_scale.data.ptr),
        **beside.library_end(end.bias, end.gelu),
    }
    row = A.bits.shape[1]
    layouts = ((beside.E4M3, K, N, row), (beside.E4M3, K, M, row), (beside.BF16, N, M, N))
    R = C if end.residual is None else end.residual
    starts = beside.library_products(
        session, (b, a, R, C), layouts, attributes, float(end.residual is not None), most
    )

    def kept(start: Callable[[], None], _scales: Any = (b_scale, a_scale)) -> None:
        start()

    return [partial(kept, start) for start in starts]


# -- times -----------------------------------------------------------------------------------------


def timed(session: Session, shape: Shape, telemetry: Telemetry) -> list[dict[str, Any]]:
    """A row a contender: ms of a launch and quartiles, TFLOP/s, its time against each other's, clock
    and power meanwhile, and the error against the product of the unrounded operands, in percent."""
    M, N, K = shape
    cupy = session.cupy
    A, B = operands(shape)
    with session.on_stream():
        want = cupy.asarray(A).astype(np.float64) @ cupy.asarray(B).T.astype(np.float64)
    a, b = fp8.scaled(A), fp8.scaled(B, fp8.BLOCK)
    whole = fp8.scaled(A, M, K), fp8.scaled(B, N, K)
    single = [m.scales[:1, 0] for m in whole]
    by_block = fp8.laid_out(fp8.plan(a, b), a, b)
    names = ("fp8", "fp8, 128 rows", "cublaslt_block", "cublaslt", "cublaslt_fast", "hopper_5")
    outs = {name: session.output("bfloat16", M, N) for name in names}
    operations: dict[str, Callable[[], None]] = {}

    with session.on_stream():
        for name, tile in zip(names, TILES, strict=False):
            operations[name] = beside.on_stream(
                session, fp8.on_gpu(fp8.plan(a, b, **tile), a, b, outs[name])
            )
        for name in names[2:5]:
            block = name == "cublaslt_block"
            pair, scales = ((a, b), by_block) if block else (whole, single)
            try:
                [operations[name]] = library_operation(
                    session, *pair, outs[name], scales, block=block, fast=name == "cublaslt_fast"
                )
            except ConfigError as fault:
                print(f"{name} is left out: {fault}", file=sys.stderr, flush=True)
        bf16 = [cupy.asarray(to_bfloat16(np.ascontiguousarray(x))) for x in (A, B.T)]
        operations["hopper_5"] = session.kernel_operation(
            plans.plan("hopper_5", M, N, K), bf16[0], bf16[1], outs["hopper_5"]
        )

    def error(name: str) -> float:
        values = (outs[name].astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return distance(values, want)

    def peak(name: str) -> float | None:
        bf16 = session.peak_gflops("bf16")
        times = 1 if name == "hopper_5" else 2  # FP8 against BF16, by the data sheet
        return None if bf16 is None else times * bf16

    rows = beside.timed(
        session, operations, telemetry, gflop=2 * M * N * K / 1e9, error=error, peak=peak,
        what=f"{M}x{N}x{K}",
    )  # fmt: skip
    return [{"m": M, "n": N, "k": K, **row} for row in rows]


def launches() -> None:
    """What compute-sanitizer watches."""
    for shape in WATCHED:
        A, B = blocks(shape)
        for tile in TILES:
            fp8.multiply(A, B, backend="cuda", **tile)


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 2 where no GPU answers or something is refused."""
    return beside.main(
        "fp8", __doc__, given, launches=launches,
        checks=lambda _: {"shapes": compared(), "promotion": promoted()},
        times=lambda session, telemetry: {
            "times": [row for shape in SIZES for row in timed(session, shape, telemetry)]
        },
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
