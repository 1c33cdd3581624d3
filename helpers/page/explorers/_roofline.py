"""Explorer of the introduction and chapters 06 and 24: every kernel under every GPU's roofs."""

from typing import Any

from helpers import draw as plots
from helpers.ladder import model
from helpers.ladder.rungs import catalog
from helpers.page.explorers import points
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.record import DEFAULT_GPU, measure
from helpers.record.gpu import PRECISION
from nogpu import device
from nogpu.errors import ConfigError

SIZE = (4096, 4096, 4096)
PRECISIONS = {"fp32": "FP32", "fp16": "FP16 (Tensor Cores)", "bf16": "BF16 (Tensor Cores)"}


def _kernels() -> dict[str, dict[str, Any]]:
    """Precision and intensity at 4096 of each floating-point kernel but the thin ones."""
    kernels = {}
    for name, k in catalog.items():
        precision = PRECISION[k.dtype]
        if precision not in PRECISIONS or model.is_thin(k):
            continue
        try:
            intensity = model.arithmetic_intensity(name, *SIZE)
        except ConfigError:
            continue
        kernels[name] = {"precision": precision, "intensity": round(intensity, 4)}
    return kernels


def _points(key: str, rates: list[points.Rate], source: str, own: bool) -> dict[str, Any]:
    """Rates at 4096, or at the largest published size, by kernel: rate, words, recorded or not."""
    by_kernel: dict[str, Any] = {}
    for rate in rates:  # sizes ascend
        if rate.kernel in catalog and (not own or rate.size == SIZE):
            at = f"{source}, size {points.words(rate.size)}"
            by_kernel[rate.kernel] = (float(f"{rate.gflops:.6g}"), at, own)
    return by_kernel


def roofline(*, gpu: str = DEFAULT_GPU, kernel: str = "tiled_32") -> Explorer:
    """The roofline of a GPU and a precision, one kernel marked: its bound, its rate if known."""
    kernels = _kernels()
    rates: dict[str, dict[str, Any]] = {}
    labels = []
    for key, (_, measured, label) in points.sources().items():
        own = ":" not in key
        name = key.split(":")[-1]
        rates[name] = _points(key, measured, "recorded" if own else label, own) | rates.get(
            name, {}
        )
        if own:
            labels.append(label)
    gpus: dict[str, dict[str, Any]] = {
        g.key: {
            "name": g.name,
            "bandwidth": g.bandwidth_gbs,
            "peaks": {p: round(g.peak_gflops(p), 1) for p in PRECISIONS},
            "points": rates.get(g.key, {}),
        }
        for g in device.GPUS.values()
    }

    def read(state: State) -> Reading:
        g, k = gpus[state["gpu"]], kernels[state["kernel"]]
        peak, bandwidth = g["peaks"][state["precision"]], g["bandwidth"]
        shown = {
            "gpu": g["name"], "kernel": state["kernel"], "peak": text(peak),
            "ridge": text(peak / bandwidth, 1), "precision": PRECISIONS[state["precision"]],
            "own": PRECISIONS[k["precision"]],
        }  # fmt: skip
        if k["precision"] != state["precision"]:
            return Reading("other", shown)
        roof = min(peak, k["intensity"] * bandwidth)
        limit = "memory" if k["intensity"] * bandwidth < peak else "arithmetic"
        shown |= {"intensity": text(k["intensity"], 2), "roof": text(roof), "limit": limit}
        if state["kernel"] not in g["points"]:
            return Reading("predicted", shown)
        rate, origin, _ = g["points"][state["kernel"]]
        shown |= {"rate": text(rate), "of_roof": text(100 * rate / roof, 1), "origin": origin}
        return Reading("measured", shown)

    present = [n for n in kernels if n in gpus[gpu]["points"]] or [kernel]
    m = measure(present, SIZE, gpu=gpu if gpu in rates else DEFAULT_GPU)
    own = kernels[kernel]["precision"]
    picture = plots.roofline(
        m, intensity="kernel", size=SIZE, precision=own,
        kernels=[n for n in present if kernels[n]["precision"] == own],
    )  # fmt: skip
    return Explorer(
        kind="roofline",
        title="Under which roof does a kernel stand?",
        caption=(
            "The slanted roof is the memory's bandwidth, the flat one the peak of arithmetic. A "
            "ring is the bound that a kernel's bytes allow, with no cache; a square was recorded, "
            "a triangle published. A point above the slanted roof had part of its bytes from a "
            "cache."
        ),
        controls=(
            choice("gpu", "GPU", {key: g.name for key, g in device.GPUS.items()}, gpu),
            choice("precision", "precision", PRECISIONS, own),
            Control("kernel", "kernel", tuple(kernels), kernel, "select"),
        ),
        labels={
            "intensity": "FLOP per byte", "ridge": "ridge (FLOP per byte)",
            "roof": "roof there (GFLOP/s)", "peak": "peak (GFLOP/s)", "limit": "the roof is",
            "rate": "GFLOP/s", "of_roof": "of its roof (%)", "origin": "where the rate comes from",
        },
        sentences={
            "other": (
                "{kernel} computes in {own}; choose that precision to see it. The {precision} "
                "peak of the {gpu} is {peak} GFLOP/s."
            ),
            "predicted": (
                "On the {gpu}, {kernel} has {intensity} FLOP per byte: of the two roofs "
                "here the lower is {limit}, at {roof} GFLOP/s. It was not measured there."
            ),
            "measured": (
                "On the {gpu}, {kernel} has {intensity} FLOP per byte: of the two roofs here the"
                " lower is {limit}, at {roof} GFLOP/s. It reaches {rate}, {of_roof} % of that"
                " ({origin})."
            ),
        },
        data={"gpus": gpus, "kernels": kernels, "precisions": PRECISIONS},
        compute=read,
        picture=picture._repr_html_(),
        examples=({}, *({"gpu": g} for g in ("t4", "a100", "rtx4090") if g != gpu)),
        note="; ".join(labels),
        wide=("origin",),
    )  # fmt: skip
