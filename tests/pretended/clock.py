"""The pretended machine's time, which stands still until the host waits for the GPU.

How long an operation takes is drawn from its name, its shape and `seed`: what differs in a run with
another seed was measured, and no gain and no order between kernels is as on a real GPU.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections import defaultdict
from collections.abc import Iterator

waited = False
"""Whether the host waited for anything yet."""
_now = 1_000_000_000
_seed = 0
_counts: dict[object, Iterator[int]] = defaultdict(itertools.count)


def begin(seed):
    """Begin a run in which times are drawn with this seed."""
    global _seed
    _seed = seed
    _counts.clear()


def now():
    """Nanoseconds of the pretended host."""
    return _now


def install():
    """Let this process read the pretended time by time.perf_counter and time.monotonic."""
    time.perf_counter_ns = _look
    time.perf_counter = lambda: _look() / 1e9
    time.monotonic = lambda: now() / 1e9


def _look():
    """Nanoseconds, and a look takes one microsecond: nothing takes no time at all."""
    wait_until(now() + 1000)
    return now()


def wait_until(moment):
    """The host waits for a moment."""
    global _now, waited
    waited |= moment > _now + 1_000_000
    _now = max(_now, moment)


def drawn(*about):
    """A number between 0 and 1 that the seed and the words decide."""
    digest = hashlib.sha256(repr((_seed, about)).encode()).digest()
    return int.from_bytes(digest[:6], "big") / (1 << 48)


def turn(*about):
    """How often this was asked before."""
    return next(_counts[about])


def rate(most, *about):
    """A rate below `most`, for something with these words."""
    return most * (0.03 + 0.6 * drawn(*about))


class OfTheHost:
    """In place of the module `time`, for loops that the host times itself: each takes as long as is
    drawn."""

    @staticmethod
    def perf_counter():
        """Seconds that go on at every look."""
        wait_until(now() + int(4e9 * drawn("host", turn("host")) ** 2) + 1_000_000)
        return now() / 1e9
