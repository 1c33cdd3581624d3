"""What a chapter's page is made of: source listings, glued numbers, quizzes, tables, provenance.

Everything here is plain HTML or Markdown with a plain-text repr: it reads the same in the built
book, in JupyterLab and in Colab, without script, network or widget state.
"""

from helpers.claims import holds
from helpers.pages.costing import costs_table, on_your_gpu
from helpers.pages.gluing import NAME, format_glued, glue, glued, say
from helpers.pages.listings import new_lines, show_kernel
from helpers.pages.notes import evidence, provenance, stall_note, tuned_note
from helpers.pages.pieces import Html, Markdown, inline
from helpers.pages.quizzes import quiz
from helpers.pages.ready import counters_table, loads_table, mix_table, resources_table
from helpers.pages.tables import table

__all__ = [
    "NAME",
    "Html",
    "Markdown",
    "costs_table",
    "counters_table",
    "evidence",
    "format_glued",
    "glue",
    "glued",
    "holds",
    "inline",
    "loads_table",
    "mix_table",
    "new_lines",
    "on_your_gpu",
    "provenance",
    "quiz",
    "resources_table",
    "say",
    "show_kernel",
    "stall_note",
    "table",
    "tuned_note",
]
