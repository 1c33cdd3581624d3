"""Explorer of the chapters that keep sums in registers: one thread's two jobs, step by step."""

from collections.abc import Sequence

import numpy as np

from helpers.colours import BLUE, GREEN
from helpers.ladder.jobs import Duties, Place, duties
from helpers.ladder.kernel import Kernel
from helpers.page.explorers.core import Control, Explorer, Reading, State, choice, significant, text
from helpers.page.explorers.fallbacks import rect, svg, words
from helpers.page.explorers.loops import loop, marked
from helpers.wording import counted
from nogpu.device import WARP

TILES = 2
"""Tiles along K in the example."""


def example(d: Duties) -> tuple[np.ndarray, np.ndarray]:
    """A and B of one block and TILES steps along K: whole numbers from 1 to 9."""
    (m, n), k = d.launch.tile, TILES * d.depth
    rng = np.random.default_rng(8)
    return rng.integers(1, 10, (m, k)), rng.integers(1, 10, (k, n))


def _span(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}–{high}"


def _copies(d: Duties, array: str, thread: int, tile: int) -> str:
    """What a thread copies of the tiles of step `tile`, and where it puts it down."""
    down, right = d.place[array]
    along = (0, d.depth * tile) if array == "A" else (d.depth * tile, 0)
    copies = []
    for access in d.fetched[array][thread]:
        places: list[Place] = [(int(r), int(c)) for r, c in access]
        rows, cols = [r for r, _ in places], [c for _, c in places]
        first = (
            f"{array}[{_span([r + along[0] for r in rows])}, {_span([c + along[1] for c in cols])}]"
        )
        if down < right:  # the tile is transposed
            rows, cols = cols, rows
        copies.append(f"{first} into row{'s' * (len(set(rows)) > 1)} {_span(rows)}, "
        f"column{'s' * (len(set(cols)) > 1)} {_span(cols)} of {array}_tile")  # fmt: skip
    return "; ".join(copies)


def _line(values: Sequence[int]) -> str:
    return " ".join(map(str, values))


def stepper(kernel: Kernel | str, *, thread: int = 37, step: int = 1) -> Explorer:
    """One thread through k0 and k: what it copies, what it reads, and its sums as they fill.

    kernel: one that stages FP32 tiles, such as "block_1d_core"; thread and step: what the explorer
    begins with. Where elements lie is read off a run in the emulator, the numbers are a small
    example's. Raises ConfigError for another kernel, thread or step.
    """
    d = duties(kernel)
    name, depth = d.launch.kernel.name, d.depth
    A, B = example(d)
    threads = tuple(sorted({0, 1, 32, d.check(thread), d.threads - 1}))
    steps = tuple(range(TILES * (depth + 1)))
    code = loop(name)
    code = code[: code.index("}") + 1]
    (inner,) = marked(code, r"int k = 0")

    def read(state: State) -> Reading:
        t, (tile, phase) = state["thread"], divmod(state["step"], depth + 1)
        rows, cols = list(d.reads["A"][t]), list(d.reads["B"][t])
        done = tile * depth + phase
        sums = A[rows, :done] @ B[:done, cols]
        cells, each = sums.size, len(rows) + len(cols)
        shown = {
            "thread": str(t), "k0": str(tile * depth), "reuse": significant(cells / each),
            "madds": text(done * cells), "reads": text(done * each),
            "sums": "; ".join(_line(row) for row in sums.tolist()),
            "products": counted(cells, "product"),
        }  # fmt: skip
        if not phase:
            return Reading(
                "copy", shown | {"a": _copies(d, "A", t, tile), "b": _copies(d, "B", t, tile)}
            )
        k = done - 1
        a, b = A[rows, k].tolist(), B[k, cols].tolist()
        shown |= {"k": str(phase - 1), "a": _line(a), "b": _line(b)}
        shown |= {"x": str(a[0]), "y": str(b[0]), "first": str(sums[0, 0])}
        shown |= {"many_a": counted(len(rows), "value"), "many_b": counted(len(cols), "value")}
        return Reading("step", shown)

    def words_of(at: int) -> str:
        tile, phase = divmod(at, depth + 1)
        return f"k0 = {tile * depth}, " + (f"k = {phase - 1}" if phase else "copy")

    m, n = d.launch.tile
    default = {"thread": thread, "step": step}
    return Explorer(
        kind="stepper",
        title=f"What does one thread of {name} do, step by step?",
        caption=(
            "Drawn are the rows of A_tile and the columns of B_tile that the thread reads, of so"
            " many values of k as find room, and between them its sums, in registers. In the copy"
            " step stands what it copies, mostly for other threads. In every other step each sum"
            " grows by the marked value of its row times that of its column. Choose any k in the"
            " tiles."
        ),
        controls=(
            Control("step", "step", steps, step, labels=tuple(map(words_of, steps)), plays=700),
            choice(
                "thread",
                "thread",
                {t: f"{t}: lane {t % WARP} of warp {t // WARP}" for t in threads},
                thread,
            ),
        ),
        labels={
            "a": "of A, copied or read", "b": "of B, copied or read",
            "madds": "multiply-adds so far", "reads": "values read so far",
            "reuse": "multiply-adds for each value read", "sums": "its sums, row by row",
        },
        sentences={
            "copy": (
                "k0 = {k0}: thread {thread} copies its share of both tiles, then waits until "
                "they are whole. Its sums stay as they are."
            ),
            "step": (
                "k0 = {k0}, k = {k}: it reads {many_a} of A_tile and {many_b} of B_tile, and adds"
                " {products} to its sums, one to each. The first grows by {x} × {y}, to {first}."
            ),
        },
        data={
            "m": m,
            "n": n,
            "depth": depth,
            "tiles": TILES,
            "turned": [d.place[x][0] < d.place[x][1] for x in "AB"],
            "lines": {
                "copy": list(range(1, inner)),
                "step": [i for i in marked(code, r"=|read_frags") if i > inner],
            },
            "A": ["".join(map(str, row)) for row in A.tolist()],
            "B": ["".join(map(str, row)) for row in B.tolist()],
            "threads": {
                str(t): {
                    "rows": d.reads["A"][t],
                    "cols": d.reads["B"][t],
                    "copies": [[_copies(d, x, t, tile) for x in "AB"] for tile in range(TILES)],
                    "fetched": [np.reshape(d.fetched[x][t], (-1, 2)).tolist() for x in "AB"],
                }
                for t in threads
            },
        },
        compute=read,
        picture=_picture(read(default)),
        examples=({}, {"step": 0}, {"step": depth}, {"step": steps[-1]}),
        spoken=("a", "b", "sums"),
        code=code,
    )  # fmt: skip


def _picture(reading: Reading) -> str:
    """The sums of the default state, with the values that they grow by."""
    rows = [row.split() for row in reading.text["sums"].split("; ")]
    heads = "k" in reading.text
    a, b = (reading.text[x].split() if heads else [] for x in "ab")
    wide, high, body = 34, 18, ""
    for j, value in enumerate(b):
        body += words(42 + j * wide + wide / 2, 13, value, "middle")
    for i, row in enumerate(rows):
        y = 20 + i * high
        body += words(32, y + 13, a[i] if heads else "·", "end")
        for j, value in enumerate(row):
            body += rect(42 + j * wide, y, wide - 2, high - 2, "none", f'stroke="{GREEN}"')
            body += words(42 + j * wide + wide / 2 - 1, y + 12, value, "middle")
    body += rect(42, 17, len(rows[0]) * wide - 2, 1.5, BLUE)
    return svg(324, 24 + len(rows) * high, body, "The thread's sums and what they grow by.")
