"""The CUDA runtime's calls that the book makes."""

from __future__ import annotations

import ctypes

from tests.pretended import machines

memcpyHostToDevice, memcpyDeviceToHost = 1, 2


class CUDARuntimeError(RuntimeError):
    def __init__(self, status, name="cudaErrorNoDevice", says=""):
        self.status = status
        super().__init__(f"{name}: {says}")


def _need_device():
    if not machines.here().gpu:
        raise CUDARuntimeError(100, says="no CUDA-capable device is detected")


def getDevice():
    _need_device()
    return 0


def getDeviceProperties(_):
    _need_device()
    return dict(machines.here().properties)


def deviceGetAttribute(attribute, _):
    found = {13: "clockRate", 36: "memoryClockRate"}.get(attribute)
    return int(machines.here().properties[found]) if found else 0


def driverGetVersion():
    return 12080


def runtimeGetVersion():
    return 12080


def deviceSynchronize():
    from cupy import cuda

    for stream in list(cuda._streams.values()):
        stream.synchronize()


def memcpy(to, source, nbytes, kind):
    from cupy import cuda

    memcpyAsync(to, source, nbytes, kind, cuda.Stream.null.ptr)
    cuda.Stream.null.synchronize()


def memcpyAsync(to, source, nbytes, kind, stream):
    from cupy import cuda

    ctypes.memmove(to, source, nbytes)
    cuda._streams[stream]._copy(nbytes, "h2d" if kind == memcpyHostToDevice else "d2h", True)
