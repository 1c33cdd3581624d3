"""What the notes of the tuning runs say of the kernels of chapter 22 (data/tries/hopper.md)."""

from helpers.chapters.notes import named, numbers

NOTES = "hopper.md"
SAID = {
    ("counted", "ideal", "busy", "mhz", "then"): r"k5 at 8192 (\d+) cycles a step of (\d+) ideal: "
    r"([\d.]+) %.*?(\d+) MHz, (\d+) TFLOP/s",
    ("at_once", "deferred"): r"epilogue at once ([\d.]+)/[\d.]+; deferred ([\d.]+)/",
    ("library", "sustained", "sustained_w", "sustained_mhz"): r"Sustained alone 8192: cuBLAS (\d+) "
    r"\(691 W.*?deferred (\d+) \((\d+) W, (\d+) MHz\)",
    ("five_4096", "five_8192", "six_4096", "six_8192"): r"k5 ([\d.]+)/([\d.]+); k6 stream-K "
    r"([\d.]+)/([\d.]+) ",
    ("hand_over",): r"the hand-over costs some (\d+) us",
    ("lost",): r"k5 1x1 lost (\d+) %: `mbarrier.arrive.release",
    ("energy",): r"multicast saves (\d+) % of energy",
}
"""Patterns of the notes, by the names of their numbers."""


def predicted() -> dict[int, float]:
    """What steps 4, 5 and 6 were to give over the one before at 4096, in points of cuBLAS, written
    down before they ran: of rates against the one that cuBLAS was taken to reach, and of points."""
    three, four, five, cublas = numbers(
        NOTES,
        r"k3 128x256 persistent: (\d+)\n- k4 2x1: (\d+);.*?k5 2x1: (\d+) at 4096.*?cuBLAS (\d+) at"
        r" both",
    )
    (deferred,) = numbers(NOTES, r"Expect \+(\d+) points at 4096")
    (stream_k,) = numbers(NOTES, r"Stream-K: 8192 \+[\d.]+ points .*?, 4096 \+(\d+)")
    steps = {4: four - three, 5: five - four}
    points = {step: 100 * rate / cublas for step, rate in steps.items()}
    return {4: points[4], 5: points[5] + deferred, 6: stream_k}


def noted() -> dict[str, float]:
    """What the runs say of step 5, all at 8192 but the last two lines.

    `counted` clocks a step of k where `ideal` would do, so that the Tensor Cores are `busy` %, at
    `mhz` by counters of its own, which gave `then` TFLOP/s. `sustained`: TFLOP/s without a pause,
    at `sustained_w` and `sustained_mhz`, and those of the `library`. `energy`: percent that
    multicast saves. At 4096, % of cuBLAS, storing `at_once` and `deferred`. `lost`: percent that a
    release at every step cost. `cut_4096`, `cut_8192`: points that the first form of step 6 gave
    over step 5, whose `hand_over` cost microseconds.
    """
    found = named(NOTES, SAID)
    cut = {f"cut_{n}": found.pop(f"six_{n}") - found.pop(f"five_{n}") for n in (4096, 8192)}
    return found | cut
