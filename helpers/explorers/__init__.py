"""Sliders that work on a page: no kernel, no network. Each function returns an `Explorer`.

    from helpers import explorers
    explorers.coalescing()

Python computes what is shown and hands over tables; where a formula lives in the script, a test
holds it equal to Python's.
"""

from helpers.explorers.banks import banks
from helpers.explorers.coalescing import coalescing
from helpers.explorers.core import Control, Explorer, Reading
from helpers.explorers.hierarchy import hierarchy
from helpers.explorers.ladder import ladder
from helpers.explorers.occupancy import occupancy
from helpers.explorers.pipeline import pipeline
from helpers.explorers.roofline import roofline
from helpers.explorers.tile import tile

__all__ = [
    "Control",
    "Explorer",
    "Reading",
    "banks",
    "coalescing",
    "hierarchy",
    "ladder",
    "occupancy",
    "pipeline",
    "roofline",
    "tile",
]
