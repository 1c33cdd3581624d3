"""From Python values to kernel parameters, checked against the signature in the source."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nogpu.bfloat16 import bfloat16_bits
from nogpu.emulator.launching.declarations import C_TYPES, Formal, Member
from nogpu.emulator.machine.memory import Buffer, Heap
from nogpu.emulator.machine.tensor_maps import MAP_BYTES, Placed, TensorMap, encoded, memory
from nogpu.emulator.ptx import syntax as P
from nogpu.errors import EmulationError

Array = np.ndarray[Any, np.dtype[Any]]


def bind(
    entry: P.Function, formals: list[Formal] | None, args: Sequence[Any], heap: Heap, name: str
) -> tuple[bytes, dict[int, Buffer], dict[str, Buffer]]:
    """Parameter bytes, the buffer behind each pointer by its byte offset, and by parameter name.

    Raises EmulationError if the arguments do not fit the signature.
    """
    params = entry.params
    known: Sequence[Formal | None] = formals or ()
    if len(known) != len(params):
        known = [None] * len(params)
    if len(args) != len(params):
        parameters = ", ".join(f.text for f in known if f) or f"{len(params)} parameters"
        raise EmulationError(
            f"{name} was called with {len(args)} arguments, but takes {len(params)}: {parameters}. "
            "Give one array or number for each"
        )
    raw = bytearray()
    arrays = _Arrays(heap, {}, {})
    names: dict[str, Buffer] = {}
    for i, (param, formal, value) in enumerate(zip(params, known, args, strict=True)):
        label = formal.name if formal else f"argument {i}"
        raw += bytes(-len(raw) % param.align)
        at = len(raw)
        piece = _Place(param, formal, label, name, at).bind(value, arrays)
        if at in arrays.pointers:
            names[label] = arrays.pointers[at]
        if len(piece) != param.size:
            raise EmulationError(
                f"{label} of {name} takes {param.size} bytes, the value given has {len(piece)}. "
                "Give a structure as a tuple of its members, in order"
            )
        raw += piece
    return bytes(raw), arrays.pointers, names


@dataclass(frozen=True)
class _Arrays:
    """What the arguments have put into memory: by byte offset of the pointer, and by address."""

    heap: Heap
    pointers: dict[int, Buffer]
    by_address: dict[int, Buffer]

    def add(self, value: Array, formal: Formal | None, label: str, name: str) -> Buffer:
        """The buffer of an array, which two arguments may share."""
        if not value.flags.c_contiguous:
            raise EmulationError(
                f"{label} of {name} is a view that is not contiguous (strides {value.strides}): a "
                "kernel sees memory without strides. Give np.ascontiguousarray(x) and copy results "
                "back"
            )
        if value.dtype.hasobject or value.dtype.kind in "USMm":
            content = "Python objects" if value.dtype.hasobject else f"{value.dtype}, no numbers"
            raise EmulationError(f"{label} of {name} holds {content}; give an array of numbers")
        if not value.dtype.isnative:
            raise EmulationError(
                f"{label} of {name} holds its bytes in the order of another machine "
                f"({value.dtype.str}). Give x.astype(x.dtype.newbyteorder('='))"
            )
        allowed = C_TYPES.get(formal.type) if formal and formal.pointers == 1 else None
        if allowed and value.dtype.name not in allowed:  # bfloat16 of ml_dtypes has its own
            assert formal is not None
            raise EmulationError(
                f"{label} of {name} is {formal.text!r}, which takes {allowed[0]}; an array of "
                f"{value.dtype} was given. {_converted(value.dtype, formal.type, allowed[0])}"
            )
        address = value.__array_interface__["data"][0]
        shared = self.by_address.get(address)
        if shared is not None and shared.nbytes == value.nbytes:
            return shared
        data = value.reshape(-1).view(np.uint8) if value.size else np.zeros(0, np.uint8)
        buffer = self.heap.add(label, data, value.dtype.itemsize, value.shape)
        buffer.read_only = not value.flags.writeable
        buffer.kind = value.dtype
        self.by_address[address] = buffer
        return buffer


@dataclass(frozen=True)
class _Place:
    """A parameter, and where its bytes go. label: its name, for errors; name: the kernel's."""

    param: P.Parameter
    formal: Formal | None
    label: str
    name: str
    at: int

    def __str__(self) -> str:
        """What the parameter is, as errors begin."""
        formal = self.formal
        kind = f"'{formal.text}'" if formal else f"of PTX type .{self.param.type}"
        return f"{self.label} of {self.name} is {kind}"

    @property
    def is_pointer(self) -> bool:
        """Whether an array fits, as far as the PTX tells."""
        return self.param.type in ("u64", "b64", "s64")

    def bind(self, value: Any, arrays: _Arrays) -> bytes:
        """Bytes of an argument."""
        param, formal = self.param, self.formal
        if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
            if isinstance(value, np.ma.MaskedArray):
                raise EmulationError(
                    f"{self.label} of {self.name} is a masked array; a kernel knows no mask. Give "
                    "x.filled(0)"
                )
            value = np.asarray(value)
        if isinstance(value, TensorMap):
            return self._tensor_map(value, arrays)
        if isinstance(value, tuple | list):
            if param.type != "bytes":
                remedy = "a NumPy array" if formal and formal.pointers else "a number"
                raise EmulationError(f"{self}; {_kind(value)} was given. Give {remedy}")
            return self._structure(value, arrays)
        if isinstance(value, np.ndarray) and value.ndim:
            if not self.is_pointer or (formal and not formal.pointers):
                raise EmulationError(
                    f"{self}, not a pointer; an array of shape {value.shape} was given. Give a "
                    "number"
                )
            buffer = arrays.add(value, formal, self.label, self.name)
            arrays.pointers[self.at] = buffer
            return buffer.base.to_bytes(8, "little")
        if formal is not None and formal.pointers:
            if value is None or (isinstance(value, int) and value == 0):
                return bytes(8)
            raise EmulationError(f"{self}; {_kind(value)} was given. Give a NumPy array")
        return self._scalar(value)

    def _tensor_map(self, value: TensorMap, arrays: _Arrays) -> bytes:
        """A tensor map by value, or in global memory where the kernel takes a pointer to it."""
        by_value = self.param.type == "bytes" and self.param.size == MAP_BYTES
        if not by_value and not (self.formal and self.formal.pointers and self.is_pointer):
            raise EmulationError(
                f"{self}; a TensorMap was given, which is a structure of {MAP_BYTES} bytes, or a "
                "pointer to one"
            )
        maps = arrays.heap.maps
        whole = memory(value.array)
        assert whole is not None  # TensorMap has checked it
        maps.append(Placed(value, arrays.add(whole, None, self.label, self.name)))
        raw = encoded(len(maps) - 1)
        if by_value:
            arrays.pointers[self.at] = maps[-1].buffer
            return raw
        data = np.frombuffer(raw, np.uint8).copy()
        buffer = arrays.heap.add(f"map of {self.label}", data, MAP_BYTES)
        buffer.read_only = True
        return buffer.base.to_bytes(8, "little")

    def _scalar(self, value: Any) -> bytes:
        param = self.param
        allowed = C_TYPES.get(self.formal.type, ()) if self.formal else ()
        if param.type == "bytes":
            if isinstance(value, np.generic | np.ndarray) and value.nbytes == param.size:
                return value.tobytes()
            if isinstance(value, int | float | np.number) and param.size == 2:
                if "float16" in allowed:
                    with np.errstate(over="ignore"):
                        return np.float16(value).tobytes()
                if "bfloat16" in allowed:
                    return bfloat16_bits(np.array(value, np.float64)).tobytes()
            raise EmulationError(
                f"{self}, a structure of {param.size} bytes; a {type(value).__name__} was given. "
                "Give a tuple of its members, in order, or NumPy's number of that size"
            )
        if not isinstance(value, int | float | np.number | np.bool_ | bool) and not (
            isinstance(value, np.ndarray) and value.ndim == 0
        ):
            raise EmulationError(f"{self}; {_kind(value)} was given. Give a number")
        value = value.item() if isinstance(value, np.generic | np.ndarray) else value
        if param.type in ("f32", "f64", "f16"):
            with np.errstate(over="ignore"):
                return np.array(value).astype(f"f{P.BITS[param.type] // 8}").tobytes()
        if isinstance(value, float | complex):
            raise EmulationError(f"{self}, an integer; {value!r} was given. Give an int")
        bits = P.BITS[param.type]
        low, high = -(1 << (bits - 1)), (1 << bits) - 1
        if allowed and allowed[0].startswith("int"):
            high = (1 << (bits - 1)) - 1
        elif allowed and allowed[0].startswith("uint"):
            low = 0
        if not low <= int(value) <= high:
            raise EmulationError(
                f"{self}, which holds {low} to {high}; {value} was given. Give a smaller number or "
                "a wider type"
            )
        return (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")

    def _structure(self, values: Sequence[Any], arrays: _Arrays) -> bytes:
        """A C structure from a tuple: ints are int, floats are float, arrays are pointers, or the
        elements of a member that is an array.
        """
        members = self.formal.members if self.formal else ()
        raw, widest = bytearray(), 1
        for i, value in enumerate(values):
            if isinstance(value, np.ndarray) and value.ndim:
                gaps = ((m.at - len(raw), m) for m in members if m.at is not None)
                gap, member = next((g for g in gaps if g[0] >= 0), (0, None))
                if member and member.shape and not member.pointer:
                    raw += bytes(gap) + self._elements(member, value)
                    widest = max(widest, member.align)
                    continue
                if member is None and len(members) == len(values):
                    member = members[i]
                raw += bytes(-len(raw) % 8)
                label = f"{self.label}.{member.name if member else i}"
                buffer = arrays.add(value, None, label, self.name)
                arrays.pointers[self.at + len(raw)] = buffer
                piece = buffer.base.to_bytes(8, "little")
            elif isinstance(value, np.generic):
                piece = value.tobytes()
            elif isinstance(value, bool):
                piece = bytes([value])
            elif isinstance(value, int):
                piece = np.int32(value).tobytes()
            elif isinstance(value, float):
                piece = np.float32(value).tobytes()
            else:
                raise EmulationError(
                    f"member {i} of {self.label} is a {type(value).__name__}; give numbers and "
                    "arrays"
                )
            raw += bytes(-len(raw) % len(piece))
            raw += piece
            widest = max(widest, len(piece))
        raw += bytes(-len(raw) % widest)
        return bytes(raw)

    def _elements(self, member: Member, value: Array) -> bytes:
        """Bytes of a member that is an array, from an array."""
        count, allowed = math.prod(member.shape), C_TYPES[member.type]
        if value.dtype.name not in allowed or value.shape not in (member.shape, (count,)):
            raise EmulationError(
                f"{self.label}.{member.name} of {self.name} is an array of shape {member.shape}, "
                f"of {allowed[0]}, in the structure itself; an array of shape {value.shape} of "
                f"{value.dtype} was given. Give one that fits, or its {count} numbers one by one "
                "among the members"
            )
        return value.tobytes()


def _converted(given: np.dtype[Any], kind: str, wanted: str) -> str:
    """How to make an array of a C type's elements. Complex numbers are two floats in memory, and
    vectors of whole numbers move bits of any kind.
    """
    bits = 8 * np.dtype(wanted).itemsize
    if given.kind == "c" and wanted in ("float32", "float64"):
        cast = "" if given.itemsize == bits // 4 else f".astype('complex{2 * bits}')"
        return f"Give its real and imaginary parts with x{cast}.view({wanted!r})"
    packed = given.kind not in "iu" or given.itemsize <= bits // 8
    if packed and kind[-1] in "234" and wanted.lstrip("u").startswith("int"):
        return f"Give the same bits with x.view({wanted!r})"
    return f"Convert it with x.astype({wanted!r})"


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "an array without dimensions, which is one number,"
    module, kind = type(value).__module__, type(value).__name__
    article, place = "an" if kind[0] in "aeiou" else "a", module.split(".")[0]
    origin = f" of {place}" if module != "builtins" else ""
    return "None" if value is None else f"{article} {kind}{origin}"
