"""Pictures of chapter 20: a ring of stages, blocks of warps with roles, descriptors, tiles over SMs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helpers.colours import BLUE, GREEN, GREY, PALETTE, PURPLE, VERMILION
from helpers.errors import ConfigError, DataError
from helpers.hopper import BOX_COLS, BOX_ROWS, DESCRIPTOR, ITEM_BYTES, Field, stream_k_pieces
from helpers.hopper import parameters as entry_parameters
from helpers.plots.columns import INK, Column
from helpers.plots.figures import Figure, both
from helpers.plots.surface import Canvas, Mark, draw_key, text_width
from helpers.rungs import lay_out
from helpers.wording import bytes_text, join, number

# -- a ring of stages ----------------------------------------------------------------------------


def _ring_schedule(stages: int, steps: int, fill: float) -> list[tuple[float, float, float, float]]:
    """Of each step: when its copy is asked for and lands, when its products begin and end.

    A copy takes `fill`, the products of a step 1; copies into different stages overlap, products do
    not, and a stage may be filled again when its products are complete.
    """
    found: list[tuple[float, float, float, float]] = []
    for step in range(steps):
        free = found[step - stages][3] if step >= stages else 0.0
        asked = max(free, found[-1][0]) if found else 0.0
        begin = max(asked + fill, found[-1][3]) if found else asked + fill
        found.append((asked, asked + fill, begin, begin + 1.0))
    return found


def ring(
    stages: Sequence[int] = (1, 3),
    *,
    steps: int = 7,
    fill: float = 2.0,
    caption: str | None = None,
) -> Figure:
    """Rings of these numbers of stages over time: tiles on their way, waiting, and being multiplied.

    A model, not a measurement: a copy takes `fill` times as long as the products of a step.
    Raises DataError for a ring without stages, no step, or a negative time.
    """
    if not stages or min(stages) < 1 or steps < 1 or not 0 <= fill < math.inf:
        raise DataError(f"{stages=}, {steps=}, {fill=}: give at least 1 stage and step, fill >= 0")
    plans = [(count, _ring_schedule(count, steps, fill)) for count in stages]
    longest = max(schedule[-1][3] for _, schedule in plans)
    copies = Mark("tile on its way", BLUE, 0.28, BLUE)
    waits = Mark("landed, waits", None, 1.0, GREY)
    products = Mark("its products run", VERMILION, 0.4, VERMILION)

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        thick, gap, head = 16.0, 4.0, 24.0
        left = 2.0 if at.narrow else 96.0  # on a phone a lane's name stands over it
        span = at.width - left - 8
        y = draw_key(canvas, [copies, waits, products])

        def bar(mark: Mark, begin: float, end: float, words: str) -> None:
            if end <= begin:
                return
            x, w = left + span * begin / longest, span * (end - begin) / longest
            canvas.rect(x, y, w, thick, fill=mark.fill, alpha=mark.alpha, edge=mark.edge, lw=0.9)
            if w >= text_width(words, small) + 3:
                canvas.text(x + w / 2, y + thick / 2, words, size=small, ha="center")

        def lane(name: str) -> None:
            nonlocal y
            if at.narrow:
                canvas.text(left + 3, y + 6, name, size=small)
                y += 15
            else:
                canvas.text(left - 6, y + thick / 2, name, size=small, ha="right")

        for count, schedule in plans:
            title = f"{count} stage{'s' * (count != 1)}"
            canvas.text(0, y + head / 2, title, size=at.font, weight="bold")
            y += head
            top = y
            for stage in range(min(count, steps)):
                lane(f"stage {stage}")
                for step in range(stage, steps, count):
                    asked, landed, begin, end = schedule[step]
                    bar(copies, asked, landed, str(step))
                    bar(waits, landed, begin, "")
                    bar(products, begin, end, str(step))
                y += thick + gap
            lane("Tensor Cores")
            for step, (_, _, begin, end) in enumerate(schedule):
                bar(products, begin, end, str(step))
            y += thick + gap
            canvas.line(left, top - 3, left, y, lw=0.8)
            y += 8
        canvas.line(left, y, left + span, y, lw=0.8)
        for tick in range(int(longest + 1e-9) + 1):
            x = left + span * tick / longest
            canvas.line(x, y, x, y + 4, lw=0.8)
            if tick % 5 == 0:
                half = text_width(str(tick), small) / 2
                canvas.text(max(x, half), y + 11, str(tick), size=small, ha="center")
        words = "time, in products of one step"
        canvas.text(left + span / 2, y + 25, words, size=small, ha="center")
        return canvas.end(y + 34)

    told = []
    for count, schedule in plans:
        total = schedule[-1][3]
        told.append(
            f"{count} stage{'s' * (count != 1)}: {steps} steps take {number(total)}, the Tensor Cores "
            f"are busy for {number(100 * steps / total)} % of the time"
        )
    alt = (
        f"A model of a ring of stages, where a copy takes {number(fill)} times as long as the "
        f"products of a step. {'; '.join(told)}."
    )
    if caption is None:
        caption = f"A model: a copy takes {number(fill)} steps. {'; '.join(told)}."
    return both(draw, alt, caption)


# -- a Hopper block ------------------------------------------------------------------------------

WARPGROUP = 128
"""Threads that issue a wgmma together."""


@dataclass(frozen=True)
class _Block:
    """What a block of a Hopper kernel is made of, as its catalog entry has it."""

    bm: int
    bn: int
    bk: int
    stages: int
    warps: int
    consumers: int
    cluster: int
    c_buffers: int
    through_map: bool

    @property
    def a_bytes(self) -> int:
        return self.bm * self.bk * ITEM_BYTES

    @property
    def b_bytes(self) -> int:
        return self.bk * self.bn * ITEM_BYTES

    @property
    def sums(self) -> int:
        """Sums a thread of a consumer keeps."""
        return self.bm * self.bn // (self.consumers * WARPGROUP)

    @property
    def c_bytes(self) -> int:
        """All boxes of C that may be on their way."""
        return self.consumers * 4 * self.c_buffers * BOX_ROWS["C_map"] * BOX_COLS * ITEM_BYTES

    @property
    def parts(self) -> dict[str, str]:
        """Part by part, in words: what differs between two steps is new in the later one."""
        spare = self.warps - 4 * self.consumers
        who = {0: "thread 0 of the four warps", 1: "1 thread of a warp of its own"}.get(
            spare, "1 thread of a warpgroup of its own"
        )
        asks = "asks for a tile, then waits too" if not spare else "runs ahead, stage by stage"
        rows = self.bm // self.consumers
        own = self.b_bytes // self.cluster
        return {
            "copies": (
                f"global memory; the copy engine brings {bytes_text(self.a_bytes + own)} a step"
                if self.cluster == 1
                else f"global memory; multicast: each part of B, {bytes_text(own)}, goes to all blocks"
            ),
            "producer": f"producer: {who}, {asks}",
            "ring": "1 stage" if self.stages == 1 else f"ring of {self.stages} stages",
            "consumers": (
                f"{self.consumers} warpgroup{'s' * (self.consumers > 1)} of {rows} rows, "
                f"{self.sums} sums a thread"
            ),
            "C": (
                f"C: {self.consumers * 4} warps x {self.c_buffers} boxes of {BOX_ROWS['C_map']} x "
                f"{BOX_COLS} on their way"
                if self.c_buffers
                else "C: each thread stores its own sums"
            ),
        }


def _block(name: str) -> _Block:
    p = lay_out(name, 4096, 4096, 4096)
    kernel = p.kernel
    if kernel.host != "tma":
        raise ConfigError(f"{name} has no copy engine to draw: choose a kernel of chapter 20")
    q, warps = p.params, p.block[0] // 32
    return _Block(
        bm=q["BM"], bn=q["BN"], bk=BOX_COLS, stages=q.get("STAGES", 1), warps=warps,
        consumers=max(1, warps // 4 - 1),  # from two warpgroups on, one of them produces
        cluster=q.get("CLUSTER_M", 1) * q.get("CLUSTER_N", 1), c_buffers=q.get("C_BUFFERS", 0),
        through_map="C_map" in entry_parameters(kernel),
    )  # fmt: skip


def _draw_ring(canvas: Canvas, b: _Block, x: float, y: float, width: float, fresh: bool) -> float:
    """The stages of a ring, side by side as far as their words fit; returns the y below."""
    tiny, gap = canvas.at.tiny, 4.0
    barriers = ("full", "empty") if b.stages > 1 else ("landed",)
    least = max(text_width(words, tiny) for words in barriers) + 4
    across = b.stages
    while across > 1 and (width - gap * (across - 1)) / across < least:
        across = -(-across // 2)
    each = (width - gap * (across - 1)) / across
    tiles = {"A": (b.a_bytes, GREEN), "B": (b.b_bytes, PURPLE)}
    top, low = y, y
    for stage in range(b.stages):
        u = x + stage % across * (each + gap)
        if stage and stage % across == 0:  # a new row
            y = low + gap
        v = y
        for n, (size, fill) in tiles.items():
            tall = max(30 * size / b.b_bytes, tiny + 7)
            canvas.rect(u, v, each, tall, fill=fill, alpha=0.25, edge=INK, lw=0.8)
            words = f"{n} {bytes_text(size)}"
            words = words if text_width(words, tiny) < each - 3 else n
            canvas.text(u + each / 2, v + tall / 2, words, size=tiny, ha="center")
            v += tall
        for words in barriers:
            canvas.rect(u, v, each, tiny + 6, edge=INK, lw=0.8)
            canvas.text(u + each / 2, v + tiny / 2 + 3, words, size=tiny, ha="center")
            v += tiny + 6
        low = v
    if fresh:
        canvas.rect(x - 2, top - 2, width + 4, low - top + 4, edge=VERMILION, lw=2.2)
    return low + 4


def hopper_block(name: str, *, since: str = "", caption: str | None = None) -> Figure:
    """A block of a kernel of chapter 20: producer, stages with their barriers, consumers, C.

    Sizes come from the kernel's catalog entry. since: the kernel of the step before; parts that it has
    otherwise are drawn as new. Blocks of a cluster stand side by side. Raises ConfigError for a kernel
    without TMA.
    """
    b = _block(name)
    before = _block(since).parts if since else b.parts
    new = [part for part, words in b.parts.items() if before[part] != words]
    full = "1 arrival and the bytes announced"
    arrivals = (b.consumers if b.warps > 5 else 1) * b.cluster
    empty = f"{arrivals} arrival{'s' * (arrivals > 1)}"
    barriers = (
        f"the barrier ends a phase after {full}" if b.stages == 1
        else f"full ends a phase after {full}, empty after {empty}"
    )  # fmt: skip

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        width, pad, line = at.width - 2, 6.0, at.small + 5
        gap = 6.0 if at.narrow else 10.0
        wide = (width - gap * (b.cluster - 1)) / b.cluster  # of a block
        inner = wide - 2 * pad
        left = [1 + i * (wide + gap) for i in range(b.cluster)]

        def box(x: float, y: float, w: float, words: str, fill: str, fresh: bool) -> float:
            """A box with words, outlined where it is new; returns the y below it."""
            low = (
                canvas.lines(x + 4, y + line / 2 + 2, words, width=w - 8, size=small) + line / 2 + 2
            )
            edge, lw = (VERMILION, 2.2) if fresh else (fill, 1.0)
            canvas.rect(x, y, w, low - y, fill=fill, alpha=0.16, edge=edge, lw=lw)
            return low

        def said(x: float, y: float, part: str) -> float:
            """A part's words on their own, bold where they are new; returns the y below."""
            weight = "bold" if part in new else "normal"
            low = canvas.lines(
                x, y + line / 2, b.parts[part], width=inner, size=small, weight=weight
            )
            return low + line / 2 + 2

        y = 2.0
        if new:
            y = canvas.legend(
                [
                    (
                        "new in this step",
                        lambda x, y: canvas.rect(x, y, 13, 10, edge=VERMILION, lw=2.2),
                    )
                ]
            )
        head = y
        y = canvas.lines(6, y + line / 2 + 2, b.parts["copies"], width=width - 10, size=small)
        y += line / 2 + 4
        half = (inner - 4) / 2
        lows, middles = [], []
        for i, x in enumerate(left):  # what each block's producer asks for
            u = x + pad + half + 4
            part = f", part {i}" if b.cluster > 1 else ""
            lows.append(box(x + pad, y, half, f"A {bytes_text(b.a_bytes)}", GREEN, False))
            own = bytes_text(b.b_bytes // b.cluster)
            lows.append(box(u, y, half, f"B {own}{part}", PURPLE, "copies" in new))
            middles.append((x + pad + half / 2, u + half / 2))
        y = max(lows) + 5
        canvas.rect(1, head, width, y - head, edge=GREY)
        top = y + (26 if b.cluster > 1 else 16)
        for x, (of_a, of_b) in zip(left, middles, strict=True):
            canvas.arrow(of_a, y, of_a, top)
            for to in left:  # a part of B goes to every block
                target = of_b if to == x else to + wide * (0.42 if to > x else 0.9)
                fresh = "copies" in new and to != x
                canvas.arrow(of_b, y, target, top, colour=VERMILION if fresh else INK)
        lows = []
        for i, x in enumerate(left):
            name = f"block {i}: rows {i * b.bm}–{(i + 1) * b.bm - 1}"
            title = f"block of {b.warps} warps, tile {b.bm} x {b.bn}" if b.cluster == 1 else name
            y = canvas.lines(
                x + pad, top + line / 2 + 3, title, width=inner, size=small, weight="bold"
            )
            y = box(x + pad, y + line / 2 + 3, inner, b.parts["producer"], BLUE, "producer" in new)
            y = said(x + pad, y + 5, "ring")
            y = _draw_ring(canvas, b, x + pad, y, inner, "ring" in new)
            y = said(x + pad, y + 3, "consumers")
            rows = b.bm // b.consumers
            each = (inner - 4 * (b.consumers - 1)) / b.consumers
            for c in range(b.consumers):
                first = i * b.bm + c * rows
                words = f"rows {first}–{first + rows - 1}"
                if text_width(words, small) > each - 8:
                    words = words.removeprefix("rows ")
                low = box(x + pad + c * (each + 4), y, each, words, VERMILION, "consumers" in new)
            y = box(x + pad, low + 7, inner, b.parts["C"], BLUE, "C" in new) + pad
            lows.append(y)
        low = max(lows)
        for x in left:
            canvas.rect(x, top, wide, low - top, lw=1.4)
            canvas.arrow(x + wide / 2, low + 1, x + wide / 2, low + 14)
        words = "global memory: C" + (", written by the copy engine" if b.through_map else "")
        return canvas.end(box(1, low + 15, width, words, GREY, False) + 2)

    cluster = f"a cluster of {b.cluster} blocks" if b.cluster > 1 else "a block"
    told = "; ".join(b.parts.values())
    shared = b.stages * (b.a_bytes + b.b_bytes) + b.c_bytes
    ring = bytes_text(b.a_bytes + b.b_bytes)
    alt = (
        f"Block diagram of {name}, {cluster} of {b.warps} warps for {b.bm} x {b.bn} of C. {told}. A stage "
        f"holds {ring}; {barriers}. "
        + (f"New since {since}: {join([b.parts[part] for part in new])}." if new else "")
    )
    if caption is None:
        caption = (
            f"{name}: a stage holds {ring}; {barriers}. Tiles in flight take {bytes_text(shared)} of a "
            "block's shared memory."
        )
    return both(draw, alt, caption)


# -- a descriptor --------------------------------------------------------------------------------


def bit_fields(
    word: int, fields: Sequence[Field] = DESCRIPTOR, *, bits: int = 64, caption: str | None = None
) -> Figure:
    """The bits of a word, its fields coloured, and under them what each field says.

    Raises DataError if the word has more bits, fields overlap, or a bit outside them is set.
    """
    taken = [bit for f in fields for bit in range(f.first, f.last + 1)]
    stray = word & ~sum(1 << bit for bit in set(taken))
    if not 0 <= word < 1 << bits or len(set(taken)) < len(taken) or stray or max(taken) >= bits:
        raise DataError(
            f"{word:#x} does not fit these fields of {bits} bits; outside them: {stray:#x}"
        )

    def says(f: Field) -> str:
        value = f.of(word)
        return f"{value} x {f.unit} = {value * f.unit:,} bytes" if f.unit else str(value)

    def draw(at: Column) -> Canvas:
        canvas, tiny, small = Canvas(at), at.tiny, at.small
        half = bits // 2
        cell = (at.width - 2) / half
        tall, y = tiny + 8, 4.0
        colour = {
            bit: PALETTE[i % len(PALETTE)]
            for i, f in enumerate(fields)
            for bit in range(f.first, f.last + 1)
        }
        for top in range(bits - 1, 0, -half):  # the highest bit at the left, as one writes numbers
            y += tiny
            for i in range(half):
                bit = top - i
                x, value = 1 + i * cell, word >> bit & 1
                if bit in colour:
                    canvas.rect(x, y, cell, tall, fill=colour[bit], alpha=0.3, edge=None)
                words = str(value)
                canvas.text(x + cell / 2, y + tall / 2, words, size=tiny + 0.5, ha="center",
                            weight="bold" if value else "normal")  # fmt: skip
                ends = [f for f in fields if bit in (f.first, f.last)]
                if ends and (bit == ends[0].last or (ends[0].last - bit) * cell > 2.2 * tiny):
                    shift = x + cell / 2
                    canvas.text(shift, y - tiny / 2 - 1, str(bit), size=tiny, ha="center")
            canvas.segments(
                [(1 + i * cell, y, 1 + i * cell, y + tall) for i in range(half + 1)], lw=0.3
            )
            canvas.rect(1, y, half * cell, tall, lw=1.2)
            y += tall + 12
        for i, f in enumerate(fields):
            canvas.rect(1, y, 13, 10, fill=PALETTE[i % len(PALETTE)], alpha=0.3, edge=INK, lw=0.5)
            words = f"bits {f.first}–{f.last}, {f.name}: {says(f)}"
            y = canvas.lines(20, y + 5, words, width=at.width - 21, size=small) + small
        return canvas.end(y + 2)

    told = "; ".join(f"bits {f.first} to {f.last}, {f.name}: {says(f)}" for f in fields)
    alt = f"The {bits} bits of {word:#018x}, highest first. {told}. All other bits are zero."
    return both(draw, alt, f"{word:#018x}, highest bit first." if caption is None else caption)


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


def stream_k(
    tiles: int = 5, workers: int = 4, *, steps: int = 8, caption: str | None = None
) -> Figure:
    """Tiles over SMs, each tile whole against the last ones cut along k: who works when.

    steps: of k in a tile. A model: every step takes the same time, and handing sums over takes none.
    Raises ConfigError for no tile, SM or step.
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
            words = f"{title}: {number(end)} rounds, SMs busy {number(100 * busy)} %"
            y = (
                canvas.lines(0, y + 10, words, width=0.85 * at.width, size=small, weight="bold")
                + small
                + 1
            )
            top = y
            for worker in range(workers):
                row = y + worker * (thick + gap)
                canvas.text(left - 5, row + thick / 2, f"SM {worker}", size=small, ha="right")
                canvas.rect(left, row, span, thick, edge=GREY, lw=0.5)
            given: dict[int, tuple[float, float]] = {}
            taken: dict[int, tuple[float, float]] = {}
            for worker, tile, begin, stop, first, last in spans:
                row = y + worker * (thick + gap)
                x, w = left + span * begin / max(ends), span * (stop - begin) / max(ends)
                end_of_cut = first > 0
                canvas.rect(
                    x, row, w, thick, fill=PALETTE[tile % len(PALETTE)], alpha=0.3, lw=1.8 if end_of_cut else 0.9,
                    dash=end_of_cut,
                )  # fmt: skip
                part = f"{first}–{last - 1}"
                names = (
                    (f"tile {tile}, k {part}", f"{tile}: {part}") if last - first < steps else ()
                )
                for words in (*names, f"tile {tile}"[5 * bool(names) :]):
                    if text_width(words, small) < w - 3:
                        canvas.text(x + w / 2, row + thick / 2, words, size=small, ha="center")
                        break
                if end_of_cut:
                    given[tile] = (x + w - 4, row)
                if last < steps:
                    taken[tile] = (x + w - 4, row + thick)
            for tile, (u, low) in taken.items():  # from the end of the tile, when it is done
                v, high = given[tile]
                between = (low + high) / 2 + 1
                canvas.segments([(v, high, v, between), (v, between, u, between)], lw=1.3)
                canvas.arrow(u, between, u, low, lw=1.3)
            y += workers * (thick + gap)
            canvas.line(left, top, left, y, lw=0.8)
            y += 4
        for tick in range(int(max(ends)) + 1):
            x = left + span * tick / max(ends)
            canvas.line(x, y, x, y + 4, lw=0.8)
            canvas.text(
                x, y + 11, str(tick), size=small, ha="right" if tick == max(ends) else "center"
            )
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
        f"{tiles} tiles on {workers} SMs: whole they take {number(ends[0])} rounds, with the SMs busy "
        f"{number(100 * share[0])} % of the time; cut, {number(ends[1])} and {number(100 * share[1])} %"
    )
    alt = (
        f"Two time lines of tiles over SMs. {summary}. Whole: {told(*plans[0])}. Cut into {steps} steps a "
        f"tile: {told(*plans[1])}."
    )
    if caption is None:
        caption = (
            f"A model. {summary}. Dashed: the end of a cut tile. An arrow takes its sums to the SM that "
            "has the beginning; the model takes no time for that."
        )
    return both(draw, alt, caption)


def stream_k_share(tiles: int, workers: int, steps: int) -> dict[str, Any]:
    """Rounds and busy share of both ways, and how many tiles are cut: what stream_k draws, in numbers."""
    whole, cut = (_schedule(workers, tiles, steps, way) for way in (False, True))
    ends = [max(end for *_, end, _, _ in spans) for spans in (whole, cut)]
    pieces = [tile for _, tile, *_ in cut]
    return {
        "whole": ends[0],
        "cut": ends[1],
        "whole_busy": tiles / (ends[0] * workers),
        "cut_busy": tiles / (ends[1] * workers),
        "cut_tiles": len(pieces) - len(set(pieces)),
    }
