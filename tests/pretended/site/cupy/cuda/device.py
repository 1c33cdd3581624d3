"""The device and its library handle."""

from __future__ import annotations

from tests.pretended import machines


class Device:
    """The one GPU."""

    def __init__(self, device=None):
        self.id = 0
        self.pci_bus_id = "0000:00:04.0"

    @property
    def attributes(self):
        p = machines.here().properties
        return {"AsyncEngineCount": p["asyncEngineCount"]}

    def synchronize(self):
        from cupy.cuda import runtime

        runtime.deviceSynchronize()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


def get_cublas_handle():
    from cupy.cuda import cublas

    return cublas.create()
