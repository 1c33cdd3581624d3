"""The numbers that chapter 8 shows, from counts and the H200's record, and what they bear out."""

from __future__ import annotations

from collections import Counter

from helpers.chapters.facts import Facts
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import instruction_mix
from helpers.record import costs, counters, measure
from helpers.record.plans import plan
from nogpu import device, toolchain

NAMES, SIZES = ("tiled_32", "block_1d"), (512, 1024, 1025, 2048, 4096)


def of_the_record() -> Facts:
    """Multiply-adds a wavefront, counted and predicted; roofs and rates in TFLOP/s; shares in
    percent.
    """
    facts, h200 = Facts(), device.gpu("h200")
    rec = measure(list(NAMES), sizes=list(SIZES), gpu="h200")
    bound = {n: costs.bounds(n, 4096, gpu="h200") for n in NAMES}
    reuse = {n: counters(n, 1024)[0]["multiply_adds_per_wavefront"] for n in NAMES}
    # a value of A costs half a wavefront, one of B a whole one, and a column reuses it
    predicted = {"tiled_32": 1 / 1.5, "block_1d": 1 / (0.5 + 1 / catalog["block_1d"].params["TM"])}
    rate = {(n, size): rec.value(n, size, "gflops") for n in NAMES for size in SIZES}
    gain, more = (
        rec.gain("block_1d", "tiled_32", 4096),
        predicted["block_1d"] / predicted["tiled_32"],
    )
    mixes = {n: instruction_mix(n, arch="sm_90") for n in NAMES}
    ffma = {n: mix["FFMA"] / sum(mix.values()) for n, mix in mixes.items()}
    facts.say(
        gpu=rec.gpu,
        reuse=reuse,
        predicted=predicted,
        more=more,
        gain=gain,
        roof={n: b.gflops / 1e3 for n, b in bound.items()},
        tflops={n: rate[n, 4096] / 1e3 for n in NAMES},
        share=100 * rec.value("block_1d", 4096, "cublas_ratio"),
        near={n: 100 * b.ms / rec.value(n, 4096) for n, b in bound.items()},
        ffma={n: 100 * share for n, share in ffma.items()},
    )
    facts.check("less than one", reuse["tiled_32"] < 1)
    facts.check("binds", all(b.binding == costs.L1 for b in bound.values()))
    facts.check("complete", 0.9 < reuse["tiled_32"] / predicted["tiled_32"] <= 1)
    facts.check("doubles", more > 2)
    facts.check("predicted", 0.9 < reuse["block_1d"] / predicted["block_1d"] <= 1)
    facts.check("more FFMA", ffma["block_1d"] > 1.2 * ffma["tiled_32"])
    peak = h200.fp32_peak_gflops
    facts.check("FFMA bounds", all(rate[n, 4096] < ffma[n] * peak for n in NAMES))
    facts.check("gain", gain > 1 and abs(more / gain - 1) < 0.13)
    facts.check("four fifths", abs(0.5 * predicted["block_1d"] - 0.8) < 0.03)

    grids = {n: plan("block_1d", n).grid for n in (512, 1024, 1025)}
    blocks = {n: grid[0] * grid[1] for n, grid in grids.items()}
    deep = {n: -(-count // h200.sms) for n, count in blocks.items()}
    facts.say(
        blocks={f"n{n}": count for n, count in blocks.items()},
        deep={f"n{n}": count for n, count in deep.items()},
        sms=h200.sms,
        slow_512=-100 * (rec.gain("block_1d", "tiled_32", 512) - 1),
        drop=-100 * (rate["block_1d", 1025] / rate["block_1d", 1024] - 1),
    )
    facts.check("slower", rate["block_1d", 512] < 0.95 * rate["tiled_32", 512])
    facts.check("too few", blocks[512] < h200.sms)
    ragged = rate["block_1d", 1025] < 0.9 * rate["block_1d", 1024]
    facts.check("ragged", ragged and deep[1025] > deep[1024])
    return facts


def opcodes(text: str) -> dict[str, int]:
    """Multiply-adds and accesses to shared memory in the main loop of a kernel's text, on sm_90."""
    built = toolchain.compile(text, arch="sm_90")
    [entry] = built.kernels
    loop = toolchain.main_loop(*toolchain.sass_instructions(built.cubin, entry))
    found = Counter(i.opcode for i in loop)
    return {name: found[name] for name in ("FFMA", "LDS", "LDS.128", "STS")}
