"""Time kernels on a GPU, record the times, replay them elsewhere.

`measure(kernels, sizes)` measures where there is a GPU and replays data/measurements/<gpu>.json where
there is none (helpers.measuring.sources). helpers.measuring.campaign makes those files, section by section
(helpers.measuring.sections); helpers.measuring.reading only reads them. `published` reads what the five
documents print.
"""

from helpers.measuring.documents import published, published_frame
from helpers.measuring.measurement import DEFAULT_GPU, Measurement
from helpers.measuring.protocol import ImplausibleError
from helpers.measuring.reading import (
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
    transfers,
    tuned,
)
from helpers.measuring.sections.confirming import ragged_shapes
from helpers.measuring.sources import measure, overlap
from helpers.measuring.store import Record, known_gpus, load
from helpers.rungs import fingerprint

__all__ = [
    "DEFAULT_GPU",
    "ImplausibleError",
    "Measurement",
    "Record",
    "accuracy",
    "counters",
    "everywhere",
    "fingerprint",
    "flags",
    "known_gpus",
    "ladder",
    "launches",
    "left_out",
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
