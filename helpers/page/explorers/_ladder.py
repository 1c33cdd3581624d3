"""Explorer of the introduction and chapter 25: every rung on every GPU that we have numbers of."""

from typing import Any

from helpers import draw as plots
from helpers.ladder.rungs import catalog
from helpers.page.explorers import points
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, significant, text
from helpers.record import DEFAULT_GPU, measure
from helpers.record.selection import precision
from helpers.wording import counted

UNITS = {"gflops": "GFLOP/s", "ms": "milliseconds", "share": "% of cuBLAS", "peak": "% of the peak"}

SIZE = 4096  # with which it begins
GROUPS = {"cuda": "CUDA cores", "tensor": "Tensor Cores", "all": "all"}


def _units(rate: points.Rate, key: str) -> dict[str, tuple[float, str]]:
    """Value and words of a rate in each unit that it has."""
    units = {"gflops": (rate.gflops, text(rate.gflops)), "ms": (rate.ms, significant(rate.ms, 4))}
    if rate.share is not None:
        units["share"] = (100 * rate.share, text(100 * rate.share, 1))
    peak = points.peak(key, precision(rate.kernel))
    if peak:
        units["peak"] = (100 * rate.gflops / peak, text(100 * rate.gflops / peak, 1))
    return units


def ladder() -> Explorer:
    """Bars of all rungs: choose the GPU (recorded, the reader's own included, or published), the
    size and the unit. A GPU recorded with `python -m helpers record` joins the list."""
    sources: dict[str, dict[str, Any]] = {}
    seen: dict[points.Size, None] = {}
    for key, (name, rates, label) in points.sources().items():
        by_size: dict[str, list[tuple[str, str, dict[str, tuple[float, str]]]]] = {}
        for rate in rates:
            seen[rate.size] = None
            by_size.setdefault(points.words(rate.size), []).append(
                (
                    rate.kernel,
                    "cuda" if precision(rate.kernel) in ("fp32", "int32") else "tensor",
                    {n: (float(f"{v:.6g}"), w) for n, (v, w) in _units(rate, key).items()},
                )
            )
        sources[key] = {"name": name, "label": label, "sizes": ", ".join(by_size), "rates": by_size}
    sizes = [points.words(s) for s in sorted(seen)]

    def read(state: State) -> Reading:
        source, wanted = sources[state["source"]], state["unit"]
        rows = source["rates"].get(state["size"])
        shown = {
            "source": source["name"], "size": state["size"], "sizes": source["sizes"],
            "label": source["label"], "unit": UNITS[wanted], "group": GROUPS[state["group"]],
        }  # fmt: skip
        chosen = (
            row for row in rows or [] if wanted in row[2] and state["group"] in (row[1], "all")
        )
        shown_rates = [(name, *units[wanted]) for name, _, units in chosen]
        if not shown_rates:
            return Reading("size" if rows is None else "unit", shown)
        least, most = (f(shown_rates, key=lambda row: row[1]) for f in (min, max))
        best, worst = (least, most) if wanted == "ms" else (most, least)
        span = worst[1] / best[1] if wanted == "ms" else best[1] / worst[1]
        shown |= {
            "count": counted(len(shown_rates), "kernel"),
            "best": best[0],
            "best_value": best[2],
            "worst": worst[0],
            "worst_value": worst[2],
            "span": text(span, 1),
            "all": "; ".join(f"{name} {words}" for name, _, words in shown_rates),
        }
        return Reading("rungs", shown)

    first = DEFAULT_GPU if DEFAULT_GPU in sources else next(iter(sources))
    names = [name for name, *_ in sources[first]["rates"].get(str(SIZE), []) if name in catalog]
    m = measure(names, SIZE, gpu=first)
    return Explorer(
        kind="ladder",
        title="The ladder on each GPU",
        caption=(
            "One bar a kernel, in the order of the chapters, a variant after the kernel that it "
            "varies; cuBLAS in grey. Where a document "
            "prints several block sizes, the fastest is shown. Choose a share instead of a rate, "
            "and GPUs of different size can be compared."
        ),
        controls=(
            choice("source", "GPU", {key: s["name"] for key, s in sources.items()}, first),
            Control("size", "size", tuple(sizes), str(SIZE), "select"),
            choice("group", "kernels on", GROUPS, "cuda"),
            choice("unit", "unit", UNITS, "gflops"),
        ),
        labels={
            "best": "fastest", "best_value": "its value", "worst": "slowest",
            "worst_value": "its value", "span": "factor between them",
            "label": "where the numbers come from", "all": "every kernel",
        },
        sentences={
            "rungs": "{source}, size {size}, {unit}: {count}, slowest {worst} at {worst_value}, "
            "fastest {best} at {best_value}.",
            "size": "{source}: there is no number at size {size}. There are numbers at: {sizes}.",
            "unit": "{source}, size {size}, kernels on {group}: there is no number in {unit}. "
            "Choose another unit or other kernels.",
        },
        data={"sources": sources, "units": UNITS, "groups": GROUPS},
        compute=read,
        picture=plots.ladder(m, SIZE)._repr_html_(),
        examples=({}, *({"size": s} for s in list(sources[first]["rates"])[:2]), {"unit": "share"}),
        wide=("label",),
        spoken=("all",),
    )  # fmt: skip
