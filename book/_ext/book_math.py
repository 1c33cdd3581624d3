"""Sphinx extension: formulas as MathML, made when the book is built, so that no page loads a script
to show them."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml import converter
from sphinx.util.math import get_node_equation_number


def convert(formula: str, display: str = "inline") -> str:
    """A formula as MathML. The converter has no `aligned`; its `split` draws the same."""
    return str(converter.convert(formula.replace("{aligned}", "{split}"), display=display))


def inline(self: Any, node: nodes.math) -> None:
    """A formula in a sentence."""
    self.body.append(f'<span class="math">{convert(node.astext())}</span>')
    raise nodes.SkipNode


def display(self: Any, node: nodes.math_block) -> None:
    """A formula of its own; one with a label has a number and a link to itself."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    self.body.append('<div class="formula" tabindex="0" role="group" aria-label="Formula">')
    self.body.append(convert(node.astext().strip(), display="block"))
    self.body.append("</div>")
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
