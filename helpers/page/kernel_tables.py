"""Ready tables: what the emulator, the compiler and the hardware say of kernels, a call each."""

from collections.abc import Mapping, Sequence
from typing import Any

from helpers.ladder.kernel import Kernel
from helpers.ladder.launch import Trace
from helpers.ladder.rungs import find
from helpers.ladder.usage import instruction_mix, resources
from helpers.notebook.pieces import Html
from helpers.page.tables import table
from helpers.record import DEFAULT_GPU, counters, load, ncu
from helpers.record.agree import on_tensor_cores
from helpers.record.measurement import Size
from helpers.record.selection import name_of
from helpers.wording import join, shape_text
from nogpu.errors import ConfigError, DataError
from nogpu.toolchain import arch_number

OPS = {"load": "Loads", "store": "Stores", "": "Loads and stores"}


def loads_table(
    traces: Trace | Mapping[str, Trace], *, op: str = "load"
) -> Html:  # fmt: skip
    """By source line: requests of a warp, and the sectors (global) or wavefronts (shared) of each.

    traces: what trace() returned, or several by name. op: "load", "store", or "" for both. All
    of it is of the PTX, as the emulator ran it. Raises ConfigError for another op, DataError where
    a trace has no such access.
    """
    if op not in OPS:
        raise ConfigError(f"{op=}: op is one of {list(OPS)}")
    named = {traces.plan.kernel.name: traces} if isinstance(traces, Trace) else dict(traces)
    rows = [
        {
            "source": r.text.split(";")[0].strip(),
            "kernel": name,
            "op": r.op,
            "array": r.array,
            "bytes": r.width_bytes,
            "requests": r.requests,
            "sectors": r.sectors_per_request if r.space == "global" else None,
            "wavefronts": r.wavefronts_per_request if r.space == "shared" else None,
        }
        for name, t in named.items()
        for r in t.by_line()
        if op in ("", r.op)
    ]
    if not rows:
        raise DataError(f"{join(list(named))}: no {OPS[op].lower()} to show")
    unneeded = {"op"} if op else set()
    unneeded |= {name for name in ("kernel", "bytes") if len({row[name] for row in rows}) == 1}
    costs = [c for c in ("sectors", "wavefronts") if any(row[c] is not None for row in rows)]
    unneeded |= {"sectors", "wavefronts"} - set(costs)
    shapes = list(dict.fromkeys(shape_text(t.plan.M, t.plan.N, t.plan.K) for t in named.values()))
    what = " and ".join(
        {"sectors": "32-byte sectors", "wavefronts": "wavefronts"}[c] for c in costs
    )
    return table(
        rows,
        caption=f"{OPS[op]} by {join(list(named))} at {' and '.join(shapes)}: requests of a warp, "
        f"and {what} for each. Counted in PTX, in the emulator.",
        columns=[name for name in rows[0] if name not in unneeded],
        headers={
            "op": "access",
            "bytes": "bytes a lane",
            "sectors": "sectors each",
            "wavefronts": "wavefronts each",
        },
        formats={"requests": ",d", "sectors": ".2f", "wavefronts": ".2f"},
        folded=ncu.named({
            f"{place} memory, {OPS[kind].lower()}, {words}": formula
            for (kind, place), about in COUNTED.items()
            if op in ("", kind) and {"global": "sectors", "shared": "wavefronts"}[place] in costs
            for words, formula in about.items()
        }),
    )  # fmt: skip


def _built_for(kernel: Kernel | str, arch: str) -> str:
    """The architecture to compile a kernel for: sm_90a where the kernel needs that of sm_90."""
    least = find(kernel).min_arch
    return least if least == f"{arch}a" else arch


def mix_table(
    kernels: Sequence[Kernel | str] | Mapping[str, Mapping[str, int]], *, arch: str = "sm_90",
    **params: int,
) -> Html:  # fmt: skip
    """What the main loop consists of in machine code (SASS): each instruction's share, in percent.

    kernels: names, compiled for arch with these tile sizes; or mixes by name, as instruction_mix()
    gives them. Ten instructions get a line; the others share the last. Raises what instruction_mix
    raises, and DataError if there are no kernels.
    """
    if isinstance(kernels, Mapping):
        mixes = {name: dict(mix) for name, mix in kernels.items()}
    else:
        mixes = {
            name_of(k): instruction_mix(k, arch=_built_for(k, arch), **params) for k in kernels
        }
    shares = {
        name: {op: 100 * n / sum(mix.values()) for op, n in mix.items()}
        for name, mix in mixes.items()
    }
    ops = sorted(
        {op for share in shares.values() for op in share},
        key=lambda op: (-max(share.get(op, 0.0) for share in shares.values()), op),
    )
    if not ops:
        raise DataError("mix_table() got no kernels; give at least one")
    rows: list[dict[str, Any]] = [
        {"instruction": op, **{name: share.get(op, 0.0) for name, share in shares.items()}}
        for op in ops[:10]
    ]
    if rest := ops[10:]:
        sums = {name: sum(share.get(op, 0.0) for op in rest) for name, share in shares.items()}
        rows.append({"instruction": f"{len(rest)} others", **sums})
    totals = {name: sum(mix.values()) for name, mix in mixes.items()}
    return table(
        rows,
        caption=f"The main loop in machine code for {arch}: share of each instruction, in percent.",
        headers={name: name for name in shares},
        formats=dict.fromkeys(shares, ".1f"),
        note="Instructions in the loop: "
        + "; ".join(f"{name} {total}" for name, total in totals.items())
        + ".",
    )


def resources_table(
    kernels: Sequence[Kernel | str] | Mapping[str, tuple[Kernel | str, Mapping[str, int]]],
    *,
    archs: Sequence[str] = ("sm_75", "sm_86", "sm_90"),
    **params: int,
) -> Html:
    """The compiler's report: registers, spills, shared memory, blocks of an SM, occupancy.

    kernels: names, compiled for each of archs with these tile sizes; or by a name of one's own, a
    kernel and its tile sizes. An architecture that a kernel cannot run on has no row. Raises what
    resources() raises, and DataError where no row is left.
    """
    named = (
        {name: (k, {**params, **tile}) for name, (k, tile) in kernels.items()}
        if isinstance(kernels, Mapping)
        else {name_of(k): (k, params) for k in kernels}
    )
    rows = []
    for arch in archs:
        for name, (kernel, tile) in named.items():
            built = _built_for(kernel, arch)
            if arch_number(built) < arch_number(find(kernel).min_arch):
                continue
            r = resources(kernel, arch=built, **tile)
            rows.append(
                {
                    "kernel": name, "arch": built, "threads": r.threads, "registers": r.registers,
                    "spills": r.spill_stores + r.spill_loads, "shared": r.shared_bytes / 1024,
                    "blocks": r.occupancy.blocks, "occupancy": 100 * r.occupancy.fraction,
                    "limited": join(list(r.occupancy.limited_by)),
                }
            )  # fmt: skip
    if not rows:
        raise DataError(f"none of {join(list(named))} runs on {join(list(archs))}; nothing to show")
    unneeded = {n for n in ("arch", "kernel") if len({row[n] for row in rows}) == 1 < len(rows)}
    fixed = {str(row[name]) for name in unneeded for row in rows}
    return table(
        rows,
        caption=f"The compiler's report{' for ' + join(sorted(fixed)) if fixed else ''}: registers "
        "a thread, spills in bytes, shared memory of a block, and how many blocks an SM holds.",
        columns=[name for name in rows[0] if name not in unneeded],
        headers={
            "spills": "spills (bytes)", "shared": "shared (KiB)", "blocks": "blocks an SM",
            "occupancy": "occupancy (%)", "limited": "limited by",
        },
        formats={"occupancy": ".0f", "shared": ".1f"},
    )  # fmt: skip


GLOBAL = {
    "global_load_sectors": ("sectors asked for (millions)", "{global_load_sectors}"),
    "load_sectors_per_request": (
        "sectors each request", "{global_load_sectors} / {global_load_requests}"
    ),
    "l1_hit_percent": ("L1 hits (%)", "{l1_hit_percent}"),
    "past_l1": ("sectors past L1 (millions)", "the sectors that miss"),
    "l2_hit_percent": ("L2 hits (%)", "{l2_hit_percent}"),
    "dram_read_bytes": ("from DRAM (MB)", "{dram_read_bytes}"),
}  # fmt: skip
SHARED = {
    "shared_wavefronts": (
        "wavefronts (millions)", "{shared_load_wavefronts} + {shared_store_wavefronts}"
    ),
    "conflicts": (
        "of these for bank conflicts (%)", "{shared_load_conflicts} + {shared_store_conflicts}"
    ),
    "multiply_adds_per_wavefront": (
        "multiply-adds a wavefront", "{ffma_thread_instructions} / 32 over the wavefronts"
    ),
}  # fmt: skip
ABOUT = {"global": GLOBAL, "shared": SHARED}
"""Columns of `counters_table`: their words, and what ncu was asked for."""
COUNTED = {
    (op, place): {
        "requests": f"{{{place}_{op}_{requests}}}",
        f"{costs} each": f"{{{place}_{op}_{costs}}} over these",
    }
    for place, requests, costs in (
        ("global", "requests", "sectors"), ("shared", "instructions", "wavefronts")
    )
    for op in ("load", "store")
}  # fmt: skip
"""What `loads_table` counts, by what ncu counts of a whole launch."""
TITLES = {
    "": "Loads of global memory, and shared memory,",
    "global": "Loads of global memory",
    "shared": "Shared memory",
}


def counters_table(
    kernels: Sequence[Kernel | str], size: int | Size | None = None, *, about: str = ""
) -> Html:
    """Recorded hardware counters (ncu) of kernels: loads of global memory, and shared memory.

    size: one recorded shape; None: the largest of each kernel. about: "global", "shared", or "" for
    both. A kernel that asks nothing of shared memory has no numbers there. Raises what counters()
    raises, and ConfigError for another `about`.
    """
    if about not in ("", *ABOUT):
        raise ConfigError(f"{about=}: give one of {list(ABOUT)}, or leave it out")
    recorded = counters(kernels, size)
    wanted = ABOUT[about] if about else {**GLOBAL, **SHARED}
    rows = []
    for c in recorded:
        waves = c["shared_load_wavefronts"] + c["shared_store_wavefronts"]
        clashes = c["shared_load_conflicts"] + c["shared_store_conflicts"]
        made = {
            **c,
            "global_load_sectors": c["global_load_sectors"] / 1e6,
            "dram_read_bytes": c["dram_read_bytes"] / 1e6,
            "shared_wavefronts": waves / 1e6 if waves else None,
            "conflicts": 100 * clashes / waves if waves else None,
        }
        if "l1_hit_percent" in c:
            made["past_l1"] = made["global_load_sectors"] * (1 - c["l1_hit_percent"] / 100)
        if on_tensor_cores(c["kernel"]):  # their products are no FFMA
            made["multiply_adds_per_wavefront"] = None
        cells = {words: made.get(name) for name, (words, _) in wanted.items()}
        rows.append({"kernel": c["kernel"], **cells})
    formulas = {w: f for w, f in wanted.values() if any(row[w] is not None for row in rows)}
    shown = list(formulas)
    record = load(DEFAULT_GPU)
    about_these = {(c["kernel"], c["m"], c["n"], c["k"]) for c in recorded}
    counted = [
        e for e in record.data["counters"] if (e["kernel"], e["m"], e["n"], e["k"]) in about_these
    ]
    shapes = list(dict.fromkeys(shape_text(c["m"], c["n"], c["k"]) for c in recorded))
    return table(
        rows,
        columns=["kernel", *shown],
        turned=len(shown) > 3,
        caption=f"{TITLES[about]} at {' and '.join(shapes)} on the {record.gpu['name']}, by the "
        "hardware's counters.",
        formats={w: ".1f" if "%" in w or "million" in w or "MB" in w else ".2f" for w in shown},
        note=record.label(counted),
        folded=ncu.named(formulas),
    )
