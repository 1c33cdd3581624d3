"""Times of kernels: measured here where there is a GPU, replayed from the record where not.

`measure(kernels, sizes)` gives either; `published` reads what the five documents print. What a
record may hold is in entries.py; tools/recorder fills one.

Comes in: kernels, a GPU or data/. Goes out: a `Measurement`, times with their spread and their
origin.
Read first: measurement.py (what is shown), reading.py (what is recorded), sources.py (measured or
replayed).
"""

from helpers.ladder.rungs import fingerprint
from helpers.record.documents import published
from helpers.record.measurement import Measurement
from helpers.record.protocol import ImplausibleError
from helpers.record.reading import (
    accuracy,
    counters,
    everywhere,
    flags,
    ladder,
    launches,
    left_out,
    ragged,
    skipped,
    stale,
    stalls,
    supplies,
    transfers,
    tuned,
)
from helpers.record.selection import DEFAULT_GPU
from helpers.record.shape_sets import ragged_shapes
from helpers.record.sources import measure, overlap
from helpers.record.store import Record, known_gpus, load

__all__ = [
    "DEFAULT_GPU", "ImplausibleError", "Measurement", "Record", "accuracy", "counters",
    "everywhere", "fingerprint", "flags", "known_gpus", "ladder", "launches", "left_out", "load",
    "measure", "overlap", "published", "ragged", "ragged_shapes", "skipped",
    "stale", "stalls", "supplies", "transfers", "tuned",
]  # fmt: skip
