"""The CUDA runtime's calls that the book makes."""

from __future__ import annotations

import ctypes
from typing import Any

from tests.pretended import machines

memcpyHostToDevice, memcpyDeviceToHost = 1, 2


class CUDARuntimeError(RuntimeError):
    def __init__(self, status: int, name: str = "cudaErrorNoDevice", says: str = "") -> None:
        self.status = status
        super().__init__(f"{name}: {says}")


def _need_device() -> None:
    if not machines.here().gpu:
        raise CUDARuntimeError(100, says="no CUDA-capable device is detected")


def getDevice() -> int:
    _need_device()
    return 0


def getDeviceProperties(_: int) -> dict[str, Any]:
    _need_device()
    return dict(machines.here().properties)


def deviceGetAttribute(attribute: int, _: int) -> int:
    found = {13: "clockRate", 36: "memoryClockRate"}.get(attribute)
    return int(machines.here().properties[found]) if found else 0


def driverGetVersion() -> int:
    return 12080


def runtimeGetVersion() -> int:
    return 12080


def deviceSynchronize() -> None:
    from cupy import cuda

    for stream in list(cuda._streams.values()):
        stream.synchronize()


def memcpy(to: int, source: int, nbytes: int, kind: int) -> None:
    from cupy import cuda

    memcpyAsync(to, source, nbytes, kind, cuda.Stream.null.ptr)
    cuda.Stream.null.synchronize()


def memcpyAsync(to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
    from cupy import cuda

    ctypes.memmove(to, source, nbytes)
    cuda._streams[stream]._copy(nbytes, "h2d" if kind == memcpyHostToDevice else "d2h", True)
