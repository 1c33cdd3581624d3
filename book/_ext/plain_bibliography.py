"""Sphinx extension: bibliography entries without the ARIA roles that docutils gives them.

docutils writes role="list" around children that are no list items, and role="doc-biblioentry",
which DPUB-ARIA 1.1 deprecates; axe-core refuses both. Without roles the entries are read as
paragraphs.
"""

from __future__ import annotations

from typing import Any

ROLES = (' role="doc-biblioentry"', ' role="list" class="citation-list"')
PLAIN = ("", ' class="citation-list"')


def drop_roles(app: Any, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Handler of html-page-context: rewrites the page's body in place."""
    for role, plain in zip(ROLES, PLAIN, strict=True):
        context["body"] = context.get("body", "").replace(role, plain)


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.connect("html-page-context", drop_roles)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
