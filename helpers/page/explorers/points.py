"""Rates that the roofline and ladder explorers show: recorded, or published in the documents."""

from dataclasses import dataclass

from helpers.ladder.model import flops
from helpers.ladder.rungs import catalog, find
from helpers.record import known_gpus, load, published
from helpers.record.gpu import BASELINES
from nogpu import device
from nogpu.errors import UnknownNameError

Size = tuple[int, int, int]
DOCUMENT_GPUS = {"rtx3070_laptop": "L", "t4": "B", "unnamed_14sm": "S", "rtx4090": "P"}
UNNAMED = "an unnamed GPU with 14 SMs"


@dataclass(frozen=True)
class Rate:
    """One kernel at one size: milliseconds, GFLOP/s, cublas share (0 to 1, or None)."""

    kernel: str
    size: Size
    ms: float
    gflops: float
    share: float | None


def words(size: Size) -> str:
    """ "4096", or "1024 x 1024 x 768" where the product is no cube."""
    return str(size[0]) if len(set(size)) == 1 else " x ".join(str(n) for n in size)


def recorded(key: str) -> tuple[list[Rate], str]:
    """Default tiles of a record in the catalog's order, then cuBLAS; and the record's label."""
    record = load(key)
    order = {name: i for i, name in enumerate([*catalog, *BASELINES])}
    rates = []
    for p in record.points:
        name = p["kernel"]
        params = dict(catalog[name].params) if name in catalog else {}
        if name in order and p["params"] == params:
            share = p["cublas_ratio"]
            rates.append(Rate(name, (p["m"], p["n"], p["k"]), p["ms"], p["gflops"], share))
    return sorted(rates, key=lambda r: (r.size, order[r.kernel])), record.label()


def documented(gpu: str) -> list[Rate]:
    """The fastest published time of each rung and size on one of the documents' GPUs."""
    best: dict[tuple[str, Size], Rate] = {}
    for row in published(gpu=gpu, kind="measured"):
        size = (row["m"], row["n"], row["k"])
        if row["metric"] not in ("gflops", "time_kernel") or None in size or not row["rung"]:
            continue
        m, n, k = (int(x or 0) for x in size)
        value, work = float(row["value"] or 0), flops(m, n, k) / 1e6
        ms, gflops = (work / value, value) if row["metric"] == "gflops" else (value, work / value)
        key = (str(row["rung"]), (m, n, k))
        if key not in best or gflops > best[key].gflops:
            best[key] = Rate(key[0], key[1], ms, gflops, None)
    order = {name: i for i, name in enumerate([*catalog, *BASELINES])}
    rates = [r for r in best.values() if r.kernel in order]
    with_shares = []
    for r in rates:
        base = best.get((baseline(r.kernel), r.size))
        share = r.gflops / base.gflops if base else None
        with_shares.append(Rate(r.kernel, r.size, r.ms, r.gflops, share))
    return sorted(with_shares, key=lambda r: (r.size, order[r.kernel]))


def baseline(name: str) -> str:
    """The cuBLAS of the same precision."""
    return name if name in BASELINES else find(name).baseline


def sources() -> dict[str, tuple[str, list[Rate], str]]:
    """Every source of rates by key: its name, its rates, and its provenance in words."""
    by_key: dict[str, tuple[str, list[Rate], str]] = {}
    for key in known_gpus():
        rates, label = recorded(key)
        by_key[key] = (f"{load(key).gpu['name']}, recorded", rates, label)
    for key, document in DOCUMENT_GPUS.items():
        name = device.GPUS[key].name if key in device.GPUS else UNNAMED
        rates = documented(key)
        if rates:
            label = f"as published in document {document}"
            by_key[f"{document}:{key}"] = (f"{name}, published in {document}", rates, label)
    return by_key


def peak(key: str, precision: str) -> float | None:
    """FP32, INT32 or Tensor Core peak of a source's GPU in GFLOP/s; None if it is not known."""
    try:
        return device.gpu(key.split(":")[-1]).peak_gflops(precision)
    except UnknownNameError:
        return None
