"""Pictures of the investigations: a column of a matrix in a cache's sets, and at L1's banks."""

from collections import Counter
from collections.abc import Sequence

from helpers.colours import BLUE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.wording import join
from nogpu.device import LINE, WARP, WORD
from nogpu.emulator.observe.counts import BANKS, SECTOR
from nogpu.errors import DataError

# -- a column in a cache -------------------------------------------------------------------------


def set_of(address: int, sets: int = 64, line: int = 64) -> int:
    """The set in which a cache keeps the line that holds this address (in bytes)."""
    return address // line % sets


def cache_sets(
    rows: int, row_bytes: Sequence[int] = (4096, 4100), *, sets: int = 64, line: int = 64
) -> Figure:
    """In which sets of a cache the first column of a row-major matrix lies, for each row length.

    rows: elements of the column. row_bytes: a panel for each length of a row, in bytes. sets, line:
    the cache's number of sets and bytes of a line; the matrix begins at address 0. Raises DataError
    for a matrix or a cache without a row, a byte or a set.
    """
    if rows < 1 or not row_bytes or min(row_bytes) < 1 or sets < 1 or line < 1:
        raise DataError(f"{rows=}, {row_bytes=}, {sets=}, {line=}: give at least one of each")
    homes = {pitch: [set_of(r * pitch, sets, line) for r in range(rows)] for pitch in row_bytes}
    words = {pitch: _used(rows, pitch, sets, line) for pitch in row_bytes}
    step = -(-rows // 64)  # rows of the matrix in one row of the drawing

    def draw(at: Column) -> Canvas:
        canvas, small = Canvas(at), at.small
        count = 1 if at.narrow else len(homes)  # panels side by side
        left, gap = text_width(f"row {rows - 1}", small) + 6, 20.0
        wide = (at.width - left - 1 - gap * (count - 1)) / count
        tall = 110.0 if at.narrow else 150.0
        head = 28.0
        for p, (pitch, home) in enumerate(homes.items()):
            x0 = left + p % count * (wide + gap)
            y0 = head + p // count * (tall + head + 34)
            colour = VERMILION if len(set(home)) * 4 < min(sets, rows) else BLUE
            canvas.text(x0, y0 - 12, f"rows of {pitch} bytes", size=small + 0.5, weight="bold")
            canvas.rect(x0, y0, wide, tall, lw=0.8)
            across, down = wide / sets, tall / -(-rows // step)
            for r in range(0, rows, step):
                for s in sorted(set(home[r : r + step])):
                    x, y, w = x0 + s * across, y0 + r // step * down, max(across, 2.2)
                    canvas.rect(x, y, w, down, fill=colour, edge=None)
            if p % count == 0:
                canvas.text(x0 - 5, y0 + 6, "row 0", size=small, ha="right")
                canvas.text(x0 - 5, y0 + tall - 6, f"row {rows - 1}", size=small, ha="right")
            canvas.text(x0, y0 + tall + 9, "set 0", size=small)
            canvas.text(x0 + wide, y0 + tall + 9, f"set {sets - 1}", size=small, ha="right")
            canvas.text(x0 + wide / 2, y0 + tall + 24, words[pitch], size=small, ha="center")
        panels = -(-len(homes) // count)
        return canvas.end(head + panels * (tall + head + 34) - head)

    listed = "; ".join(f"with rows of {pitch} bytes, {use}" for pitch, use in words.items())
    alt = (
        f"Where a cache of {sets} sets with lines of {line} bytes puts the {rows} elements of a "
        f"column: {listed}."
    )
    lengths = join([str(pitch) for pitch in homes])
    caption = (
        f"The {rows:,} elements of a column, by set (address / {line}, modulo {sets}), for rows "
        f"of {lengths} bytes."
    )
    return both(draw, alt, caption)


def _used(rows: int, pitch: int, sets: int, line: int) -> str:
    """How many sets a column uses, and the most lines that fall into one of them."""
    lines = {r * pitch // line for r in range(rows)}  # neighbours may share a line
    counts = Counter(number % sets for number in lines)
    used, most = len(counts), max(counts.values())
    return (
        f"{used} sets, up to {most:,} lines in each" if used > 1 else f"1 set, {most:,} lines in it"
    )


# -- a column in L1 ------------------------------------------------------------------------------


def _column(pitch: int) -> tuple[list[int], list[int], list[int]]:
    """Lane by lane: the line and the word in it that holds x[lane][0]; and the words of each bank.

    pitch: bytes from one row of x to the next.
    """
    at = [lane * pitch for lane in range(WARP)]
    words = [byte % LINE // WORD for byte in at]
    return [byte // LINE for byte in at], words, [words.count(bank) for bank in range(BANKS)]


def _queue_in_words(counts: Sequence[int]) -> str:
    deepest = max(counts)
    busy = sum(count == deepest for count in counts)
    if deepest == 1:
        return "1 word each"
    return f"{deepest} words " + ("each" if busy > 1 else f"wait for bank {counts.index(deepest)}")


def line_queues(pitches: Sequence[int] = (4096, 4100)) -> Figure:
    """A warp reads a column of a matrix: the line each lane needs, and the queues at L1's banks.

    pitches: bytes from one row of the matrix to the next, one drawing each. That L1 delivers a word
    of each of 32 banks a clock, as shared memory does, is a hypothesis: the figure counts words.
    Raises DataError if a pitch is below a line or not a whole number of words.
    """
    if not pitches or any(p < LINE or p % WORD for p in pitches):
        raise DataError(f"{pitches=}: give bytes, multiples of {WORD}, at least {LINE}")
    drawn = [(pitch, *_column(pitch)) for pitch in pitches]
    marks = [
        Mark("the word that a lane reads", BLUE, edge=BLUE),
        Mark("queue at its bank", VERMILION, 0.45, VERMILION),
    ]

    def draw(at: Column) -> Canvas:
        canvas, small, tiny = Canvas(at), at.small, at.tiny + 0.5
        top = draw_key(canvas, marks) + 6
        left = text_width("lane 31", tiny) + 6
        between = 22.0
        side = 1 if at.narrow else min(2, len(drawn))
        wide = (at.width - 2 - left - between * (side - 1)) / side
        cell, high, unit = wide / BANKS, 4.4, 1.6
        y = low = top
        for i, (pitch, _, words, counts) in enumerate(drawn):
            if i % side == 0:
                y = low + 10 * bool(i)
            x = left + (i % side) * (wide + between)
            title = f"Rows of {pitch:,} bytes"
            canvas.text(x, y + 4, title, size=at.font, weight="bold")
            v = y + 17
            if i % side == 0:
                for lane in (0, WARP - 1):
                    middle = v + (lane + 0.5) * high
                    canvas.text(left - 5, middle, f"lane {lane}", size=tiny, ha="right")
            for lane, word in enumerate(words):
                canvas.rect(x + word * cell, v + lane * high, cell, high, fill=BLUE, edge=None)
            rows = [(x, v + r * high, x + wide, v + r * high) for r in range(1, WARP)]
            canvas.segments(rows, lw=0.4, alpha=0.35)
            edges = [x + c * cell for c in range(SECTOR // WORD, BANKS, SECTOR // WORD)]
            canvas.segments([(u, v, u, v + WARP * high) for u in edges], lw=0.6, alpha=0.6)
            canvas.rect(x, v, wide, WARP * high, lw=1.1)
            v += WARP * high
            for bank in (0, 8, 16, 24, BANKS - 1):
                middle = x + (bank + 0.5) * cell
                middle = min(max(middle, x + 3), x + wide - text_width(str(bank), tiny) / 2)
                canvas.text(middle, v + 8, str(bank), size=tiny, ha="center")
            if i % side == 0:
                canvas.text(left - 5, v + 8, "bank", size=tiny, ha="right")
            v += 16
            for bank, count in enumerate(counts):
                if count:
                    u, deep = x + bank * cell + 0.5, max(count * unit, 2.5)
                    canvas.marked(u, v, cell - 1, deep, marks[1], lw=0.7)
            canvas.line(x, v, x + wide, v, lw=0.9)
            if i % side == 0:
                canvas.text(left - 5, v + 6, "queue", size=tiny, ha="right")
            start = x + (counts.index(max(counts)) + 1) * cell + 6 if max(counts) > 3 else x
            drop = v + (12 if max(counts) > 3 else max(counts) * unit + 11)
            canvas.text(start, drop, _queue_in_words(counts), size=small)
            low = max(low, v + max(max(counts) * unit, 20) + 4)
        return canvas.end(low + 4)

    parts = []
    for pitch, lines, _, counts in drawn:
        banks = f"{sum(map(bool, counts))} of {BANKS} banks, {max(counts)} words in the busiest"
        banks = banks if max(counts) > 1 else "every word in a bank of its own"
        parts.append(f"rows of {pitch:,} bytes: {len(set(lines))} lines, {banks}")
    summary = "; ".join(parts)
    summary = summary[0].upper() + summary[1:]
    alt = (
        f"{WARP} lanes read one column of a matrix, a word in each of {WARP} rows; drawn are the "
        f"{LINE}-byte lines that hold them, and the words that each of {BANKS} banks has to "
        f"deliver. {summary}."
    )
    caption = (
        f"One request for a column of a matrix. Each row of the picture is the {LINE}-byte line "
        f"that a lane needs. {summary}. Queues at banks of L1 are a hypothesis, counted below."
    )
    return both(draw, alt, caption)
