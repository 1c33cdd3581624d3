"""What the host code's functions do, as far as launches need it: CUDA's runtime, C's and C++'s."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nogpu import device
from nogpu.command.values import (
    Array,
    Assigned,
    Cell,
    Filled,
    Map,
    Pointer,
    Record,
    Scope,
    Stop,
    Unknown,
    compute,
    plain,
    triple,
    truth,
)  # fmt: skip

if TYPE_CHECKING:
    from nogpu.command.host import Program

Does = Callable[["Program", Sequence[Any], Scope, str], Any]

CONSTANTS: Mapping[str, Any] = {
    "true": True, "false": False, "nullptr": None, "NULL": None, "cudaSuccess": 0,
    "CUDA_SUCCESS": 0, "CUBLAS_STATUS_SUCCESS": 0, "EXIT_SUCCESS": 0, "EXIT_FAILURE": 1,
    "RAND_MAX": 2147483647, "INT_MAX": 2147483647, "FLT_MAX": 3.4028235e38, "M_PI": math.pi,
    "INFINITY": math.inf, "warpSize": 32,
}  # fmt: skip
_ELEMENTS = {  # of cuTensorMapEncodeTiled, as C types
    "UINT8": "uint8_t", "UINT16": "uint16_t", "UINT32": "uint32_t", "INT32": "int",
    "UINT64": "uint64_t", "INT64": "int64_t", "FLOAT16": "half", "FLOAT32": "float",
    "FLOAT64": "double", "BFLOAT16": "__nv_bfloat16",
}  # fmt: skip
_IGNORED = """printf fprintf puts srand free cudaFree cudaDeviceSynchronize cudaGetLastError assert
    cudaPeekAtLastError cudaFreeHost cudaFuncSetAttribute cudaStreamSynchronize cudaDeviceReset
    cudaEventRecord cudaEventCreate cudaEventSynchronize cudaEventDestroy cudaSetDevice
    cudaStreamCreate cudaStreamDestroy sleep usleep cudaEventElapsedTime delete"""
_MATH: Mapping[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "fabs": abs, "ceil": lambda x: float(math.ceil(x)),
    "ceilf": lambda x: float(math.ceil(x)), "floor": lambda x: float(math.floor(x)),
    "sqrt": math.sqrt, "sqrtf": math.sqrt, "log2": math.log2, "log2f": math.log2,
    "log": math.log, "exp": math.exp, "pow": lambda a, b: float(a) ** b,
    "round": lambda x: float(math.floor(x + 0.5)),
}  # fmt: skip
FUNCTIONS: dict[str, Does] = {}
"""By name, without namespaces: what it does to a program with its arguments; what it returns."""


def _does(names: str) -> Callable[[Does], Does]:
    """Enters a function of the table under these names."""

    def enter(function: Does) -> Does:
        FUNCTIONS.update(dict.fromkeys(names.split(), function))
        return function

    return enter


def _sets(names: str) -> Callable[[Does], Does]:
    """Enters a function that changes what it is given, and succeeds."""
    return lambda function: _does(names)(lambda *given: function(*given) or 0)


_does(_IGNORED)(lambda program, values, scope, name: 0)
_does("raw_pointer_cast move")(lambda program, values, scope, name: values[0])
_does("atoi atol atof stoi stol strtol strtoul getenv rand time scanf clock")(
    lambda program, values, scope, name: Unknown(f"it comes from {name}()")
)


@_does(" ".join(_MATH))
def _math(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    for value in values:
        if not isinstance(value, int | float):
            return value if isinstance(value, Unknown) else Unknown(f"{name} of no number")
    try:
        return _MATH[name](*values)
    except (ValueError, OverflowError, TypeError):
        return Unknown(f"{name} has no value here")


@_does("exit abort _exit quick_exit")
def _end(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    raise Stop("")


@_does("malloc calloc aligned_alloc")
def _malloc(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    if name == "calloc":
        return Pointer(Array("array", compute("*", *values[:2]), "", False, 0))
    return Pointer(Array("array", values[-1], "", False))


@_sets("cudaMalloc cudaMallocManaged cudaMallocAsync cudaMallocHost cudaHostAlloc")
def _cuda_malloc(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    """Give a pointer variable an array."""
    cell, size = values[:2]
    if isinstance(cell, Cell):
        known = cell.kind not in ("", "void", "auto")
        base = program.base(cell.kind, scope) if known else ""
        size = int(size) if isinstance(size, float) else size
        pinned = "Host" in name
        array = Array(cell.name or "array", size, base, not pinned, pinned=pinned)
        cell.value = Pointer(array, 0, base)


@_sets("cudaHostRegister")
def _register(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    if isinstance(values[0], Pointer):
        values[0].array.pinned = True


@_sets("cudaMemset cudaMemsetAsync memset")
def _memset(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    target, value = values[:2]
    if isinstance(target, Pointer):
        whole = target.offset == 0 and (len(values) < 3 or values[2] == target.array.bytes)
        _fill(program, target.array, value & 255 if whole and isinstance(value, int) else "random")


@_sets("cudaMemcpy cudaMemcpyAsync memcpy")
def _memcpy(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    target, source = values[0], plain(values[1])
    if isinstance(target, Cell) and isinstance(target.value, Pointer):
        target.value = source  # a structure or a tensor map, put into the device's memory
    elif isinstance(target, Pointer) and isinstance(source, Map):
        target.array.kind, target.array.fill = "CUtensorMap", source
    elif isinstance(target, Pointer):
        known = isinstance(values[1], Pointer) and target.offset == 0 and source.offset == 0
        if known and source.array.device:
            program.events.append(Filled(target.array, source.array))
            target.array.fill = source.array.fill
        else:
            _fill(program, target.array, source.array.fill if known else "random")


@_sets("cudaMemcpyToSymbol cudaMemcpyToSymbolAsync")
def _to_symbol(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    symbol, source, size, offset = (*values, 0)[:4]
    cell = program.globals.get(symbol)
    kind = cell.kind + "*" * cell.stars if cell else "float"
    program.events.append(Assigned(symbol, kind, source, size, offset))


@_sets("cudaMemcpyFromSymbol cudaMemcpyFromSymbolAsync")
def _from_symbol(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    target = values[0]
    program.written([target])
    if isinstance(target, Cell) and not isinstance(target.value, Pointer):
        target.value = Unknown(f"it is what {values[1]} holds on the device")


@_sets("cudaMallocPitch")
def _malloc_pitch(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    """Rows begin at multiples of 512 bytes, as they do on cards so far."""
    cell, pitch, width, height = values
    pitch.value = compute("*", compute("/", compute("+", width, 511), 512), 512)
    _cuda_malloc(program, [cell, compute("*", pitch.value, height)], scope, name)


@_sets("cudaMemcpy2D cudaMemcpy2DAsync fill fill_n generate iota generate_n copy")
def _filled(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    """The host or a copy writes an array, with what is not followed."""
    program.written(values[:1] if "2D" in name else values)


_FACTS: Mapping[str, Callable[[device.Limits], int]] = {
    "warpSize": lambda limits: device.WARP,
    "maxThreadsPerBlock": lambda limits: limits.max_threads_per_block,
    "sharedMemPerBlock": lambda limits: limits.shared_per_block,
    "sharedMemPerBlockOptin": lambda limits: limits.shared_per_block_optin,
    "sharedMemPerMultiprocessor": lambda limits: limits.shared_per_sm,
    "maxThreadsPerMultiProcessor": lambda limits: limits.max_threads_per_sm,
    "regsPerBlock": lambda limits: limits.registers_per_sm,
    "multiProcessorCount": lambda limits: device.typical(limits.arch).sms,
    "major": lambda limits: int(limits.arch[3:-1]), "minor": lambda limits: int(limits.arch[-1]),
}  # fmt: skip
_ATTRIBUTES = {"MaxSharedMemoryPerBlock": "sharedMemPerBlock", "ComputeCapabilityMajor": "major",
               "MaxSharedMemoryPerBlockOptin": "sharedMemPerBlockOptin",
               "ComputeCapabilityMinor": "minor"}  # fmt: skip


@_sets("cudaGetDeviceProperties cudaGetDeviceProperties_v2")
def _properties(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    record, limits = plain(values[0]), device.limits(program.arch)
    if isinstance(record, Record):
        record.update({name: Cell(fact(limits)) for name, fact in _FACTS.items()})


@_sets("cudaDeviceGetAttribute")
def _attribute(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    words = str(values[1][-1]).removeprefix("cudaDevAttr") if isinstance(values[1], tuple) else ""
    words = _ATTRIBUTES.get(words, words[:1].lower() + words[1:])
    unknown = Unknown(f"it is the device's {words}")
    values[0].value = _FACTS[words](device.limits(program.arch)) if words in _FACTS else unknown


@_sets("cudaGetDevice cudaGetDeviceCount")
def _device(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    values[0].value = int(name.endswith("Count"))


@_sets("cudaOccupancyMaxPotentialBlockSize cudaOccupancyMaxActiveBlocksPerMultiprocessor")
def _occupancy(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    """The largest block that there is, and enough of them for one on each SM."""
    values[0].value = 1
    if "BlockSize" in name:
        values[0].value = device.typical(program.arch).sms
        values[1].value = device.limits(program.arch).max_threads_per_block


def _fill(program: Program, array: Array, fill: Any) -> None:
    array.fill = fill
    if array.device:
        program.events.append(Filled(array, fill))


@_sets("cuTensorMapEncodeTiled")
def _encode(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    """Source: CUDA driver API, tensor map management."""
    cell, _, rank, pointer, *given = values[:8]
    kind, swizzle, fill = (
        str(values[i][1]) if isinstance(values[i], tuple) else "" for i in (1, 9, 11)
    )
    lengths = rank, rank - 1, rank, rank
    shape, strides, box, steps = lists = [
        tuple(map(plain, part))[:n] if isinstance(part, list) else ()
        for part, n in zip(given, lengths, strict=True)
    ]
    numbers = all(isinstance(n, int) for part in lists for n in part)
    pointer, element = plain(pointer), _ELEMENTS.get(kind.rpartition("TYPE_")[2])
    known = numbers and tuple(map(len, lists)) == lengths and isinstance(pointer, Pointer)
    if not known or element is None:
        cell.value = Unknown("a tensor map is encoded of what is not known here")
    elif set(steps) != {1}:
        cell.value = Unknown("a tensor map with steps between its elements is not emulated")
    else:
        pattern, nan = re.search(r"_(\d+)B$", swizzle), "nan" if "NAN" in fill else "zeros"
        swizzled = int(pattern[1]) if pattern else 0
        cell.value = Map(pointer, element, shape, strides, box, swizzled, nan)


def _kernel(kernel: Any, known: bool, name: str) -> tuple[str, Any]:
    """Name and template arguments of a kernel that a function is given."""
    if not (known and isinstance(kernel, tuple) and kernel[:1] == ("kernel",)):
        raise Stop(f"a launch by {name} of what is not known here")
    return kernel[1:]  # type: ignore[return-value]


@_sets("cudaLaunchKernelEx cudaLaunchKernelExC")
def _launch_ex(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    config, kernel, *args = plain(values[0]), *values[1:]
    named = _kernel(kernel, isinstance(config, Record), name)
    grid, block = config["gridDim"].value, config["blockDim"].value
    shared = config["dynamicSmemBytes"].value if "dynamicSmemBytes" in config else 0
    cluster, cooperative = None, False
    program.stream = config["stream"].value if "stream" in config else 0
    attributes = plain(config["attrs"]) if "attrs" in config else []
    for each in map(plain, attributes if isinstance(attributes, list) else [attributes]):
        match each:
            case {"val": Cell(value={"clusterDim": Cell(value=dims)})}:
                axes = [dims[axis].value for axis in "xyz"] if isinstance(dims, Record) else dims
                cluster = triple(axes)
            case {"val": Cell(value={"cooperative": Cell(value=chosen)})}:
                cooperative = truth(chosen) is True
    program.launch(*named, grid, block, shared, cluster, args, scope, cooperative)


@_sets("cudaLaunchKernel cudaLaunchCooperativeKernel")
def _launch_kernel(program: Program, values: Sequence[Any], scope: Scope, name: str) -> Any:
    """Arguments by their addresses."""
    kernel, grid, block, pointers, shared, program.stream = (*values, 0, 0)[:6]
    named = _kernel(kernel, isinstance(pointers, list), name)
    args = [plain(plain(x)) for x in pointers]
    program.launch(*named, grid, block, shared, None, args, scope, "Cooperative" in name)


_VECTOR = re.compile(
    r"(?:std::|thrust::)?(vector|device_vector|host_vector|array|unique_ptr)<(.*)>"
)


def construct(program: Program, name: str, kind: str, values: Sequence[Any], scope: Scope) -> Any:
    """A value of a type that is made of values; None for what is not known."""
    words = kind.replace(" ", "")
    if words in ("dim3", "uint3", "int3", "uint2", "int2"):
        if len(values) == 1 and isinstance(values[0], list):
            return [Cell(c.value) for c in values[0]]
        return [Cell(v) for v in (*values, 1, 1, 1)[:3]]
    match = _VECTOR.fullmatch(words)
    if match is None:
        fresh_map = program.base(kind, scope) == "CUtensorMap" and not values
        return Map() if fresh_map else None
    element, _, length = match[2].partition(",")
    first, device = values[0] if values else None, match[1] == "device_vector"
    fill: Any = 0
    base = program.base(element, scope)
    if match[1] == "array":
        count = program.template_value(length, scope)
    elif len(values) == 1 and isinstance(first, Pointer):  # a copy of another vector
        array = first.array
        return Pointer(Array(name, array.bytes, array.kind, device, array.fill), 0, array.kind)
    elif isinstance(first, int | Unknown):
        count, fill = first, "random" if len(values) > 1 and values[1] != 0 else 0
    else:
        count, fill = len(values), "random"
    size = compute("*", count, program.size_of(element, scope))
    return Pointer(Array(name, size, base, device, fill), 0, base)


def _size(program: Program, owner: Pointer, values: Sequence[Any], scope: Scope) -> Any:
    return compute("/", owner.array.bytes, program.size_of(owner.kind, scope))


def _same(program: Program, owner: Pointer, values: Sequence[Any], scope: Scope) -> Any:
    return owner


def _begin(program: Program, owner: Pointer, values: Sequence[Any], scope: Scope) -> Any:
    program.written([owner])
    return owner


def _resize(program: Program, owner: Pointer, values: Sequence[Any], scope: Scope) -> Any:
    owner.array.bytes = compute("*", values[0], program.size_of(owner.kind, scope))


METHODS: Mapping[str, Callable[..., Any]] = {
    "size": _size, "data": _same, "get": _same, "begin": _begin, "end": _begin, "resize": _resize,
}  # fmt: skip
"""What a method does to an array."""
