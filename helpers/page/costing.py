"""The cost model on a page: one row a kernel, and the box "On your GPU"."""

import html
import re
from collections.abc import Sequence
from typing import Any

from helpers.ladder.rungs import find
from helpers.notebook.pieces import Html, inline
from helpers.page.tables import table
from helpers.record import costs
from helpers.record.costs import Bounds
from helpers.record.selection import size_of
from helpers.wording import join, number, shape_text
from nogpu import device
from nogpu.device import Gpu
from nogpu.errors import ConfigError

Size = int | tuple[int, int, int]


def costs_table(
    names: Sequence[str | Bounds], size: Size = 4096, *, gpu: str | Gpu | None = None
) -> Html:
    """What each resource alone would take in ms, a row a kernel: the largest is the bound.

    names: kernels of the catalog, or Bounds. gpu: a key of `device.GPUS`; default the GPU at hand,
    or the H200. Beside it the measured time and the bound's share of it, where somebody measured
    it. Raises what `costs.bounds` raises.
    """
    if isinstance(names, str) or not names:
        raise ConfigError(f"{names=}: costs_table() takes a list of kernels, one or more")
    shape = size_of(size)
    every = [n if isinstance(n, Bounds) else costs.bounds(n, *shape, gpu=gpu) for n in names]
    rows: list[dict[str, Any]] = []
    for b in every:
        row: dict[str, Any] = {"kernel": b.kernel}
        for resource in (costs.DRAM, costs.L2, costs.L1, costs.ISSUE):
            row[resource] = b[resource].ms if resource in b else None
            if resource == costs.L2:
                row["L2, apart"] = b[costs.L2].apart if costs.L2 in b else None
        row["arithmetic"] = b[b.pipe].ms
        row |= {
            "binds": b.binding,
            "bound (ms)": b.ms,
            "with waiting (ms)": b.predicted if b.waiting is not None else None,
            "measured (ms)": b.measured,
            "bound / measured": b.share,
        }
        rows.append(row)
    first, pipes = every[0], {b.pipe for b in every}
    records = list(dict.fromkeys(b.whose for b in every if b.measured))
    note = f"Measured: {'; '.join(records)}." if records else "Predicted; nobody measured it there."
    return table(
        rows,
        caption=f"What each resource alone would take in ms at {shape_text(*first.size)} on "
        f"{first.gpu.name}, at the boost clock.",
        headers={
            costs.L1: "L1, shared",
            costs.L2: "L2, together",
            "arithmetic": first.pipe if len(pipes) == 1 else "arithmetic",
        },
        formats={n: lambda x: number(float(x)) for n in rows[0] if n not in ("kernel", "binds")}
        | {"bound / measured": ".2f"},
        note=note,
    )


def on_your_gpu(name: str, *, next: str | None = None, size: Size = 4096) -> Html:
    """The box "On your GPU": the same model for a T4, and for the GPU at hand where there is one.

    For each: which resource binds, the rate that it allows, what the next rung may give (the ratio
    of the two predictions, or what it lacks there), what is missing or slower. A prediction is
    called one; for the GPU at hand the measured time stands beside it. Raises what `costs.bounds`
    raises.
    """
    here, shape = costs.at_hand(), size_of(size)
    cards = [device.gpu("t4")] if here is None or here.key != "t4" else []
    if here is not None:
        cards.append(here)
    parts = [_on(card, name, next, shape, card == here) for card in cards]
    items = "".join(f"<li>{inline(words)}</li>" for words in parts)
    title = "On your GPU"
    lead = (
        f"The same counts over other rates, at {shape_text(*shape)}. These are bounds: nothing"
        " is faster, and a kernel is usually slower."
    )
    out = (
        '<aside class="admonition tip tile-on-your-gpu" style="margin:1em 0"><p'
        f' class="admonition-title">{title}</p><p>{html.escape(lead)}</p><ul>{items}</ul></aside>'
    )
    return Html(out, "\n".join([title, lead, *(f"- {re.sub('`', '', words)}" for words in parts)]))


def _on(card: Gpu, name: str, after: str | None, size: tuple[int, int, int], here: bool) -> str:
    """What the box says of one GPU."""
    kernel = find(name)
    who = f"{card.name}{' (this machine)' if here else ''}"
    lacking = costs.missing(kernel, card)
    if lacking:
        return f"{who}: `{name}` does not run there. Missing: {join(lacking)}."
    b = costs.bounds(name, *size, gpu=card)
    words = [
        f"{who}: {b.binding} {'bind' if b.binding.endswith('s') else 'binds'} `{name}`; at "
        f"{card.boost_mhz:,d} MHz it takes at least {number(b.ms)} ms, so "
        f"{number(b.gflops)} G{kernel.flop_item}/s at most."
    ]
    if (powered := costs.powered(b)) is not None:
        later, source = powered
        words.append(
            f"While its multipliers are busy, {card.watts} W leave it about"
            f" {later.gpu.boost_mhz:,d} MHz (from what {source}); at that clock it takes at least"
            f" {number(later.ms)} ms, {number(later.gflops)} G{kernel.flop_item}/s at most."
        )
    if b.measured:
        words.append(
            f"Measured: {number(b.measured)} ms, the bound is {100 * (b.share or 0):.0f} % of it."
        )
    if after is not None:
        words.append(_after(card, b, after, size))
    words += [f"There {remark}." for remark in costs.remarks(kernel, card)]
    return " ".join(words)


def _after(card: Gpu, b: Bounds, after: str, size: tuple[int, int, int]) -> str:
    """What the next rung may give there."""
    lacking = costs.missing(find(after), card)
    if lacking:
        return f"The next rung, `{after}`, does not run there. Missing: {join(lacking)}."
    later = costs.bounds(after, *size, gpu=card)
    gain, waits = b.ms / later.ms, b.predicted / later.predicted
    if gain > 1.02:
        return (
            f"The next rung, `{after}`, may be {number(gain)} times as fast; then {later.binding} "
            f"{'bind' if later.binding.endswith('s') else 'binds'}."
        )
    still = f"The next rung, `{after}`, leaves this bound where it is"
    if waits > 1.02:
        return (
            f"{still}; it waits less for its loads, and may be {number(waits)} times as fast for "
            "that."
        )
    return (
        f"{still}, and by its machine code a warp waits no less: these counts cannot tell what it "
        "gains there, if anything."
    )
