"""Checks for the exercises of chapter 15, a tile for every shape."""

from collections.abc import Callable, Iterator
from typing import Any

from helpers.page.exercises import Axis, Check, check_chart, exercise, number
from helpers.record import measure

number(
    "15.1",
    "Share of an H200 that has work with 128x256 tiles at 3072, in percent",
    100 * 288 / (3 * 132),
    what="share in percent",
    hint="288 tiles; how many slots do all the waves have together, with 132 in each?",
    mistakes={
        100 * 288 / 132: "that is the waves, times a hundred; the last one is not full",
        288 / 132: "those are the waves; the last one is not full",
        288 / (3 * 132): "in percent",
        100 * 24 / 132: "that is the last wave alone",
        100 * (1 - 288 / (3 * 132)): "that is the share without work",
        3: "that many waves it takes; which share of their slots is used?",
        100: "the last wave is not full",
    },
)


REGISTERS = 65536
"""32-bit registers of an SM, as in the text of exercise 15.2."""


def _fits(tm: int, tn: int, threads: int, blocks: int) -> bool:
    """What exercise 15.2 asks for."""
    return tm * tn + 2 * (tm + tn) + 32 <= min(255, REGISTERS // (threads * blocks))


_SLIPS: tuple[tuple[Callable[[int, int, int, int], bool], str], ...] = (
    (
        lambda m, n, t, b: m * n + (m + n) + 32 <= min(255, REGISTERS // (t * b)),
        "There are two sets of fragments: the one in use and the next one.",
    ),
    (
        lambda m, n, t, b: m * n + 2 * (m + n) <= min(255, REGISTERS // (t * b)),
        "32 registers go to everything else.",
    ),
    (
        lambda m, n, t, b: m * n + 2 * (m + n) + 32 <= REGISTERS // (t * b),
        "No thread has more than 255 registers, however few threads there are.",
    ),
    (
        lambda m, n, t, b: m * n + 2 * (m + n) + 32 <= 255,
        "The registers of the SM must serve all resident threads.",
    ),
    (
        lambda m, n, t, b: m * n + 2 * (m + n) + 32 <= min(255, REGISTERS // t),
        "All blocks on the SM share its registers.",
    ),
    (
        lambda m, n, t, b: m * n + 2 * (m + n) + 32 < min(255, REGISTERS // (t * b)),
        "A tile that takes exactly as many as there are fits.",
    ),
)
"""Likely slips in exercise 15.2, each with the hint that is true of it."""


@exercise("15.2", kind="python")
def fits(answer: Callable[[int, int, int, int], Any]) -> Iterator[Check]:
    """Whether a thread's tile fits in the registers that it may have."""
    cases = (
        (16, 8, 256, 1, "the default"),
        (16, 8, 256, 2, "two such blocks share the file"),
        (8, 8, 256, 2, "exactly as many as there are"),
        (16, 16, 128, 1, "no thread has that many"),
        (16, 8, 128, 2, "smaller blocks, two of them"),
        (4, 4, 1024, 1, "many threads with little each"),
        (8, 8, 1024, 1, "the largest block"),
        (16, 8, 352, 1, "eleven warps"),
        (8, 8, 192, 3, "three blocks of six warps"),
        (8, 8, 640, 1, "one block of twenty warps"),
    )
    answers = [answer(*case[:4]) for case in cases]
    given = [bool(s) for s in answers]
    slips = (hint for slip, hint in _SLIPS if [slip(*c[:4]) for c in cases] == given)
    slip = next(slips, "")
    for (tm, tn, threads, blocks, why), got in zip(cases, answers, strict=True):
        right = _fits(tm, tn, threads, blocks)
        case = f"{tm}x{tn} a thread, {threads} threads, {blocks} blocks ({why})"
        ok = got is not ... and got is not None and bool(got) == right
        yield Check(ok, case, got=f"{got}", expected=f"{right}", hint=slip)


def _work(tile: tuple[int, int], m: int, n: int, sms: int) -> int:
    """Elements of C that the busiest SM computes."""
    bm, bn = tile
    return -(-(-(-m // bm) * -(-n // bn)) // sms) * bm * bn


_PICKS: tuple[tuple[Callable[[tuple[int, int], int, int, int], Any], str], ...] = (
    (
        lambda t, m, n, sms: _work(t, m, n, sms),
        "Of several tiles with the least work, take the one with the largest area.",
    ),
    (
        lambda t, m, n, sms: (_work(t, m, n, sms), t[0] * t[1]),
        "Of several tiles with the least work, the largest reads least, not the smallest.",
    ),
    (lambda t, m, n, sms: (_work(t, n, m, sms), -t[0] * t[1]), "BM counts rows, and BN columns."),
    (
        lambda t, m, n, sms: (-(-(m // t[0] * (n // t[1])) // sms) * t[0] * t[1], -t[0] * t[1]),
        "A tile that sticks out of C counts whole: round the number of tiles up.",
    ),
    (
        lambda t, m, n, sms: (-(-m // t[0]) * -(-n // t[1]) / sms * t[0] * t[1], -t[0] * t[1]),
        "An SM computes whole tiles: round its share up.",
    ),
    (
        lambda t, m, n, sms: (-(-(-(-m // t[0]) * -(-n // t[1])) // sms), -t[0] * t[1]),
        "Few tiles are not little work: multiply their number by the elements of one.",
    ),
)
"""Likely slips in exercise 15.3: what is minimised, and the hint that is true of it."""


@exercise("15.3", kind="python")
def best_tile(answer: Callable[[list[tuple[int, int]], int, int, int], Any]) -> Iterator[Check]:
    """The tile with which the busiest SM has the least to do."""
    # Not in the order of size: whoever takes the first of several equals must not be right by
    # chance.
    tiles = [(64, 128), (128, 256), (64, 64), (128, 128)]
    cases = (
        (tiles, 4096, 4096, 132, "several share the least work: take the largest"),
        (tiles[::-1], 4096, 4096, 132, "the same, listed the other way round"),
        (tiles, 1024, 1024, 132, "few blocks"),
        (tiles[::-1], 1024, 1024, 132, "few blocks, listed the other way round"),
        (tiles, 512, 512, 132, "hardly a block for every second SM"),
        (tiles[::-1], 2048, 2048, 40, "a GPU with 40 SMs"),
        (tiles, 4097, 4097, 132, "one row and one column too many"),
        (tiles[::-1], 700, 3000, 132, "a wide C"),
        (tiles, 3000, 700, 132, "a tall one"),
    )

    def least(key: Callable[[tuple[int, int], int, int, int], Any]) -> list[tuple[int, int]]:
        return [min(c[0], key=lambda t, c=c: key(t, *c[1:4])) for c in cases]  # type: ignore[misc]

    answers = [answer(list(c[0]), *c[1:4]) for c in cases]
    got = [tuple(t) if isinstance(t, (tuple, list)) else t for t in answers]
    right = least(lambda t, m, n, sms: (_work(t, m, n, sms), -t[0] * t[1]))
    fallback = "How many tiles has the busiest SM, each whole, and how many elements is that?"
    slip = next((hint for key, hint in _PICKS if least(key) == got), fallback)
    for (_, m, n, sms, why), tile, want, text in zip(cases, got, right, answers, strict=True):
        what = f"{m} x {n} on {sms} SMs ({why})"
        yield Check(tile == want, what, got=f"{text}", expected=f"{want}", hint=slip)


@exercise("15.4", kind="python")
def large_tile_wins(answer: Any) -> Iterator[Check]:
    """Percent of cuBLAS against N, of a small tile and a large one, by the record of the H200."""
    two, sizes = ("cp_async", "fp32_best"), (512, 1024, 2048, 4096, 8192)
    rec = measure([*two], sizes=[*sizes], gpu="h200")
    yield from check_chart(
        answer,
        Axis("N", ("n|m|size",), log=True),
        Axis("rate (% of cuBLAS)", ("cublas|library", "%|percent")),
        {k: {n: 100 * rec.value(k, n, "cublas_ratio") for n in sizes} for k in two},
        hint='The column is `cublas_ratio`, and the record `gpu="h200"`.',
    )
