"""The emulator's counts beside the hardware's, over launches whose counters are recorded."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from helpers.ladder import hopper, rungs
from helpers.ladder.hopper import BOX_BYTES
from helpers.ladder.kernel import geometry
from helpers.ladder.launch import trace, trace_of
from helpers.ladder.rungs import catalog, lay_out
from helpers.record.entries import Counted

SMALL = 3 << 19
"""Multiply-adds up to which a launch is run again in the emulator, to hold its counts against."""


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

    arch: compile for it, and count the shared loads of its machine code too, by the names in
    MACHINE; those are missing where they are not known (`LineAccess.sass_wavefronts`).
    """
    p = lay_out(entry.kernel, entry.m, entry.n, entry.k, **dict[str, Any](entry.params))
    t = trace_of(p, arch=arch, sass=bool(arch), analyse="counts")
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
    loads differ, and those wavefronts, "ours" and "theirs"; what `extra` allows is left out. With
    an architecture also "machine", as its machine code makes the loads. entries: what was compared.
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
        row["equal"] += all(ours[n] == theirs[n] for n in ours if n.startswith("global"))
        for what in ("requests", "sectors"):
            for prefix, counts in (("", ours), ("hardware_", theirs)):
                total = sum(counts[f"global_{op}_{what}"] for op in ("load", "store"))
                row[prefix + what] = row.get(prefix + what, 0) + total
        hardware = theirs["shared_load_wavefronts"]
        machine = ours.get("sass_load_wavefronts")
        agree += same_loads(entry.kernel, machine, hardware)
        if not same_loads(entry.kernel, ours["shared_load_wavefronts"], hardware):
            other = shared.setdefault(entry.kernel, {"kernel": entry.kernel, "launches": 0})
            wavefronts = {
                "ours": ours["shared_load_wavefronts"],
                "machine": machine,
                "theirs": hardware,
            }
            for name, value in {"launches": 1, **wavefronts}.items():
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
    thousand, or one, in a launch with asynchronous copies (seen on an H200: 0 to 5 of 12,288)."""
    return max(1, wavefronts // 1000) if "cp_async" in catalog[kernel].source else 0


def on_tensor_cores(kernel: str) -> bool:
    """Whether a kernel of the catalog multiplies on Tensor Cores."""
    return catalog[kernel].dtype not in ("float32", "int32")


ENGINES = 1 << 24
"""Multiply-adds up to which `of_engines` runs a counted launch again, unless it is told otherwise.
"""


def of_engines(entries: Iterable[Counted], most: int = ENGINES) -> list[dict[str, Any]]:
    """Bytes that TMA kernels move, by the emulator and by ncu: a dict for each counted launch of up
    to `most` multiply-adds.

    "landed": bytes that the copy engine writes to shared memory, zeros beyond an edge among them;
    "arrived": what ncu counts from L2 to the SMs (l1_fetched_bytes). "stored": 32 bytes for each
    sector of C; "left": what ncu counts from the SMs to L2 (l1_sent_bytes). "wavefronts" of shared
    loads, and ncu's, "hardware_wavefronts". "whole": whether C is made of whole tiles and rows
    start on 32 bytes. "right": whether the product was. Left out are launches that leave parts of a
    tile to other blocks (stream-K), those of other code than the catalog's, and those without these
    counters.
    """
    return [
        _engines_of(e)
        for e in entries
        if e.kernel in catalog
        and catalog[e.kernel].host == "tma"
        and e.m * e.n * e.k <= most
        and e.source == rungs.fingerprint(e.kernel)
        and "l1_sent_bytes" in e.values
        and not _cut(e)
    ]


def _cut(entry: Counted) -> bool:
    p = geometry(catalog[entry.kernel], entry.m, entry.n, entry.k, **dict[str, Any](entry.params))
    return "hand_over" in catalog[entry.kernel].source and hopper.division(p).ranges > 0


def _engines_of(entry: Counted) -> dict[str, Any]:
    t = trace(entry.kernel, entry.m, entry.n, entry.k, **dict[str, Any](entry.params))
    rows, cols = t.plan.tile
    by_line = t.by_line()
    engine = [
        r for r in by_line if r.space == "shared" and r.op == "store" and r.width_bytes == BOX_BYTES
    ]
    whole = entry.m % rows == 0 and entry.n % cols == 0 and entry.k % 64 == 0
    return {
        "kernel": entry.kernel,
        "launch": f"{entry.m}x{entry.n}x{entry.k}",
        "whole": whole,
        "landed": sum(r.bytes for r in engine),
        "arrived": int(entry.values["l1_fetched_bytes"]),
        "stored": 32 * t.sectors("store"),
        "left": int(entry.values["l1_sent_bytes"]),
        "wavefronts": sum(r.wavefronts for r in by_line if r.space == "shared" and r.op == "load"),
        "hardware_wavefronts": int(entry.values["shared_load_wavefronts"]),
        "right": t.ok,
    }
