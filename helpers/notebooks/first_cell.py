"""The first cell of every notebook: on Colab it fetches the book's code."""

from __future__ import annotations

import hashlib
from typing import Any

from helpers.notebooks.addresses import Repository
from helpers.notebooks.cells import code_cell
from helpers.notebooks.markdown import Page

SETUP = """\
# On Colab this fetches the book's code; anywhere else it only finds it.
import os, subprocess, sys

if "COLAB_RELEASE_TAG" in os.environ and not os.path.isdir("../helpers"):
    if not os.path.isdir("{name}"):
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", "{branch}"]
        subprocess.run([*clone, "{url}"], check=True)
    os.chdir("{name}/book")
sys.path.insert(0, os.path.abspath(".."))

from helpers.notebooks import start
from helpers.pages import say

start()"""


def setup_cell(where: Repository, page: Page) -> dict[str, Any]:
    """The first cell of every notebook."""
    source = SETUP.format(name=where.name, branch=where.branch, url=where.url)
    id_ = hashlib.sha256(f"{page.path.name}\nsetup".encode()).hexdigest()[:12]
    return code_cell(source, id_, ["hide-input"])
