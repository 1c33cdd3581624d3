"""The numbers that chapter 8 shows, from counts and the H200's record."""

from collections import Counter
from types import SimpleNamespace

from helpers.chapters.facts import at_8192
from helpers.ladder.rungs import catalog, find
from helpers.ladder.usage import instruction_mix
from helpers.record import costs, counters, measure, published
from helpers.record.plans import plan
from nogpu import device, toolchain

NAMES = ("tiled_32", "block_1d")


def of_the_record() -> SimpleNamespace:
    """Multiply-adds a wavefront, counted and predicted; roofs and rates in TFLOP/s, roofs as a
    ratio; shares in percent; binds_at_a_fifth: whether L1 binds the tiled kernel at a fifth of
    cuBLAS."""
    h200 = device.gpu("h200")
    rec = measure(list(NAMES), sizes=[512, 1024, 1025, 4096], gpu="h200")
    bound = {n: costs.bounds(n, 4096, gpu="h200") for n in NAMES}
    # a value of A costs half a wavefront, one of B a whole one, and a column reuses it
    predicted = {"tiled_32": 1 / 1.5, "block_1d": 1 / (0.5 + 1 / catalog["block_1d"].params["TM"])}
    mixes = {n: instruction_mix(n, arch="sm_90") for n in NAMES}
    grids = {n: plan("block_1d", n).grid for n in (512, 1024, 1025)}
    blocks = {f"n{n}": grid[0] * grid[1] for n, grid in grids.items()}
    at = {n: rec.value("block_1d", n, "gflops") for n in (1024, 1025)}
    return SimpleNamespace(
        gpu=rec.gpu,
        peak=h200.fp32_peak_gflops / 1e3,
        reuse={n: counters(n, 1024)[0]["multiply_adds_per_wavefront"] for n in NAMES},
        predicted=predicted,
        more=predicted["block_1d"] / predicted["tiled_32"],
        gain=rec.gain("block_1d", "tiled_32", 4096),
        binding={n: b.binding for n, b in bound.items()},
        roof={n: b.gflops / 1e3 for n, b in bound.items()},
        roofs=bound["tiled_32"].ms / bound["block_1d"].ms,
        tflops={n: rec.value(n, 4096, "gflops") / 1e3 for n in NAMES},
        share=100 * rec.value("block_1d", 4096, "cublas_ratio"),
        binds_at_a_fifth=bound["tiled_32"].binding == costs.L1
        and 0.17 < rec.value("tiled_32", 4096, "cublas_ratio") < 0.23,
        near={n: 100 * b.ms / rec.value(n, 4096) for n, b in bound.items()},
        ffma={n: 100 * mix["FFMA"] / sum(mix.values()) for n, mix in mixes.items()},
        blocks=blocks,
        deep={n: -(-count // h200.sms) for n, count in blocks.items()},
        sms=h200.sms,
        slow_512=-100 * (rec.gain("block_1d", "tiled_32", 512) - 1),
        drop=-100 * (at[1025] / at[1024] - 1),
    )


def opcodes(text: str) -> dict[str, int]:
    """Multiply-adds and accesses to shared memory in the main loop of a kernel's text, on sm_90."""
    built = toolchain.compile(text, arch="sm_90")
    [entry] = built.kernels
    loop = toolchain.main_loop(*toolchain.sass_instructions(built.cubin, entry))
    found = Counter(i.opcode for i in loop)
    return {name: found[name] for name in ("FFMA", "LDS", "LDS.128", "STS")}


def both_orders(exchanged: str) -> list[dict[str, str | int]]:
    """Rows of a table: `opcodes` of the core as printed, and with this text for its inner loops."""
    core = find("block_1d_core").source
    begin = core.index("        for (int k = 0; k < BK")
    end = core.index("        __syncthreads();  // everyone")
    orders = {
        "i innermost": core,
        "k innermost": core[:begin] + exchanged.lstrip("\n") + core[end:],
    }
    return [{"loops": order, **opcodes(text)} for order, text in orders.items()]


def lab_report() -> SimpleNamespace:
    """How many times as fast as the tiled kernel the column is at 8192: as document L prints it,
    by L's rates, and in the record of the H200."""
    [quoted, *_] = published(document="L", metric="speedup", rung="block_1d")
    return SimpleNamespace(l_printed=quoted["printed"], **at_8192("block_1d", "tiled_32"))
