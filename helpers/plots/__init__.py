"""Bars, the ladder, the roofline, access maps and tile diagrams: SVG with words, light and dark.

Every function returns a Figure, whose alternative text says what the picture shows.
"""

from helpers.plots._charts import bars, gantt, ladder, roofline, timeline
from helpers.plots._diagrams import (
    access_map,
    loop_orders,
    memory_hierarchy,
    ring,
    thread_hierarchy,
    tile_diagram,
)
from helpers.plots._order import tile_order
from helpers.plots._svg import Figure

__all__ = [
    "Figure",
    "access_map",
    "bars",
    "gantt",
    "ladder",
    "loop_orders",
    "memory_hierarchy",
    "ring",
    "roofline",
    "thread_hierarchy",
    "tile_diagram",
    "tile_order",
    "timeline",
]
