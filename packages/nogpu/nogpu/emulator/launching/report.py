"""What a launch did: findings, memory accesses by source line, instruction counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nogpu.emulator.observe.slots import EngineStep
from nogpu.errors import EmulationError

Array = np.ndarray[Any, np.dtype[Any]]

_ASK = "Give samples=True to `launch` or `trace`"


@dataclass(frozen=True)
class Finding:
    """One fault, on one source line. Equal faults are counted, the first one is described."""

    kind: str
    line: int
    text: str  # the source line
    message: str
    count: int
    file: str = "kernel.cu"
    array: str = ""
    index: str = ""  # the address as array[index]
    block: tuple[int, int, int] | None = None
    threads: tuple[tuple[int, int, int], ...] = ()  # threadIdx of those involved
    other_line: int = 0
    other_text: str = ""
    # Lines of the calls that led to `line` where functions were inlined, innermost first.
    called_from: tuple[int, ...] = ()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: {self.kind}"
        times = f" ({self.count} times)" if self.count > 1 else ""
        shown = f"\n    {self.line:4d} | {self.text.strip()}" if self.text.strip() else ""
        if self.other_line and self.other_line != self.line:
            shown += f"\n    {self.other_line:4d} | {self.other_text.strip()}"
        return f"{where}{times}: {self.message}{shown}"


@dataclass(frozen=True)
class LineAccess:
    """Memory requests of one source line (by array, load or store, and width), summed over warps.

    requests: warp instructions with at least one active lane. sectors: 32-byte sectors, global
    memory only. wavefronts: passes over the banks, shared memory only. bytes: asked for by active
    lanes. ideal_*: what the same lanes would need if their distinct elements lay side by side; None
    if the launch was not asked for samples.

    Of what an engine does (TMA, wgmma) a request is one copy, or one product of a warpgroup;
    width_bytes are those of a box or a tile, and wavefronts are not counted.

    All of these are of the PTX. sass_*: the same of the machine code, where ptxas made one access
    of neighbouring ones of the PTX; it counts in the row where it begins. None: nobody asked (see
    `launch`), it is not shared memory, or it is not known.
    """

    line: int
    text: str
    space: str
    op: str
    width_bytes: int
    array: str
    requests: int
    sectors: int
    wavefronts: int
    bytes: int
    ideal_sectors: int | None = None
    ideal_wavefronts: int | None = None
    sass_requests: int | None = None
    sass_wavefronts: int | None = None

    @property
    def sectors_per_request(self) -> float:
        """32-byte sectors per request; 0 for shared memory."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def wavefronts_per_request(self) -> float:
        """Wavefronts per request; 0 for global memory."""
        return self.wavefronts / self.requests if self.requests else 0.0

    @property
    def ideal_sectors_per_request(self) -> float:
        """Sectors per request if the distinct elements of each request lay side by side."""
        return self._ideal(self.ideal_sectors)

    @property
    def ideal_wavefronts_per_request(self) -> float:
        """Wavefronts per request without bank conflicts."""
        return self._ideal(self.ideal_wavefronts)

    def _ideal(self, count: int | None) -> float:
        if count is None:
            raise EmulationError(f"line {self.line}: the ideal was not counted. {_ASK}")
        return count / self.requests if self.requests else 0.0


def sass_totals(accesses: Iterable[LineAccess], op: str) -> tuple[int, int] | None:
    """The sums of sass_requests and sass_wavefronts over shared loads or stores; None if any is."""
    rows = [a for a in accesses if a.space == "shared" and a.op == op]
    requests = [a.sass_requests for a in rows if a.sass_requests is not None]
    waves = [a.sass_wavefronts for a in rows if a.sass_wavefronts is not None]
    return (sum(requests), sum(waves)) if len(waves) == len(rows) else None


@dataclass(frozen=True)
class Report:
    """The result of `launch`. Empty `findings` mean that no fault was seen in this launch.

    sass: the architecture whose machine code the sass_* counts of `accesses` are of; "" if none.
    """

    kernel: str
    file: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    findings: tuple[Finding, ...]
    accesses: tuple[LineAccess, ...]
    instructions: Mapping[str, int]
    blocks_run: int
    blocks_total: int
    schedule: str
    output: str = ""  # what the kernel printed
    notes: tuple[str, ...] = ()
    steps: int = 0
    samples: Mapping[tuple[int, str, str], tuple[tuple[str, int, Array], ...]] | None = field(
        default=None, repr=False
    )  # None if the launch was not asked for them
    slot_steps: tuple[EngineStep, ...] | None = field(default=None, repr=False)  # the same
    sass: str = ""
    compiler: str = ""  # whose PTX ran, such as "NVRTC 13.0"

    @property
    def ok(self) -> bool:
        """No finding."""
        return not self.findings

    def by_line(self) -> tuple[LineAccess, ...]:
        """Accesses in the order of the source."""
        return self.accesses

    def sass_totals(self, op: str) -> tuple[int, int] | None:
        """Requests and wavefronts of all shared loads (or stores) as the machine code makes them.

        None where nobody asked, or where those of some line are not known.
        """
        return sass_totals(self.accesses, op) if self.sass else None

    def frame(self) -> Any:
        """by_line() as a pandas DataFrame."""
        import pandas as pd

        columns: tuple[str, ...] = (
            "line", "text", "space", "op", "width_bytes", "array", "requests", "sectors",
            "wavefronts", "bytes", "sectors_per_request", "wavefronts_per_request",
        )  # fmt: skip
        if self.sass:
            columns = (*columns, "sass_requests", "sass_wavefronts")
        if self.samples is not None:
            columns += ("ideal_sectors_per_request", "ideal_wavefronts_per_request")
        rows = [{c: getattr(a, c) for c in columns} for a in self.accesses]
        return pd.DataFrame(rows, columns=list(columns))

    def lanes(
        self, line: int, space: str = "global", op: str = "load", request: int = 0
    ) -> tuple[str, Array]:
        """Which array and which elements the 32 lanes of one request touched.

        Parameters
        ----------
        line, space, op
            Of the source; "global" or "shared"; "load", "store" or "atomic".
        request
            Number among the recorded requests of that line in the first block: instruction after
            instruction, warp after warp within each.

        Returns
        -------
        Name of the array, and int64 (32,): flat indices of elements, -1 for an inactive lane.

        Raises
        ------
        EmulationError
            If there is no such request.
        """
        if self.samples is None:
            raise EmulationError(f"this launch kept no lanes. {_ASK}")
        recorded = self.samples.get((line, space, op), ())
        remaining = request
        for array, itemsize, addresses in recorded:
            if remaining < len(addresses):
                row = addresses[remaining]
                return array, np.where(row < 0, -1, row // itemsize)
            remaining -= len(addresses)
        have = sum(len(a) for _, _, a in recorded)
        if not have:
            places = ", ".join(f"line {k[0]} {k[1]} {k[2]}" for k in sorted(self.samples)) or "none"
            raise EmulationError(
                f"line {line} made no {space} {op}; recorded are: {places}. Choose one of these"
            )
        raise EmulationError(
            f"{request=}: line {line} has {have} recorded {space} {op} requests, the first of its "
            f"first block; give 0 to {have - 1}"
        )

    def engine_steps(self) -> tuple[EngineStep, ...]:
        """When the copy engine filled which slot of shared memory and when it was read, in the
        first block.

        In the order in which the emulator came to it, which is no time. Raises EmulationError if
        the launch was not asked for it.
        """
        if self.slot_steps is None:
            raise EmulationError(
                "this launch kept no steps of engines. Give engines=True to `launch` or `trace`"
            )
        return self.slot_steps

    def __str__(self) -> str:
        grid, block = ("x".join(map(str, t)) for t in (self.grid, self.block))
        extent = f"{self.blocks_total} blocks"
        if self.blocks_run < self.blocks_total:
            extent = f"a sample of {self.blocks_run} of {self.blocks_total} blocks"
        lines = [f"{self.kernel} ({self.file}), grid {grid}, block {block}: {extent}"]
        if self.compiler:
            lines[0] += f", compiled by {self.compiler}"
        if self.findings:
            lines.append(f"{len(self.findings)} finding(s):")
            lines += [str(f) for f in self.findings]
        else:
            lines.append("no findings")
        if self.accesses:
            lines.append(
                f"{'line':>5} {'space':6} {'op':6} {'array':12} {'bytes':>5} {'requests':>10} "
                f"{'sect/req':>8} {'wave/req':>8}  source"
            )
            for a in self.accesses:
                sectors = f"{a.sectors_per_request:8.2f}" if a.space == "global" else " " * 8
                waves = f"{a.wavefronts_per_request:8.2f}" if a.space == "shared" else " " * 8
                lines.append(
                    f"{a.line:5d} {a.space:6} {a.op:6} {a.array:12} {a.width_bytes:5d} "
                    f"{a.requests:10d} {sectors} {waves}  {a.text.strip()}"
                )
        lines += list(self.notes)
        if self.output:
            lines.append("printed:")
            lines.append(self.output.rstrip("\n"))
        return "\n".join(lines)

    __repr__ = __str__
