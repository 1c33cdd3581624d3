"""The report of a launch, from what its observers counted and found."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import numpy as np

from nogpu.emulator.launching.report import Finding, LineAccess, Report
from nogpu.emulator.launching.request import Request
from nogpu.emulator.launching.vectorized import MachineCode
from nogpu.emulator.machine.events import Observer
from nogpu.emulator.machine.state import Launch
from nogpu.emulator.observe.counts import MachineTally, SiteStats, Tally
from nogpu.emulator.observe.samples import Sampler
from nogpu.emulator.observe.slots import SlotWatch
from nogpu.emulator.ptx.sites import Site, calls_of
from nogpu.text import is_ptx, pieces, places_of_lines

Array = np.ndarray[Any, np.dtype[Any]]
Watcher = TypeVar("Watcher", bound=Observer)


def _observer(run: Launch, kind: type[Watcher]) -> Watcher | None:
    """The one of this kind that watched a launch, if one did."""
    return next((o for o in run.observers if isinstance(o, kind)), None)


def summarise(
    run: Launch, request: Request, blocks_run: int, machine: MachineCode, compiler: str
) -> Report:
    """What a launch did, line by line. run: after its last block."""
    lines = request.source.split("\n")
    # The lines that PTX names are those of another text.
    places = {} if is_ptx(request.source) else places_of_lines(request.source)

    def text(line: int) -> str:
        return lines[places[line] - 1] if line in places else ""

    findings = [
        Finding(
            f.kind, int(f.line), text(f.line),
            f.message + _called(f.line, request.source, places),
            f.count, request.name, f.details["array"], f.details["index"], f.details["block"],
            f.details["threads"], f.details["other_line"], text(f.details["other_line"]),
            calls_of(f.line),
        )
        for f in run.faults.values()
    ]  # fmt: skip
    # Of a barrier that part of a block passes by, races may be the effect: they come last then.
    diverged = any(f.kind == "divergent-barrier" for f in findings)
    late = "race" if diverged else ""
    findings.sort(
        key=lambda f: (f.kind == late, f.line, f.kind, f.array, f.called_from, f.other_line)
    )
    instructions: Counter[str] = Counter()
    for block in run.program.blocks:
        if times := run.counts.get(block.number, 0):
            instructions.update({opcode: n * times for opcode, n in block.opcodes.items()})
    total = math.prod(request.grid)
    notes = list(run.notes)
    if blocks_run < total and blocks_run:
        notes.append(
            f"counts are of {blocks_run} of {total} blocks; the others were not run and their "
            "results are missing"
        )
    accesses = _line_accesses(run, text, machine)
    notes += machine.notes(accesses)
    return Report(
        kernel=request.entry,
        file=request.name,
        grid=request.grid,
        block=request.block,
        findings=tuple(findings),
        accesses=accesses,
        instructions=dict(sorted(instructions.items(), key=lambda i: (-i[1], i[0]))),
        blocks_run=blocks_run,
        blocks_total=total,
        schedule=request.schedule,
        output="".join(run.output),
        notes=tuple(notes),
        steps=run.steps,
        samples=_samples(run),
        slot_steps=slots.steps() if (slots := _observer(run, SlotWatch)) else None,
        sass=machine.arch if not machine.missing else "",
        compiler=compiler,
    )


def _called(line: int, source: str, places: Mapping[int, int]) -> str:
    """A sentence about the calls that led to a line, where functions were inlined; else "".

    places: where in the source its lines stand.
    """
    calls = calls_of(line)
    if not calls:
        return ""
    name = ""
    for piece in pieces(source):
        first, last = (source.count("\n", 0, at) + 1 for at in (piece.start, piece.end))
        if first <= places.get(line, 0) <= last:
            name = piece.name if piece.kind == "function" else ""
            break
    where = ", called from ".join(f"line {n}" for n in calls)
    return f". In {name}(), called from {where}" if name else f". Called from {where}"


def _line_accesses(run: Launch, text: Any, machine: MachineCode) -> tuple[LineAccess, ...]:
    tally = _observer(run, Tally)
    if tally is None:
        return ()
    sampler, machine_tally = _observer(run, Sampler), _observer(run, MachineTally)
    counted: dict[tuple[int, str, str, str, int], list[tuple[int | None, ...]]] = {}
    for site, stats in zip(run.program.sites, tally.stats, strict=True):
        if not stats.requests:
            continue
        space = _space(site, stats)
        key = (int(site.line), space, site.op, ", ".join(stats.arrays), site.width)
        best = sampler.samples[site.index] if sampler else None
        ideal = (best.ideal_sectors, best.ideal_wavefronts) if best else (None, None)
        sass: tuple[int | None, int | None] = None, None
        if machine_tally and space == "shared" and site.index in machine.spans:
            sass = machine_tally.totals[site.index]
        own = (stats.requests, stats.sectors, stats.wavefronts, stats.lanes * site.width)
        counted.setdefault(key, []).append((*own, *ideal, *sass))
    for (index, space, op), done in tally.engines.items():
        site = run.program.sites[index]
        key = (int(site.line), space, op, ", ".join(done.arrays), done.width)
        ideal = (0, 0) if sampler else (None, None)
        own = (done.requests, done.sectors, 0, done.bytes)
        counted.setdefault(key, []).append((*own, *ideal, None, None))
    return tuple(
        LineAccess(line, text(line), space, op, width, array, *map(_total, *rows))
        for (line, space, op, array, width), rows in sorted(counted.items())
    )


def _total(*column: int | None) -> Any:
    """The sum; None if one of them is not known."""
    return None if None in column else sum(cast("tuple[int, ...]", column))


def _space(site: Site, stats: SiteStats) -> str:
    return "shared" if stats.wavefronts and site.space in ("shared", "generic") else "global"


def _samples(run: Launch) -> dict[tuple[int, str, str], tuple[tuple[str, int, Array], ...]] | None:
    out: dict[tuple[int, str, str], list[tuple[str, int, Array]]] = {}
    tally, sampler = _observer(run, Tally), _observer(run, Sampler)
    if tally is None or sampler is None:
        return None
    for site, stats in zip(run.program.sites, tally.stats, strict=True):
        if rows := sampler.samples[site.index].rows:
            key = (int(site.line), _space(site, stats), site.op)
            out.setdefault(key, []).extend(rows)
    return {k: tuple(v) for k, v in out.items()}
