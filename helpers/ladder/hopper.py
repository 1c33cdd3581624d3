"""Host side of the Hopper kernels: tensor maps for the copy engine (TMA), aligned rows, launch.

The copy engine reads and writes any shape, but every row must start at a multiple of 16 bytes.
Where rows do not (K or N not a multiple of 8 with 2-byte elements), a copy with longer rows takes
the matrix's place; the columns added are never looked at.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from helpers.ladder import cuts, fitting
from helpers.ladder.kernel import MAX_GRID_YZ, Geometry, Kernel, cdiv
from nogpu import device
from nogpu.errors import ConfigError, ToolchainError

BOX_COLS = 64
"""Columns of every box: 64 elements of 2 bytes are the 128 bytes of a swizzled row."""
WGMMA_ROWS = 64
"""Rows of C of one wgmma, m64nNk16. Source: PTX ISA, wgmma.mma_async, shapes."""
BOX_ROWS = {"A_map": 64, "B_map": 64, "C_map": 16}
"""Rows of a box, by the kernel parameter that describes the matrix (kernels/common/tma.cuh)."""
ROW_BYTES = 16
"""Rows start at multiples of this (CUDA driver API, cuTensorMapEncodeTiled, globalStrides)."""
ITEM_BYTES = 2
TENSOR_MAP = np.dtype([("opaque", np.uint64, 16)])
"""The 128 bytes of a CUtensorMap, passed to the kernel by value."""
BOX_BYTES = 64 * BOX_COLS * ITEM_BYTES
"""A box of A or B in shared memory (kernels/common/tma.cuh)."""
ROW_SWIZZLE = 128
"""Bytes of the pattern in which a box lies in shared memory."""
SWIZZLE_BYTES = 1024
"""Eight rows of a swizzled box: the pattern repeats after them, and buffers start at multiples."""


@dataclass(frozen=True)
class Field:
    """Some bits of a descriptor: its name, the first and last bit, and bytes a unit (0: none)."""

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

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout", Matrix Descriptor
Format.
"""


def wgmma_descriptor(address: int, leading_bytes: int, stride_bytes: int) -> int:
    """What describe() in kernels/common/wgmma.cuh builds: 64 bits, with the 128-byte swizzle.

    address: in shared memory, where upper bits may name a block of the cluster; all in bytes.
    """
    within_block = address & ((1 << 18) - 1)
    return 1 << 62 | stride_bytes >> 4 << 32 | leading_bytes >> 4 << 16 | within_block >> 4


def rows_aligned(matrix: Any) -> bool:
    """Whether the copy engine can take this CuPy array, (rows, cols) or a stack, as it is."""
    *slices, row, item = matrix.strides
    return (
        (item == ITEM_BYTES or matrix.shape[-1] == 1)
        and all(step % ROW_BYTES == 0 for step in (*slices, row))
        and row >= matrix.shape[-1] * ITEM_BYTES
        and matrix.data.ptr % ROW_BYTES == 0
    )


def aligned_like(matrix: Any) -> Any:
    """An uninitialised CuPy array of the same shape and dtype whose rows start at 16 bytes."""
    import cupy

    rows, cols = matrix.shape
    step = ROW_BYTES // ITEM_BYTES
    return cupy.empty((rows, -(-cols // step) * step), matrix.dtype)[:, :cols]


def build_descriptor(matrix: Any, box_rows: int) -> np.ndarray:
    """Tensor map of a row-major CuPy array of 2-byte elements: one TENSOR_MAP.

    The array is (rows, cols), or a stack of such, (slices, rows, cols). Boxes are box_rows x 64 of
    one slice, with the 128-byte swizzle; what lies outside a matrix reads as zero.
    Raises ConfigError if rows do not start at multiples of 16 bytes, ToolchainError without
    cuda-bindings or if the driver refuses. Source: CUDA driver API, cuTensorMapEncodeTiled.
    """
    if not rows_aligned(matrix):
        raise ConfigError(
            f"a matrix of shape {matrix.shape} with strides {matrix.strides} at address "
            f"{matrix.data.ptr:#x}: the copy engine needs rows that start at multiples of "
            f"{ROW_BYTES} bytes; copy it into helpers.ladder.hopper.aligned_like(matrix)"
        )
    return _encode(matrix.data.ptr, matrix.shape, matrix.strides[:-1], box_rows)


@lru_cache(maxsize=256)
def _encode(
    address: int, shape: tuple[int, ...], steps: tuple[int, ...], box_rows: int
) -> np.ndarray:
    """A tensor map is a pure function of address and shape, so it may be kept. steps: in bytes."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise ToolchainError(
            "the Hopper kernels need cuda-bindings for their tensor maps, of the CUDA version of "
            f"the driver or older. {fitting.how_to_install()}"
        ) from error
    long, short, axes = driver.cuuint64_t, driver.cuuint32_t, len(shape)
    status, tensor_map = driver.cuTensorMapEncodeTiled(
        # The copy engine moves elements without looking at them; only their size counts.
        driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16,
        axes,
        address,
        [long(size) for size in reversed(shape)],  # columns first
        [long(step) for step in reversed(steps)],  # from a row to the next
        [short(size) for size in (BOX_COLS, box_rows, 1)[:axes]],
        [short(1)] * axes,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    if int(status):
        raise ToolchainError(
            f"the driver refused a tensor map ({status}) for a matrix of shape {shape} with rows "
            f"of {steps[-1]} bytes and boxes of {box_rows}x{BOX_COLS}"
        )
    words = np.array([int(word) for word in tensor_map.opaque], np.uint64)
    return words.view(TENSOR_MAP)


def parameters(kernel: Kernel) -> tuple[str, ...]:
    """Parameter names of a kernel's entry, in order, as its source declares them."""
    return _parameters(kernel.entry, kernel.source, kernel.file)


@lru_cache(maxsize=64)
def _parameters(entry: str, source: str, file: str) -> tuple[str, ...]:
    match = re.search(rf"\b{entry}\s*\(([^)]*)\)", source)
    if not match:
        raise ConfigError(f"{file} declares no entry {entry}")
    return tuple(re.findall(r"\w+", part)[-1] for part in match[1].split(","))


PARTS = 2
"""Tiles whose sums a block may leave at once: the end of one, and the beginning of the next."""


def division(plan: Geometry) -> cuts.Division:
    """How a launch shares out its tiles: in the fewest clocks by `cuts.cheapest`, at H200 rates."""
    return cuts.cheapest(cuts.work_of(plan, device.gpu("h200"))).division


def _new_room(blocks: int, sums: int) -> tuple[Any, Any]:
    """Where blocks leave partial sums, and counts, all zero: the kernel leaves them zero again."""
    import cupy

    return (
        cupy.empty(PARTS * blocks * sums, np.float32),
        cupy.zeros(blocks * cuts.CONSUMERS, np.int32),
    )


@lru_cache(maxsize=8)
def _hand_over_room(
    device: int, stream: int, thread: int, blocks: int, sums: int
) -> tuple[Any, Any]:
    """One room for a device and stream, since two launches of one stream never overlap."""
    return _new_room(blocks, sums)


@dataclass(frozen=True)
class Prepared:
    """What a launch passes to the kernel, and the copies around it.

    before, after: pairs (to, from) of CuPy matrices of one shape, to be copied before and after the
    kernel. room: the partial sums and the flags, or nothing.
    """

    arguments: tuple[Any, ...]
    before: tuple[tuple[Any, Any], ...]
    after: tuple[tuple[Any, Any], ...]
    room: tuple[Any, ...]


def _refuse_to_wait(plan: Geometry, shared_out: cuts.Division) -> None:
    """Blocks with parts of a tile wait for each other, so all of them must find an SM.

    Raises ConfigError.
    """
    gpu = device.current()
    if gpu is not None and shared_out.ranges and plan.grid[0] > gpu.sms:
        raise ConfigError(
            f"{plan.kernel.name} would start {plan.grid[0]} blocks that wait for each other, one "
            f"an SM, and the {gpu.name} has {gpu.sms} SMs: they might never end. Give SMS={gpu.sms}"
        )


PAIR_BYTES = 4
"""Two elements of C, which `wgmma_store` (kernels/common/wgmma.cuh) stores at once."""


def stores_pairs(plan: Geometry) -> bool:
    """Whether threads store C in pairs wherever N is even, without a look at where C begins."""
    return plan.N % 2 == 0 and "wgmma_store(" in plan.kernel.source


def prepare(plan: Geometry, A: Any, B: Any, C: Any, *, shared_room: bool = True) -> Prepared:
    """The arguments of a launch on CuPy arrays of 2-byte elements, in the kernel's order.

    An operand whose rows do not start at multiples of 16 bytes is to be copied into one whose rows
    do; such a C is written by way of a copy, too, where the kernel stores through a tensor map, and
    one that begins between two multiples of `PAIR_BYTES` where it stores pairs.
    Nothing is copied here. shared_room: the room for partial sums is that of the current stream
    (but for a reader's own text, which may not leave the counts zero); else it is new. Raises
    ConfigError where shared_room is asked for while the stream is captured, and there is room or a
    copy: the graph would outlive them; and for more blocks that wait for each other than the GPU at
    hand has SMs.
    """
    names = parameters(plan.kernel)
    arrays = {"A_map": A, "B_map": B, "C_map": C}
    taken = {
        name: matrix if rows_aligned(matrix) else aligned_like(matrix)
        for name, matrix in arrays.items()
        if name in names
    }
    copied = {
        name: (taken[name], arrays[name]) for name in taken if taken[name] is not arrays[name]
    }
    before = tuple(pair for name, pair in copied.items() if name != "C_map")
    after = tuple((C, taken["C_map"]) for name in copied if name == "C_map")

    values: dict[str, Any] = {name: np.int32(getattr(plan, name)) for name in "MNK"}
    values["C"] = C
    if "C" in names and stores_pairs(plan) and C.data.ptr % PAIR_BYTES:
        import cupy

        values["C"] = copied["C"] = cupy.empty_like(C)
        after += ((C, values["C"]),)
    room: tuple[Any, ...] = ()
    here = (
        device.stream_at_hand(plan.kernel.name)
        if shared_room and (copied or "partial" in names)
        else None
    )
    if "partial" in names:
        rows, cols = plan.tile
        size = plan.grid[0], rows * cols
        if here and plan.kernel.text is None:
            room = _hand_over_room(*here, *size)
        else:
            room = _new_room(*size)
        values["partial"], values["arrived"] = room
        shared_out = division(plan)
        _refuse_to_wait(plan, shared_out)
        values["whole"], values["ranges"] = np.int32(shared_out.whole), np.int32(shared_out.ranges)
    arguments = tuple(
        build_descriptor(taken[name], BOX_ROWS[name]) if name in taken else values[name]
        for name in names
    )
    return Prepared(arguments, before, after, room)


@dataclass(frozen=True)
class Described:
    """What the emulator launches a TMA kernel with.

    arguments: in the order that the kernel declares. output: the parameter by which it writes C.
    written: the NumPy array in which C is then, its rows as long as the copy engine needs; columns:
    of C. counters: those of a hand-over, or None.
    """

    arguments: tuple[Any, ...]
    output: str
    written: np.ndarray
    counters: np.ndarray | None
    columns: int

    def wide(self, values: Any, filler: float) -> np.ndarray:
        """Values of the elements of C, or one for all, and `filler` in the rest of its rows."""
        full = np.full(self.written.shape, filler)
        full[:, : self.columns] = values
        return full


def described(plan: Geometry, A: np.ndarray, B: np.ndarray, C: np.ndarray) -> Described:
    """The arguments of a launch in the emulator on NumPy arrays of 2-byte elements.

    Where rows do not start at multiples of 16 bytes, a copy with longer rows takes the matrix's
    place.
    """
    from nogpu import emulator

    names = parameters(plan.kernel)
    arrays = {"A_map": A, "B_map": B, "C_map": C}
    taken = {name: _with_longer_rows(arrays[name]) for name in names if name in arrays}
    values: dict[str, Any] = {name: getattr(plan, name) for name in "MNK"} | {"C": C}
    counters = None
    if "partial" in names:
        rows, cols = plan.tile
        blocks, shared_out = plan.grid[0], division(plan)
        counters = np.zeros(blocks * cuts.CONSUMERS, np.int32)
        values["partial"] = np.full(PARTS * blocks * rows * cols, np.nan, np.float32)
        values["arrived"] = counters
        values["whole"], values["ranges"] = shared_out.whole, shared_out.ranges
    arguments = tuple(
        (
            emulator.TensorMap(
                taken[name], (BOX_ROWS[name], BOX_COLS), ROW_SWIZZLE, shape=arrays[name].shape
            )
            if name in taken
            else values[name]
        )
        for name in names
    )
    output = "C_map" if "C_map" in names else "C"
    return Described(arguments, output, taken.get(output, C), counters, plan.N)


def _with_longer_rows(matrix: np.ndarray) -> np.ndarray:
    """The matrix if its rows start at multiples of 16 bytes, or a copy of longer rows."""
    rows, cols = matrix.shape
    step = ROW_BYTES // ITEM_BYTES
    if cols % step == 0 and matrix.flags.c_contiguous:
        return matrix
    nan = np.array(0x7FFF, np.uint16).view(matrix.dtype)
    wide = np.full((rows, -(-cols // step) * step), nan, matrix.dtype)
    wide[:, :cols] = matrix
    return wide


def launch(plan: Geometry, function: Any, A: Any, B: Any, C: Any) -> None:
    """C (M, N) = A (M, K) B (K, N) on CuPy arrays of 2-byte elements, in the current stream.

    function: the loaded kernel, from launch.cuda_function(plan). Copies as `prepare` says.
    """
    ready = prepare(plan, A, B, C)
    for there, here in ready.before:
        there[...] = here
    function(plan.grid, plan.block, ready.arguments, shared_mem=plan.shared_bytes)
    for there, here in ready.after:
        there[...] = here


COPY_COLS, COPY_ROWS = 256, 8
"""Columns and rows that a block of `COPY` copies in one step."""
COPY = """
// Copies a matrix of 2-byte elements into one whose rows begin elsewhere, steps in elements. A warp copies
// COLS columns of a row: each thread's loads are all under way before the first store.
extern "C" __global__ void copy_rows(
    const unsigned short* from, unsigned short* to, int rows, int cols, int from_step, int to_step)
{
    const int col = blockIdx.x * COLS + threadIdx.x;
    for (int row = blockIdx.y * ROWS + threadIdx.y; row < rows; row += gridDim.y * ROWS) {
        const unsigned short* source = from + (size_t)row * from_step;
        unsigned short* target = to + (size_t)row * to_step;
        unsigned short held[COLS / 32];
        #pragma unroll
        for (int i = 0; i < COLS / 32; ++i)
            if (col + 32 * i < cols) held[i] = source[col + 32 * i];
        #pragma unroll
        for (int i = 0; i < COLS / 32; ++i)
            if (col + 32 * i < cols) target[col + 32 * i] = held[i];
    }
}
"""  # noqa: E501
"""Between a matrix and its aligned copy, for a launch that is bound."""


def copy_launch(
    to: Any, source: Any
) -> tuple[tuple[int, int, int], tuple[int, int, int], tuple[Any, ...]]:
    """Grid, block and arguments of `COPY` that fill the (rows, cols) array `to` from another."""
    rows, cols = to.shape
    grid = cdiv(cols, COPY_COLS), min(cdiv(rows, COPY_ROWS), MAX_GRID_YZ), 1
    steps = (np.int32(x.strides[0] // ITEM_BYTES) for x in (source, to))
    return grid, (32, COPY_ROWS, 1), (source, to, np.int32(rows), np.int32(cols), *steps)
