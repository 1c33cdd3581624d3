"""Bars, the ladder, the roofline, access maps and tile diagrams: SVG with words, light and dark.

Every function returns a Figure, whose alternative text says what the picture shows.
"""

from helpers.plots._beginnings import cache_sets, vector_blocks
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
from helpers.plots._lanes import lane_map, load_cover, wide_reads
from helpers.plots._order import tile_order
from helpers.plots._svg import Figure
from helpers.plots._worked import barriers, line_queues, tile_phases

__all__ = [
    "Figure",
    "access_map",
    "barriers",
    "bars",
    "bit_fields",
    "cache_sets",
    "fragment_layout",
    "gantt",
    "hopper_block",
    "ladder",
    "lane_map",
    "line_queues",
    "load_cover",
    "loop_orders",
    "memory_hierarchy",
    "ring",
    "roofline",
    "stream_k",
    "stream_k_share",
    "thread_hierarchy",
    "tile_diagram",
    "tile_order",
    "tile_phases",
    "timeline",
    "vector_blocks",
    "wide_reads",
]
