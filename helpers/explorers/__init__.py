"""Sliders that work on a page: no kernel, no network. Each function returns an `Explorer`.

    from helpers import explorers
    explorers.coalescing()

Python computes what is shown and hands over tables; where a formula lives in the script, a test
holds it equal to Python's.
"""

from helpers.explorers._banks import banks
from helpers.explorers._coalescing import coalescing
from helpers.explorers._hierarchy import hierarchy
from helpers.explorers._ladder import ladder
from helpers.explorers._occupancy import occupancy
from helpers.explorers._pipeline import pipeline
from helpers.explorers._roofline import roofline
from helpers.explorers._stepper import stepper
from helpers.explorers._tile import tile
from helpers.explorers.core import Control, Explorer, Reading

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
    "stepper",
    "tile",
]
