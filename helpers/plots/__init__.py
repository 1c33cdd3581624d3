"""The charts and diagrams that any page may draw: SVG with words, light and dark.

Every function returns a Figure, whose alternative text says what the picture shows. A picture that
serves one chapter lives with it, in `helpers.chapters`, and is drawn on the same canvas: `figures`
makes the SVG, `surface` is what one draws on, `columns` says how wide it is.
"""

from helpers.plots.access_maps import access_map
from helpers.plots.bar_charts import bars, ladder
from helpers.plots.by_thread import two_jobs
from helpers.plots.cost_charts import all_roofs, scorecard
from helpers.plots.dealing import dealt
from helpers.plots.figures import Figure
from helpers.plots.hopper_blocks import hopper_block
from helpers.plots.rooflines import roofline
from helpers.plots.tilings import tile_diagram
from helpers.plots.time_lines import gantt, timeline

__all__ = [
    "Figure",
    "access_map",
    "all_roofs",
    "bars",
    "dealt",
    "gantt",
    "hopper_block",
    "ladder",
    "roofline",
    "scorecard",
    "tile_diagram",
    "timeline",
    "two_jobs",
]
