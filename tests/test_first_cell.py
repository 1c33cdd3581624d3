"""How a notebook begins: what its first cell says and does, on Colab and elsewhere, and where it
fails."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbclient
import nbformat
import pytest

from helpers.ladder import fitting
from helpers.notebook import starting
from helpers.notebook.addresses import Repository
from helpers.notebook.first_cell import setup_cell, welcome_cell
from nogpu import clang, device, toolchain
from nogpu.errors import ToolchainError
from tests.test_fitting import T4
from tools.notebooks.markdown import Page

HERE = Repository("https://github.com/someone/a-book", "main")
PAGE = Page(Path("x.md"), "")
CODE = "".join(setup_cell(HERE, PAGE)["source"])


def test_it_has_a_title_that_says_run_all() -> None:
    """Colab shows `#@title` of a folded cell; JupyterLab shows a folded cell's first line."""
    title = CODE.splitlines()[0]
    assert title.startswith("#@title Run all (Ctrl+F9)")
    assert "GPU" in title and "emulated" in title and len(title) < 130
    above = "".join(welcome_cell(PAGE)["source"])
    assert "run all cells first" in above and "JupyterLab" in above and "T4" in above
    assert setup_cell(HERE, PAGE)["id"] != welcome_cell(PAGE)["id"]


def error_of(code: str, folder: Path, environment: dict[str, str]) -> tuple[str, str]:
    """Name and traceback, as a notebook shows them, of a cell run in a real kernel elsewhere."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    where = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, resources=where)
    away = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COLAB_RELEASE_TAG")}
    client.execute(env={**away, **environment})
    (output,) = notebook.cells[0].outputs
    return output.ename, "\n".join(output.traceback)


@pytest.mark.slow
def test_a_failed_clone_says_why_and_what_to_check(tmp_path: Path) -> None:
    """git itself answers; the address leads to a folder that is no repository."""
    (tmp_path / "content").mkdir()
    away = {"KEY_0": f"url.{tmp_path}/nothing/.insteadOf", "VALUE_0": "https://github.com/someone/"}
    git = {f"GIT_CONFIG_{name}": value for name, value in {"COUNT": "1", **away}.items()}
    name, shown = error_of(CODE, tmp_path / "content", {"COLAB_RELEASE_TAG": "release-x", **git})
    assert name == "NoBook"
    checks = ("https://github.com/someone/a-book opens", "branch or tag called main", "network")
    assert all(words in shown for words in ("fatal: ", *checks))
    assert len(shown.splitlines()) <= 8 and "Traceback" not in shown and "---->" not in shown


@pytest.mark.slow
def test_a_notebook_without_its_folder_says_so(tmp_path: Path) -> None:
    blocked = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
    blocked += "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
    name, shown = error_of(blocked + CODE, tmp_path, {})
    assert name == "NoBook" and "git clone https://github.com/someone/a-book" in shown
    assert len(shown.splitlines()) == 1


# --- what start says ----------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine at home with no GPU on which all fits."""
    for name in ("COLAB_RELEASE_TAG", "TILE_BOOK_BUILD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(device, "current", lambda: None)
    monkeypatch.setattr(fitting, "misfits", list)
    monkeypatch.setattr(toolchain, "available", lambda: True)
    monkeypatch.setattr(toolchain, "compiler", lambda: "NVRTC 13.0")
    return monkeypatch


def test_it_says_what_runs_and_compiles(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starting.start()
    at_home = capsys.readouterr().out
    assert "No GPU here: kernels, compiled by NVRTC 13.0, run in the emulator" in at_home
    assert "Colab" not in at_home and "Runtime" not in at_home and at_home.count("\n") == 1
    bare.setenv("COLAB_RELEASE_TAG", "release-x")
    starting.start()
    assert "Runtime > Change runtime type" in capsys.readouterr().out
    bare.setattr(device, "current", lambda: T4)
    starting.start()
    live = capsys.readouterr().out
    assert "GPU: Tesla T4. Kernels, compiled by NVRTC 13.0, run on it" in live
    assert "Runtime" not in live
    bare.setattr(fitting, "misfits", lambda: ["this is missing: install it"])
    starting.start()
    assert capsys.readouterr().out.endswith("To mend: this is missing: install it.\n")
    bare.setenv("TILE_BOOK_BUILD", "1")
    starting.start()
    assert capsys.readouterr().out == starting.BARE + "\n"


def test_on_a_mac_it_says_clang(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.undo()
    bare.setattr(device, "current", lambda: None)
    bare.setattr(toolchain, "has_nvrtc", lambda: False)
    bare.setattr(clang, "version", lambda: "clang 22.1.8 of zig 0.17.1")
    starting.start()
    assert "compiled by clang 22.1.8 of zig 0.17.1" in capsys.readouterr().out


@pytest.mark.parametrize(("system", "says"), [("darwin", "ziglang"), ("linux", "requirements.txt")])
def test_where_there_is_no_compiler_the_first_cell_says_what_to_install(
    system: str, says: str, bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.undo()
    bare.setattr(device, "current", lambda: None)
    bare.setattr(device, "driver_cuda", lambda: None)
    bare.setattr(toolchain, "available", lambda: False)
    bare.setattr(sys, "platform", system)
    starting.start()
    out = capsys.readouterr().out
    assert "no compiler" in out and says in out and "ziglang" in out
    assert ("NVIDIA" in out) == (system == "linux") and "Runtime" not in out


def test_on_colab_a_compiler_that_cannot_be_installed_is_one_error(
    bare: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bare.setenv("COLAB_RELEASE_TAG", "release-x")
    bare.setattr(toolchain, "available", lambda: False)
    called: list[list[str]] = []

    def fails(command: list[str], **_: object) -> SimpleNamespace:
        called.append(command)
        raise subprocess.CalledProcessError(1, command, stderr="noise\nERROR: no network\n")

    bare.setattr(starting.subprocess, "run", fails)
    says = r"(?s)pip says:.*ERROR: no network.*run this cell again"
    with pytest.raises(ToolchainError, match=says):
        starting.start()
    assert "nvidia-cuda-nvrtc" in " ".join(called[0])


def test_a_gpu_without_a_compiler_that_it_takes_is_told(bare: pytest.MonkeyPatch) -> None:
    bare.undo()
    bare.setattr(device, "current", lambda: replace(T4))
    bare.setattr(toolchain, "uses_clang", lambda: True)
    bare.setattr(toolchain, "available", lambda: True)
    bare.setattr(toolchain, "compiler", lambda: "clang 22.1.8")
    assert any("clang 22.1.8 compiles here" in s and "machine code" in s for s in fitting.misfits())
    bare.setattr(device, "current", lambda: None)
    assert not any("compiles here" in sentence for sentence in fitting.misfits())
