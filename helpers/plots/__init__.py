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
from helpers.plots._fragments import (
    bit_fields,
    fragment_layout,
    hopper_block,
    stream_k,
    stream_k_share,
)
from helpers.plots._svg import Figure

__all__ = [
    "Figure",
    "access_map",
    "bars",
    "bit_fields",
    "fragment_layout",
    "gantt",
    "hopper_block",
    "ladder",
    "loop_orders",
    "memory_hierarchy",
    "ring",
    "roofline",
    "stream_k",
    "stream_k_share",
    "thread_hierarchy",
    "tile_diagram",
    "timeline",
]
