"""What one request of a warp touches: sectors of global memory, banks of shared memory."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from helpers.colours import BLUE, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key, text_width
from helpers.wording import counted, number
from nogpu.device import WARP, WORD
from nogpu.emulator.observe.counts import BANKS, SECTOR
from nogpu.errors import ConfigError, DataError


def _line_of(report: Any, line: int | str, space: str, op: str, array: str | None) -> Any:
    """The LineAccess rows of one source line. Raises DataError, saying which lines there are."""
    rows = [row for row in report.by_line() if row.space == space and row.op == op]
    if array is not None:
        rows = [row for row in rows if row.array == array] or rows
    if isinstance(line, str):
        hits = [row for row in rows if line in row.text]
    else:
        hits = [row for row in rows if row.line == line]
    numbers = sorted({row.line for row in hits})
    if len(numbers) != 1:
        have = "; ".join(f"{n}: {t.strip()}" for n, t in sorted({(r.line, r.text) for r in rows}))
        what = f"{len(numbers)} lines" if numbers else "no line"
        raise DataError(
            f"{what} with a {space} {op} fit {line=}. Lines that have one: {have or 'none'}"
        )
    return hits


def recorded(report: Any) -> Any:
    """The lanes that a launch kept, by line, space and op. Raises DataError if it kept none."""
    samples = getattr(report, "report", report).samples
    if samples is None:
        raise DataError("this launch kept no lanes. Give samples=True to `trace` or `launch`")
    return samples


def _request(
    report: Any, line: int, space: str, op: str, request: int, array: str | None
) -> tuple[str, int, list[int]]:
    """Array, bytes of an element, and byte offset of each lane (below 0: inactive) in a request."""
    samples = recorded(report).get((line, space, op), ())
    matching = (s for s in samples if array is None or s[0] == array)
    every = [(name, int(size), warp) for name, size, offsets in matching for warp in offsets]
    if 0 <= request < len(every):
        name, size, warp = every[request]
        return name, size, [int(at) for at in warp]
    of = f" of {array}" if array else ""
    advice = f"give 0 to {len(every) - 1}" if every else "choose another line or array"
    raise DataError(
        f"{request=}: {len(every)} requests of line {line} are recorded, {space} {op}{of}; {advice}"
    )


def _columns(report: Any, array: str) -> int | None:
    """Columns of a matrix argument, where the trace knows them."""
    p = getattr(report, "plan", None)
    return {"A": p.K, "B": p.N, "C": p.N}.get(array) if p else None


def _element(array: str, first: int, count: int, columns: int | None) -> str:
    """ "A[3, 0–7]" for a matrix of known width, "A[24–31]" otherwise."""
    last = first + count - 1
    if columns is None:
        return f"{array}[{first}–{last}]" if count > 1 else f"{array}[{first}]"
    row, col = divmod(first, columns)
    end_row, end_col = divmod(last, columns)
    if row != end_row:
        return f"{array}[{row}, {col}] …"
    return f"{array}[{row}, {col}–{end_col}]" if count > 1 else f"{array}[{row}, {col}]"


def access_map(
    report: Any, line: int | str, *, space: str = "global", op: str = "load", request: int = 0,
    array: str | None = None,
) -> Figure:  # fmt: skip
    """What the 32 lanes of a warp touch in one request: 32-byte sectors, or shared-memory banks.

    report: what trace() or emulator.launch() returned. line: a source line, by number or by text
    that only one such line contains. space, op: "global" or "shared", "load" or "store". request:
    which one, from 0. array: of which array, where a line loads two. Raises DataError: there is no
    such access.
    """
    if space not in ("global", "shared") or op not in ("load", "store"):
        raise ConfigError(f'{space=}, {op=}: give "global" or "shared", and "load" or "store"')
    rows = _line_of(report, line, space, op, array)
    at = rows[0].line
    name, item, offsets = _request(report, at, space, op, request, array)
    row = next((r for r in rows if r.array == name), rows[0])
    if space == "shared":  # banks deal in words, whatever the array holds
        item = WORD
    users: dict[int, list[int]] = {}
    for lane, offset in enumerate(offsets):
        if offset >= 0:
            for element in range(offset // item, (offset + row.width_bytes - 1) // item + 1):
                users.setdefault(element, []).append(lane)
    active = sum(offset >= 0 for offset in offsets)
    if space == "shared":
        return _bank_map(name, at, op, users, active, row)
    columns = _columns(report, name)
    return _sector_map(name, at, op, users, active, item, columns, row)


def _lit(
    canvas: Canvas, x: float, y: float, cell: float, tall: float, lanes: Sequence[int]
) -> None:
    """The cell of an element or a word that these lanes touch: the lane's number, or a dot."""
    canvas.rect(x, y, cell, tall, fill=BLUE, edge=None)
    words = lanes[0] if len(lanes) == 1 else "•"
    canvas.centred(x, y, cell, tall, words, size=canvas.at.tiny, colour="#ffffff")


def _sharing(users: Mapping[int, list[int]], what: str) -> str:
    """A sentence for the elements that several lanes touch, or nothing."""
    most = max(len(lanes) for lanes in users.values())
    if most == 1:
        return ""
    if len(users) == 1:
        return f" All {most} lanes touch the same {what}."
    return f" Up to {most} lanes share one {what}."


def _sector_map(
    name: str, line: int, op: str, users: Mapping[int, list[int]], active: int, item: int,
    columns: int | None, row: Any,
) -> Figure:  # fmt: skip
    per_sector = SECTOR // item
    sectors = sorted({element // per_sector for element in users})
    used, moved = len(users) * item, len(sectors) * SECTOR
    shared = any(len(lanes) > 1 for lanes in users.values())
    verb, rest = ("used", "fetched for nothing") if op == "load" else ("written", "not written")
    who = "a lane, or • for several" if shared else "the number is its lane"
    idle = Mark(rest, VERMILION, 0.25, VERMILION, "////")
    marks = [Mark(f"{verb}; {who}", BLUE, edge=BLUE), *([idle] if used < moved else [])]

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        head = draw_key(canvas, marks)
        per_row = (4 if per_sector <= 8 else 2) // (2 if at.narrow else 1)
        gap, tall = 12.0, at.tiny + 6.5
        over = at.tiny + 5
        pitch = tall + over + 6.5
        strip = (at.width - 2 - gap * (per_row - 1)) / per_row
        cell = strip / per_sector
        for i, sector in enumerate(sectors):
            x = 1 + (i % per_row) * (strip + gap)
            y = head + (i // per_row) * pitch + over
            first = sector * per_sector
            label = _element(name, first, per_sector, columns)
            canvas.text(x, y - at.tiny / 2 - 3, label, size=at.tiny + 0.5)
            if any(first + j not in users for j in range(per_sector)):
                canvas.marked(x, y, strip, tall, idle, lw=0)
            for j in range(per_sector):
                if lanes := users.get(first + j):
                    _lit(canvas, x + j * cell, y, cell, tall, lanes)
            inner = [x + j * cell for j in range(1, per_sector)]
            canvas.segments([(u, y, u, y + tall) for u in inner], lw=0.6, alpha=0.6)
            canvas.rect(x, y, strip, tall, lw=1.2)
        return canvas.end(head + pitch * math.ceil(len(sectors) / per_row) + 2)

    moves, uses = ("moved", "used") if op == "load" else ("in them", "written")
    finding = (
        f"One {op} of {name} in line {line} by {counted(active, 'lane')} touches "
        f"{counted(len(sectors), 'sector')}: {moved:,} bytes {moves}, {used:,} {uses} "
        f"({number(100 * used / moved)} %)."
    )
    mean = f" The line's mean is {counted(row.sectors_per_request, 'sector')} a request."
    more = _sharing(users, "element")
    alt = f"Map of the sectors of one warp request. {finding}{more}{mean}"
    return both(draw, alt, finding + more)


def _span(group: int) -> str:
    """The words of shared memory in one row of all banks, from the first to the last."""
    return f"{group * BANKS}–{group * BANKS + BANKS - 1}"


def _bank_map(
    name: str, line: int, op: str, words: Mapping[int, list[int]], active: int, row: Any,
) -> Figure:  # fmt: skip
    per_bank = [sum(1 for word in words if word % BANKS == bank) for bank in range(BANKS)]
    lines = sorted({word // BANKS for word in words})
    # more than a word a lane is served in turns of so many lanes
    # (packages/nogpu/nogpu/emulator/observe/counts.py)
    at_once = WARP * WORD // max(row.width_bytes, WORD)
    turns = [
        [word for word, lanes in words.items() if any(i // at_once == turn for i in lanes)]
        for turn in range(WARP // at_once)
    ]
    depths = [[sum(word % BANKS == bank for word in t) for bank in range(BANKS)] for t in turns]
    wide, worst = len(turns) > 1, max(map(max, depths))
    clash = [any(depth[bank] > 1 for depth in depths) for bank in range(BANKS)]
    verb = "read" if op == "load" else "written"
    shared = any(len(lanes) > 1 for lanes in words.values())
    who = "a lane, or • for several" if shared else "the number is its lane"
    marks = [Mark(f"word {verb}; {who}", BLUE, edge=BLUE)]
    if worst > 1:
        clashes = f"bank that is asked for several words{' in a turn' * wide}"
        marks.append(Mark(clashes, VERMILION, edge=VERMILION))

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        tiny, tall = at.tiny, at.tiny + 6.5
        beside = [text_width("words", tiny + 0.5), *(text_width(_span(g), tiny) for g in lines)]
        left = 8 + max(beside) if at.narrow else 46.0
        y = draw_key(canvas, marks)
        for banks in (range(16), range(16, BANKS)) if at.narrow else (range(BANKS),):
            cell = (at.width - 1 - left) / len(banks)
            x0 = left - banks[0] * cell
            here = [g for g in lines if any(g * BANKS + bank in words for bank in banks)]
            canvas.text(left + len(banks) * cell / 2, y + 4, "bank", size=at.small, ha="center")
            canvas.text(left - 5, y + 4, "words", size=tiny + 0.5, ha="right")
            for bank in banks:
                if bank % 4 == 0 or bank == BANKS - 1:
                    middle = x0 + (bank + 0.5) * cell
                    canvas.text(middle, y + at.small + 7.5, str(bank), size=tiny, ha="center")
            top = y = y + at.small + at.tiny + 7
            for group in here:
                canvas.text(left - 5, y + tall / 2, _span(group), size=tiny, ha="right")
                for bank in banks:
                    x = x0 + bank * cell
                    if lanes := words.get(group * BANKS + bank):
                        _lit(canvas, x, y, cell, tall, lanes)
                        if clash[bank]:
                            inner = x + 0.8, y + 0.8, cell - 1.6, tall - 1.6
                            canvas.rect(*inner, edge=VERMILION, lw=1.8)
                canvas.rect(left, y, len(banks) * cell, tall, lw=0.6)
                y += tall
            edges = [left + i * cell for i in range(len(banks) + 1)]
            canvas.segments([(x, top, x, y) for x in edges], lw=0.4, alpha=0.4)
            for bank in banks:
                if per_bank[bank]:
                    middle = x0 + (bank + 0.5) * cell
                    canvas.text(middle, y + 11, str(per_bank[bank]), size=tiny, ha="center")
            canvas.text(left - 5, y + 11, "sum" if here else "none", size=tiny + 0.5, ha="right")
            y += 24
        return canvas.end(y - 4)

    wants, most = counted(len(words), "word"), max(per_bank)
    in_turns = wide and sum(map(max, depths)) == row.wavefronts_per_request  # else they are merged
    if in_turns:
        wants += f", served in {len(turns)} turns of {at_once} lanes"
        most = worst
    banks = f"the busiest bank holds {most} of them" if most > 1 else "no bank is asked for two"
    banks += " in a turn" * in_turns
    finding = (
        f"One {op} of {name} in line {line} by {counted(active, 'lane')} asks for {wants}; "
        f"{banks}.{_sharing(words, 'word')}"
    )
    mean, ideal = row.wavefronts_per_request, row.ideal_wavefronts_per_request
    mean = f" The line takes {counted(mean, 'wavefront')} a request, {number(ideal)} at best."
    alt = f"Map of the 32 banks of shared memory in one warp request. {finding}{mean}"
    return both(draw, alt, finding + mean)
