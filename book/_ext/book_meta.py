"""Sphinx extension: what others see of a page before they open it: its description and card, a map
of the site for search engines, and a page for addresses that are not there.

All three need the address at which the book is published, which follows from _config.yml.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.notebook.addresses import repository


def addresses(app: Any, config: Any) -> None:
    """Set the address of the published book."""
    pages = repository(Path(__file__).resolve().parents[2]).pages
    config.html_baseurl = config.ogp_site_url = f"{pages}/"
    config.notfound_urls_prefix = "/" + "/".join(pages.split("/")[3:] + [""]).lstrip("/")


def lighter(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Leave out the script of tabs, of which the book has none: sphinx-design sends it always."""
    files = context.get("script_files", [])
    context["script_files"] = [f for f in files if "design-tabs" not in str(f.filename)]


def setup(app: Any) -> dict[str, Any]:
    """Called by Sphinx when it loads the extension."""
    app.connect("config-inited", addresses, priority=100)
    app.connect("html-page-context", lighter)
    for name in ("sphinxext.opengraph", "sphinx_sitemap", "notfound.extension"):
        app.setup_extension(name)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
