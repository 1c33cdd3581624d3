"""Host side of the Hopper kernels: tensor maps for the copy engine (TMA), aligned rows, launch.

The copy engine reads and writes any shape, but every row must start at a multiple of 16 bytes.
Where rows do not (K or N not a multiple of 8 with 2-byte elements), a copy with longer rows takes
the matrix's place; the columns added are never looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from helpers import fitting
from helpers.errors import ConfigError, ToolchainError
from helpers.kernel import Geometry, Kernel

BOX_COLS = 64
"""Columns of every box: 64 elements of 2 bytes are the 128 bytes of a swizzled row."""
BOX_ROWS = {"A_map": 64, "B_map": 64, "C_map": 16}
"""Rows of a box, by the kernel parameter that describes the matrix (kernels/common/tma.cuh)."""
ROW_BYTES = 16
"""Rows start at multiples of this (CUDA driver API, cuTensorMapEncodeTiled, globalStrides)."""
ITEM_BYTES = 2
TENSOR_MAP = np.dtype([("opaque", np.uint64, 16)])
"""The 128 bytes of a CUtensorMap, passed to the kernel by value."""
CONSUMERS = 2
"""Warpgroups of a block that hold sums (kernels/22_6_stream_k.cu)."""
BOX_BYTES = 64 * BOX_COLS * ITEM_BYTES
"""A box of A or B in shared memory (kernels/common/tma.cuh)."""
SWIZZLE_BYTES = 1024
"""Eight rows of a swizzled box: the pattern repeats after them, and buffers start at multiples."""


@dataclass(frozen=True)
class Field:
    """Some bits of a descriptor: its name, the first and the last bit, and bytes a unit (0: none)."""

    name: str
    first: int
    last: int
    unit: int = 16

    def of(self, word: int) -> int:
        """What stands in these bits of a word."""
        return word >> self.first & ((1 << self.last - self.first + 1) - 1)


DESCRIPTOR = (
    Field("start address", 0, 13),
    Field("leading stride", 16, 29),
    Field("stride", 32, 45),
    Field("base offset", 49, 51, unit=0),
    Field("swizzle", 62, 63, unit=0),
)
"""The fields of wgmma's 64-bit matrix descriptor; the other bits are zero.

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", Matrix Descriptor Format.
"""


def wgmma_descriptor(address: int, leading_bytes: int, stride_bytes: int) -> int:
    """What describe() in kernels/common/wgmma.cuh builds: 64 bits, with the 128-byte swizzle.

    address: in shared memory, where upper bits may name a block of the cluster; all in bytes.
    """
    within_block = address & ((1 << 18) - 1)
    return 1 << 62 | stride_bytes >> 4 << 32 | leading_bytes >> 4 << 16 | within_block >> 4


@dataclass(frozen=True)
class Piece:
    """Steps begin to end, the last one not included, of the k loop of one tile."""

    tile: int
    begin: int
    end: int


def stream_k_pieces(worker: int, workers: int, tiles: int, steps: int) -> tuple[Piece, ...]:
    """What one worker (a block or a cluster) does, in order, when the last tiles are cut along k.

    Walk in kernels/common/tile_order.cuh: whole tiles, one a round, and of the last one to two rounds
    an equal range of the steps. Raises ConfigError if there is no such worker, no tile or no step.
    """
    if not 0 <= worker < workers or min(tiles, steps) < 1:
        raise ConfigError(
            f"{worker=} of {workers=}, {tiles=}, {steps=}: give one of them, and work"
        )
    cut = tiles > workers and tiles % workers != 0
    whole_end = (tiles // workers - 1) * workers if cut else tiles
    pieces = [Piece(tile, 0, steps) for tile in range(worker, whole_end, workers)]
    if cut:
        left = (tiles - whole_end) * steps
        at, end = left * worker // workers, left * (worker + 1) // workers
        while at < end:
            begin = at % steps
            piece = Piece(whole_end + at // steps, begin, min(steps, begin + end - at))
            pieces.append(piece)
            at += piece.end - piece.begin
    return tuple(pieces)


def rows_aligned(matrix: Any) -> bool:
    """Whether the copy engine can take this (rows, cols) CuPy array as it is."""
    row, item = matrix.strides
    return (
        (item == ITEM_BYTES or matrix.shape[1] == 1)
        and row % ROW_BYTES == 0
        and row >= matrix.shape[1] * ITEM_BYTES
        and matrix.data.ptr % ROW_BYTES == 0
    )


def aligned_like(matrix: Any) -> Any:
    """An uninitialised CuPy array of the same shape and dtype whose rows start at 16 bytes."""
    import cupy

    rows, cols = matrix.shape
    step = ROW_BYTES // ITEM_BYTES
    return cupy.empty((rows, -(-cols // step) * step), matrix.dtype)[:, :cols]


def build_descriptor(matrix: Any, box_rows: int) -> np.ndarray:
    """Tensor map of a row-major (rows, cols) CuPy array of 2-byte elements: one TENSOR_MAP.

    Boxes are box_rows x 64 with the 128-byte swizzle; what lies outside the matrix reads as zero.
    Raises ConfigError if rows do not start at multiples of 16 bytes, ToolchainError without
    cuda-bindings or if the driver refuses. Source: CUDA driver API, cuTensorMapEncodeTiled.
    """
    if not rows_aligned(matrix):
        raise ConfigError(
            f"a matrix of shape {matrix.shape} with strides {matrix.strides} at address "
            f"{matrix.data.ptr:#x}: the copy engine needs rows that start at multiples of "
            f"{ROW_BYTES} bytes; copy it into helpers.hopper.aligned_like(matrix)"
        )
    rows, cols = matrix.shape
    return _encode(matrix.data.ptr, rows, cols, matrix.strides[0], box_rows)


@lru_cache(maxsize=256)
def _encode(address: int, rows: int, cols: int, row_bytes: int, box_rows: int) -> np.ndarray:
    """A tensor map is a pure function of address and shape, so it may be kept."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ToolchainError(
            "the Hopper kernels need cuda-bindings for their tensor maps, of the CUDA version of the driver or "
            f"older. {fitting.how_to_install()}"
        ) from error
    long, short = driver.cuuint64_t, driver.cuuint32_t
    status, tensor_map = driver.cuTensorMapEncodeTiled(
        # The copy engine moves elements without looking at them; only their size counts.
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16,
        2,
        address,
        [long(cols), long(rows)],
        [long(row_bytes)],
        [short(BOX_COLS), short(box_rows)],
        [short(1), short(1)],
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(status):
        raise ToolchainError(
            f"the driver refused a tensor map ({status}) for a {rows}x{cols} matrix with rows of "
            f"{row_bytes} bytes and boxes of {box_rows}x{BOX_COLS}"
        )
    words = np.array([int(word) for word in tensor_map.opaque], np.uint64)
    return words.view(TENSOR_MAP)


def parameters(kernel: Kernel) -> tuple[str, ...]:
    """Parameter names of a kernel's entry, in order, as its source declares them."""
    found = re.search(rf"\b{kernel.entry}\s*\(([^)]*)\)", kernel.source)
    if not found:
        raise ConfigError(f"{kernel.file} declares no entry {kernel.entry}")
    return tuple(re.findall(r"\w+", part)[-1] for part in found[1].split(","))


@lru_cache(maxsize=8)
def _hand_over_room(device: int, stream: int, blocks: int, sums: int) -> tuple[Any, Any]:
    """Where blocks leave partial sums, and flags, all zero: the kernel leaves them zero again.

    One of each for a device and stream, since two launches of one stream never overlap.
    """
    import cupy

    return cupy.empty(blocks * sums, np.float32), cupy.zeros(blocks * CONSUMERS, np.int32)


def launch(plan: Geometry, function: Any, A: Any, B: Any, C: Any) -> None:
    """C (M, N) = A (M, K) B (K, N) on CuPy arrays of 2-byte elements, in the current stream.

    function: the loaded kernel, from launch.cuda_function(plan). An operand whose rows do not start
    at multiples of 16 bytes is copied into one whose rows do; such a C is written by way of a copy,
    too, where the kernel stores through a tensor map.
    """
    names = parameters(plan.kernel)
    through_map = "C_map" in names
    matrices = {"A_map": A, "B_map": B, "C_map": C}
    for name in ("A_map", "B_map"):
        if not rows_aligned(matrices[name]):
            copy = aligned_like(matrices[name])
            copy[...] = matrices[name]
            matrices[name] = copy
    if through_map and not rows_aligned(C):
        matrices["C_map"] = aligned_like(C)

    values: dict[str, Any] = {name: np.int32(getattr(plan, name)) for name in "MNK"}
    values["C"] = C
    if "partial" in names:
        import cupy

        rows, cols = plan.tile
        stream = cupy.cuda.get_current_stream().ptr
        room = _hand_over_room(cupy.cuda.Device().id, stream, plan.grid[0], rows * cols)
        values["partial"], values["ready"] = room
    arguments = tuple(
        build_descriptor(matrices[name], BOX_ROWS[name]) if name in matrices else values[name]
        for name in names
    )
    function(plan.grid, plan.block, arguments, shared_mem=plan.shared_bytes)
    if through_map and matrices["C_map"] is not C:
        C[...] = matrices["C_map"]
