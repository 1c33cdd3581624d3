"""Sliders that work on a page: no kernel, no network. Each function returns an `Explorer`.

    from helpers import explorers
    explorers.coalescing()

Python computes what is shown and hands over tables; where a formula lives in the script, a test
holds it equal to Python's.
"""

from helpers.page.explorers._banks import banks
from helpers.page.explorers._coalescing import coalescing
from helpers.page.explorers._descriptor import descriptor
from helpers.page.explorers._fragments import fragments
from helpers.page.explorers._hierarchy import hierarchy
from helpers.page.explorers._ladder import ladder
from helpers.page.explorers._ldmatrix import ldmatrix
from helpers.page.explorers._march import march
from helpers.page.explorers._occupancy import occupancy
from helpers.page.explorers._pipeline import pipeline
from helpers.page.explorers._request import request
from helpers.page.explorers._ring import ring
from helpers.page.explorers._roofline import roofline
from helpers.page.explorers._scorecard import scorecard
from helpers.page.explorers._stepper import stepper
from helpers.page.explorers._stream_k import stream_k
from helpers.page.explorers._swizzle import swizzle
from helpers.page.explorers._tile import tile
from helpers.page.explorers.core import Control, Explorer, Reading

__all__ = [
    "Control", "Explorer", "Reading", "banks", "coalescing", "descriptor", "fragments", "hierarchy",
    "ladder", "ldmatrix", "march", "occupancy", "pipeline", "request", "ring", "roofline",
    "scorecard", "stepper", "stream_k", "swizzle", "tile",
]  # fmt: skip
