"""The charts and diagrams that any page may draw: SVG with words, light and dark.

Every function returns a Figure, whose alternative text says what the picture shows. A picture that
serves one
chapter lives with it, in `helpers.chapters`, and is drawn on the same canvas.

Comes in: rows of measurements, kernels, geometry. Goes out: a `Figure`.
Read first: figures.py (what makes the SVG), surface.py (what one draws on), bar_charts.py.
"""

from helpers.draw.access_maps import access_map
from helpers.draw.bar_charts import bars, ladder
from helpers.draw.cost_charts import all_roofs, scorecard
from helpers.draw.figures import Figure
from helpers.draw.hopper_blocks import hopper_block
from helpers.draw.rooflines import roofline
from helpers.draw.thread_jobs import two_jobs
from helpers.draw.tilings import tile_diagram
from helpers.draw.time_lines import gantt, timeline
from helpers.draw.work_per_sm import tiles_per_sm

__all__ = [
    "Figure", "access_map", "all_roofs", "bars", "gantt", "hopper_block", "ladder", "roofline",
    "scorecard", "tile_diagram", "tiles_per_sm", "timeline", "two_jobs",
]  # fmt: skip
