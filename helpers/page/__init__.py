"""What a chapter's page is made of: source listings, glued numbers, quizzes, tables, provenance.

Everything here is plain HTML or Markdown with a plain-text repr: it reads the same in the built
book, in
JupyterLab and in Colab, without script, network or widget state.

Comes in: kernels, traces, measurements, a reader's text. Goes out: `Html`, `Markdown`, verdicts.
Read first: gluing.py (numbers in the text), directives.py (what MyST is taught), workbench.py (a
reader's kernel).
"""

from helpers.notebook.pieces import Html, Markdown, inline
from helpers.page.claims import holds
from helpers.page.costing import costs_table, on_your_gpu
from helpers.page.gluing import NAME, format_glued, glue, glued, say
from helpers.page.kernel_tables import counters_table, loads_table, mix_table, resources_table
from helpers.page.listings import new_lines, show_kernel
from helpers.page.notes import evidence, provenance, stall_note, tuned_note
from helpers.page.quizzes import quiz
from helpers.page.tables import table

__all__ = [
    "NAME", "Html", "Markdown", "costs_table", "counters_table", "evidence", "format_glued", "glue",
    "glued", "holds", "inline", "loads_table", "mix_table", "new_lines", "on_your_gpu",
    "provenance", "quiz", "resources_table", "say", "show_kernel", "stall_note", "table",
    "tuned_note",
]  # fmt: skip
