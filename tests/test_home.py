"""`make` at home: the wheels that fit the GPU's driver, and JupyterLab on the book's notebooks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.common import ROOT, completed, free_port, wait_for


@pytest.fixture
def home(tmp_path):
    """The files that `make` reads, and a folder bin/ that comes first on the PATH."""
    for name in ("Makefile", "pyproject.toml", "requirements.txt"):
        shutil.copy2(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    (tmp_path / "bin").mkdir()
    return tmp_path


def chosen(home, driver, *arguments, stamp=""):
    """What `make book` would install beside a driver of this version; "" if nothing.

    None: no nvidia-smi.
    """
    tool = home / "bin" / "nvidia-smi"
    tool.write_text("#!/bin/sh\nexit 127\n" if driver is None else f"#!/bin/sh\necho '{driver}'\n")
    tool.chmod(0o755)
    (home / ".venv").mkdir(exist_ok=True)
    book = home / ".venv" / ".book"
    book.unlink(missing_ok=True)
    if stamp:
        book.write_text(stamp + "\n")
    environment = {**os.environ, "PATH": f"{home / 'bin'}:{os.environ['PATH']}"}
    line = ["make", "-n", ".venv/.book", *arguments]
    ran = completed(line, cwd=home, env=environment, check=True)
    installs = [line for line in ran.stdout.splitlines() if " install " in line and " -r " in line]
    assert len(installs) <= 1
    return installs[0].split(" -r ")[1].split()[0] if installs else ""


@pytest.mark.parametrize(
    ("driver", "wheels"),
    [
        ("580.65.06", "requirements/cuda13.txt"),
        ("595.10", "requirements/cuda13.txt"),
        ("579.99.01", "requirements/cuda12.txt"),
        ("550.54.15", "requirements/cuda12.txt"),
        ("525.60.13", "requirements/cuda12.txt"),
        ("470.256.02", "requirements.txt"),  # CUDA 11: nothing here fits
        ("NVIDIA-SMI has failed because it couldn't communicate.", "requirements.txt"),
        (None, "requirements.txt"),
    ],
)
def test_the_wheels_follow_the_driver(home, driver, wheels):
    assert chosen(home, driver) == wheels
    assert (ROOT / wheels).is_file()


def test_the_environment_is_made_anew_when_the_driver_changes(home):
    fits = "requirements/cuda12.txt"
    assert chosen(home, "550.54.15", stamp=fits) == ""
    assert chosen(home, "580.65.06", stamp=fits) == "requirements/cuda13.txt"
    assert chosen(home, "580.65.06", "WHEELS=requirements.txt") == "requirements.txt"


def packages(name):
    """Names in a file of requirements and in those that it reads."""
    path, found = ROOT / name, set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("-r "):
            found |= packages((path.parent / line[3:]).resolve().relative_to(ROOT).as_posix())
        elif line and line[0] != "#":
            found.add(line.split(";")[0].split("=")[0].strip("<> ").split(">")[0])
    return found


def test_a_driver_for_cuda_12_gets_nothing_of_cuda_13_that_compiles():
    """CuPy takes the newest NVRTC that it finds, such a driver would refuse its machine code."""
    named = ("requirements/cuda12.txt", "requirements/cuda13.txt", "requirements.txt")
    twelve, thirteen, none = map(packages, named)
    assert not twelve & {"nvidia-cuda-nvrtc", "cupy-cuda13x", "nvidia-cuda-runtime"}
    assert {"nvidia-cuda-nvrtc", "cupy-cuda13x", "cuda-toolkit[cublas]"} <= thirteen
    assert "cuda-bindings" in twelve & thirteen and "cupy-cuda12x" not in thirteen
    assert "cupy-cuda13x" in none and not [name for name in none if "cublas" in name]
    assert "jupyter-book" in twelve & thirteen & none


def shared(name):
    """The lines of a file of requirements that are not of one CUDA: those before CuPy's."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    bare = [line for line in lines if line and line[0] not in "#-"]
    return bare[: next(i for i, line in enumerate(bare) if line.startswith("cupy"))]


def test_what_is_of_no_cuda_is_the_same_for_both():
    twelve, none = shared("requirements/cuda12.txt"), shared("requirements.txt")
    assert twelve == none and len(none) > 6
    assert twelve != [line.replace("2.2", "2.3") for line in none]


@contextmanager
def jupyterlab(home, **variables):
    """The address of a JupyterLab that `make lab` starts there; its token is x."""
    (home / ".venv").symlink_to(Path(sys.prefix))
    port, log = free_port(), home / "lab.log"
    options = f"--no-browser --allow-root --ip=127.0.0.1 --port={port} --IdentityProvider.token=x"
    own = {f"JUPYTER_{n.upper()}_DIR": str(home / n) for n in ("config", "data", "runtime")}
    with log.open("w") as out:
        server = subprocess.Popen(
            ["make", "-o", ".venv/.lab", "lab", f"LAB={options}"], cwd=home,
            env={**os.environ, **own, **variables}, stdout=out, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/api", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(20)


@pytest.mark.slow
def test_make_lab_starts_jupyterlab_on_the_notebooks(home):
    """The command itself, with an environment that has JupyterLab; nothing is installed."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: this test did not run")
    (home / "book").mkdir()
    (home / "kernels").mkdir()
    drawn = {"output_type": "display_data", "data": {"text/html": "<svg/>"}, "metadata": {}}
    cell = {"cell_type": "code", "execution_count": None, "source": "draw()", "outputs": [drawn]}
    page = {"cells": [{"id": "a", "metadata": {}, **cell}], "metadata": {}, "nbformat": 4}
    for name in ("intro", "kept"):
        text = json.dumps({**page, "nbformat_minor": 5})
        (home / "book" / f"{name}.ipynb").write_text(text)
    foreign = home / "data" / "kernels" / "python3"  # a kernel of the user's own, of the same name
    foreign.mkdir(parents=True)
    mine = {"argv": ["elsewhere"], "display_name": "Mine", "language": "python"}
    (foreign / "kernel.json").write_text(json.dumps(mine))
    (home / "mine").mkdir()
    (home / "mine" / "kept.ipynb").write_text("what its reader made of it")
    with jupyterlab(home) as address:

        def fetch(path):
            with urllib.request.urlopen(f"{address}{path}", timeout=5) as answer:
                return f"{answer.url}\n{answer.read().decode()}"

        assert '"intro.ipynb"' in fetch("/api/contents/mine?token=x")
        notebook = json.loads(fetch("/api/contents/mine/intro.ipynb?token=x").split("\n", 1)[1])
        (first,) = notebook["content"]["cells"]
        assert first["metadata"]["trusted"]  # or JupyterLab leaves out the figures that it carries
        assert "kernels" in fetch("/api/contents?token=x")
        assert "/lab/tree/mine/intro.ipynb" in fetch("/?token=x").splitlines()[0]
        assert (home / "mine" / "kept.ipynb").read_text() == "what its reader made of it"
        assert "mine/kept.ipynb holds changes of yours" in (home / "lab.log").read_text()
        config = fetch("/lab?token=x").split("jupyter-config-data", 1)[1]
        assert json.loads(config.split(">", 1)[1].split("<", 1)[0])["news"] == {"disabled": True}
        specs = json.loads(fetch("/api/kernelspecs?token=x").split("\n", 1)[1])
        spec = specs["kernelspecs"]["python3"]["spec"]
        assert spec["display_name"] != "Mine"
        assert spec["argv"][0] in ("python", "python3", sys.executable)  # a bare name: the server's


def test_another_projects_environment_is_not_handed_on(home):
    """IPython would put that one's packages before its own.

    The control: a Makefile without that line hands it on.
    """
    makefile = home / "Makefile"
    whole = makefile.read_text(encoding="utf-8")
    for text, shown in ((whole, "[]"), (whole.replace("unexport VIRTUAL_ENV", ""), "[/else]")):
        makefile.write_text(f"{text}\nseen:\n\t@echo [$$VIRTUAL_ENV]\n", encoding="utf-8")
        environment = {**os.environ, "VIRTUAL_ENV": "/else"}
        ran = completed(["make", "--no-print-directory", "seen"], cwd=home, env=environment)
        assert ran.stdout.strip() == shown, ran.stderr
