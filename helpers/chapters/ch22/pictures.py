"""Pictures of chapter 22: tiles over SMs, whole and cut along k, and when a tile of C leaves."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from helpers.colours import BLUE, GREY, PALETTE, VERMILION
from helpers.draw.columns import Column
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Align, Canvas, Mark, draw_key, text_width
from helpers.ladder.cuts import stream_k_pieces
from helpers.wording import join, number
from nogpu.errors import DataError

# -- tiles over SMs ------------------------------------------------------------------------------

Span = tuple[int, int, float, float, int, int]
"""Worker, tile, begin and end in times of a tile, and the first and last step (not included)."""


def _schedule(workers: int, tiles: int, steps: int, cut: bool) -> list[Span]:
    """Who multiplies which steps of which tile, and when; a step takes 1/steps."""
    spans: list[Span] = []
    for worker in range(workers):
        if cut:
            pieces = [
                (p.tile, p.begin, p.end) for p in stream_k_pieces(worker, workers, tiles, steps)
            ]
        else:
            pieces = [(tile, 0, steps) for tile in range(worker, tiles, workers)]
        now = 0.0
        for tile, begin, end in pieces:
            spans.append((worker, tile, now, now + (end - begin) / steps, begin, end))
            now += (end - begin) / steps
    return spans


def stream_k(tiles: int = 5, workers: int = 4, *, steps: int = 32) -> Figure:
    """Tiles over SMs, each tile whole against the last ones cut along k: who works when.

    steps: of k in a tile. A model: every step takes the same time, and handing sums over takes
    none. Raises ConfigError for no tile, SM or step.
    """
    plans = [(cut, _schedule(workers, tiles, steps, cut)) for cut in (False, True)]
    ends = [max(end for *_, end, _, _ in spans) for _, spans in plans]
    share = [tiles / (end * workers) for end in ends]

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        left = 8 + text_width(f"SM {workers - 1}", small)
        span, thick = at.width - left - 6, 20.0 if at.narrow else 18.0
        y = 0.0
        for (cut, spans), end, busy in zip(plans, ends, share, strict=True):
            title = "the last tiles cut along k" if cut else "whole tiles"
            gap = 14.0 if cut else 3.0  # room for the arrows
            words = (
                f"{title}: {number(end)} round{'s' * (end != 1)}, SMs busy {number(100 * busy)} %"
            )
            width = 0.85 * at.width
            y = canvas.lines(0, y + 10, words, width=width, size=small, weight="bold")
            top = y = y + small + 1
            for worker in range(workers):
                row = y + worker * (thick + gap)
                canvas.text(left - 5, row + thick / 2, f"SM {worker}", size=small, ha="right")
                canvas.rect(left, row, span, thick, edge=GREY, lw=0.5)
            parts: dict[int, list[tuple[float, float]]] = {}
            for worker, tile, begin, stop, first, last in spans:
                row = y + worker * (thick + gap)
                x, w = left + span * begin / max(ends), span * (stop - begin) / max(ends)
                lw, fill = 1.8 if first else 0.9, PALETTE[tile % len(PALETTE)]
                canvas.rect(x, row, w, thick, fill=fill, alpha=0.3, lw=lw, dash=first > 0)
                names = [f"tile {tile}"]
                if last - first < steps:
                    part = f"{first}–{last - 1}"
                    names = [f"tile {tile}, k {part}", f"{tile}: {part}", str(tile)]
                fits = (words for words in names if text_width(words, small) < w - 3)
                canvas.centred(x, row, w, thick, next(fits, ""), size=small)
                if last - first < steps:
                    parts.setdefault(tile, []).append((x + w - 4, row))
            for shared in parts.values():  # from part to part, when both are done
                for (u, high), (v, low) in pairwise(shared):
                    between = (high + thick + low) / 2 + 1
                    canvas.segments([(v, low, v, between), (v, between, u, between)], lw=1.3)
                    canvas.arrow(u, between, u, high + thick, lw=1.3)
                    if len(shared) > 2:  # each adds up a share
                        canvas.arrow(v, between, v, low, lw=1.3)
            y += workers * (thick + gap)
            canvas.line(left, top, left, y, lw=0.8)
            y += 4
        for tick in range(int(max(ends)) + 1):
            x = left + span * tick / max(ends)
            canvas.line(x, y, x, y + 4, lw=0.8)
            ha: Align = "right" if tick == max(ends) else "center"
            canvas.text(x, y + 11, str(tick), size=small, ha=ha)
        canvas.line(left, y, left + span, y, lw=0.8)
        canvas.text(left + span / 2, y + 24, "time, in tiles", size=small, ha="center")
        return canvas.end(y + 32)

    def told(cut: bool, spans: list[Span]) -> str:
        rows: dict[int, list[str]] = {}
        for worker, tile, _, _, first, last in spans:
            part = "" if last - first == steps else f" steps {first} to {last - 1}"
            rows.setdefault(worker, []).append(f"{tile}{part}")
        return "; ".join(f"SM {w}: {join(parts)}" for w, parts in rows.items())

    summary = (
        f"{tiles} tiles on {workers} SMs: whole they take {number(ends[0])} "
        f"round{'s' * (ends[0] != 1)}, with the SMs busy {number(100 * share[0])} % of the time; "
        f"cut, {number(ends[1])} and {number(100 * share[1])} %"
    )
    alt = (
        f"Two time lines of tiles over SMs. {summary}. Whole: {told(*plans[0])}. Cut into {steps} "
        f"steps a tile: {told(*plans[1])}."
    )
    caption = (
        f"A model. {summary}. Dashed: no beginning of a tile. Arrows take sums to the SMs that add "
        "them up; the model takes no time for that."
    )
    return both(draw, alt, caption)


def stream_k_share(tiles: int, workers: int, steps: int) -> dict[str, Any]:
    """Rounds and busy share of both ways, and how many tiles are cut: `stream_k` in numbers."""
    whole, cut = (_schedule(workers, tiles, steps, way) for way in (False, True))
    ends = [max(end for *_, end, _, _ in spans) for spans in (whole, cut)]
    pieces = [tile for _, tile, *_ in cut]
    return {
        "whole": ends[0],
        "cut": ends[1],
        "whole_busy": tiles / (ends[0] * workers),
        "cut_busy": tiles / (ends[1] * workers),
        "cut_tiles": sum(n > 1 for n in Counter(pieces).values()),
    }


# -- when a tile of C leaves -----------------------------------------------------------------------


def _leaving(tiles: int, store: float, during: bool) -> list[tuple[float, float, float]]:
    """Of each tile: when its products begin, end, and when it has been stored."""
    times: list[tuple[float, float, float]] = []
    free, stored = 0.0, 0.0
    for _ in range(tiles):
        end = free + 1.0
        stored = max(end, stored) + store
        times.append((free, end, stored))
        free = end if during else stored
    return times


def leaving(tiles: int = 4, *, store: float = 0.15) -> Figure:
    """Tiles of one SM over time: stored when complete, and stored during the next one's products.

    A model: the products of a tile take 1, its store `store`. Raises DataError for no tile, or a
    store that takes less than nothing or longer than a tile's products.
    """
    if tiles < 1 or not 0 <= store <= 1:
        raise DataError(
            f"{tiles=}, {store=}: give at least a tile, and a store of 0 to 1 of its time"
        )
    plans = [(during, _leaving(tiles, store, during)) for during in (False, True)]
    longest = max(spans[-1][2] for _, spans in plans)
    works = Mark("its products run", VERMILION, 0.4, VERMILION)
    leaves = Mark("it is stored", BLUE, 0.4, BLUE)
    parts = [
        f"{'during the next one' if during else 'when it is complete'}: {tiles} tiles take "
        f"{number(spans[-1][2])}, the Tensor Cores busy for {number(100 * tiles / spans[-1][2])} %"
        for during, spans in plans
    ]

    def draw(at: Column) -> Canvas:
        canvas, small, thick = Canvas(at), at.small, 17.0
        left = text_width("Tensor Cores", small) + 7
        span = at.width - left - 4
        y = draw_key(canvas, [works, leaves])
        for words, (_, spans) in zip(parts, plans, strict=True):
            words = f"Stored {words}"
            y = canvas.lines(0, y + small, words, width=at.width, size=small, weight="bold")
            y += small + 2
            for name, mark, first in (("Tensor Cores", works, 0), ("store of C", leaves, 1)):
                canvas.text(left - 5, y + thick / 2, name, size=small, ha="right")
                canvas.rect(left, y, span, thick, edge=GREY, lw=0.5)
                for tile, times in enumerate(spans):
                    x, end = (left + span * t / longest for t in times[first : first + 2])
                    canvas.marked(x, y, end - x, thick, mark, lw=0.9)
                    canvas.fitted(x, y, end - x, thick, str(tile), room=2)
                y += thick + 3
            y += 7
        canvas.text(left + span / 2, y + 2, "time", size=small, ha="center")
        return canvas.end(y + 12)

    alt = f"Two time lines of {tiles} tiles on one SM. A tile is stored {'; stored '.join(parts)}."
    caption = f"A model: storing a tile takes {number(100 * store)} % of the time of its products."
    return both(draw, alt, caption)
