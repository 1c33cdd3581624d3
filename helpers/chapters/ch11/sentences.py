"""The numbers that chapter 11 shows from the H200's record."""

from types import SimpleNamespace

import numpy as np

from helpers.chapters.ch11.steps import Steps, tuned_rows
from helpers.ladder.rungs import catalog
from helpers.ladder.usage import resources
from helpers.record import costs, counters, measure, published, stalls

NAMES = ("vectorised", "prefetch", "double_buffer", "cp_async")
REGISTERS = ("prefetch", "double_buffer")
"""The two that fetch the next tile into registers."""
ARCH = "sm_90"


def of_the_record(known: Steps) -> SimpleNamespace:
    """Rates and gains at 4096, in percent; what a longer step and the best tile bring; what warps
    wait for.

    known: the recorded steps and tiles of `NAMES`.
    """
    rec = measure(list(NAMES), sizes=4096, gpu="h200")
    share, pairs = known.share, known.alike("cp_async", "double_buffer")
    fit = {(n, bk): resources(n, arch=ARCH, BK=bk) for n in NAMES for bk in (8, 16)}
    warps = resources("vectorised", arch=ARCH).occupancy
    longest = max(bk for name, bk in share if name == "vectorised")
    top = {row["kernel"]: row for row in tuned_rows(NAMES, known)}
    ahead = [100 * (top[n]["best"] / top["vectorised"]["best"] - 1) for n in NAMES[1:]]
    sides = ("BM", "BN", "BK", "TM", "TN")
    [quoted] = published(document="S", rung="tiled_pad_rows", metric="gflops_high")
    stalled = {row["kernel"]: row for row in stalls(list(NAMES), gpu="h200")}
    dispatch = [stalled[n]["waits"]["dispatch_stall"] for n in NAMES[1:]]
    study = measure(["tiled_pad_rows", "tiled_32"], sizes=2048, gpu="h200")
    card, tile = costs.bounds("double_buffer", 4096, gpu="h200"), catalog["double_buffer"].params
    return SimpleNamespace(
        gpu=rec.gpu,
        percent={n: 100 * rec.value(n, 4096, "cublas_ratio") for n in NAMES},
        gain={n: 100 * (rec.gain(n, "vectorised", 4096) - 1) for n in NAMES},
        BK=tile["BK"],
        tiles=len({tuple(catalog[n].params[side] for side in sides) for n in NAMES}),
        room={"blocks": warps.blocks, "warps": warps.warps},
        fits={key: r.occupancy.blocks for key, r in fit.items()},
        longest=longest,
        tuned_share=share["vectorised", longest],
        wants={n: fit[n, 16].registers for n in REGISTERS},
        falls={n: 100 * (1 - share[n, 16] / share[n, 8]) for n in REGISTERS},
        at={n: {f"bk{bk}": share[n, bk] for bk in (8, 16)} for n in ("cp_async", "double_buffer")},
        alike=len(pairs),
        ahead=sum(ratio > 1 for ratio in pairs),
        median=float(np.median(pairs)),
        small={n: row["small"] for n, row in top.items()},
        large={n: row["large"] for n, row in top.items()},
        ahead_least=min(ahead),
        ahead_most=max(ahead),
        waits={n: row["waits"]["long_scoreboard"] for n, row in stalled.items()},
        gates={n: row["waits"]["barrier"] for n, row in stalled.items()},
        issues={n: row["issue_percent"] for n, row in stalled.items()},
        longest_wait={n: max(row["waits"], key=row["waits"].get) for n, row in stalled.items()},
        idle=100 - stalled["double_buffer"]["issue_percent"],
        held_least=min(dispatch),
        held_most=max(dispatch),
        ratio=counters("double_buffer", 1024)[0]["multiply_adds_per_wavefront"],
        delivered=100 * card[costs.L1].ms / rec.value("double_buffer", 4096),
        across=tile["BN"] // tile["TN"],
        s_rate=quoted["value"],
        s_gain=study.gain("tiled_pad_rows", "tiled_32", 2048),
    )
