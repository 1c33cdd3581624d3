"""A picture of chapter 7: warps that take turns, and the clocks that nobody uses."""

from collections.abc import Mapping, Sequence

from helpers.colours import GREEN, GREY, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key
from helpers.draw.thread_jobs import runs
from helpers.wording import counted, join
from nogpu.errors import DataError


def turns(schedules: Mapping[int, Sequence[int | None]], *, latency: int) -> Figure:
    """Which warp a scheduler issues in each clock, for several numbers of warps.

    schedules: for each number of warps, the warp that issues in each clock, or None where none is
    ready; all equally long. latency: clocks between an issued load and its data, for the words.
    Raises DataError for no schedule, for schedules of different lengths, or a warp that is not
    there.
    """
    lengths = {len(issued) for issued in schedules.values()}
    if len(lengths) != 1 or not lengths.pop():
        raise DataError("give schedules of equally many clocks, at least one")
    for warps, issued in schedules.items():
        if not set(issued) <= {None, *range(warps)}:
            raise DataError(f"a schedule of {warps} warps names a warp above {warps - 1}")
    clocks = len(next(iter(schedules.values())))
    busy = {w: sum(i is not None for i in issued) / clocks for w, issued in schedules.items()}
    marks = (
        Mark("the warp issues", fill=GREEN, alpha=0.7, edge=GREEN),
        Mark("it waits", fill=GREY, alpha=0.12, edge=None),
        Mark("no warp issues: a lost clock", fill=VERMILION, alpha=0.5, edge=VERMILION),
    )

    def of(issued: Sequence[int | None], who: int | None) -> list[tuple[int, int]]:
        """First clock and length of each run of clocks in which it issues."""
        return runs([clock for clock, warp in enumerate(issued) if warp == who])

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_key(canvas, marks) + 6
        step, tall = (at.width - 2) / clocks, 9.0 if at.narrow else 8.0
        for warps, issued in schedules.items():
            words = f"{counted(warps, 'warp')}: issues in {100 * busy[warps]:.0f} % of the clocks"
            y = canvas.lines(0, y + 6, words, width=at.width, size=at.font, weight="bold") + 12
            for warp in range(warps):
                canvas.marked(1, y, at.width - 2, tall - 2, marks[1])
                for first, long in of(issued, warp):
                    canvas.marked(1 + first * step, y, long * step, tall - 2, marks[0], edge=None)
                y += tall
            for first, long in of(issued, None):
                canvas.marked(1 + first * step, y + 1, long * step, 4, marks[2], edge=None)
            y += 16
        canvas.text(1, y, f"{clocks} clocks, from left to right", size=at.small)
        return canvas.end(y + at.small)

    shares = join([f"{counted(w, 'warp')} {100 * share:.0f} %" for w, share in busy.items()])
    alt = (
        f"What one scheduler issues in {clocks} clocks, a row for each warp. After a load its warp "
        f"waits {latency} clocks. With more warps others issue meanwhile and fewer clocks are "
        f"lost: share of clocks with an instruction, {shares}."
    )
    caption = (
        f"One scheduler, a load that takes {latency} clocks, and more and more warps. Computed, "
        "not measured."
    )
    return both(draw, alt, caption)
