"""The driver's calls that the book makes, and its error."""

from __future__ import annotations

import ctypes

import numpy as np


class CUDADriverError(RuntimeError):
    """What the driver API raises."""


def launchKernel(
    f, grid_x, grid_y, grid_z, block_x, block_y, block_z,
    shared_mem, stream, params, extra,
):  # fmt: skip
    """cuLaunchKernel: arguments by an array of pointers, each as long as declared."""
    from cupy import cuda
    from cupy.cuda.kernels import functions

    function = functions[f]
    pointers = (ctypes.c_void_p * len(function.types)).from_address(params)
    args = [_value(kind, at) for kind, at in zip(function.types, pointers, strict=True)]
    grid, block = (grid_x, grid_y, grid_z), (block_x, block_y, block_z)
    queue = cuda._streams[stream]
    work = lambda: function(grid, block, args, shared_mem=shared_mem, stream=queue)  # noqa: E731
    if queue.captured is None:
        work()
    else:
        queue.captured.append(work)


def _value(kind, at):
    """The argument at an address: an array of the device, or a number."""
    import cupy

    if "*" in kind:
        return cupy._at(ctypes.c_uint64.from_address(at).value)
    types = {"int": (ctypes.c_int32, np.int32), "long long": (ctypes.c_int64, np.int64)}
    if kind not in types:
        raise CUDADriverError(f"CUDA_ERROR_INVALID_VALUE: the pretended driver passes no {kind}")
    c_type, dtype = types[kind]
    return dtype(c_type.from_address(at).value)
