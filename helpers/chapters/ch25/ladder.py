"""Every limit of every rung on the H200, what the next rung removed, and the summit's numbers."""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations, groupby, pairwise
from typing import Any

from helpers.chapters import summit
from helpers.chapters.facts import Facts, recorded
from helpers.ladder.rungs import REMOVED, catalog
from helpers.record import costs, evidence, stalls, tuned
from helpers.record.costs import Bounds
from helpers.wording import join, number

SIZE = 4096
EDGES = ((4096, 4096, 4096), (4095, 4095, 4095), (4097, 4097, 4097), (5000, 3000, 2000))
ON_THE_EDGE = (
    "warp_tiled", "fp32_best", "mma_pipelined", "mma_tma", "hopper_5", "cublas_fp32", "cublas_fp16",
)  # fmt: skip
FP32 = tuple(REMOVED)[:12]
TENSOR = tuple(REMOVED)[12:]
Row = dict[str, Any]


def limits(names: Sequence[str]) -> list[Bounds]:
    """What each resource alone would take at 4096 on the H200, for those names that are kernels."""
    return [costs.bounds(name, SIZE, gpu="h200") for name in names if name in catalog]


def shown(every: Sequence[Bounds]) -> Row:
    """The table of limits: a row a rung, in ms, the binding one marked, beside it the time."""
    columns = {costs.DRAM: "DRAM", costs.L2: "L2", costs.L1: "L1, shared", costs.ISSUE: "issue"}
    counted = {row["kernel"]: row for row in stalls([b.kernel for b in every], gpu="h200")}
    rows, before = [], math.inf
    for b in every:
        titles = columns | {b.pipe: b.pipe}
        words = {t: number(b[name].ms, 3) if name in b else None for name, t in titles.items()}
        apart = b[costs.L2].apart if costs.L2 in b else None
        if apart is not None and apart > 0.5 * b.ms:
            words["L2"] = f"{words['L2']} to {number(apart, 3)}"
        words[titles[b.binding]] = f"{words[titles[b.binding]]}\u00a0◂"
        took = b.measured and number(b.measured, 3) + "\u00a0▲" * (b.measured > before)
        # a part of the clocks that ran: the same at a lower clock than the highest
        busy = counted.get(b.kernel, {}).get(COUNTED.get(b.binding, ""))
        rows.append(
            {
                "rung": b.kernel, **words, "measured": took, "share": b.share,
                "busy": busy and busy / 100, "next": REMOVED[b.kernel] or None,
            }
        )  # fmt: skip
        before = b.measured or before
    return {
        "rows": rows,
        "caption": (
            f"At {SIZE} on the {every[0].gpu.name}: what each resource alone would take in ms (◂"
            " the longest, which binds), the measured time (▲ slower than the rung before), the"
            " bound's share of it at the highest clock, the share of the clocks that ran in which"
            " that resource was busy (ncu; – where it does not count it), and what the next rung"
            " removes."
        ),
        "headers": {"measured": "time", "busy": "busy", "next": "the next removes"},
        "formats": {"share": ".2f", "busy": ".2f"},
    }


def neighbours() -> Row:
    """The table of other repositories' kernels beside ours and cuBLAS, timed in one run."""
    by_name: dict[str, Row] = {}
    for r in summit.times(does=""):
        if r["m"] == r["n"] == r["k"] and "cublas" in r["ratio"]:
            whose = r.get("repository", "").removeprefix("https://github.com/")
            of = f"{whose} at {r['commit']}" if whose else "this book"
            of = "NVIDIA" if r["kernel"].startswith("cublas") else of
            row = by_name.setdefault(
                r["kernel"] + r["form"], {"kernel": r["kernel"], "of": of, "type": r["form"]}
            )
            row["best of"] = r["tried"] if r["tried"] > 1 else None
            row[f"TFLOP/s, {r['m']}"] = r["tflops"]
            row[f"% of cuBLAS, {r['m']}"] = 100 * r["ratio"]["cublas"]
    rows = sorted(by_name.values(), key=lambda row: (row["type"], -row["TFLOP/s, 8192"]))
    return {
        "rows": rows,
        "caption": "Other repositories' kernels as they are, beside this book's, in turn.",
        "formats": {key: ".1f" for row in rows for key in row if key[0] in "T%"},
        "note": f"{summit.stamp()} fast.cu gets B and C by columns, as it wants them.",
    }


COUNTED: Mapping[str, str] = {
    costs.L1: "shared_percent", costs.ISSUE: "issue_percent", "FMA pipe": "fma_percent",
    "Tensor pipe": "tensor_percent",
}  # fmt: skip
"""Resources whose busy clocks ncu counts, by the names of `helpers.record.ncu`."""


def slower(every: Sequence[Bounds]) -> list[str]:
    """The rungs that take longer than the one before them."""
    timed = [b for b in every if b.measured]
    return [b.kernel for a, b in pairwise(timed) if (b.measured or 0) > (a.measured or 0)]


def low(every: Sequence[Bounds]) -> list[str]:
    """The rungs whose bound explains less than 0.7 of their time, with stalls on record."""
    names = [b.kernel for b in every if b.share is not None and b.share < 0.7]
    return [row["kernel"] for row in stalls(names, gpu="h200")] if names else []


def top(fp32: Sequence[Bounds], tensor: Sequence[Bounds]) -> Facts:
    """What the limits say of the whole ladder."""
    out, by = Facts(), {b.kernel: b for b in (*fp32, *tensor)}
    known = {b.kernel: b.share for b in by.values() if b.share is not None}
    late = [b for b in fp32 if b.binding == costs.ISSUE]
    early = [b for b in fp32 if b.binding == costs.L1]
    first, last = late[0], late[-1]
    up = [*slower(fp32), *slower(tensor)]
    timed, counted = ([b for b in every if b.measured] for every in (fp32, tensor))
    far = [(a, b) for a, b in combinations(timed, 2) if a.ms > 1.05 * b.ms]
    waited = {b.kernel: known.get(b.kernel, math.nan) for b in late}
    out.say(
        first_issue=first.kernel, slots_first=first.ms, slots_last=last.ms,
        waited_first=100 * waited[first.kernel], waited_last=100 * waited[last.kernel],
        closest=100 * max(known.values()), farthest=100 * min(known.values()),
        farthest_name=min(known, key=lambda name: known[name]),
        dram_share=100 * fp32[-1][costs.DRAM].ms / fp32[-1].ms, time_first=first.measured,
        time_last=last.measured, slower=join(up), slower_count=len(up),
        steps=len(timed) + len(counted) - 2, near_pipe=100 * last[last.pipe].ms / last.ms,
        rungs=len(known),
    )  # fmt: skip
    out.ends(uneven=[100 * (b.waves.factor - 1) for b in by.values()])
    out.check("below", max(known.values()) <= 1)
    out.check("order", all((a.measured or 0) > (b.measured or 0) for a, b in far) and len(far) > 20)
    out.check("first half", early == list(fp32[: len(early)]) and len(early) == 5)
    rising = known.get(first.kernel, 0) < 0.7 and known.get(last.kernel, 1) > 0.85
    level = max(b.ms for b in late) < 1.1 * min(b.ms for b in late)
    out.check("slots", len(late) == len(fp32) - len(early) and level and rising)
    shares = [known[b.kernel] for b in late if b.kernel in known]
    out.check("closer", shares == sorted(shares))
    carried, copied = by["double_buffer"], by["cp_async"]
    timed_both = [b.measured or math.nan for b in (carried, copied)]
    longer = timed_both[1] > 0.98 * timed_both[0]
    out.check("copies add", copied.ms > 1.02 * carried.ms and longer, *timed_both)
    pipe = [b.binding.endswith(" pipe") for b in tensor]
    out.check("tensor", pipe == sorted(pipe) and pipe[-1] and not pipe[0])
    names = [name for name, _ in groupby(b.binding for b in [*timed, *counted])]
    out.check("three names", names == [costs.L1, costs.ISSUE, costs.L1, "Tensor pipe"])
    out.check("dram", all(b[costs.DRAM].ms < 0.25 * b.ms for b in by.values()))
    return out


def climbed() -> Facts:
    """The first kernel, the best, their shares of the library, and what two steps gained."""
    out = Facts()
    first, best, tensor = (recorded(n, 8192) / 1e3 for n in ("naive", "fp32_best", "hopper_5"))
    names = ("warp_tiled", "fp32_best", "hopper_4", "hopper_5")
    here = {n: 100 * recorded(n, SIZE, "cublas_ratio") for n in names}
    found = evidence.shapes_table()
    tried = found.rows if found else []
    none = {"cublas_ratio": math.nan}
    own = {n: 100 * float((tuned(n, SIZE) or none)["cublas_ratio"]) for n in names[:2]}
    out.say(
        first=first, best=best, best_share=100 * recorded("fp32_best", 8192, "cublas_ratio"),
        tensor=tensor, tensor_share=100 * recorded("hopper_5", 8192, "cublas_ratio"),
        whole=tensor / first, copies_gain=here["fp32_best"] - here["warp_tiled"],
        copies_best=own["fp32_best"] - own["warp_tiled"],
        packed_gain=here["hopper_5"] - here["hopper_4"], tested=len(tried),
        tested_shapes=min((row["shapes"] for row in tried), default=0),
    )  # fmt: skip
    ahead = all(of["fp32_best"] > of["warp_tiled"] + 3 for of in (here, own))
    out.check("copies", ahead, *here.values(), *own.values())
    out.check("packed", here["hopper_5"] > here["hopper_4"] + 3, *here.values())
    right = all(row["wrong"] == row["shifted_wrong"] == 0 for row in tried)
    out.check("right", len(tried) > 30 and right)
    return out


def edges() -> Row:
    """The table of the ragged edge: TFLOP/s, and percent of cuBLAS at the same precision."""
    rows = []
    for name in ON_THE_EDGE:
        row: Row = {"kernel": name}
        for shape in EDGES:
            rate, share = (recorded(name, shape, column) for column in ("gflops", "cublas_ratio"))
            what = "x".join(map(str, shape)) if shape[0] != shape[1] else str(shape[0])
            paired = "" if name.startswith("cublas") else f" ({100 * share:.0f} %)"
            row[what] = f"{rate / 1e3:.0f}{paired}" if rate == rate else None
        rows.append(row)
    return {
        "rows": rows,
        "caption": "TFLOP/s on the H200 (percent of cuBLAS at the same precision).",
    }


def kept() -> Facts:
    """How much of its rate a kernel keeps at 4097."""
    out, names = Facts(), ("fp32_best", "mma_tma", "cublas_fp16")
    fp32, tma, library = (100 * recorded(n, 4097) / recorded(n, 4096) for n in names)
    out.say(fp32_kept=fp32, tma_kept=tma, library_kept=library)
    out.check("cost more", tma < 0.9 * fp32 and library < tma, fp32, tma, library)
    return out
