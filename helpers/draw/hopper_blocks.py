"""A block of a Hopper kernel: producer, ring of stages with their barriers, consumers, C."""

from dataclasses import dataclass
from typing import Any

from helpers.colours import BLUE, GREEN, GREY, PURPLE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import INK, Canvas, Column, Mark, draw_key, text_width
from helpers.ladder.hopper import BOX_COLS, BOX_ROWS, ITEM_BYTES
from helpers.ladder.hopper import parameters as entry_parameters
from helpers.ladder.rungs import lay_out
from helpers.wording import bytes_text, join
from nogpu.errors import ConfigError

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
    warp_tile: tuple[int, int] | None
    """Of a kernel whose warps multiply each for itself, by mma.sync."""

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
    def arrivals(self) -> int:
        """Of threads at a stage's barrier empty: one for each that multiplies on its own."""
        each = 4 * self.consumers if self.warp_tile else self.consumers
        return (each if self.warps > 5 else 1) * self.cluster

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
                else f"global memory; multicast: each part of B, {bytes_text(own)}, goes to all "
                "blocks"
            ),
            "producer": f"producer: {who}, {asks}",
            "ring": "1 stage" if self.stages == 1 else f"ring of {self.stages} stages",
            "consumers": (
                f"{4 * self.consumers} warps of {self.warp_tile[0]} x {self.warp_tile[1]}, "
                f"{self.sums} sums a thread"
                if self.warp_tile
                else f"{self.consumers} warpgroup{'s' * (self.consumers > 1)} of {rows} rows, "
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
        raise ConfigError(f"{name} has no copy engine to draw: choose one of chapters 20 to 22")
    q, warps = p.params, p.block[0] // 32
    return _Block(
        bm=q["BM"], bn=q["BN"], bk=BOX_COLS, stages=q.get("STAGES", 1), warps=warps,
        consumers=max(1, warps // 4 - 1),  # from two warpgroups on, one of them produces
        cluster=q.get("CLUSTER_M", 1) * q.get("CLUSTER_N", 1), c_buffers=q.get("C_BUFFERS", 0),
        through_map="C_map" in entry_parameters(kernel),
        warp_tile=(q["WM"], q["WN"]) if "WM" in q else None,
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
            canvas.centred(u, v, each, tall, words, size=tiny)
            v += tall
        for words in barriers:
            canvas.rect(u, v, each, tiny + 6, edge=INK, lw=0.8)
            canvas.centred(u, v, each, tiny + 6, words, size=tiny)
            v += tiny + 6
        low = v
    if fresh:
        canvas.rect(x - 2, top - 2, width + 4, low - top + 4, edge=VERMILION, lw=2.2)
    return low + 4


def hopper_block(name: str, *, since: str = "") -> Figure:
    """A block of a kernel of chapters 20 to 22: producer, stages with their barriers, consumers, C.

    Sizes come from the kernel's catalog entry. Blocks of a cluster stand side by side. since:
    the kernel of the step before; parts that it has otherwise are drawn as new. Raises ConfigError
    for a kernel without TMA.
    """
    b = _block(name)
    before = _block(since).parts if since else b.parts
    new = [part for part, words in b.parts.items() if before[part] != words]
    full = "1 arrival and the bytes announced"
    empty = f"{b.arrivals} arrival{'s' * (b.arrivals > 1)}"
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
            low = canvas.lines(x + 4, y + line / 2 + 2, words, width=w - 8, size=small)
            low += line / 2 + 2
            edge, lw = (VERMILION, 2.2) if fresh else (fill, 1.0)
            canvas.rect(x, y, w, low - y, fill=fill, alpha=0.16, edge=edge, lw=lw)
            return low

        def caption_of(x: float, y: float, part: str) -> float:
            """A part's words on their own, bold where they are new; returns the y below."""
            style: dict[str, Any] = {"size": small, "weight": "bold" if part in new else "normal"}
            return canvas.lines(x, y + line / 2, b.parts[part], width=inner, **style) + line / 2 + 2

        y = 2.0
        if new:
            key = Mark("new in this step", edge=VERMILION, lw=2.2)
            y = draw_key(canvas, [key]) - 2
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
            y = top + line / 2 + 3
            y = canvas.lines(x + pad, y, title, width=inner, size=small, weight="bold")
            y = box(x + pad, y + line / 2 + 3, inner, b.parts["producer"], BLUE, "producer" in new)
            y = caption_of(x + pad, y + 5, "ring")
            y = _draw_ring(canvas, b, x + pad, y, inner, "ring" in new)
            y = caption_of(x + pad, y + 3, "consumers")
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
    summary = "; ".join(b.parts.values())
    shared = b.stages * (b.a_bytes + b.b_bytes) + b.c_bytes
    ring = bytes_text(b.a_bytes + b.b_bytes)
    alt = (
        f"Block diagram of {name}, {cluster} of {b.warps} warps for {b.bm} x {b.bn} of C. "
        f"{summary}. A stage holds {ring}; {barriers}. "
        + (f"New since {since}: {join([b.parts[part] for part in new])}." if new else "")
    )
    caption = (
        f"{name}: a stage holds {ring}; {barriers}. Tiles in flight take {bytes_text(shared)} "
        "of a block's shared memory."
    )
    return both(draw, alt, caption)
