"""What several test files share: the repository, the built book, one server and one browser."""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest

from helpers.ladder.kernel import KERNELS
from helpers.ladder.rungs import catalog
from tools.notebooks.books import read_book
from tools.pdf import browser_path

ROOT = Path(__file__).resolve().parent.parent
HTML = ROOT / "_build" / "html"


def page(name):
    """A page that is no chapter, for what reads pages."""
    return (ROOT / "tests" / "pages" / f"{name}.md").read_text(encoding="utf-8")


def chapters():
    """The pages of the book that run code, the start page included."""
    return [ROOT / page.path for page in read_book().pages.values() if page.is_chapter]


def completed(line, **options):
    """A process that has run, and what it printed, as text."""
    return subprocess.run(line, capture_output=True, text=True, **options)


@pytest.fixture(scope="session")
def root():
    """The repository."""
    return ROOT


@pytest.fixture
def bare(monkeypatch):
    """A machine without a compiler."""
    from nogpu import clang, toolchain

    monkeypatch.delenv("TILE_COMPILER", raising=False)
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    monkeypatch.setattr(clang, "available", lambda: False)
    return monkeypatch


@pytest.fixture
def without_lines_told(monkeypatch):
    """clang's own lines, as LLVM leaves them, and no program that was made with others."""
    from nogpu import clang
    from nogpu.emulator.launching import run

    monkeypatch.setattr(clang, "_with_lines", lambda ir, places: ir)
    monkeypatch.setenv("TILE_CACHE", "0")
    for cached in (clang.translate, run._program):
        cached.cache_clear()
    yield
    for cached in (clang.translate, run._program):
        cached.cache_clear()


@pytest.fixture(scope="session")
def html():
    """The folder of the rendered book, built first if it is not there or older than a chapter."""
    index = HTML / "index.html"
    newest = max(path.stat().st_mtime for path in (ROOT / "book").glob("*.md"))
    HTML.parent.mkdir(parents=True, exist_ok=True)
    with (HTML.parent / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes run side by side; one of them builds
        if not index.exists() or index.stat().st_mtime < newest:
            built = completed(["make", "book"], cwd=ROOT)
            output = (built.stdout + built.stderr)[-4000:]
            assert built.returncode == 0, f"make book failed:\n{output}"
    return HTML


def sphinx(source, out, **settings):
    """Build HTML with Sphinx, in this process; a warning is an error."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace

    settings = {"html_theme": "basic", **settings}
    with docutils_namespace():
        Sphinx(
            source, None, out, out / "trees", "html", settings, status=None, warningiserror=True
        ).build()


def free_port():
    """A port of this machine on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(address, server, log):
    """Wait until a server answers; where it ends or a minute goes by, fail with its log."""
    for _ in range(240):
        try:
            urlopen(address, timeout=5).close()
            return
        except OSError:
            if server.poll() is not None:
                break
            time.sleep(0.25)
    pytest.fail(f"{address} does not answer:\n{log.read_text()[-2000:]}")


class QuietHandler(SimpleHTTPRequestHandler):
    """A file server that does not write a line per request."""

    def log_message(self, format, *args):
        """Say nothing."""


def serve(folder):
    """A server of one folder on a free local port, and its address."""
    handler = partial(QuietHandler, directory=os.fspath(folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}"


@pytest.fixture(scope="session")
def site(html):
    """Address at which the rendered book is served."""
    server, address = serve(html)
    yield address
    server.shutdown()


@pytest.fixture(scope="session")
def browser():
    """One Chromium for the whole session."""
    from playwright.sync_api import Error, sync_playwright

    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(
                executable_path=browser_path(),
                args=[
                    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
                    "--disable-background-networking", "--disable-component-update",
                    "--disable-sync",
                ],
            )  # fmt: skip
        except Error as error:
            pytest.fail(
                "Chromium does not start, and the pages are tested in it. Install it (Debian: "
                f"apt install chromium; elsewhere: playwright install chromium).\n{error}"
            )
        yield chromium
        chromium.close()


def texts_of(chapter):
    """Texts of a chapter's page and, where it has one, of its Deeper page. chapter: two digits."""
    paths = (p for name in ("", "deeper_") for p in (ROOT / "book").glob(f"{name}{chapter}_*.md"))
    return [path.read_text(encoding="utf-8") for path in paths]


def joined(source, *headers):
    """A kernel's source with some of our headers written out where they are included, in turn."""
    for header in headers:
        line = f'#include "{header}"\n'
        assert source.count(line) == 1, header
        source = source.replace(line, (KERNELS / header).read_text(encoding="utf-8"))
    return source


def twin(name, *swaps):
    """A kernel of the catalog with texts replaced wherever they stand."""
    source = catalog[name].source
    for old, new in swaps:
        assert old in source, f"{name} has no {old!r} any more: change its twin as well"
        source = source.replace(old, new)
    return catalog[name].with_source(source)
