"""Memory and arithmetic of a launch of one thread, whose registers are Python's numbers.

What code by `ptx.scalars` calls: a port for each memory instruction, which reaches the array that
the instruction last meant by itself, and everything else through `access.perform`; numbers into
arrays and out of them; and the few operations of which Python's results are others.
"""

from __future__ import annotations

from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from nogpu.emulator.machine import access, arith
from nogpu.emulator.machine.lanes import Array
from nogpu.emulator.machine.memory import Buffer

if TYPE_CHECKING:
    from nogpu.emulator.machine.state import State
    from nogpu.emulator.ptx.sites import Site

i8, u4, f4, f8 = (np.dtype(t) for t in ("i8", "u4", "f4", "f8"))
_ONE = (1, 1, 1, 1)


# -- numbers and arrays --------------------------------------------------------------------------


class SignallingNaN(float):
    """A float32 NaN whose bits a conversion to float64 would change. bits: of the float32."""

    bits: int

    def __neg__(self) -> float:
        return _nan_of(np.array(self.bits ^ 0x80000000, u4).view(f4))

    def __abs__(self) -> float:
        return _nan_of(np.array(self.bits & 0x7FFFFFFF, u4).view(f4))


def _nan_of(array: Array) -> float:
    """The NaN in an array of one float32."""
    bits = int(array.view(u4).item())
    if bits & 0x00400000:
        return float(array.item())
    value = SignallingNaN(array.item())  # a sum of it has its bits, made quiet
    value.bits = bits
    return value


def box_f4(value: float) -> Array:
    """A float32 as an array, a NaN with its bits."""
    if type(value) is SignallingNaN:
        return np.full(_ONE, value.bits, u4).view(f4)
    return np.full(_ONE, value, f4)


def _box(value: Any, kind: np.dtype[Any]) -> Array:
    return box_f4(value) if kind == f4 else np.full(_ONE, value, kind)


def unbox_f4(array: Array) -> float:
    """The float32 in an array of one element, a NaN with its bits."""
    value: float = array.item()
    return value if value == value else _nan_of(array)


# -- operations ----------------------------------------------------------------------------------


def fused(a: float, b: float, c: float) -> float:
    """a * b + c of float32, rounded once."""
    return unbox_f4(arith.fma32(box_f4(a), box_f4(b), box_f4(c)))


def divided(a: float, b: float) -> float:
    """Quotient as float64, by zero too."""
    return a / b if b else float(np.divide(np.float64(a), np.float64(b)))


def quotient(a: int, b: int) -> int:
    """Integer quotient, truncated toward zero; by zero all bits are one."""
    if not b:
        return -1
    return a // b if (a < 0) == (b < 0) else -(-a // b)


def remainder(a: int, b: int) -> int:
    """Integer remainder with the sign of the dividend; by zero it is the dividend."""
    return a - b * quotient(a, b) if b else a


# -- memory --------------------------------------------------------------------------------------


class Port:
    """The way of one memory instruction to memory, for one thread.

    It keeps the array that the instruction last reached where all that its accesses ask of the
    observers is to be counted (`Observer.counts_only`), and tells them how many there were when the
    batch ends (`settle`). Any other access, and each that might be at fault, is `access.perform`'s.
    """

    __slots__ = (
        "_data", "_first", "_last", "_low", "_shift", "_site", "_state", "_target", "times",
    )  # fmt: skip

    def __init__(self, state: State, site: Site) -> None:
        self._state, self._site = state, site
        self._target: Buffer | None = None  # whom the accesses are counted for
        self.times = 0  # accesses that the observers do not know of yet
        self._first, self._last = 0, -1  # address of the first byte; place of the last element
        self._low, self._shift = site.width - 1, site.kind.itemsize.bit_length() - 1
        self._data: Any = ()

    def load_number(self, address: int) -> Any:
        """An integer or a float64."""
        at = address - self._first
        if 0 <= at <= self._last and not at & self._low:
            self.times += 1
            return self._data[at >> self._shift]
        return self._slow(address)[0]

    def load_float(self, address: int) -> float:
        """A float32."""
        at = address - self._first
        if 0 <= at <= self._last and not at & self._low:
            self.times += 1
            value: float = self._data[at >> self._shift]
            return value if value == value else _nan_of(self._array(at))
        value = self._slow(address)[0]
        return value

    def load_all(self, address: int) -> list[Any]:
        """The elements of a vector access."""
        at = address - self._first
        if 0 <= at <= self._last and not at & self._low:
            self.times += 1
            first = at >> self._shift
            values: list[Any] = self._data[first : first + self._site.count].tolist()
            if self._site.kind == f4:
                size = f4.itemsize
                for i, value in enumerate(values):
                    if value != value:
                        values[i] = _nan_of(self._array(at + i * size))
            return values
        return self._slow(address)

    def store(self, address: int, value: Any) -> None:
        """One element."""
        at = address - self._first
        if 0 <= at <= self._last and not at & self._low and type(value) is not SignallingNaN:
            self.times += 1
            self._data[at >> self._shift] = value
            return
        self._slow(address, (value,))

    def store_all(self, address: int, values: tuple[Any, ...]) -> None:
        """The elements of a vector access."""
        at = address - self._first
        if 0 <= at <= self._last and not at & self._low and SignallingNaN not in map(type, values):
            self.times += 1
            first = at >> self._shift
            for i, value in enumerate(values):
                self._data[first + i] = value
            return
        self._slow(address, values)

    def settle(self) -> None:
        """Tell the observers of the accesses that they do not know of."""
        if self.times and self._target is not None:
            for o in self._state.observers:
                o.repeated(self._site, self._target, self.times)
        self.times = 0

    def _array(self, at: int) -> Array:
        """The element at a byte of the array, as it is there."""
        return np.asarray(self._data)[at >> self._shift].reshape(_ONE)

    def _slow(self, address: int, values: tuple[Any, ...] | None = None) -> list[Any]:
        """The access as any thread makes it; what it loads."""
        state, site = self._state, self._site
        kind = site.kind
        data = None if values is None else tuple(_box(v, kind) for v in values)
        got = access.perform(state, site, _box(address, i8), None, data)
        self._keep()
        if values is not None:
            return []
        return [
            unbox_f4(a) if kind == f4 else a.item() for a in (got if site.count > 1 else (got,))
        ]

    def _keep(self) -> None:
        """Keep what the access reached, if the next one there may go by itself."""
        state, site = self._state, self._site
        if site.space == "local":
            if state.launch.program.follows_local:
                return
            words = state.local_memory()
            self._first, self._last = -site.offset, words.nbytes - site.width
            self._data = words.flat.view(site.kind).data
            return
        buffer = state.launch.nearest.get(site.index)
        if buffer is None or buffer is self._target:
            return
        self.settle()
        self._last, self._target = -1, None
        counted = site.space != "const"
        if buffer.owned is not None or (site.op == "store" and buffer.read_only):
            return
        if counted and not all(o.counts_only(site, buffer) for o in state.observers):
            return
        self._first, self._last = buffer.base - site.offset, buffer.nbytes - site.width
        self._data = buffer.view(site.kind).data
        self._target = buffer if counted else None


def ports_of(state: State) -> list[Port]:
    """A port for each memory instruction of the program."""
    return [Port(state, site) for site in state.sites]


def scratch() -> tuple[memoryview, memoryview, memoryview]:
    """Where numbers are rounded: a float32, a float64, and the halves of the latter's bits, the
    lower one first.
    """
    double = np.zeros(1, f8)
    return np.zeros(1, f4).data, double.data, double.view(u4).data


_KINDS = ("b1", "i2", "i4", "i8", "f8")
FUNCTIONS: dict[str, Any] = {
    **{f.__name__: f for f in (box_f4, unbox_f4, fused, divided, quotient, remainder)},
    **{f"box_{kind}": partial(np.full, _ONE, dtype=np.dtype(kind)) for kind in _KINDS},
    **{f"unbox_{kind}": methodcaller("item") for kind in _KINDS},
}
"""What generated code finds by name: `box_` makes arrays of numbers, `unbox_` numbers of arrays."""
