"""The product of 8-bit floats: rounding to e4m3 by scales, the launch, what it should give.

An `epilogue.End` says what becomes of the sums.

kernels/beside/22_fp8.cu is no rung of the catalog: its operands come with scales, and B by columns.
Elements are e4m3 as the OCP 8-bit Floating Point Specification has it: up to LARGEST, no infinity.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from helpers.chapters.ch22.epilogue import End, computed, long_row, padded, there
from helpers.ladder import hopper, launch
from helpers.ladder.hopper import BOX_COLS, ROW_BYTES, ROW_SWIZZLE
from helpers.ladder.kernel import Geometry, Kernel, Rule, cdiv, geometry
from helpers.ladder.numbers import UNIT_ROUNDOFF, poison
from nogpu.emulator import Report
from nogpu.emulator.machine.arith import fp8_bits, fp8_value
from nogpu.emulator.machine.sums import FP8_ALIGNED_BITS
from nogpu.errors import ConfigError, ShapeError

LARGEST = 448.0
"""The largest e4m3."""
BLOCK = 128
"""Elements along k that share a scale, and columns of B."""
B_AT_ONCE = 4
"""Scales of B that one copy of 16 bytes brings."""
_BUFFERS = "(STAGES * ((BM + 128) * 128 + BM * 4 + 16) + 8 * C_BUFFERS * 2048)"
KERNEL = Kernel(
    name="fp8",
    title="e4m3, scales, promotion to FP32",
    file="beside/22_fp8.cu",
    entry="wgmma_fp8",
    chapter=22,
    params={"BM": 256, "STAGES": 4, "PROMOTE": 1, "GROUP_M": 8, "C_BUFFERS": 1, "SMS": 132},
    rules=(
        Rule("BM in (128, 256)", "two consumers have 64 or 128 rows each, in tiles of 64"),
        Rule("STAGES >= 2", "one stage is used while another is filled"),
        Rule(f"{_BUFFERS} <= 225 * 1024", "a block has 227 KB of shared memory"),
        Rule("PROMOTE == 1 or BM == 128", "sums that are not promoted cannot take turns"),
    ),
    block=("384", "1", "1"),
    grid=("cdiv(cdiv(M, BM) * cdiv(N, 128), cdiv(cdiv(M, BM) * cdiv(N, 128), SMS))", "1", "1"),
    shared=f"{_BUFFERS} + 1024",
    tile=("BM", "128"),
    dtype="e4m3",
    out_dtype="bfloat16",
    min_arch="sm_90a",
    host="tma",
)


@dataclass(frozen=True)
class Scaled:
    """A matrix of e4m3 with scales: an element is bits[r, c] times scales[r, c // BLOCK].

    bits: uint8 (rows, cols rounded up to 16), zero beyond cols. scales: float32 (rows, cols over
    BLOCK rounded up), also where many elements share one.
    """

    bits: np.ndarray
    scales: np.ndarray
    cols: int

    @property
    def rows(self) -> int:
        """Rows of the matrix."""
        return len(self.bits)

    def values(self) -> np.ndarray:
        """What it stands for, float64 (rows, cols)."""
        each = np.repeat(self.scales.astype(np.float64), BLOCK, axis=1)[:, : self.cols]
        return fp8_value(self.bits[:, : self.cols], "e4m3").astype(np.float64) * each


def magnitudes() -> np.ndarray:
    """The values of e4m3 from zero up, float64: the larger the byte, the larger the value."""
    return fp8_value(np.arange(127, dtype=np.uint8), "e4m3").astype(np.float64)


def scaled(x: np.ndarray, tall: int = 1, wide: int = BLOCK) -> Scaled:
    """x (rows, cols), rounded to e4m3 after each `tall` x `wide` block is divided by its scale.

    The scale makes the block's largest element LARGEST. `wide`: a multiple of BLOCK, or at least
    cols for scales by row. Raises ShapeError for what is no matrix, ConfigError for other blocks
    and for what is not finite.
    """
    x = _matrix(x)
    rows, cols = x.shape
    if tall < 1 or wide < 1 or (wide % BLOCK and wide < cols):
        raise ConfigError(
            f"blocks of {tall}x{wide} for a matrix of {rows}x{cols}: the kernel has a scale for "
            f"each {BLOCK} columns at most, so give a width that is a multiple of {BLOCK}, or all "
            f"{cols}"
        )
    down, across = np.arange(0, rows, tall), np.arange(0, cols, wide)
    largest = np.maximum.reduceat(np.maximum.reduceat(np.abs(x), down, 0), across, 1)
    scale = np.where(largest == 0, 1.0, largest / LARGEST).astype(np.float32)
    scales = np.repeat(scale, tall, axis=0)[:rows]
    scales = scales[:, np.arange(0, cols, BLOCK) // wide]
    return _rounded(x, np.ascontiguousarray(scales))


def unscaled(x: np.ndarray) -> Scaled:
    """x (rows, cols), rounded to e4m3 as it is: every scale 1. Raises as `scaled`."""
    x = _matrix(x)
    return _rounded(x, np.ones((len(x), cdiv(x.shape[1], BLOCK)), np.float32))


def _matrix(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or not x.size:
        raise ShapeError(f"an array of shape {x.shape}: give a matrix of at least one element")
    if not np.isfinite(x).all():
        raise ConfigError("the matrix holds NaN or infinity, for which no scale can be chosen")
    return x


def _rounded(x: np.ndarray, scales: np.ndarray) -> Scaled:
    rows, cols = x.shape
    bits = np.zeros((rows, cdiv(cols, ROW_BYTES) * ROW_BYTES), np.uint8)
    each = np.repeat(scales.astype(np.float64), BLOCK, axis=1)[:, :cols]
    bits[:, :cols] = fp8_bits(x / each, "e4m3")
    return Scaled(bits, scales, cols)


PLAIN = End()


def plan(A: Scaled, B: Scaled, end: End = PLAIN, /, **params: int) -> Geometry:
    """The launch of C (M, N) = A (M, K) times the transpose of B (N, K).

    Raises ShapeError where their K or the shapes of `end` differ, ConfigError for a rule of the
    tile, and where columns of B that share a tile, or stages that share a promotion, have several
    scales.
    """
    if A.cols != B.cols:
        raise ShapeError(
            f"A is {A.rows}x{A.cols} and B, by columns, {B.rows}x{B.cols}: give both the same K"
        )
    for name, more, shape in (
        ("bias", end.bias, (B.rows,)), ("residual", end.residual, (A.rows, B.rows)),
    ):  # fmt: skip
        if more is not None and more.shape != shape:
            raise ShapeError(f"{name} of shape {more.shape} for a C of {A.rows}x{B.rows}: it takes "
                             f"{shape}")  # fmt: skip
    first = np.repeat(B.scales[::BLOCK], BLOCK, axis=0)[: B.rows]
    if not np.array_equal(first, B.scales):
        raise ConfigError(
            f"B has several scales for the {BLOCK} columns of a tile, and the kernel multiplies by "
            f"one: make it by scaled(B, {BLOCK})"
        )
    kernel = replace(KERNEL, defines={**KERNEL.defines, **end.macros})
    p = geometry(kernel, A.rows, B.rows, A.cols, **params)
    if p.params["PROMOTE"] > 1 and any((m.scales != m.scales[:, :1]).any() for m in (A, B)):
        raise ConfigError(
            f"PROMOTE={p.params['PROMOTE']} adds up blocks of k before it multiplies by a scale, "
            f"and here they have several: make A and B by scaled(x, ..., {A.cols}), or leave "
            "PROMOTE out"
        )
    return p


def laid_out(p: Geometry, A: Scaled, B: Scaled) -> list[np.ndarray]:
    """Scales of A and of B as the kernel takes them."""
    a, b = A.scales.T, B.scales[::BLOCK]
    a = np.pad(a, ((0, 0), (0, -p.M % p.params["BM"])))
    b = np.pad(b, ((0, 0), (0, -b.shape[1] % B_AT_ONCE)))
    return [np.ascontiguousarray(a), np.ascontiguousarray(b)]


def multiply(
    A: Scaled, B: Scaled, end: End = PLAIN, /, *, backend: str | None = None, **params: int
) -> np.ndarray:
    """C (M, N) = A (M, K) times the transpose of B (N, K): bfloat16 bits (uint16).

    backend: "cuda", "emulator", or None for a Hopper GPU where there is one. params: the tile.
    Raises what `plan` raises, NoGPUError, and EmulationError for what the emulator finds.
    """
    p = plan(A, B, end, **params)
    return computed(
        p, (p.M, p.N), backend, lambda: emulated(p, A, B, end), lambda C: on_gpu(p, A, B, C, end)
    )


def emulated(
    p: Geometry, A: Scaled, B: Scaled, end: End = PLAIN, *, schedule: str = "ascending",
    source: str = "",
) -> tuple[np.ndarray, Report]:  # fmt: skip
    """C of a launch, as `multiply` gives it, by the emulator, and its report.

    source: in place of the file's.
    """
    from nogpu import emulator

    C = np.full((p.M, long_row(p.N)), poison("bfloat16"), np.uint16)
    more = (np.zeros(8, np.uint16) if x is None else padded(x) for x in (end.bias, end.residual))
    rows = hopper.BOX_ROWS
    maps = [
        emulator.TensorMap(pairs, (rows[name], BOX_COLS), ROW_SWIZZLE, shape=shape)
        for name, pairs, shape in (
            ("A_map", A.bits.view(np.uint16), None),
            ("B_map", B.bits.view(np.uint16), None),
            ("C_map", C, (p.M, p.N)),
        )
    ]
    report = emulator.launch(
        source or KERNEL.source, KERNEL.entry, p.grid, p.block,
        [*maps, *laid_out(p, A, B), p.M, p.N, p.K, *more],
        uninitialised=("C_map",), shared_bytes=p.shared_bytes, defines=p.defines,
        arch=KERNEL.min_arch, name=KERNEL.source_name, schedule=schedule,
    )  # fmt: skip
    return np.ascontiguousarray(C[:, : p.N]), report


def on_gpu(p: Geometry, A: Scaled, B: Scaled, C: Any, end: End = PLAIN) -> Callable[[], None]:
    """A function that launches p in CuPy's current stream.

    C: a CuPy uint16 array (M, N) whose rows start at multiples of ROW_BYTES; else ConfigError.
    """
    import cupy

    pairs = [cupy.asarray(m.bits).view(np.uint16) for m in (A, B)]
    maps = [
        hopper.build_descriptor(matrix, hopper.BOX_ROWS[name])
        for name, matrix in zip(hopper.BOX_ROWS, (*pairs, C), strict=True)
    ]
    scales = [cupy.asarray(x) for x in laid_out(p, A, B)]
    ends = (end.bias, end.residual)
    more = [C if x is None else there(x.reshape(-1, x.shape[-1])) for x in ends]
    function = launch.cuda_function(p)
    given = (*maps, *scales, *(np.int32(n) for n in (p.M, p.N, p.K)), *more)

    def start(_kept: Any = (pairs, C)) -> None:
        function(p.grid, p.block, given, shared_mem=p.shared_bytes)

    return start


def reference(A: Scaled, B: Scaled) -> np.ndarray:
    """The float64 product of the values that A and B stand for."""
    return A.values() @ B.values().T


def tolerance(A: Scaled, B: Scaled) -> np.ndarray:
    """Largest accepted error of each element of C, (M, N), for data of either sign such as N(0, 1).

    Twice the last bit that a Tensor Core keeps of FP8 sums, of the norms of each BLOCK of k, whose
    sums are promoted one by one; and the rounding of C. A product left out is several times that.
    """
    a, b = (np.pad(m.values(), ((0, 0), (0, -m.cols % BLOCK))) for m in (A, B))
    norms = [np.sqrt(np.square(x.reshape(len(x), -1, BLOCK)).sum(axis=2)) for x in (a, b)]
    kept = 2 * 2.0**-FP8_ALIGNED_BITS * norms[0] @ norms[1].T
    return kept + UNIT_ROUNDOFF["bfloat16"] * (np.abs(reference(A, B)) + kept)
