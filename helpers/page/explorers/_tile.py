"""Explorer of chapters 06, 08, 09 and 13: one kernel's tile, its rules, its cost and its time."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from helpers import draw as plots
from helpers.ladder import model
from helpers.ladder.kernel import DEPTHS, Kernel, broken_rules, geometry
from helpers.ladder.rungs import find
from helpers.ladder.usage import resources
from helpers.page.explorers._occupancy import gpu_control, plain_limits
from helpers.page.explorers.core import Control, Explorer, Reading, State, text
from helpers.record import fingerprint, load, tiles
from helpers.record.gpu import PRECISION
from helpers.record.tile_times import SIZE, Times, times
from nogpu import device
from nogpu.errors import ConfigError, DataError, UnknownNameError

GFLOP = model.flops(*SIZE) / 1e6
"""GFLOP/s of a product that takes 1 ms."""
NO_TIME = "not recorded"
TOGETHER = "together"
"""The slider of sizes that move together."""


@dataclass(frozen=True)
class Table:
    """Every combination of a kernel's tile sizes: the rule it breaks, or its row of `legal`."""

    kernel: Kernel
    names: tuple[str, ...]
    choices: tuple[tuple[int, ...], ...]
    code: tuple[int, ...]
    rules: tuple[tuple[str, str], ...]
    legal: tuple[tuple[float, int], ...]
    tiles: tuple[Mapping[str, int], ...]

    def at(self, state: State) -> int:
        """The code of a state: a row of `legal`, or -1 less the number of the broken rule."""
        index = 0
        for name, values in zip(self.names, self.choices, strict=True):
            index = index * len(values) + values.index(state[name])
        return self.code[index]


@cache
def table(name: str) -> Table:
    """Legality, intensity and threads of every combination of a kernel's choices."""
    k = find(name)
    choices = {
        n: tuple(sorted({*values, k.params[n]})) for n, values in k.choices.items() if n in k.params
    }
    code: list[int] = []
    rules: dict[tuple[str, str], int] = {}
    legal: list[tuple[float, int]] = []
    known: list[Mapping[str, int]] = []
    for values in itertools.product(*choices.values()):
        tile = {**k.params, **dict(zip(choices, values, strict=True))}
        broken = broken_rules(k, *SIZE, **tile)
        if broken:
            code.append(-1 - rules.setdefault((broken[0].expr, broken[0].reason), len(rules)))
            continue
        code.append(len(legal))
        p = geometry(k, *SIZE, **tile)
        legal.append((round(model.intensity_of(p), 4), p.threads))
        known.append(tile)
    return Table(
        k, tuple(choices), tuple(choices.values()), tuple(code), tuple(rules), tuple(legal),
        tuple(known),
    )  # fmt: skip


@cache
def _default_report(name: str, arch: str) -> tuple[int, int, int] | None:
    try:
        r = resources(name, arch)
    except ConfigError:
        return None
    return r.registers, r.spill_stores + r.spill_loads, r.shared_bytes


def _swept_reports(kernel: Kernel, gpu: str) -> tuple[str, dict[str, tuple[int, int, int]]]:
    """Architecture of a GPU's record and the registers, spills and bytes that its sweep noted."""
    try:
        record = load(gpu)
    except UnknownNameError:
        return "", {}
    source = fingerprint(kernel)
    swept = {
        tiles.tile_key(e["params"]): (e["registers"], e["spill_bytes"], e["shared_bytes"])
        for e in record.find("sweep", kernel=kernel.name)
        if e["source"] == source
    }
    return record.gpu["arch"], swept


def reports(t: Table, arch: str, gpu: str) -> list[tuple[int, int, int] | None]:
    """The compiler's report of each legal tile; None where it was not compiled for arch."""
    known = dict(tiles.reports(t.kernel, arch))
    swept_arch, swept = _swept_reports(t.kernel, gpu)
    if swept_arch == arch:
        known |= swept
    by_tile: list[tuple[int, int, int] | None] = [known.get(tiles.tile_key(x)) for x in t.tiles]
    default = next(i for i, x in enumerate(t.tiles) if dict(x) == dict(t.kernel.params))
    if by_tile[default] is None:
        by_tile[default] = _default_report(t.kernel.name, arch)
    return by_tile


def _edges(k: Kernel) -> dict[str, str | int]:
    """Which parameter is which edge of the drawing; a number where the kernel fixes it."""
    p = k.params
    rows, columns = k.tile
    edge: dict[str, str | int] = {
        "BM": rows if rows in p else 1,
        "BN": columns if columns in p else 1,
        "BK": next((n for n in DEPTHS if n in p), 1),
    }
    edge |= {n: (n if n in p else 0) for n in ("WM", "WN")}
    return edge | {n: (n if n in p else 1) for n in ("TM", "TN")}


def roofs(kernel: Kernel) -> dict[str, dict[str, Any]]:
    """Of each GPU its name, architecture, peak in the kernel's precision (GFLOP/s) and GB/s."""
    return {
        g.key: {
            "name": g.name,
            "arch": g.arch,
            "peak": round(g.peak_gflops(PRECISION[kernel.dtype]), 1),
            "bandwidth": g.bandwidth_gbs,
        }
        for g in device.GPUS.values()
    }


def _timed(recorded: Times) -> str:
    """How many tiles have a time, as the subject of a sentence."""
    count = len(recorded.ms)
    return "only the catalog's own tile was" if count == 1 else f"{count} tiles were"


def tile(kernel: Kernel | str = "vectorised", *, gpu: str = "h200", together: str = "") -> Explorer:
    """A kernel's tile sizes as sliders: rule, shared memory, registers, occupancy, roofline, time.

    The tile's edges must be parameters of the kernel (tiled_*, block_*, vectorised, warp_tiled
    ...). together: sizes that a rule ties so that none of them can move alone, "WM WN TM TN"; one
    slider has all their values that some legal tile has.
    """
    k = find(kernel)
    t, recorded = table(k.name), times(k, gpu)
    edges = _edges(k)
    if not {edges["BM"], edges["BN"]} <= set(k.params):
        raise ConfigError(f"the tile explorer cannot draw {k.name}: its block tile is {k.tile}")
    known: dict[str, Sequence[tuple[int, int, int] | None]] = {}
    for g in device.GPUS.values():
        if g.arch not in known:
            known[g.arch] = reports(t, g.arch, gpu)
    ms = [recorded.ms.get(tuple(x.values())) for x in t.tiles]
    gpus = roofs(k)
    tied = together.split()
    found = sorted({tuple(x[n] for n in tied) for x in t.tiles})
    sets = {", ".join(map(str, v)): dict(zip(tied, v, strict=True)) for v in found}

    def read(state: State) -> Reading:
        state = state | (sets[state[TOGETHER]] if tied else {})
        g, code = gpus[state["gpu"]], t.at(state)
        tile = " ".join(f"{n}={state[n]}" for n in t.names)
        shown = {"gpu": g["name"], "kernel": k.name, "tile": tile}
        if code < 0:
            expr, reason = t.rules[-1 - code]
            return Reading("illegal", shown | {"legal": "no", "expr": expr, "reason": reason})
        intensity, threads = t.legal[code]
        roof = min(g["peak"], intensity * g["bandwidth"])
        shown |= {"legal": "yes", "threads": text(threads), "intensity": text(intensity, 2)}
        shown |= {"roof": text(roof), "time": NO_TIME}
        if time := ms[code]:
            shown |= {"time": text(time, 3) + " ms", "rate": text(GFLOP / time)}
        say = "timed" if ms[code] else "legal"
        report = known[g["arch"]][code]
        if report is None:
            return Reading(say, shown)
        registers, spills, shared = report
        shown |= {"registers": text(registers), "spills": text(spills), "shared": text(shared)}
        if not registers:
            return Reading("left_out", shown)
        try:
            o = model.occupancy(device.limits(g["arch"]), threads, registers, shared)
        except ConfigError:
            return Reading("large", shown)
        shown |= {"occupancy": text(100 * o.fraction, 1), "limited": " and ".join(o.limited_by)}
        return Reading(say, shown)

    name = device.gpu(gpu).name
    what = (
        f"Times of every tile that fits, at 4096: {recorded.label}."
        if recorded.swept
        else f"Of this kernel {_timed(recorded)} timed, at 4096: {recorded.label}."
        " Other tiles were not recorded."
        if recorded.label
        else f"No time of this kernel is recorded on {name}."
    )

    def moved(x: Mapping[str, int]) -> State:
        """A tile as the sliders have it."""
        own_set = {TOGETHER: ", ".join(str(x[n]) for n in tied)} if tied else {}
        return {n: x[n] for n in t.names if n not in tied} | own_set

    free = ((n, v) for n, v in zip(t.names, t.choices, strict=True) if n not in tied)
    controls = [Control(n, n, values, k.params[n]) for n, values in free]
    if tied:
        default = moved(k.params)[TOGETHER]
        controls.append(Control(TOGETHER, ", ".join(tied), tuple(sets), default))
    fastest = sorted(range(len(t.tiles)), key=lambda i: (ms[i] is None, ms[i] or 0.0, i))
    own = dict(k.params)
    picked = [own, *(dict(t.tiles[i]) for i in fastest if dict(t.tiles[i]) != own)][:6]
    every = (dict(zip(t.names, values, strict=True)) for values in itertools.product(*t.choices))
    illegal = (moved(x) for x, code in zip(every, t.code, strict=True) if code < 0)
    shown_illegal = (x for x in illegal if not tied or x[TOGETHER] in sets)
    examples = [*map(moved, picked), *itertools.islice(shown_illegal, 1)]
    try:
        rows, columns = geometry(k, *SIZE).tile
        picture = plots.tile_diagram(k, 2 * rows, 2 * columns, 64)._repr_html_()
    except (ConfigError, DataError):
        picture = ""
    return Explorer(
        kind="tile",
        title=f"Which tile for {k.name}?",
        caption=(
            "Green: the slices of A and B that a block fetches in one step, at the scale of C. "
            "Blue: the block's tile of C"
            + (", thick frame: a warp's tile" if "WM" in k.params else "")
            + ", orange: a thread's. On the roofline the ring is the bound of the formula, the "
            f"square the recorded rate on the {name}. Traffic is counted without caches."
        ),
        controls=(*controls, gpu_control(gpu)),
        labels={
            "legal": "legal", "threads": "threads a block", "shared": "shared memory (bytes)",
            "registers": "registers a thread", "spills": "spills (bytes)",
            "occupancy": "occupancy (%)", "limited": "limited by", "intensity": "FLOP per byte",
            "roof": "roof (GFLOP/s)", "time": f"time at 4096, {name}", "rate": f"GFLOP/s, {name}",
        },
        sentences={
            "illegal": "{tile} is not legal: {reason} (the rule is {expr}).",
            "legal": "{tile} is legal, with {threads} threads a block and {intensity} FLOP per "
            "byte. Its time was not recorded.",
            "timed": "{tile} takes {time} at 4096 on the "
            + name
            + ", {rate} GFLOP/s, with {threads} threads a block and {intensity} FLOP per byte.",
            "left_out": "{tile} obeys every rule, but was not compiled for the {gpu}: a thread's "
            "sums do not fit in its registers, or the GPU lacks an instruction.",
            "large": "{tile} obeys every rule, but a block of it does not fit an SM of the {gpu}: "
            "registers or shared memory do not suffice.",
        },
        data={
            "kernel": k.name,
            "names": t.names,
            "choices": t.choices,
            "sets": sets,
            "code": t.code,
            "rules": t.rules,
            "legal": t.legal,
            "reports": known,
            "limits": {a: plain_limits(device.limits(a)) for a in known},
            "ms": ms,
            "gflop": GFLOP,
            "no_time": NO_TIME,
            "gpus": gpus,
            "timed_on": gpu,
            "edges": edges,
            "most": max(max(v) for n, v in zip(t.names, t.choices, strict=True) if n in
                        (edges["BM"], edges["BN"])),
            "deepest": max(t.choices[t.names.index(edges["BK"])]) if edges["BK"] in t.names
                       else edges["BK"],
        },
        compute=read,
        picture=picture,
        examples=tuple(examples),
        note=what,
    )  # fmt: skip
