"""A launch on arrays that stay: everything is looked up once, each call only starts the kernel.

    start = plan("vectorised", 512, 512, 512).bind(A, B, C)
    for _ in range(100):
        start()

`launch.run` checks, compiles, looks up and packs at every call; here that is done when the arrays
are bound.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from helpers.ladder import hopper, launch
from helpers.ladder.kernel import Geometry
from nogpu import toolchain
from nogpu.errors import ConfigError, NoGPUError

ALIGNED = 64
"""Each argument starts at a multiple of this, as a tensor map must (CUDA driver API, CUtensorMap).
"""


@dataclass(frozen=True)
class Packed:
    """Arguments of a kernel as cuLaunchKernel takes them; `address`: of an array of pointers.

    values: the bytes that the pointers point into. Both must live as long as the address is used.
    """

    values: Any
    pointers: Any

    @property
    def address(self) -> int:
        """Of the array of pointers, in this process."""
        return ctypes.addressof(self.pointers)


def packed(arguments: Sequence[Any]) -> Packed:
    """A launch's arguments in memory: CuPy arrays as addresses, all else as it is."""
    parts = [_bytes_of(x) for x in arguments]
    rooms = [-(-len(value) // ALIGNED) * ALIGNED for value in parts]
    values = (ctypes.c_char * (sum(rooms) + ALIGNED))()
    at = -(-ctypes.addressof(values) // ALIGNED) * ALIGNED
    pointers = (ctypes.c_void_p * len(parts))()
    for i, (value, room) in enumerate(zip(parts, rooms, strict=True)):
        ctypes.memmove(at, value, len(value))
        pointers[i] = at
        at += room
    return Packed(values, pointers)


def _bytes_of(x: Any) -> bytes:
    if isinstance(x, np.ndarray | np.generic):
        return x.tobytes()
    return np.uint64(x.data.ptr).tobytes()


@dataclass(frozen=True, eq=False)
class Bound:
    """A launch with its arrays: calling it writes A B into C once more.

    Called without a stream it runs in CuPy's current one, and is not waited for. What it works in
    (aligned copies, partial sums) is its own, so two bound launches may run side by side, each in a
    stream (but of hopper_6 one at a time: its blocks wait for each other, and need every SM that
    they were counted for); calls of one must follow each other, in one stream or by events. It
    keeps its arrays: wait for its last launch before you let go of it.
    """

    plan: Geometry
    A: Any
    B: Any
    C: Any
    _start: Callable[[Any], None] = field(repr=False)
    _on_gpu: bool = field(repr=False)

    def __call__(self, stream: Any = None) -> None:
        """Launch in a CuPy stream; None: the current one.

        In the emulator: run to the end; raises EmulationError after C is written if it finds a
        fault.
        """
        self._start(stream)

    def graph(self, launches: int = 1) -> Captured:
        """So many launches, one after the other, as one CUDA graph, which one call starts.

        Within a capture of your own (`stream.begin_capture()`), call the bound launch as
        everywhere. Raises ConfigError for fewer than one launch, NoGPUError where the arrays lie in
        NumPy.
        """
        if launches < 1:
            raise ConfigError(f"{launches=}: a graph needs at least one")
        if not self._on_gpu:
            raise NoGPUError(
                f"a graph of {self.plan.kernel.name} was asked for, but its arrays lie in NumPy, "
                "where the emulator runs: on a machine with an NVIDIA GPU bind CuPy arrays, or "
                "call the launch itself"
            )
        import cupy

        stream = cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            for _ in range(launches):
                self._start(stream)
            made = stream.end_capture()
        return Captured(self, launches, made)

    def __repr__(self) -> str:
        p = self.plan
        where = "on the GPU" if self._on_gpu else "in the emulator"
        return f"{p.kernel.name} bound to its arrays {where}, M={p.M}, N={p.N}, K={p.K}"


@dataclass(frozen=True, eq=False)
class Captured:
    """A CUDA graph (graph, CuPy's) of so many launches of a bound one, which it keeps."""

    bound: Bound
    launches: int
    graph: Any = field(repr=False)

    def launch(self, stream: Any = None) -> None:
        """Start it in a CuPy stream; None: the current one. It is not waited for."""
        self.graph.launch(stream)


def bind(p: Geometry, A: Any, B: Any, C: Any, *, cubin: bytes = b"") -> Bound:
    """A planned launch on three arrays: C (M, N) = A (M, K) B (K, N), written in place.

    CuPy arrays are bound on the GPU, NumPy arrays in the emulator: nothing goes over the link.
    cubin: as for `launch.cuda_function`. Raises ShapeError, DtypeError, ConfigError, NoGPUError and
    ToolchainError where `launch.run` would, and ConfigError for a kernel that this GPU is too old
    for.
    """
    if not launch.existing(p, A, B, C):
        return Bound(p, A, B, C, partial(_emulate, p, A, B, C), False)
    return Bound(p, A, B, C, on_gpu(p, A, B, C, cubin), True)


def _emulate(p: Geometry, A: Any, B: Any, C: Any, stream: Any) -> None:
    launch.run(p, A, B, C, backend="emulator")


def on_gpu(p: Geometry, A: Any, B: Any, C: Any, cubin: bytes = b"") -> Callable[[Any], None]:
    """What launches a plan on CuPy arrays in a stream (None: the current one).

    The arrays are not checked.
    """
    import cupy

    function = launch.cuda_function(p, cubin) if cubin else launch.cuda_function(p)
    if p.kernel.host == "tma":
        ready = hopper.prepare(p, A, B, C, shared_room=False)
        arguments, room, around = ready.arguments, ready.room, (ready.before, ready.after)
    else:
        room = launch.own_rooms(p)
        arguments, around = launch.passed(p, A, B, C, room), ((), ())
    steps = [_direct(function, p.grid, p.block, p.shared_bytes, arguments, (A, B, C))]
    if p.kernel.text is not None:  # a reader's own text may leave its counters other than zero
        counters = [x for x in room if x.dtype == np.int32]
        steps[:0] = [partial(_clear, x) for x in counters]
    steps = [*_copies(around[0]), *steps, *_copies(around[1])]
    if room or any(around):
        # Another stream may begin: counters are zero, and what had this memory before is done with
        # it.
        cupy.cuda.get_current_stream().synchronize()
    if len(steps) == 1:
        return steps[0]

    def start(stream: Any = None) -> None:
        for step in steps:
            step(stream)

    return start


def _copies(pairs: Sequence[tuple[Any, Any]]) -> list[Callable[[Any], None]]:
    """Launches that fill each first matrix of a pair from the second."""
    if not pairs:
        return []
    macros = {"COLS": str(hopper.COPY_COLS), "ROWS": str(hopper.COPY_ROWS)}
    arch = launch.facts().arch
    made = toolchain.compile(hopper.COPY, name="copy_rows.cu", arch=arch, defines=macros)
    function = launch.cuda_entry(made.cubin, "copy_rows")
    copies = []
    for to, source in pairs:
        grid, block, arguments = hopper.copy_launch(to, source)
        copies.append(_direct(function, grid, block, 0, arguments, (to, source)))
    return copies


def _clear(counters: Any, stream: Any) -> None:
    """Set counters to zero, in stream order."""
    from cupy.cuda import get_current_stream, runtime

    stream = stream or get_current_stream()
    runtime.memsetAsync(counters.data.ptr, 0, counters.nbytes, stream.ptr)


def _direct(
    function: Any,
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    shared_bytes: int,
    arguments: Sequence[Any],
    keep: tuple[Any, ...],
) -> Callable[[Any], None]:
    """A call that hands a kernel straight to the driver: only cuLaunchKernel's own arguments.

    keep: what must live as long as it may be called, beside the function and the arguments.
    """
    from cupy.cuda import driver, get_current_stream, runtime

    made = packed(arguments)
    kernel = function.kernel
    launch_kernel, address = driver.launchKernel, made.address
    fixed = (kernel.ptr, *grid, *block, shared_bytes)

    def start(stream: Any = None, _keep: Any = (made, function, kernel, arguments, keep)) -> None:
        pointer = (get_current_stream() if stream is None else stream).ptr
        try:
            launch_kernel(*fixed, pointer, address, 0)
        except driver.CUDADriverError as fault:
            if "INVALID_CONTEXT" not in str(fault):
                raise
            runtime.free(0)  # a thread that has not used the GPU before has no context yet
            launch_kernel(*fixed, pointer, address, 0)

    return start
