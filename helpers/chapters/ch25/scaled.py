"""Four bits with a scale for every 16 (NVFP4): how numbers become so, the launch, what it gives.

kernels/blackwell/24_5_scaled.cu is no rung of the catalog: its operands come with scales. Elements
are e2m1, scales e4m3. Source: OCP Microscaling Formats 1.0 (e2m1); NVIDIA, NVFP4.
"""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from helpers.ladder.kernel import Geometry, Rule, cdiv, geometry
from helpers.ladder.rungs import blackwell
from nogpu.bfloat16 import from_bfloat16
from nogpu.emulator import Report
from nogpu.emulator.machine.arith import fp8_value
from nogpu.errors import ShapeError

BLOCK = 16
"""Elements along k that share a scale."""
ROWS, STEPS = 128, 256
"""Rows and k of the blocks in which the kernel takes scales, and to which they are filled up."""
_HALF = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = np.concatenate([_HALF, -_HALF])
"""The 16 numbers of four bits."""
KERNEL = replace(
    blackwell["tensor_roles"],
    name="tensor_scaled",
    title="four bits, and scales",
    file="blackwell/24_5_scaled.cu",
    entry="tensor_scaled",
    rules=(
        Rule("BN in (128, 256)", "scales come for 128 columns at once"),
        Rule("STAGES >= 2", "one stage is used while another is filled"),
        Rule("STAGES * (128 + BN) * 144 <= 225 * 1024", "a block has 227 KB of shared memory"),
        Rule("BN + STAGES * (16 + BN // 8) <= 512", "tensor memory has 512 columns"),
    ),
    params={"BN": 256, "STAGES": 4},
    defines={},
    shared="STAGES * (128 + BN) * 144 + 1024",
)


@lru_cache(maxsize=1)
def e4m3() -> np.ndarray:
    """The numbers of scales by their bits, 0 to 126: float64."""
    return fp8_value(np.arange(127, dtype=np.uint8), "e4m3").astype(np.float64)


@dataclass(frozen=True, eq=False)
class Scaled:
    """A matrix of four bits: bits of elements (rows, k) and scales (rows, k / 16), uint8."""

    elements: np.ndarray
    scales: np.ndarray

    @property
    def values(self) -> np.ndarray:
        """The numbers that it stands for: float64 (rows, k)."""
        wide = np.repeat(e4m3()[self.scales], BLOCK, axis=1)[:, : self.elements.shape[1]]
        return np.asarray(E2M1[self.elements] * wide)


def nearest(x: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """For each x the index of the nearest of some numbers in rising order, the lower of two."""
    above = np.clip(np.searchsorted(numbers, x), 1, len(numbers) - 1)
    lower = x - numbers[above - 1] <= numbers[above] - x
    return np.where(lower, above - 1, above)


def quantised(x: np.ndarray) -> Scaled:
    """A matrix (rows, k) in four bits: of each 16 along k the largest becomes 6, or nearly.

    Raises ShapeError for anything but a matrix.
    """
    if x.ndim != 2:
        raise ShapeError(f"an array of shape {x.shape}: give a matrix, of two axes")
    rows, k = x.shape
    full = np.zeros((rows, cdiv(k, BLOCK) * BLOCK))
    full[:, :k] = x
    largest = np.abs(full.reshape(rows, -1, BLOCK)).max(axis=2)
    scales = nearest(largest / _HALF[-1], e4m3()).astype(np.uint8)
    wide = np.repeat(e4m3()[np.maximum(scales, 1)], BLOCK, axis=1)
    elements = nearest(np.abs(full) / wide, _HALF) + 8 * (full < 0)
    return Scaled(elements[:, :k].astype(np.uint8), scales)


def eight_bits(x: np.ndarray) -> np.ndarray:
    """The numbers that a matrix becomes in e4m3 with a scale for 128 along k, to compare with:
    float64. k must be a multiple of 128."""
    cut = x.reshape(len(x), -1, 128)
    scales = np.abs(cut).max(axis=2, keepdims=True) / e4m3()[-1]
    return (np.sign(cut) * e4m3()[nearest(np.abs(cut) / scales, e4m3())] * scales).reshape(x.shape)


def operands(M: int, N: int, K: int, seed: int = 0) -> tuple[Scaled, Scaled]:
    """A (M, K) and B, given as (N, K), of standard normal numbers."""
    rng = np.random.default_rng(seed)
    return quantised(rng.standard_normal((M, K))), quantised(rng.standard_normal((N, K)))


def packed(x: Scaled) -> np.ndarray:
    """Two elements a byte, the first in the low half, rows filled up to 16 bytes: uint8."""
    rows, k = x.elements.shape
    full = np.zeros((rows, cdiv(k, 32) * 32), np.uint8)
    full[:, :k] = x.elements
    return full[:, ::2] | full[:, 1::2] << 4


def in_blocks(x: Scaled, rows: int = ROWS) -> np.ndarray:
    """The scales as the kernel takes them: uint8, flat. rows: what their number is filled up to a
    multiple of.
    """
    have, each = x.scales.shape
    full = np.zeros(
        (cdiv(have, rows) * rows, cdiv(each, STEPS // BLOCK) * STEPS // BLOCK), np.uint8
    )
    full[:have, :each] = x.scales
    cut = full.reshape(len(full) // ROWS, 4, 32, -1, 4)  # of 128 rows: quarter, row; of k: 64, 16
    return np.ascontiguousarray(cut.transpose(0, 3, 2, 1, 4)).reshape(-1)


def plan(A: Scaled, B: Scaled, **params: int) -> Geometry:
    """The launch of A B. Raises ShapeError where A and B do not fit, ConfigError for the tile."""
    (M, K), (N, other) = A.elements.shape, B.elements.shape
    if K != other:
        raise ShapeError(f"A has {K} elements along k and B has {other}: give B as N x K")
    return geometry(KERNEL, M, N, K, **params)


def emulated(
    A: Scaled, B: Scaled, *, schedule: str = "ascending", source: str = "", **params: int
) -> tuple[np.ndarray, Report]:
    """C = A B by the emulator, float32 (M, N) of bfloat16 values, and its report.

    source: in place of the file's. params: the tile.
    """
    from nogpu import emulator

    p = plan(A, B, **params)
    C = np.full((p.M, p.N), 0x7FC0, np.uint16)
    maps = [emulator.TensorMap(packed(x), (64, 128), 128) for x in (A, B)]
    given: list[Any] = [*maps, in_blocks(A), in_blocks(B, p.params["BN"]), C, p.M, p.N, p.K]
    report = emulator.launch(
        source or KERNEL.source, KERNEL.entry, p.grid, p.block, given,
        uninitialised=("C",), shared_bytes=p.shared_bytes, defines=p.defines,
        arch=KERNEL.min_arch, name=KERNEL.source_name, schedule=schedule,
    )  # fmt: skip
    return from_bfloat16(C), report
