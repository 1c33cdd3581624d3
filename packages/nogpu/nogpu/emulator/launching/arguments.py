"""From Python values to kernel parameters, checked against the signature in the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nogpu.bfloat16 import bfloat16_bits
from nogpu.emulator.launching.declarations import C_TYPES, Formal
from nogpu.emulator.machine.memory import Buffer, Heap
from nogpu.emulator.machine.tensor_maps import MAP_BYTES, Placed, TensorMap, encoded
from nogpu.emulator.ptx import syntax as P
from nogpu.errors import EmulationError

Array = np.ndarray[Any, np.dtype[Any]]


def dtype_name(array: Array) -> str:
    """Name of an array's element type (bfloat16 of ml_dtypes included)."""
    return str(array.dtype.name)


def bind(
    entry: P.Function,
    formals: list[Formal] | None,
    args: Sequence[Any],
    heap: Heap,
    name: str,
) -> tuple[bytes, dict[int, Buffer], dict[str, Buffer]]:
    """Parameter bytes, the buffer behind each pointer by its byte offset, and by parameter name.

    Raises EmulationError if the arguments do not fit the signature.
    """
    params = entry.params
    if formals is not None and len(formals) != len(params):
        formals = None
    if len(args) != len(params):
        parameters = ", ".join(f.text for f in formals) if formals else f"{len(params)} parameters"
        raise EmulationError(
            f"{name} was called with {len(args)} arguments, but takes {len(params)}: {parameters}. "
            "Give one array or number for each"
        )
    raw = bytearray()
    pointers: dict[int, Buffer] = {}
    known: dict[int, Buffer] = {}
    names: dict[str, Buffer] = {}
    for i, (param, value) in enumerate(zip(params, args, strict=True)):
        formal = formals[i] if formals else None
        label = formal.name if formal else f"argument {i}"
        raw += bytes(-len(raw) % param.align)
        at = len(raw)
        piece = _bind_one(param, formal, value, heap, label, name, at, pointers, known)
        if at in pointers:
            names[label] = pointers[at]
        if len(piece) != param.size:
            raise EmulationError(
                f"{label} of {name} takes {param.size} bytes, the value given has {len(piece)}. "
                "Give a structure as a tuple of its members, in order"
            )
        raw += piece
    return bytes(raw), pointers, names


def _bind_one(
    param: P.Parameter,
    formal: Formal | None,
    value: Any,
    heap: Heap,
    label: str,
    name: str,
    at: int,
    pointers: dict[int, Buffer],
    known: dict[int, Buffer],
) -> bytes:
    if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
        if isinstance(value, np.ma.MaskedArray):
            raise EmulationError(
                f"{label} of {name} is a masked array; a kernel knows no mask. Give x.filled(0)"
            )
        value = np.asarray(value)
    if isinstance(value, TensorMap):
        return _tensor_map(param, formal, value, heap, label, name, at, pointers, known)
    if isinstance(value, tuple | list):
        if param.type != "bytes":
            what = "a NumPy array" if formal and formal.pointers else "a number"
            raise EmulationError(
                f"{label} of {name} is {_type_text(param, formal)}; {_kind(value)} was given. "
                f"Give {what}"
            )
        members = formal.members if formal and len(formal.members) == len(value) else ()
        return _structure(value, members, heap, label, name, at, pointers, known)
    if isinstance(value, np.ndarray) and value.ndim:
        if param.type not in ("u64", "b64", "s64") or (formal and not formal.pointers):
            raise EmulationError(
                f"{label} of {name} is {_type_text(param, formal)}, not a pointer; an array of shape "
                f"{value.shape} was given. Give a number"
            )
        buffer = _buffer(value, formal, heap, label, name, known)
        pointers[at] = buffer
        return buffer.base.to_bytes(8, "little")
    if formal is not None and formal.pointers:
        if value is None or (isinstance(value, int) and value == 0):
            return bytes(8)
        raise EmulationError(
            f"{label} of {name} is {_type_text(param, formal)}; {_kind(value)} was given. "
            "Give a NumPy array"
        )
    return _scalar(param, formal, value, label, name)


def _tensor_map(
    param: P.Parameter,
    formal: Formal | None,
    value: TensorMap,
    heap: Heap,
    label: str,
    name: str,
    at: int,
    pointers: dict[int, Buffer],
    known: dict[int, Buffer],
) -> bytes:
    """A tensor map by value, or in global memory where the kernel takes a pointer to it."""
    by_value = param.type == "bytes" and param.size == MAP_BYTES
    if not by_value and not (formal and formal.pointers and param.type in ("u64", "b64", "s64")):
        raise EmulationError(
            f"{label} of {name} is {_type_text(param, formal)}; a TensorMap was given, which is a structure of "
            f"{MAP_BYTES} bytes, or a pointer to one"
        )
    heap.maps.append(Placed(value, _buffer(value.array, None, heap, label, name, known)))
    raw = encoded(len(heap.maps) - 1)
    if by_value:
        pointers[at] = heap.maps[-1].buffer
        return raw
    data = np.frombuffer(raw, np.uint8).copy()
    buffer = heap.add(f"map of {label}", data, MAP_BYTES)
    buffer.read_only = True
    return buffer.base.to_bytes(8, "little")


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return "an array without dimensions, which is one number,"
    if value is None:
        return "None"
    module, kind = type(value).__module__, type(value).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}" + (
        f" of {module.split('.')[0]}" if module != "builtins" else ""
    )


def _type_text(param: P.Parameter, formal: Formal | None) -> str:
    return f"'{formal.text}'" if formal else f"of PTX type .{param.type}"


def _buffer(
    value: Array,
    formal: Formal | None,
    heap: Heap,
    label: str,
    name: str,
    known: dict[int, Buffer],
) -> Buffer:
    if not value.flags.c_contiguous:
        raise EmulationError(
            f"{label} of {name} is a view that is not contiguous (strides {value.strides}): a "
            "kernel sees memory without strides. Give np.ascontiguousarray(x) and copy results back"
        )
    if value.dtype.hasobject or value.dtype.kind in "USMm":
        content = "Python objects" if value.dtype.hasobject else f"{value.dtype}, no numbers"
        raise EmulationError(f"{label} of {name} holds {content}; give an array of numbers")
    if not value.dtype.isnative:
        raise EmulationError(
            f"{label} of {name} holds its bytes in the order of another machine ({value.dtype.str}). "
            "Give x.astype(x.dtype.newbyteorder('='))"
        )
    allowed = C_TYPES.get(formal.type) if formal and formal.pointers == 1 else None
    if allowed and dtype_name(value) not in allowed:
        assert formal is not None
        raise EmulationError(
            f"{label} of {name} is {formal.text!r}, which takes {allowed[0]}; an array of "
            f"{value.dtype} was given. Convert it with x.astype({allowed[0]!r})"
        )
    address = value.__array_interface__["data"][0]
    shared = known.get(address)
    if shared is not None and shared.nbytes == value.nbytes:
        return shared
    data = value.reshape(-1).view(np.uint8) if value.size else np.zeros(0, np.uint8)
    buffer = heap.add(label, data, value.dtype.itemsize, value.shape)
    buffer.read_only = not value.flags.writeable
    buffer.kind = value.dtype
    known[address] = buffer
    return buffer


def _scalar(param: P.Parameter, formal: Formal | None, value: Any, label: str, name: str) -> bytes:
    if param.type == "bytes":
        if isinstance(value, np.generic | np.ndarray) and value.nbytes == param.size:
            return value.tobytes()
        allowed = C_TYPES.get(formal.type, ()) if formal else ()
        if isinstance(value, int | float | np.number) and param.size == 2 and allowed:
            if "float16" in allowed:
                return np.float16(value).tobytes()
            if "bfloat16" in allowed:
                return bfloat16_bits(np.array(value, np.float64)).tobytes()
        raise EmulationError(
            f"{label} of {name} is {_type_text(param, formal)}, a structure of {param.size} bytes; a "
            f"{type(value).__name__} was given. Give a tuple of its members, in order"
        )
    if not isinstance(value, int | float | np.number | np.bool_ | bool) and not (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        raise EmulationError(
            f"{label} of {name} is {_type_text(param, formal)}; {_kind(value)} was given. "
            "Give a number"
        )
    value = value.item() if isinstance(value, np.generic | np.ndarray) else value
    if param.type in ("f32", "f64", "f16"):
        with np.errstate(over="ignore"):
            return np.array(value).astype(f"f{P.BITS[param.type] // 8}").tobytes()
    if isinstance(value, float | complex):
        raise EmulationError(
            f"{label} of {name} is {_type_text(param, formal)}, an integer; {value!r} was given. "
            "Give an int"
        )
    bits = P.BITS[param.type]
    low, high = -(1 << (bits - 1)), (1 << bits) - 1
    if formal and formal.type in C_TYPES:
        kind_name = C_TYPES[formal.type][0]
        if kind_name.startswith("int"):
            high = (1 << (bits - 1)) - 1
        elif kind_name.startswith("uint"):
            low = 0
    if not low <= int(value) <= high:
        raise EmulationError(
            f"{label} of {name} is {_type_text(param, formal)}, which holds {low} to {high}; "
            f"{value} was given. Give a smaller number or a wider type"
        )
    return (int(value) & ((1 << bits) - 1)).to_bytes(bits // 8, "little")


def _structure(
    members: Sequence[Any],
    names: tuple[str, ...],
    heap: Heap,
    label: str,
    name: str,
    at: int,
    pointers: dict[int, Buffer],
    known: dict[int, Buffer],
) -> bytes:
    """A C structure from a tuple: ints are int, floats are float, arrays are pointers."""
    raw = bytearray()
    widest = 1
    for i, member in enumerate(members):
        if isinstance(member, np.ndarray) and member.ndim:
            raw += bytes(-len(raw) % 8)
            own = f"{label}.{names[i] if names else i}"
            buffer = _buffer(member, None, heap, own, name, known)
            pointers[at + len(raw)] = buffer
            piece = buffer.base.to_bytes(8, "little")
        elif isinstance(member, np.generic):
            piece = member.tobytes()
        elif isinstance(member, bool):
            piece = bytes([member])
        elif isinstance(member, int):
            piece = np.int32(member).tobytes()
        elif isinstance(member, float):
            piece = np.float32(member).tobytes()
        else:
            raise EmulationError(
                f"member {i} of {label} is a {type(member).__name__}; give numbers and arrays"
            )
        raw += bytes(-len(raw) % len(piece))
        raw += piece
        widest = max(widest, len(piece))
    raw += bytes(-len(raw) % widest)
    return bytes(raw)
