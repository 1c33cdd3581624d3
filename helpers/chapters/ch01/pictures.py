"""Pictures of chapter 1: a vector cut into blocks of threads, one SM, and the memories of a GPU."""

from helpers.colours import BLUE, GREEN, GREY, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width, wrap
from helpers.ladder.model import SCHEDULERS
from helpers.wording import bytes_text, counted, number
from nogpu.device import WARP, WORD, Gpu
from nogpu.device import gpu as find_gpu
from nogpu.emulator.observe.counts import BANKS
from nogpu.errors import DataError

IDLE = Mark("no element", VERMILION, 0.35, VERMILION, "////", lw=0)
"""Of threads behind the end of a vector."""


def vector_blocks(n: int, block: int, *, thread: tuple[int, int] = (0, 0)) -> Figure:
    """A vector of n elements cut into blocks of so many threads, and the number i of one thread.

    thread: (blockIdx.x, threadIdx.x) of the one that is marked. Raises DataError for an empty
    vector or block, and for a thread that the launch does not have.
    """
    if n < 1 or block < 1:
        raise DataError(f"{n=}, {block=}: give at least one element and one thread")
    blocks = -(-n // block)
    b, t = thread
    if not (0 <= b < blocks and 0 <= t < block):
        raise DataError(f"{thread=}: the launch has {blocks} blocks of {block} threads")
    total, i = blocks * block, b * block + t
    shown = [x for x in range(max(0, t - 3), t + 3) if x < block]  # the marked one among neighbours

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        tall, top = 30.0, 24.0
        edge = (at.width - 2) / total  # a thread's width in the upper row
        canvas.text(
            1, 8, f"grid: {blocks} × {block} = {total:,} threads", size=small, weight="bold"
        )
        for j in range(blocks):
            x = 1 + j * block * edge
            used = min(block, n - j * block)
            mine = j == b
            fill, alpha = (BLUE, 0.5) if mine else (GREY, 0.18)
            canvas.rect(x, top, used * edge, tall, fill=fill, alpha=alpha, edge=None)
            if used < block:
                canvas.marked(x + used * edge, top, (block - used) * edge, tall, IDLE)
            canvas.rect(x, top, block * edge, tall, lw=1.1)
            words = f"block {j}" if block * edge > text_width("block 00", at.font) else str(j)
            if block * edge > text_width(words, at.font):
                canvas.centred(x, top, used * edge, tall, words, size=at.font)
            first = str(j * block)
            if block * edge > text_width(first, small) + 6:
                canvas.text(x, top + tall + 9, first, size=small)
        y = top + tall + 26
        canvas.text(1, y, f"i below {n:,}: one element each", size=small)
        if total > n:
            x = 1.0 if at.narrow else at.width / 2
            y += 17 * at.narrow
            canvas.marked(x, y - 5, 13, 10, IDLE)
            canvas.text(x + 19, y, f"{total - n} threads have none", size=small)
        # the marked thread and its neighbours
        y += 26
        names = ("threadIdx.x", "i")
        left = max(text_width(name, small) for name in names) + 8
        cell = (at.width - left - 1) / (len(shown) + 1)
        canvas.text(1, y, f"in block {b}:", size=small, weight="bold")
        y += 12
        for k, x in enumerate(shown):
            mine = x == t
            u = left + k * cell
            if mine:
                canvas.rect(u, y, cell, 44, fill=BLUE, alpha=0.5, edge=BLUE, lw=1.6)
            for row, value in enumerate((x, b * block + x)):
                canvas.centred(u, y + 2 + 21 * row, cell, 20, value, size=at.font, bold=mine)
        for row, name in enumerate(names):
            canvas.text(1, y + 12 + 21 * row, name, size=small)
            canvas.text(at.width - cell / 2, y + 12 + 21 * row, "…", size=at.font, ha="center")
        canvas.line(left, y + 22, at.width - 1, y + 22, lw=0.6, alpha=0.6)
        y += 62
        canvas.text(1, y, "i = blockIdx.x · blockDim.x + threadIdx.x", size=small)
        canvas.text(1, y + small + 5, f"  = {b} · {block} + {t} = {i}", size=small)
        return canvas.end(y + small + 15)

    idle = f" The last {total - n} threads have no element." if total > n else ""
    alt = (
        f"A vector of {n} elements and {blocks} blocks of {block} threads, {total} in all, side by "
        f"side: block 0 begins at element 0, each next one {block} further.{idle} "
        f"Thread {t} of block {b} has i = {b} times {block} plus {t} = {i}."
    )
    caption = (
        f"{blocks} blocks of {block} threads over {n:,} elements. Thread {t} of block {b} is "
        f"number {i} of the grid."
    )
    return both(draw, alt, caption)


def streaming_multiprocessor(gpu: str | Gpu = "h200") -> Figure:
    """One SM: its schedulers, each with warp places, registers and FP32 lanes, and what they share.

    Everything an SM has more than one of is drawn as often as it is there, and counted in the
    device table: lanes, warp places, bytes. Source of the parts: NVIDIA's architecture whitepapers
    (four schedulers an SM, register file and lanes split among them, L1 and shared memory in one);
    that a T4 delivers half of a wavefront in a clock: Jia et al., arXiv 1903.07486.
    """
    card = gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
    lim = card.limits
    lanes, places = card.fp32_lanes_per_sm // SCHEDULERS, lim.max_warps_per_sm // SCHEDULERS
    registers = lim.registers_per_sm * WORD // SCHEDULERS
    clocks = WARP // lanes
    often = "in two clocks, as measured" if card.arch == "sm_75" else "a clock"
    marks = (
        Mark("place for a warp", fill=GREEN, alpha=0.35, edge=GREEN),
        Mark("FP32 lane", fill=VERMILION, alpha=0.4, edge=VERMILION),
    )

    def part(canvas: Canvas, x: float, y: float, w: float, i: int) -> float:
        """Scheduler i and what it has; returns the y below it."""
        at = canvas.at
        inside, left, top = w - 12, x + 6, y

        def small(y: float, words: str) -> float:
            return canvas.lines(left, y, words, width=inside, size=at.small)

        def eights(y: float, count: int, mark: Mark, words: str) -> float:
            for i in range(count):
                u, v = left + i % 8 * (inside / 8), y + i // 8 * 9
                canvas.marked(u, v, inside / 8 - 2, 7, mark, lw=0.7)
            return small(y + -(-count // 8) * 9 + 10, words)

        name = f"scheduler {i}"
        y = canvas.lines(left, y + 12, name, width=inside, size=at.font, weight="bold")
        y = small(y + at.small + 6, "issues one instruction a clock") + 12
        y = eights(y, places, marks[0], f"{places} warp places") + 10
        words = f"registers, {bytes_text(registers)}"
        lines = wrap(words, at.small, inside - 8)
        tall = 12 + len(lines) * (at.small + 4)
        canvas.rect(left, y, inside, tall, fill=BLUE, alpha=0.2, edge=BLUE)
        canvas.lines(left + 4, y + 6 + at.small / 2 + 2, words, width=inside - 8, size=at.small)
        y = eights(y + tall + 8, lanes, marks[1], f"{lanes} FP32 lanes") + 12
        canvas.rect(x, top, w, y - top, lw=1.2)
        return y

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_key(canvas, marks) + 4
        across = 2 if at.narrow else SCHEDULERS
        gap = 8.0
        w = (at.width - 2 - gap * (across - 1)) / across
        for row in range(SCHEDULERS // across):
            low = y
            for i in range(across):
                low = max(low, part(canvas, 1 + i * (w + gap), y, w, row * across + i))
            y = low + gap
        words = (
            f"L1 and shared memory, {BANKS} banks: a wavefront of {BANKS} words {often}, for all "
            "four"
        )
        lines = wrap(words, at.font, at.width - 20)
        tall = 16 + len(lines) * (at.font + 4)
        canvas.rect(1, y, at.width - 2, tall, fill=GREEN, alpha=0.16, edge=GREEN, lw=1.4)
        canvas.lines(at.width / 2, y + 14, words, width=at.width - 20, size=at.font, ha="center")
        y += tall
        canvas.arrow(at.width / 2, y + 2, at.width / 2, y + 20, both=True)
        canvas.text(at.width / 2 + 8, y + 12, "to L2 and DRAM", size=at.small)
        return canvas.end(y + 26)

    alt = (
        f"One SM of {card.name}: {SCHEDULERS} schedulers side by side. Each issues one instruction "
        f"a clock and has {places} places for warps, {bytes_text(registers)} of registers and "
        f"{lanes} FP32 lanes, on which a multiply-add of a warp takes {counted(clocks, 'clock')}. "
        f"Below them L1 and shared memory with {BANKS} banks, a wavefront {often}, which all four "
        "share, and the way to L2 and DRAM."
    )
    caption = (
        f"One of the {card.sms} SMs of {card.name}. A scheduler picks one of its warps in each "
        f"clock; a multiply-add of that warp takes its FP32 lanes {counted(clocks, 'clock')}."
    )
    return both(draw, alt, caption)


def memory_hierarchy(gpu: str | Gpu = "h200") -> Figure:
    """The memories of a GPU from registers to DRAM: size, who sees them, and known bandwidths.

    Sizes and the DRAM bandwidth are the specification's; shared memory's bandwidth is 32 banks of
    4 bytes a clock on every SM at the boost clock.
    """
    card = gpu if isinstance(gpu, Gpu) else find_gpu(gpu)
    lim = card.limits
    registers = lim.registers_per_sm * WORD
    shared_rate = BANKS * WORD * card.sms * card.boost_mhz / 1e3
    levels = [
        ("registers", "one thread", f"{bytes_text(registers)} an SM, "
        f"{bytes_text(registers * card.sms)} in all", ""),
        (
            "shared memory", "one block",
            f"up to {bytes_text(lim.shared_per_sm)} an SM, "
            f"{bytes_text(lim.shared_per_sm * card.sms)} in all",
            f"{number(shared_rate)} GB/s",
        ),
        ("L2 cache", "the whole GPU", bytes_text(card.l2_bytes), ""),
        ("global memory (DRAM)", "the whole GPU", bytes_text(card.memory_bytes),
         f"{number(card.bandwidth_gbs)} GB/s"),
    ]  # fmt: skip

    def draw(at: Column) -> Canvas:
        canvas, small, gap = Canvas(at), at.small, 22.0
        # on a phone every fact of a memory has a line of its own
        box, step = (82.0, 8.0) if at.narrow else (46.0, 26.0)
        y = 2.0
        for i, (name, scope, size, rate) in enumerate(levels):
            colour = (BLUE, GREEN, GREY, VERMILION)[i]
            inset = (len(levels) - 1 - i) * step
            w, x = at.width - 2 * inset - 2, inset + 12
            canvas.rect(inset + 1, y, w, box, fill=colour, alpha=0.2, edge=colour, lw=1.6)
            canvas.text(x, y + 15, name, size=at.font, weight="bold")
            seen = f"seen by {scope}"
            if at.narrow:
                lines = [seen, *([rate] if rate else []), *wrap(size, small, w - 16)]
                for k, words in enumerate(lines):
                    canvas.text(x, y + 33 + k * (small + 4), words, size=small)
            else:
                canvas.text(inset + w - 8, y + 15, seen, size=small, ha="right")
                canvas.text(x, y + 33, size, size=small)
                canvas.text(inset + w - 8, y + 33, rate, size=small, ha="right")
            if i < len(levels) - 1:
                middle = at.width / 2
                canvas.arrow(middle, y + box + 1.5, middle, y + box + gap - 1.5, both=True)
            y += box + gap
        words = "smaller, nearer, faster above; larger, farther, slower below"
        y = canvas.lines(at.width / 2, y - 2, words, width=at.width, size=small, ha="center")
        return canvas.end(y + 14)

    ratio = shared_rate / card.bandwidth_gbs
    parts = [
        f"{name}, {size}, seen by {scope}{f', {rate}' if rate else ''}"
        for name, scope, size, rate in levels
    ]
    alt = (
        f"Memories of {card.name}, from the nearest: {'; '.join(parts)}. Shared memory delivers "
        f"{number(ratio)} times as many bytes a second as DRAM."
    )
    caption = f"{card.name}, {card.sms} SMs. Sizes and DRAM bandwidth: {card.source}."
    return both(draw, alt, caption)
