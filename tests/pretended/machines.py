"""What the pretended machines have and lack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Machine:
    """A machine by what its driver would report, and what is not installed there.

    properties: of cudaDeviceProp. lacks: any of "nvidia-smi", "compiler".
    """

    name: str
    properties: Mapping[str, Any] = field(default_factory=dict)
    lacks: frozenset[str] = frozenset()

    @property
    def gpu(self):
        """Whether it has a GPU."""
        return bool(self.properties)

    @property
    def title(self):
        """The GPU's name as the driver says it."""
        return str(self.properties.get("name", b"").decode())


def _properties(name, arch, sms, mhz, gib, threads, shared_kb):
    return {
        "name": name,
        "major": arch[0],
        "minor": arch[1],
        "multiProcessorCount": sms,
        "clockRate": mhz * 1000,
        "memoryClockRate": 5_001_000,
        "memoryBusWidth": 256,
        "totalGlobalMem": gib << 30,
        "l2CacheSize": 4 << 20,
        "sharedMemPerBlock": 48 << 10,
        "sharedMemPerBlockOptin": shared_kb << 10,
        "sharedMemPerMultiprocessor": (shared_kb + (arch != (7, 5))) << 10,
        "regsPerBlock": 65536,
        "maxThreadsPerMultiProcessor": threads,
        "maxThreadsPerBlock": 1024,
        "maxThreadsDim": (1024, 1024, 64),
        "maxGridSize": (2147483647, 65535, 65535),
        "warpSize": 32,
        "asyncEngineCount": 3,
    }


T4 = _properties(b"Tesla T4", (7, 5), 40, 1590, 15, 1024, 64)
RTX_3070 = _properties(b"NVIDIA GeForce RTX 3070", (8, 6), 46, 1725, 8, 1536, 99)

MACHINES: Mapping[str, Machine] = {
    m.name: m
    for m in (
        Machine("t4", T4),
        Machine("sm86", RTX_3070, frozenset({"nvidia-smi"})),
        Machine("no_compiler", {}, frozenset({"compiler"})),
    )
}

_here: list[Machine] = []


def be(machine):
    """Make this process the machine's."""
    _here[:] = [machine]


def here():
    """The machine of this process. Raises IndexError in a process that pretends nothing."""
    return _here[0]
