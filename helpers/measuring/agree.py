"""The emulator's counts beside the hardware's, over launches whose counters are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from helpers import rungs
from helpers.launch import trace
from helpers.measuring.sections.counting import Counted
from helpers.rungs import catalog

SMALL = 3 << 19
"""Multiply-adds up to which a counted launch is run again in the emulator, to hold its counts against."""


def comparable(entries: Iterable[Counted]) -> list[Counted]:
    """Entries of the section "counters" that the emulator can count too, in a second or two each.

    Those of other code than the catalog holds now, of TMA kernels and of large shapes are left out.
    """
    return [
        e
        for e in entries
        if e.m * e.n * e.k <= SMALL
        and e.kernel in catalog
        and catalog[e.kernel].host == "plain"
        and e.source == rungs.fingerprint(e.kernel)
    ]


MACHINE = ("sass_load_requests", "sass_load_wavefronts")
"""What `emulated` adds for an architecture: shared loads as its machine code makes them."""


def emulated(entry: Counted, arch: str = "") -> dict[str, int]:
    """What the emulator counts for the launch of an entry, by the names of the hardware's counters.

    arch: compile for it, and count the shared loads of its machine code too, by the names in MACHINE;
    those are missing where they are not known (`LineAccess.sass_wavefronts`).
    """
    t = trace(
        entry.kernel, entry.m, entry.n, entry.k,
        arch=arch, sass=bool(arch), **dict[str, Any](entry.params),
    )  # fmt: skip
    shared = [row for row in t.by_line() if row.space == "shared"]
    machine = t.report.sass_totals("load")
    return {
        "global_load_requests": t.requests("global"),
        "global_load_sectors": t.sectors(),
        "global_store_requests": t.requests("global", "store"),
        "global_store_sectors": t.sectors("store"),
        "shared_load_wavefronts": sum(row.wavefronts for row in shared if row.op == "load"),
        "shared_store_wavefronts": sum(row.wavefronts for row in shared if row.op == "store"),
        **(dict(zip(MACHINE, machine, strict=True)) if machine else {}),
    }


@dataclass(frozen=True)
class Comparison:
    """Counts of the emulator beside the hardware's, over the recorded launches of some kernels.

    rows: a kernel each, its launches summed up: "launches", "equal" (those that agree in every
    global request and sector), "requests" and "sectors" of loads and stores, by the emulator and
    ("hardware_...") by ncu. shared: a kernel each, its launches in which the wavefronts of shared
    loads differ, and those wavefronts, "ours" and "theirs"; what `extra` allows is left out. With an
    architecture also "machine", as its machine code makes the loads. entries: what was compared.
    agree: in how many of them the machine code's wavefronts of shared loads are ncu's; None without
    an architecture.
    """

    rows: tuple[dict[str, Any], ...]
    shared: tuple[dict[str, Any], ...]
    entries: tuple[Counted, ...]
    agree: int | None = None

    @property
    def launches(self) -> int:
        """How many launches were compared."""
        return len(self.entries)

    @property
    def equal(self) -> int:
        """How many of them agree in every global request and sector."""
        return sum(row["equal"] for row in self.rows)

    @property
    def differ(self) -> int:
        """In how many of them the wavefronts of shared loads differ."""
        return sum(row["launches"] for row in self.shared)


def same_global(ours: Mapping[str, float], theirs: Mapping[str, float]) -> bool:
    """Whether two sets of counts agree in every request and sector of global memory."""
    return all(ours[name] == theirs[name] for name in ours if name.startswith("global"))


def compare(entries: Iterable[Counted], *, tensor: bool = False, arch: str = "") -> Comparison:
    """Run the small recorded launches again in the emulator and hold its counts beside ncu's.

    tensor: kernels on Tensor Cores, or (default) the others, whose every access the source names.
    arch: that of the GPU on which ncu counted, for the accesses that its machine code makes.
    """
    chosen = [e for e in comparable(entries) if on_tensor_cores(e.kernel) == tensor]
    rows: dict[str, dict[str, Any]] = {}
    shared: dict[str, dict[str, Any]] = {}
    agree = 0
    for entry in chosen:
        ours, theirs = emulated(entry, arch), {n: int(v) for n, v in entry.values.items()}
        row = rows.setdefault(entry.kernel, {"kernel": entry.kernel, "launches": 0, "equal": 0})
        row["launches"] += 1
        row["equal"] += same_global(ours, theirs)
        for what in ("requests", "sectors"):
            for prefix, counts in (("", ours), ("hardware_", theirs)):
                total = sum(counts[f"global_{op}_{what}"] for op in ("load", "store"))
                row[prefix + what] = row.get(prefix + what, 0) + total
        hardware = theirs["shared_load_wavefronts"]
        machine = ours.get("sass_load_wavefronts")
        agree += same_loads(entry.kernel, machine, hardware)
        if not same_loads(entry.kernel, ours["shared_load_wavefronts"], hardware):
            other = shared.setdefault(entry.kernel, {"kernel": entry.kernel, "launches": 0})
            found = {"ours": ours["shared_load_wavefronts"], "machine": machine, "theirs": hardware}
            for name, value in {"launches": 1, **found}.items():
                if value is not None:
                    other[name] = other.get(name, 0) + value
    return Comparison(
        tuple(rows.values()), tuple(shared.values()), tuple(chosen), agree if arch else None
    )


def same_loads(kernel: str, ours: int | None, theirs: int) -> bool:
    """Whether wavefronts of shared loads are the hardware's, but for what `extra` allows."""
    return ours is not None and 0 <= theirs - ours <= extra(kernel, ours)


def extra(kernel: str, wavefronts: int) -> int:
    """Wavefronts of shared loads that ncu may count beyond those of the loads: none, but one in a
    thousand, or one, in a launch with asynchronous copies (seen on an H200: 0 to 5 of 12,288).
    """
    return max(1, wavefronts // 1000) if "cp_async" in catalog[kernel].source else 0


def on_tensor_cores(kernel: str) -> bool:
    """Whether a kernel of the catalog multiplies on Tensor Cores."""
    return catalog[kernel].dtype not in ("float32", "int32")
