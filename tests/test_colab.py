"""Notebooks in an environment with Colab's versions of today, from the clone that the first cell
makes."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import nbformat
import pytest

from tools import colab
from tools.environments import NoEnvironmentError

pytestmark = pytest.mark.slow

FACTS = """
import json, sys, IPython, ipykernel, ipywidgets, matplotlib, numpy, pandas, traitlets, helpers
modules = (IPython, ipykernel, ipywidgets, matplotlib, numpy, pandas, traitlets)
versions = {module.__name__.lower(): module.__version__ for module in modules}
print("FACTS " + json.dumps({"versions": versions, "helpers": helpers.__file__}))
"""
CHAPTERS = ("01_your_gpu", "06_tiling")
"""A page of the beginning, and one with a kernel, its counts, a slider and an exercise."""


@pytest.fixture(scope="module")
def python():
    """The Python of Colab's environment."""
    try:
        return colab.environment()
    except NoEnvironmentError as error:
        pytest.skip(f"Colab's versions cannot be installed here, so this did not run: {error}")


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """What the first cell clones."""
    yield colab.remote(tmp_path_factory.mktemp("remote"))


@pytest.mark.parametrize("stem", CHAPTERS)
def test_a_notebook_runs_on_colab(stem, python, source, tmp_path):
    ran = colab.run(python, source, stem, tmp_path, FACTS)
    assert ran.errors == []
    assert ran.printed("stderr") == ""
    facts = json.loads(ran.printed().split("FACTS ")[1])
    assert facts["versions"] == colab.VERSIONS
    assert Path(facts["helpers"]).is_relative_to(ran.clone)
    assert (ran.clone / ".git").is_dir()
    output = ran.printed().split("FACTS ")[0]
    assert "No GPU here" in output and "Runtime > Change runtime type" in output


def test_a_cell_that_fails_is_seen(python, source, tmp_path):
    """The wrong twin: a name that newer versions have, an error of the book's, a word to stderr."""
    small = tmp_path / "source"
    subprocess.run(["git", "clone", "--quiet", source, small], check=True)
    path = small / "book" / "intro.ipynb"
    notebook = nbformat.read(path, as_version=4)
    first = next(cell for cell in notebook.cells if "start()" in cell.source)
    lines = (
        "from traitlets import NoSuchName",
        "from helpers.ladder.rungs import catalog; catalog['no_such_kernel']",
        "import sys; print('a word', file=sys.stderr)",
    )
    notebook.cells = [first, *map(nbformat.v4.new_code_cell, lines)]
    nbformat.write(notebook, path)
    ran = colab.run(python, small, "intro", tmp_path / "run")
    assert [error.split(":")[0] for error in ran.errors] == ["ImportError", "UnknownKernelError"]
    assert ran.printed("stderr") == "a word\n"
    (shown,) = [o["traceback"] for o in ran.notebook.cells[2].outputs if "traceback" in o]
    assert len(shown) == 2 and shown[0].startswith(
        "----> 1 from helpers.ladder.rungs import catalog"
    )
