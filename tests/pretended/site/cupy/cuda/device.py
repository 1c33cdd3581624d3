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
        return {"AsyncEngineCount": p["asyncEngineCount"]}

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
