"""What the class's tests share with the book's: its pages and the browser that opens them."""

from tests.conftest import browser, html, root, site  # noqa: F401
