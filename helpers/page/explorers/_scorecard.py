"""Explorer of chapter 25: what each resource would take alone, rung by rung, and which binds."""

from functools import partial

from helpers import draw as plots
from helpers.ladder.rungs import REMOVED
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, text
from helpers.record import costs
from helpers.record.costs import Bounds
from helpers.wording import number

SIZE, GPU = 4096, "h200"
SHORT = {costs.L1: "L1, shared", costs.ISSUE: "issue"}
SCALES = {"log": "ms, by powers of ten", "share": "share of the time"}


def rungs() -> dict[str, Bounds]:
    """The rungs that are timed, in the order of the ladder."""
    found = {name: costs.bounds(name, SIZE, gpu=GPU) for name in REMOVED}
    return {name: b for name, b in found.items() if b.measured}


def read(every: dict[str, Bounds], state: State) -> Reading:
    """What binds a rung, how much of its time that explains, whether it bound the one before."""
    rung = state["rung"]
    b, at = every[rung], list(every).index(rung)
    before = every[list(every)[at - 1]] if at else b
    shown = {
        "rung": rung, "binding": b.binding, "bound": number(b.ms), "time": number(b.measured or 0),
        "share": text(100 * (b.share or 0)), "before": before.kernel, "was": before.binding,
        "removed": REMOVED[before.kernel],
        "all": "; ".join(f"{x.resource} {number(x.ms)} ms" for x in b.values()),
    }  # fmt: skip
    return Reading(
        "first" if not at else "same" if b.binding == before.binding else "changes", shown
    )


def scorecard() -> Explorer:
    """The scorecard of each rung at 4096 on the H200, beside that of the rung before."""
    every = rungs()
    ends = ["naive", "block_2d", "vectorised", "fp32_best", "wmma", "mma_pipelined"]
    ends += [list(every)[-1]]
    whose = next(iter(every.values()))
    return Explorer(
        kind="scorecard",
        title="Which bar is the longest?",
        caption=(
            "What each resource would take alone, by counts over rates, at 4096 and the boost"
            " clock; blue is the longest, which binds. The dashed line is the measured time, and"
            " an outline is the bar of the rung before. Pale: L2, if no two SMs asked for the same"
            f" bytes together. Measured: {whose.whose}."
        ),
        controls=(
            choice("scale", "bars in", SCALES, "log"),
            Control("rung", "rung", tuple(every), "naive", plays=1500),
        ),
        labels={
            "binding": "what binds", "bound": "its bar (ms)", "time": "measured (ms)",
            "share": "bar of the time (%)", "all": "every resource",
        },
        sentences={
            "first": (
                "The first rung, {rung}, takes {time} ms. {binding} would take {bound} ms of "
                "that alone, {share} %."
            ),
            "same": (
                "{rung} takes away what {before} still paid for ({removed}). The same resource "
                "binds: {binding}, with {bound} of {time} ms, {share} %."
            ),
            "changes": (
                "{rung} takes away what {before} still paid for ({removed}). What binds has another"
                " name now: {binding} in place of {was}, with {bound} of {time} ms, {share} %."
            ),
        },
        data={
            "rungs": {
                name: {
                    "bars": [
                        [SHORT.get(x.resource, x.resource), x.ms, number(x.ms), x.apart]
                        for x in b.values()
                    ],
                    "time": b.measured,
                    "say": reading.say,
                    "text": reading.text,
                    "binds": SHORT.get(b.binding, b.binding),
                }
                for name, b in every.items()
                for reading in [read(every, {"rung": name})]
            }
        },
        compute=partial(read, every),
        picture=plots.scorecard(every["naive"])._repr_html_(),
        examples=tuple({"rung": name} for name in ends),
        spoken=("all",),
    )  # fmt: skip
