"""Time kernels on a GPU, record the times, replay them elsewhere.

`measure(kernels, sizes)` measures where there is a GPU and replays data/measurements/<gpu>.json where
there is none. `record` makes those files. `published` reads what the five documents print.
"""

from helpers.measuring.documents import published, published_frame
from helpers.measuring.point import fingerprint
from helpers.measuring.protocol import ImplausibleError
from helpers.measuring.replay import (
    DEFAULT_GPU,
    Measurement,
    accuracy,
    counters,
    flags,
    ladder,
    measure,
    overlap,
    skipped,
    stale,
    stalls,
    transfers,
)
from helpers.measuring.schema import Record, known_gpus, load
from helpers.measuring.tune import ragged, ragged_shapes, tuned

__all__ = [
    "DEFAULT_GPU",
    "ImplausibleError",
    "Measurement",
    "Record",
    "accuracy",
    "counters",
    "fingerprint",
    "flags",
    "known_gpus",
    "ladder",
    "load",
    "measure",
    "overlap",
    "published",
    "published_frame",
    "ragged",
    "ragged_shapes",
    "skipped",
    "stale",
    "stalls",
    "transfers",
    "tuned",
]
