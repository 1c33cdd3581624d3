"""A picture of chapter 2: who works when, from a launch to a result, and what each clock sees."""

from helpers.colours import BLUE, GREY, VERMILION
from helpers.draw.figures import Figure, both
from helpers.draw.surface import Canvas, Column, Mark, draw_key
from helpers.wording import number
from nogpu.errors import DataError


def returns_at_once(kernel_ms: float) -> Figure:
    """CPU and GPU over time around one launch, and the three spans that one may take for its time.

    kernel_ms: how long the kernel runs, in ms; the delays of launching and waiting are drawn to no
    scale. Raises DataError if kernel_ms is not above 0.
    """
    if not kernel_ms > 0:
        raise DataError(f"{kernel_ms=}: give the milliseconds that a kernel takes")
    marks = (
        Mark("at work", fill=BLUE, alpha=0.4, edge=BLUE),
        Mark("waits for the GPU", fill=GREY, alpha=0.15, edge=GREY, hatch="////"),
        Mark("the kernel runs", fill=VERMILION, alpha=0.4, edge=VERMILION),
    )
    # where things begin and end, in shares of the line
    ask, start, end, back = 0.14, 0.24, 0.84, 0.94
    spans = (
        ("without waiting", 0.0, ask, "how long it takes to ask"),
        ("with waiting", 0.0, back, "kernel, launch and wait"),
        ("by two events", start, end, f"the kernel: {number(kernel_ms)} ms"),
    )

    def draw(at: Column) -> Canvas:
        canvas = Canvas(at)
        y = draw_key(canvas, marks) + 4
        left = 34.0
        span = at.width - left - 2

        def x(share: float) -> float:
            return left + share * span

        canvas.text(0, y + 11, "CPU", size=at.font, weight="bold")
        canvas.marked(x(0), y, ask * span, 22, marks[0])
        size = at.tiny if at.narrow else at.small
        canvas.text(x(ask / 2), y + 11, "launch", size=size, ha="center")
        canvas.marked(x(ask), y, (back - ask) * span, 22, marks[1])
        cpu = y + 22
        y += 48
        canvas.text(0, y + 11, "GPU", size=at.font, weight="bold")
        canvas.marked(x(start), y, (end - start) * span, 22, marks[2])
        canvas.text(x((start + end) / 2), y + 11, "kernel", size=at.small, ha="center")
        canvas.arrow(x(ask), cpu, x(start), y)
        canvas.arrow(x(end), y, x(back), cpu)
        y += 40
        for name, first, last, what in spans:
            y = canvas.lines(left, y, f"{name}: {what}", width=span, size=at.small) + 8
            canvas.arrow(x(first), y, x(last), y, both=True)
            y += 18
        return canvas.end(y - 4)

    alt = (
        "Two lines over time. The CPU launches the kernel and its call returns at once; then it "
        f"waits. The GPU begins a little later and runs the kernel for {number(kernel_ms)} ms; a "
        "little after its end the CPU knows. A clock of the CPU without waiting sees the launch "
        "alone; with waiting it sees launch, kernel and delays; two events on the GPU see the "
        "kernel alone."
    )
    caption = "One launch, and three ways to time it. Launch and delays are drawn to no scale."
    return both(draw, alt, caption)
