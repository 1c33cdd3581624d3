"""What the pages show of single steps: a record of an H200, a row a link of a chain."""

from functools import lru_cache
from typing import Any

from helpers.chapters import validated
from helpers.ladder.chains import CHAINS
from helpers.ladder.kernel import ROOT
from helpers.ladder.rungs import find
from helpers.notebook.pieces import Html
from helpers.page import table
from helpers.page.listings import new_lines

RECORD = ROOT / "data" / "validation" / "steps_h200.json"
"""Written by `python -m tools.steps_on_a_gpu`."""
HEADERS = {
    "change": "new", "kernel": "kernel", "lines": "new lines", "ms": "ms at 4096",
    "gain": "% quicker", "share": "% of cuBLAS", "gain_8192": "% quicker at 8192",
}  # fmt: skip
FORMATS = {"ms": ".3f", "gain": "+.1f", "share": ".1f", "gain_8192": "+.1f"}


TRIED = RECORD.with_name("tried_h200.json")
"""Written by `python -m tools.tried_on_a_gpu`."""


_record = lru_cache(maxsize=2)(validated.record)


def _times() -> list[dict[str, Any]]:
    """Every link that was timed, at every size."""
    times: list[dict[str, Any]] = _record(RECORD)["times"]
    return times


def times_as_fast(label: str, as_this: str, size: int) -> float:
    """How many times as fast as another link of its chapter a link is at M = N = K."""
    row = next(r for r in _times() if (r["label"], r["size"]) == (label, size))
    ratio: float = row["ratio"][as_this]
    return ratio


def tried() -> dict[str, dict[str, float]]:
    """What was tried on hopper_5, by its name: percent of cuBLAS and percent that it is quicker
    than the kernel as it is, at 4096 and at 8192.
    """
    found: dict[str, dict[str, float]] = {}
    for row in _record(TRIED)["rows"]:
        for name, value in (("share", row["share"]), ("gain", row["gain"] - 1)):
            end = "" if row["size"] == 4096 else "_8192"
            found.setdefault(row["change"], {})[name + end] = 100 * value
    return found


def shown_tried(caption: str) -> Html:
    """The table of what was tried."""
    formats = {"share": ".1f", "gain": "+.1f", "share_8192": ".1f", "gain_8192": "+.1f"}
    headers = {name: HEADERS[name] for name in ("share", "gain", "gain_8192")}
    return table(
        [{"change": change, **values} for change, values in tried().items()],
        headers={"change": "hopper_5", **headers, "share_8192": "% of cuBLAS at 8192"},
        formats=formats,
        caption=caption,
        note=f"In turn; medians of pairs. {validated.stamp(TRIED)}",
    )


def rows(chain: str) -> list[dict[str, Any]]:
    """A row a link of one of `chains.CHAINS`.

    new lines: of code, against the link before; 0 where only a size differs, None for the first.
    gain: percent by which it is quicker than the link before at 4096, None for the first;
    share: percent of cuBLAS there; the same at 8192.
    """
    links, found = CHAINS[chain], []
    timed = {
        (row["label"], row["size"]): row
        for row in _times()
        if row["chapter"] == chain.split(",")[0]
    }
    for before, link in zip((None, *links), links, strict=False):
        row: dict[str, Any] = {"change": link.change or "where it starts", "kernel": link.kernel}
        row["lines"] = row["gain"] = row["gain_8192"] = None
        row["ms"] = timed[link.label, 4096]["ms"]
        for size, end in ((4096, ""), (8192, "_8192")):
            ratio = timed[link.label, size]["ratio"]
            row[f"share{end}"] = 100 * ratio["baseline"]
            if before is not None:
                row[f"gain{end}"] = 100 * (ratio[before.label] - 1)
        if before is not None:
            row["lines"] = len(new_lines(find(link.kernel).source, find(before.kernel).source))
        found.append(row)
    return found


def shown(chain: str, caption: str) -> Html:
    """The table of a chain: what is new, where, for how many lines, and what it is worth."""
    stamp = validated.stamp(RECORD, chain.split(",")[0])
    return table(
        rows(chain), columns=list(HEADERS), headers=HEADERS, formats=FORMATS, caption=caption,
        note=f"Each with the best of a few tiles, in turn; medians of pairs. {stamp}",
    )  # fmt: skip


def gains(chain: str, size: int = 4096) -> list[float]:
    """Percent that each link but the first is quicker than the one before it."""
    return [row["gain" if size == 4096 else f"gain_{size}"] for row in rows(chain)[1:]]


def tile(kernel: str) -> dict[str, int]:
    """The sizes with which a step was timed, those of its tiles that were quickest."""
    sizes = next(row["tile"] for row in _times() if row["label"] == kernel)
    return {**find(kernel).params, **sizes}
