"""The numbers that chapter 9 shows, from counts and the H200's record."""

from types import SimpleNamespace

from helpers.chapters.ch09 import mirrors
from helpers.chapters.facts import at_8192
from helpers.ladder.launch import Trace
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import instruction_mix, resources
from helpers.record import costs, counters, measure
from helpers.record.plans import plan
from nogpu import device

NAMES = ("tiled_32", "block_1d", "block_2d")
SQUARE = "8 x 8"


def of_the_record() -> SimpleNamespace:
    """Rates and roofs in TFLOP/s, shares in percent, multiply-adds a wavefront, conflicts in a
    thousand."""
    rec, tile = measure(list(NAMES), sizes=4096, gpu="h200"), catalog["block_2d"].params
    counted = {n: counters(n, 1024)[0] for n in NAMES}
    of_a, of_b = mirrors.prices(tile)
    patch = counted["block_2d"]
    columns, rows, *_ = plan("block_2d", 512).grid
    bound, ms = costs.bounds("block_2d", 4096, gpu="h200"), rec.value("block_2d", 4096)
    column = costs.bounds("block_1d", 4096, gpu="h200")
    mix = instruction_mix("block_2d", arch="sm_90")
    return SimpleNamespace(
        gpu=rec.gpu, ratio={n: c["multiply_adds_per_wavefront"] for n, c in counted.items()},
        stores={n: counted[n]["store_sectors_per_request"] for n in NAMES[1:]},
        expected=1 / (of_a / tile["TN"] + of_b / tile["TM"]),
        conflicts=1000 * patch["shared_load_conflicts"] / patch["shared_load_wavefronts"],
        tflops={n: rec.value(n, 4096, "gflops") / 1e3 for n in NAMES},
        gain=rec.gain("block_2d", "block_1d", 4096),
        share={n: 100 * rec.value(n, 4096, "cublas_ratio") for n in NAMES},
        fill=100 * resources("block_2d", arch="sm_90").occupancy.fraction,
        sms=device.gpu("h200").sms, blocks=columns * rows,
        ffma=100 * mix["FFMA"] / sum(mix.values()), near_bound=100 * bound.ms / ms,
        near_column=100 * column.ms / rec.value("block_1d", 4096),
        promised=1 / (0.5 / 8 + 1 / 8) / counted["block_1d"]["multiply_adds_per_wavefront"],
        roofs=column.ms / bound.ms, slots=100 * bound[costs.ISSUE].ms / ms,
    )  # fmt: skip


def wavefronts(t: Trace) -> dict[str, float]:
    """Wavefronts of a read of each tile in shared memory, every read alone."""
    read = [r for r in t.by_line() if (r.space, r.op) == ("shared", "load")]
    return {str(r.array): r.wavefronts_per_request for r in read}


def of_the_mirrors() -> SimpleNamespace:
    """What tall patches of block_2d cost and reach beside wide ones: factors, percent, TFLOP/s."""
    found, _ = mirrors.recorded("h200")
    shown = [found[key] for key in mirrors.SHOWN]
    pairs = list(zip(shown[0:6:2], shown[1:6:2], strict=True))
    ratios = {
        "cheaper": [wide.cost / tall.cost for tall, wide in pairs],
        "ahead": [tall.rate / wide.rate for tall, wide in pairs],
        "near": [100 * wide.rate / wide.roof for _, wide in pairs],
        "held": [100 * tall.rate / tall.roof for tall, _ in pairs],
        "price_of_b": [wide.b / tall.b for tall, wide in pairs],
    }
    best = max(found.values(), key=lambda r: r.rate)
    square = max((r for r in found.values() if r.patch == SQUARE), key=lambda r: r.rate)
    narrow = found["8 x 4", mirrors.LARGE].b
    return SimpleNamespace(
        least={name: min(found) for name, found in ratios.items()},
        most={name: max(found) for name, found in ratios.items()}, counted=len(found),
        closest=100 * max(r.rate / r.roof for r in found.values()),
        deep={f"bk{k}": found[SQUARE, f"128x128x{k}"].rate for k in (8, 32)},
        narrow=narrow / found[SQUARE, mirrors.LARGE].b, best_patch=best.patch.replace(" ", ""),
        best_block=best.block, best_rate=best.rate, best_reads=best.reads / square.reads,
        square_rate=square.rate,
    )  # fmt: skip


def lab_report() -> SimpleNamespace:
    """How many times as fast as the column the square thread tile is at 8192: by the rates of
    document L, and in the record of the H200."""
    return SimpleNamespace(**at_8192("block_2d", "block_1d"))
