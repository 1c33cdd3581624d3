"""The device and its library handle."""

from __future__ import annotations

from typing import Any

from tests.pretended import machines


class Device:
    """The one GPU."""

    def __init__(self, device: int | None = None) -> None:
        self.id = 0
        self.pci_bus_id = "0000:00:04.0"

    @property
    def attributes(self) -> dict[str, Any]:
        p = machines.here().properties
        names = {
            "AsyncEngineCount": "asyncEngineCount",
            "MultiProcessorCount": "multiProcessorCount",
        }
        return {name: p[own] for name, own in names.items()}

    @property
    def compute_capability(self) -> str:
        p = machines.here().properties
        return f"{p['major']}{p['minor']}"

    @property
    def mem_info(self) -> tuple[int, int]:
        from cupy.cuda import runtime

        return runtime.memGetInfo()

    def synchronize(self) -> None:
        from cupy.cuda import runtime

        runtime.deviceSynchronize()

    def __enter__(self) -> Device:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def get_cublas_handle() -> int:
    from cupy.cuda import cublas

    return cublas.create()


def get_compute_capability() -> str:
    return Device().compute_capability
