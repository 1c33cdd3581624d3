"""What the notes of the tuning runs say of the kernels of chapter 22 (data/tries/hopper.md)."""

from helpers.chapters.notes import numbers

NOTES = "hopper.md"


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


def said() -> dict[str, float]:
    """What the runs say of step 5, all at 8192 but the last two lines.

    `counted` clocks a step of k where `ideal` would do, so that the Tensor Cores are `busy` %, at
    `mhz` by counters of its own, which gave `then` TFLOP/s. `sustained`: TFLOP/s without a pause,
    at `sustained_w` and `sustained_mhz`, and those of the `library`. `energy`: percent that
    multicast saves. At 4096, % of cuBLAS, storing `at_once` and `deferred`. `lost`: percent that a
    release at every step cost. `cut_4096`, `cut_8192`: points that the first form of step 6 gave
    over step 5, whose `hand_over` cost microseconds.
    """
    counted, ideal, busy, mhz, then = numbers(
        NOTES,
        r"k5 at 8192 (\d+) cycles a step of (\d+) ideal: ([\d.]+) %.*?(\d+) MHz, (\d+) TFLOP/s",
    )
    at_once, deferred = numbers(NOTES, r"epilogue at once ([\d.]+)/[\d.]+; deferred ([\d.]+)/")
    library, rate, watts, clock = numbers(
        NOTES, r"Sustained alone 8192: cuBLAS (\d+) \(691 W.*?deferred (\d+) \((\d+) W, (\d+) MHz\)"
    )
    five_4096, five_8192, cut_4096, cut_8192 = numbers(
        NOTES, r"k5 ([\d.]+)/([\d.]+); k6 stream-K ([\d.]+)/([\d.]+) "
    )
    (hand_over,) = numbers(NOTES, r"the hand-over costs some (\d+) us")
    (lost,) = numbers(NOTES, r"k5 1x1 lost (\d+) %: `mbarrier.arrive.release")
    (energy,) = numbers(NOTES, r"multicast saves (\d+) % of energy")
    return {
        "counted": counted, "ideal": ideal, "busy": busy, "mhz": mhz, "then": then,
        "library": library, "sustained": rate, "sustained_w": watts, "sustained_mhz": clock,
        "at_once": at_once, "deferred": deferred, "lost": lost, "cut_4096": cut_4096 - five_4096,
        "cut_8192": cut_8192 - five_8192, "hand_over": hand_over, "energy": energy,
    }  # fmt: skip
