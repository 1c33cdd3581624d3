"""Kernels: compiled as on a GPU, run in the emulator, or, as large products, by NumPy."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tests.pretended import clock, machines, products

EMULATED = 1 << 21
"""Multiply-adds of a product up to which the emulator runs it."""


@dataclass(frozen=True)
class Made:
    """What was given to the compiler."""

    source: str
    name: str
    arch: str
    defines: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    names: tuple[str, ...] = field(default=())


_by_cubin: dict[str, Made] = {}


def remember(cubin, made):
    """Keep what a cubin was compiled from."""
    _by_cubin[hashlib.sha256(cubin).hexdigest()] = made


def from_cubin(cubin):
    """What a cubin was compiled from. Raises as the driver does if it is for another GPU."""
    from cupy.cuda.driver import CUDADriverError

    made = _by_cubin.get(hashlib.sha256(cubin).hexdigest())
    if made is None or made.arch.rstrip("af") != _arch():
        raise CUDADriverError(
            "CUDA_ERROR_NO_BINARY_FOR_GPU: no kernel image is available for execution on the device"
        )
    return made


def _arch():
    p = machines.here().properties
    return f"sm_{p['major']}{p['minor']}"


class RawModule:
    """CuPy's: from source, or from a file of machine code."""

    def __init__(
        self, *, code=None, path=None, options=(),
        backend="nvrtc", name_expressions=None, **_,
    ):  # fmt: skip
        self._code, self._path = code, path
        self.options = tuple(options)
        self.name_expressions = tuple(name_expressions or ())

    def compile(self, log_stream=None):
        """Compile or read now, and not when the first function is asked for."""
        self._made()

    def _made(self):
        clock.wait_until(clock.now() + int(9e7 * clock.drawn("load", self._path or self._code)))
        if self._path is not None:
            return from_cubin(Path(self._path).read_bytes())
        from cupy.cuda.compiler import CompileException
        from nogpu import toolchain
        from nogpu.errors import CompileError

        assert self._code is not None
        macros = [o[2:].partition("=") for o in self.options if o.startswith("-D")]
        defines = {name: value or "1" for name, _, value in macros}
        others = tuple(o for o in self.options if not o.startswith(("-D", "-std", "--std")))
        made = Made(
            self._code, "raw.cu", _arch(), tuple(defines.items()), others, self.name_expressions
        )
        try:
            toolchain.compile(self._code, name=made.name, arch=made.arch, defines=defines,
                              options=others, name_expressions=self.name_expressions)  # fmt: skip
        except CompileError as error:
            raise CompileException(error.log, self._code, made.name, self.options) from None
        return made

    def get_function(self, name):
        from cupy.cuda.driver import CUDADriverError

        made = self._made()
        if name.partition("<")[0] not in made.source:
            raise CUDADriverError("CUDA_ERROR_NOT_FOUND: named symbol not found")
        return Function(made, name)


functions: dict[int, Function] = {}
"""What the driver was given to launch, by handle."""


class RawKernel:
    """CuPy's: one kernel from source, compiled at its first call."""

    def __init__(self, code, name, options=(), **_):
        self._module, self.name = RawModule(code=code, options=options), name

    def compile(self):
        self._module.compile()

    def __call__(self, grid, block, args, *, shared_mem=0):
        self._module.get_function(self.name)(grid, block, args, shared_mem=shared_mem)


class Function:
    """A kernel, ready to launch."""

    def __init__(self, made, name):
        self._made, self.name = made, name
        self.max_dynamic_shared_size_bytes = 48 << 10
        self.ptr = len(functions) + 1
        functions[self.ptr] = self

    @property
    def kernel(self):
        """Itself: what CuPy's RawKernel is made of."""
        return self

    @property
    def types(self):
        """The declared types of the parameters, in order."""
        found = re.search(rf"\b{self.name}\s*\(([^)]*)\)", self._made.source)
        assert found, self.name
        bare = (re.sub(r"\bconst\b|__restrict__", "", p).strip() for p in found[1].split(","))
        return [re.sub(r"\s*\w+$", "", p).strip() for p in bare]

    def __call__(self, grid, block, args, *, shared_mem=0, stream=None):
        import cupy
        from cupy import cuda

        if shared_mem > self.max_dynamic_shared_size_bytes:
            raise cuda.driver.CUDADriverError("CUDA_ERROR_INVALID_VALUE: invalid argument")
        stream = stream or cuda.get_current_stream()
        for x in args:
            if isinstance(x, np.ndarray) and x.ndim:
                raise TypeError(f"Unsupported type {type(x)}")
            if type(x) is int:
                raise TypeError(f"{x}: CuPy passes a Python integer as 64 bits")
        if self.name == "spin":
            stream._work(float(args[0]) / 1e9)
            return
        arrays = [x for x in args if isinstance(x, cupy.ndarray)]
        sizes = tuple(int(x) for x in args if isinstance(x, int | np.integer))
        product = len(arrays) == 3 and len(sizes) == 3 and len(args) == 6
        if product and sizes[0] * sizes[1] * sizes[2] > EMULATED:
            A, B, C = (x._host for x in arrays)
            # of a panel the driver knows no more than its address
            A, C = A[: sizes[0]], C[: sizes[0]]
            products.multiply(A, B, C, bfloat16=A.dtype == np.uint16)
        else:
            self._emulate(grid, block, [getattr(x, "_host", x) for x in args], shared_mem)
        if product:
            dtype = str(arrays[0].dtype)
            seconds = cuda._seconds(self.name + str(self._made.defines), *sizes, dtype)
        else:
            seconds = 1e-5 + 1e-3 * clock.drawn(self.name, str(grid))
        stream._work(seconds)

    def _emulate(self, grid, block, args, shared):
        """Run in the emulator. Elements of C that nobody writes stay what they were."""
        from nogpu import emulator

        made = self._made
        emulator.launch(
            made.source, self.name, grid, block, args, shared_bytes=shared,
            defines=dict(made.defines), arch=made.arch, name=made.name, analyse=False,
        )  # fmt: skip
