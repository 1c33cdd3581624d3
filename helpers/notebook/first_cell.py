"""How every notebook begins: what to do, and the cell that fetches the code on Colab."""

import hashlib
from typing import Any

from helpers.notebook.addresses import Repository
from helpers.notebook.cells import cell, code_cell

WELCOME = """\
**Everything below can be read as it stands. To work with it, run all cells first.** On Colab: Runtime > \
Run all, or Ctrl+F9. In JupyterLab: Run > Run All Cells. With an NVIDIA GPU (on Colab, Runtime > Change \
runtime type offers a T4) kernels run on it and are timed on it. Without one they run in an emulator, and \
times are replayed from the book's record."""  # noqa: E501

AWAY = ("labs/*/rehearsal", "tests", "packages/*/tests", "tools")
"""What is not fetched: what the labs of a class are tried on, their solutions among it, tests and
tools."""

FETCH = """\
class NoBook(RuntimeError):
    def _render_traceback_(self):  # the message alone, without the lines of this cell
        return [f"NoBook: {self}"]


def fetch(url, branch, name):
    def git(*words):
        quiet = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
        done = subprocess.run(["git", *words], capture_output=True, text=True, env=quiet)
        if done.returncode:
            raise NoBook(
                "the book's code could not be fetched, and without it no cell runs. git says:\\n"
                + done.stderr.strip()
                + f"\\nCheck that {url} opens in a browser without signing in, that it has a branch or tag "
                f"called {branch}, and that this machine reaches the network; then run this cell again."
            )

    half = name + ".half"  # moved to its place once it is whole
    shutil.rmtree(half, ignore_errors=True)
    sparse = ("-c", "core.sparseCheckout=true", "-c", "core.sparseCheckoutCone=false", "--filter=blob:none")
    git("clone", "--quiet", "--depth", "1", "--no-checkout", *sparse, "--branch", branch, url, half)
    os.makedirs(half + "/.git/info", exist_ok=True)
    with open(half + "/.git/info/sparse-checkout", "w") as file:
        file.write("WANTED")
    git("-C", half, "checkout", "--quiet")
    os.rename(half, name)""".replace("WANTED", "".join(["/*\\n", *(f"!/{p}/\\n" for p in AWAY)]))  # noqa: E501
"""How a first cell gets the book, or nothing at all.

A server that knows no filters sends everything, and what is away is away from the files alone.
"""

IMPORTS = "import importlib.util, os, shutil, subprocess, sys"

TITLE = (
    "#@title Run all (Ctrl+F9): this fetches the book on Colab. With a GPU kernels are timed on "
    "it, without one they are emulated"
)

SETUP = """\
if "COLAB_RELEASE_TAG" in os.environ and not os.path.isdir("../helpers"):
    if not os.path.isdir("{name}"):
        fetch("{url}", "{branch}", "{name}")
    os.chdir("{name}/book")
sys.path.insert(0, os.path.abspath(".."))
if importlib.util.find_spec("helpers") is None:
    raise NoBook(
        "this notebook needs the folder that it comes from, and ../helpers is not there: "
        "git clone {url}, and open it in the folder book of that"
    )

from helpers.notebook import start
from helpers.page import say

os.environ["TILE_PAGE"] = "{page}"  # whose sentences holds() finds
start()"""


def setup_cell(where: Repository, page: str) -> dict[str, Any]:
    """The first code cell of every notebook."""
    rest = SETUP.format(name=where.name, branch=where.branch, url=where.url, page=page)
    source = f"{TITLE}\n{IMPORTS}\n\n\n{FETCH}\n\n\n{rest}"
    return code_cell(source, _id(page, "setup"), ["hide-input"])


def welcome_cell(page: str) -> dict[str, Any]:
    """The line above it."""
    return cell("markdown", WELCOME, _id(page, "welcome"))


def _id(page: str, what: str) -> str:
    return hashlib.sha256(f"{page}\n{what}".encode()).hexdigest()[:12]
