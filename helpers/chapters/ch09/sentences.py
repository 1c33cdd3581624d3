"""The numbers that chapter 9 shows, from counts and the H200's record, and what they bear out."""

from __future__ import annotations

from helpers.chapters.ch09 import mirrors
from helpers.chapters.facts import Facts
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure, tuned
from helpers.record.plans import plan
from nogpu import device

NAMES = ("tiled_32", "block_1d", "block_2d")
ARCHS = ("sm_75", "sm_86", "sm_90")
SQUARE = "8 x 8"


def of_the_record() -> Facts:
    """Rates and roofs in TFLOP/s, shares in percent, multiply-adds a wavefront, conflicts in a
    thousand.
    """
    facts, h200 = Facts(), device.gpu("h200")
    rec, tile = measure(list(NAMES), sizes=4096, gpu="h200"), catalog["block_2d"].params
    rate = {n: rec.value(n, 4096, "gflops") for n in NAMES}
    counted = {n: counters(n, 1024)[0] for n in NAMES}
    ratio = {n: c["multiply_adds_per_wavefront"] for n, c in counted.items()}
    stores = {n: counted[n]["store_sectors_per_request"] for n in NAMES[1:]}
    of_a, of_b = mirrors.prices(tile)
    expected = 1 / (of_a / tile["TN"] + of_b / tile["TM"])
    patch = counted["block_2d"]
    collided = patch["shared_load_conflicts"] / patch["shared_load_wavefronts"]
    facts.say(
        gpu=rec.gpu,
        ratio=ratio,
        stores=stores,
        expected=expected,
        conflicts=1000 * collided,
        tflops={n: r / 1e3 for n, r in rate.items()},
        gain=rec.gain("block_2d", "block_1d", 4096),
        share={n: 100 * rec.value(n, 4096, "cublas_ratio") for n in NAMES},
    )
    facts.check("gain", rate["block_2d"] > 1.1 * rate["block_1d"])
    facts.check("collide", collided > 0.2)
    facts.check("stores", stores["block_2d"] > 2 * stores["block_1d"])
    facts.check("expected", 0.9 < ratio["block_2d"] / expected <= 1.02)

    columns, rows, *_ = plan("block_2d", 512).grid
    facts.say(sms=h200.sms, blocks=columns * rows)
    facts.check("few blocks", columns * rows < h200.sms / 2)
    full = {(a, n): resources(n, arch=a).occupancy.fraction for a in ARCHS for n in NAMES}
    fell = all(full[a, "block_2d"] < full[a, "block_1d"] for a in ARCHS)
    facts.check("occupancy", fell and full["sm_90", "block_1d"] == 1)

    bound, ms = costs.bounds("block_2d", 4096, gpu="h200"), rec.value("block_2d", 4096)
    mix = instruction_mix("block_2d", arch="sm_90")
    facts.say(
        ffma=100 * mix["FFMA"] / sum(mix.values()),
        near_bound=100 * bound.ms / ms,
        slots=100 * bound[costs.ISSUE].ms / ms,
    )
    facts.check("neither", bound.ms < 0.8 * ms)
    return facts


def of_the_mirrors(gpu: str = "h200") -> Facts:
    """What tall patches of block_2d cost and reach beside wide ones: factors, percent, TFLOP/s."""
    facts, (found, _) = Facts(), mirrors.recorded(gpu)
    shown = [found[key] for key in mirrors.SHOWN]
    pairs = list(zip(shown[0:6:2], shown[1:6:2], strict=True))
    cheaper = [wide.cost / tall.cost for tall, wide in pairs]
    ahead = [tall.rate / wide.rate for tall, wide in pairs]
    near = [100 * wide.rate / wide.roof for _, wide in pairs]
    best = max(found.values(), key=lambda r: r.rate)
    square = max((r for r in found.values() if r.patch == SQUARE), key=lambda r: r.rate)
    deep = {f"bk{k}": found[SQUARE, f"128x128x{k}"].rate for k in (8, 32)}
    facts.say(
        least={"cheaper": min(cheaper), "ahead": min(ahead), "near": min(near)},
        most={"cheaper": max(cheaper), "ahead": max(ahead), "near": max(near)},
        counted=len(found),
        closest=100 * max(r.rate / r.roof for r in found.values()),
        deep=deep,
        best_patch=best.patch.replace(" ", ""),
        best_block=best.block,
        best_rate=best.rate,
        square_rate=square.rate,
    )
    facts.check("cheaper", min(cheaper) > 2)
    facts.check("price of B", all(wide.b == 2 * tall.b for tall, wide in pairs))
    facts.check("faster", min(ahead) > 1.2)
    facts.check("close", 80 < min(near) <= max(near) < 100)
    facts.check("held", all(tall.rate < 0.65 * tall.roof for tall, _ in pairs))
    facts.check("below", all(r.rate < r.roof for r in found.values()))
    facts.check("no square", best.reads > square.reads and best.rate > 1.02 * square.rate)
    confirmed = tuned("block_2d")
    of_best = confirmed["params"] if confirmed else {"TM": 0, "TN": 0}
    facts.check("explained", f"{of_best['TM']} x {of_best['TN']}" == best.patch == "8 x 4")
    facts.check("longer step", deep["bk32"] > 1.08 * deep["bk8"])
    narrow = found["8 x 4", mirrors.LARGE].b
    facts.check("half the price", narrow * 2 == found[SQUARE, mirrors.LARGE].b)
    return facts
