"""The first cell of a lab's notebook: on Colab it fetches the book, as every notebook does, and
begins the lab.
"""

import json

from helpers.notebook.addresses import Repository
from helpers.notebook.first_cell import FETCH, IMPORTS
from tilelabs.labs.declaring import Declaration

TITLE = "#@title Run this first: on Colab it fetches the book"

SETUP = """\
if "COLAB_RELEASE_TAG" in os.environ and not os.path.isdir("{name}"):
    fetch("{url}", {tag}, "{name}")
if os.path.isdir("{name}"):
    sys.path.insert(0, os.path.abspath("{name}"))
if importlib.util.find_spec("helpers") is None:
    raise NoBook("the book is not here: git clone {url} into this folder, and install its requirements.txt")

from helpers.notebook import start
from helpers.page.workbench import mine
from tilelabs.labs import answer, begin, check, submit

start()
begin("{lab}", version={version}, variant={variant}, tag={tag})"""  # noqa: E501


def setup(where: Repository, what: Declaration) -> str:
    """The cell's code."""
    rest = SETUP.format(
        name=where.name, url=where.url, tag=json.dumps(what.tag or where.branch), lab=what.lab,
        version=what.version, variant=json.dumps(what.variant),
    )  # fmt: skip
    return f"{TITLE}\n{IMPORTS}\n\n\n{FETCH}\n\n\n{rest}"
