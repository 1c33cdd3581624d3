"""Tensor maps: what the copy engine (TMA) knows of an array.

On a GPU a tensor map is 128 opaque bytes that the driver fills (cuTensorMapEncodeTiled). Here it is
a description: an array, the box that one copy moves, and how the box lies in shared memory. Its 128
bytes hold only its number, so it may be a parameter (`__grid_constant__`) or lie in global memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.ptx.layout import PARAM_BASE
from nogpu.errors import ConfigError, EmulationError

if TYPE_CHECKING:
    from nogpu.emulator.machine.memory import Buffer
    from nogpu.emulator.machine.state import Launch


MAP_BYTES = 128
ROW_BYTES = 16
"""Rows start at multiples of this; so long are the chunks that a swizzle moves."""
SWIZZLES = (0, 32, 64, 128)
MAX_BOX = 256
"""Elements of a box along each axis."""
_MAGIC = 0x656C697479427954


def memory(array: Array) -> Array | None:
    """The contiguous array in which an array of whole rows lies, itself or its base; None: none."""
    if array.flags.c_contiguous:
        return array
    base = array.base  # of a view of a view, too, the array that owns the memory
    whole_rows = array.strides[-1] == array.dtype.itemsize and min(array.strides) >= 0
    whole = isinstance(base, np.ndarray) and base.flags.c_contiguous and whole_rows
    return base if whole else None


@dataclass(frozen=True)
class TensorMap:
    """What the copy engine knows of an array: an argument of `launch` for a tensor map.

    Source: CUDA driver API, cuTensorMapEncodeTiled.

    Parameters
    ----------
    array: of one to five axes and elements of 1, 2, 4 or 8 bytes; contiguous, or a view of a
        contiguous array whose elements lie side by side along the last axis.
    box: elements that one copy moves, along each axis of the array, the fastest one last.
    swizzle: bytes of the pattern in which a box lies in shared memory, 0, 32, 64 or 128.
    shape: of the tensor, if it is only the corner of the array, whose rows are then longer, so that
        they start at multiples of 16 bytes; None: the whole.
    fill: what lies outside the tensor reads as, "zeros" or "nan" (floats only).

    Raises
    ------
    ConfigError: for what the driver refuses.
    """

    array: Array
    box: tuple[int, ...]
    swizzle: int = 0
    shape: tuple[int, ...] | None = None
    fill: str = "zeros"

    def __post_init__(self) -> None:
        """Check what the driver would check."""
        a = self.array
        if not isinstance(a, np.ndarray) or not 1 <= a.ndim <= 5 or memory(a) is None:
            what = (
                f"shape {a.shape}, strides {a.strides}"
                if isinstance(a, np.ndarray)
                else f"a {type(a).__name__}"
            )
            raise ConfigError(
                f"TensorMap of {what}: give a NumPy array of one to five axes, contiguous or a "
                "view of a contiguous one whose last axis is"
            )
        size = a.dtype.itemsize
        if a.dtype.hasobject or size not in (1, 2, 4, 8):
            raise ConfigError(f"TensorMap of {a.dtype}: elements have 1, 2, 4 or 8 bytes")
        for name, value in (("box", self.box), ("shape", self.sizes)):
            if len(value) != a.ndim or not all(isinstance(n, int | np.integer) for n in value):
                raise ConfigError(
                    f"TensorMap: {name}={value} for an array of shape {a.shape}: give a whole "
                    "number for each axis"
                )
        if not all(1 <= n <= have for n, have in zip(self.sizes, a.shape, strict=True)):
            raise ConfigError(
                f"TensorMap: shape={self.sizes} does not lie in an array of {a.shape}"
            )
        if not all(1 <= n <= MAX_BOX for n in self.box):
            raise ConfigError(f"TensorMap: box={self.box}: 1 to {MAX_BOX} elements along each axis")
        if self.swizzle not in SWIZZLES:
            raise ConfigError(
                f"TensorMap: swizzle={self.swizzle}: choose one of {', '.join(map(str, SWIZZLES))} "
                "bytes"
            )
        row = self.box[-1] * size
        if row % ROW_BYTES:
            raise ConfigError(
                f"TensorMap: a row of the box has {row} bytes; it takes a multiple of {ROW_BYTES}"
            )
        if self.swizzle and row > self.swizzle:
            raise ConfigError(
                f"TensorMap: a row of the box has {row} bytes; a swizzle of {self.swizzle} bytes "
                "takes at most as many. Copy several boxes"
            )
        if self.first % ROW_BYTES:
            raise ConfigError(
                f"TensorMap of a view that begins {self.first} bytes behind its array: the copy "
                f"engine takes multiples of {ROW_BYTES}"
            )
        for axis in range(a.ndim - 1):
            if a.strides[axis] % ROW_BYTES and a.shape[axis] > 1:
                raise ConfigError(
                    f"TensorMap of an array of shape {a.shape}, {a.dtype}: along axis {axis} it "
                    f"steps by {a.strides[axis]} bytes; the copy engine takes multiples of "
                    f"{ROW_BYTES}. Make the rows longer and say which part of them is meant: "
                    "shape=..."
                )
        if self.fill not in ("zeros", "nan") or (self.fill == "nan" and a.dtype.kind != "f"):
            raise ConfigError(
                f'TensorMap: {self.fill=} for {a.dtype}: give "zeros", or "nan" for floats'
            )

    @property
    def first(self) -> int:
        """Where the array begins in its memory, in bytes: a view may begin later."""
        start = memory(self.array)
        if start is None or self.array is start:
            return 0
        here, there = (a.__array_interface__["data"][0] for a in (self.array, start))
        return int(here - there)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Elements of the tensor along each axis."""
        return tuple(self.shape) if self.shape is not None else tuple(self.array.shape)


@dataclass(frozen=True)
class Placed:
    """A tensor map of a launch: the description, and where its array lies."""

    description: TensorMap
    buffer: Buffer

    @property
    def box_bytes(self) -> int:
        """Bytes of a box, as mbarriers count them."""
        return int(np.prod(self.description.box)) * self.itemsize

    @property
    def pitch(self) -> int:
        """Bytes from one row of a box to the next in shared memory."""
        return self.description.swizzle or self.description.box[-1] * self.itemsize

    @property
    def room(self) -> int:
        """Bytes of shared memory in which a box lies: more than it has where a row is narrower
        than the swizzle.
        """
        return int(np.prod(self.description.box[:-1])) * self.pitch

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return int(self.description.array.dtype.itemsize)

    @property
    def blank(self) -> int:
        """The bits of what lies outside the tensor."""
        if self.description.fill == "zeros":
            return 0
        kind = self.description.array.dtype
        return int(np.array(np.nan, kind).view(f"u{kind.itemsize}"))


def encoded(number: int) -> bytes:
    """The 128 bytes that stand for a tensor map of a launch."""
    words = np.zeros(MAP_BYTES // 8, np.uint64)
    words[0], words[1] = _MAGIC, number
    return words.tobytes()


def map_at(launch: Launch, address: int, line: int) -> Placed:
    """The tensor map whose bytes lie at a generic address.

    Raises EmulationError if there is none.
    """
    raw = b""
    if PARAM_BASE <= address < PARAM_BASE + len(launch.params):
        raw = launch.params[address - PARAM_BASE :][:16]
    elif (buffer := launch.heap.at(address)) is not None and address >= buffer.base:
        raw = buffer.data[address - buffer.base :][:16].tobytes()
    if len(raw) == 16:
        magic, number = (int(n) for n in np.frombuffer(raw, np.uint64))
        if magic == _MAGIC and number < len(launch.heap.maps):
            return launch.heap.maps[number]
    raise EmulationError(
        f"line {line}: a copy by TMA names a tensor map, and there is none at its address. Give "
        "emulator.TensorMap(array, box, swizzle=...) for the parameter, and pass the map by value "
        "as a const __grid_constant__ structure of 128 bytes, or by a pointer to it"
    )
