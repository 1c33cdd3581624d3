"""The best rung of each chapter as recorded, what a T4 could give of it, and the documents: the
first page."""

from types import SimpleNamespace
from typing import Any

from helpers.chapters.facts import recorded
from helpers.ladder import model
from helpers.ladder.kernel import Kernel
from helpers.ladder.rungs import catalog
from helpers.record import costs, load, published
from nogpu import device

CHAPTERS = (*range(4, 15), *range(17, 23))
"""Those with kernels of their own."""
SIZE = 4096
BESIDE = frozenset({"unrolled", "coarsened"})
"""Kernels that start from a later chapter's than the one they are kept with."""


def rungs_of(chapter: int) -> list[Kernel]:
    """A chapter's kernels that a library is timed beside."""
    found = (k for name, k in catalog.items() if name not in BESIDE and k.baseline != "none")
    return [k for k in found if k.chapter == chapter]


def row(chapter: int) -> dict[str, str]:
    """The best rung of a chapter by its share of cuBLAS, as words.

    rate: TFLOP/s of the H200's record. t4: TFLOP/s that the cost model allows on a T4 at most, at
    the clock that its power leaves, of the rung of the chapter that it allows most, named if it is
    another one.
    """
    shares = {k.name: recorded(k.name, SIZE, "cublas_ratio") for k in rungs_of(chapter)}
    shares = {name: share for name, share in shares.items() if share == share}
    if not shares:
        return {"best": "not recorded", "rate": "–", "share": "–", "t4": "–"}
    best = max(shares, key=lambda name: shares[name])
    bounds = costs.ladder(list(shares), SIZE, gpu="t4")
    known = {name: b for name, b in bounds.items() if b is not None}
    there = {name: (costs.powered(b) or (b,))[0].gflops / 1e3 for name, b in known.items()}
    t4 = "does not run"
    if there:
        fastest = best if best in there else max(there, key=lambda name: there[name])
        t4 = f"{there[fastest]:.1f}" + (f" ({fastest})" if fastest != best else "")
    rate, share = f"{recorded(best, SIZE) / 1e3:.1f}", f"{100 * shares[best]:.0f} %"
    return {"best": best, "rate": rate, "share": share, "t4": t4}


def best() -> list[str]:
    """The rungs of the table, in its order."""
    return [name for chapter in CHAPTERS if (name := row(chapter)["best"]) in catalog]


def numbers() -> SimpleNamespace:
    """The rows by chapter (c04 and so on); the GPU of the record; the first and the fastest float32
    kernel: ms, rates, share of cuBLAS; the worst share of fp32_best on a ragged shape (ragged), and
    the best of chapter 7 over the tile of 32 (seventh) and the coalesced kernel over its roof
    (over_roof)."""
    rates = {name: recorded(name, SIZE) for name, k in catalog.items() if k.dtype == "float32"}
    rates = {name: rate for name, rate in rates.items() if rate == rate}
    first, last = min(rates, key=lambda n: rates[n]), max(rates, key=lambda n: rates[n])
    intensity = model.arithmetic_intensity("coalesced", SIZE, SIZE, SIZE)
    return SimpleNamespace(
        **{f"c{chapter:02d}": row(chapter) for chapter in CHAPTERS},
        gpu=str(load("h200").gpu["name"]),
        first_ms=recorded(first, SIZE, "ms"),
        span=rates[last] / rates[first],
        last_share=100 * recorded(last, SIZE, "cublas_ratio"),
        best_share=100 * recorded("fp32_best", SIZE, "cublas_ratio"),
        ragged=100 * min(entry["cublas_ratio"] for entry in load("h200").ragged),
        seventh=max(rates[k.name] for k in rungs_of(7)) / rates["tiled_32"],
        over_roof=rates["coalesced"] / model.roofline(device.gpu("h200"), intensity),
    )


def documents() -> dict[str, dict[str, Any]]:
    """By letter: the GPUs that a document measured on, and how many numbers it measured."""
    found = {}
    for letter in "LBNSP":
        rows = [r for r in published(document=letter) if r["kind"] == "measured"]
        gpus = dict.fromkeys(str(r["gpu"]) for r in rows)
        cards = [device.gpu(key).name for key in gpus if key in device.GPUS]
        if "unnamed_14sm" in gpus:
            [sms, *_] = published(document=letter, metric="spec_sms")
            cards.append(f"unnamed, {int(sms['value'] or 0)} SMs")
        found[letter] = {"card": " and ".join(cards) or "none", "count": len(rows)}
    return found
