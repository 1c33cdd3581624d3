"""Checks for the exercises of chapter 16, slices of K."""

from collections.abc import Callable, Iterator
from typing import Any

from helpers.page.exercises import Check, exercise, number


def _share(tiles: int, slices: int, sms: int) -> float:
    """Work of the busiest SM in tiles, where each tile is cut into so many slices."""
    return -(-tiles * slices // sms) / slices


_CUTS: tuple[tuple[Callable[[int, int, int], Any], str], ...] = (
    (
        lambda t, s, sms: (_share(t, s, sms), -s),
        "Of several counts with the least work, take the smallest: every slice leaves sums behind.",
    ),
    (
        lambda t, s, sms: -(-t * s // sms),
        "A slice is only a part of a tile: divide the slices of the busiest SM by their count in a "
        "tile.",
    ),
    (
        lambda t, s, sms: t * s / sms / s,
        "A slice is not divided further: round the slices of the busiest SM up.",
    ),
    (lambda t, s, sms: -s, "More slices are not always less work for the busiest SM: count them."),
    (lambda t, s, sms: abs(t * s - sms), "One slice an SM is not always best: count rounds."),
)
"""Likely slips in exercise 16.1: what is minimised, and the hint that is true of it."""


@exercise("16.1", kind="python")
def best_slices(answer: Callable[[int, int, int], Any]) -> Iterator[Check]:
    """How many slices a tile are best for the busiest SM."""
    cases = (
        (8, 132, 16, "eight tiles: almost one slice an SM"),
        (8, 132, 4, "no more than four slices are allowed"),
        (64, 132, 16, "two fit; a few more do not help"),
        (100, 132, 16, "too many for one round whole"),
        (132, 132, 16, "a tile an SM: nothing to gain"),
        (40, 40, 8, "the same on a GPU with 40 SMs"),
        (50, 40, 8, "a round and a quarter"),
        (1, 132, 256, "one tile alone"),
    )

    def least(key: Callable[[int, int, int], Any]) -> list[int]:
        return [min(range(1, m + 1), key=lambda s, t=t, n=n: key(t, s, n)) for t, n, m, _ in cases]  # type: ignore[misc]

    got = [answer(*case[:3]) for case in cases]
    right = least(lambda t, s, sms: (_share(t, s, sms), s))
    fallback = "How many slices has the busiest SM, and which part of a tile is each?"
    slip = next((hint for key, hint in _CUTS if least(key) == got), fallback)
    for (tiles, sms, most, why), count, want in zip(cases, got, right, strict=True):
        what = f"{tiles} tiles on {sms} SMs, at most {most} slices ({why})"
        yield Check(count == want, what, got=f"{count}", expected=f"{want}", hint=slip)


_TILE = 64 * 64 * 4 / 2**20
_LEFT = 64 * 4 * _TILE

number(
    "16.2",
    "Bytes that 64 tiles of 64x64 in four slices hand over through global memory, in MiB",
    2 * _LEFT,
    what="MiB handed over",
    hint="each slice leaves a tile of sums, and somebody reads each of them again",
    mistakes={
        _LEFT: "that is what is left there; all of it is read again",
        64 * _TILE: "that is C itself; every slice leaves as many sums",
        6 * 64 * _TILE: "the last slice leaves its sums, too, so that the order is always the same",
        2 * _LEFT * 2**20: "in MiB: divide by 1048576",
        2 * _LEFT / 4: "a float has four bytes",
        2 * _LEFT * 2**20 / 1e6: "in MiB, of 1048576 bytes each",
    },
)
