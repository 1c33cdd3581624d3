"""How a notebook begins: what its first cell says and does, on Colab and elsewhere, and where it
fails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace

import nbclient
import nbformat
import pytest

from helpers.ladder import fitting
from helpers.notebook import starting
from helpers.notebook.addresses import Repository
from helpers.notebook.first_cell import setup_cell, welcome_cell
from nogpu import clang, device, toolchain
from nogpu.errors import ToolchainError
from tests.common import completed
from tests.test_fitting import T4
from tools.colab import committed

HERE = Repository("https://github.com/someone/a-book", "main")
PAGE = "x.md"
CODE = "".join(setup_cell(HERE, PAGE)["source"])


def test_it_has_a_title_that_says_run_all():
    """Colab shows `#@title` of a folded cell; JupyterLab shows a folded cell's first line."""
    title = CODE.splitlines()[0]
    assert title.startswith("#@title Run all (Ctrl+F9)")
    assert "GPU" in title and "emulated" in title and len(title) < 130
    above = "".join(welcome_cell(PAGE)["source"])
    assert "run all cells first" in above and "JupyterLab" in above and "T4" in above
    assert setup_cell(HERE, PAGE)["id"] != welcome_cell(PAGE)["id"]


def test_the_first_cell_clones_on_colab_only(tmp_path):
    """From a repository of git's, and without what no reader should find."""
    made, work = tmp_path / "remote", tmp_path / "content"
    for name, text in {
        "book/x.md": "", "helpers/notebook.py": "def start(): print('started')",
        "helpers/page.py": "say = print", "labs/9_x/starter.cu": "",
        "labs/9_x/rehearsal/solution.cu": "the solution", "tests/test_x.py": "",
    }.items():  # fmt: skip
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    committed(made, "main")
    allowed = ["git", "config", "uploadpack.allowFilter", "true"]
    subprocess.run(allowed, cwd=made, check=True)
    code = f"for _ in range(2):\n    exec({CODE!r})\nprint(os.path.basename(os.getcwd()))"
    environment = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{made.as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/someone/a-book",
    }
    # -I: the project that runs this test must not be the one that the cell finds
    command = [sys.executable, "-B", "-I", "-S", "-c", code]

    work.mkdir()
    alone = completed(command, cwd=work, env=environment)
    assert "NoBook: this notebook needs the folder" in alone.stderr and not list(work.iterdir())
    done = completed(command, cwd=work, env={**environment, "COLAB_RELEASE_TAG": "release-x"})
    assert done.stdout.split() == ["started", "started", "book"], done.stderr
    assert [path.name for path in work.iterdir()] == ["a-book"]
    clone = work / "a-book"
    assert sorted(p.relative_to(clone).as_posix() for p in clone.glob("[!.]*/**/*.*")) == [
        "book/x.md", "helpers/notebook.py", "helpers/page.py", "labs/9_x/starter.cu"
    ]  # fmt: skip


def error_of(code, folder, environment):
    """Name and traceback, as a notebook shows them, of a cell run in a real kernel elsewhere."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    where = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(notebook, timeout=120, allow_errors=True, resources=where)
    away = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "COLAB_RELEASE_TAG")}
    client.execute(env={**away, **environment})
    (output,) = notebook.cells[0].outputs
    return output.ename, "\n".join(output.traceback)


@pytest.mark.slow
def test_a_failed_clone_says_why_and_what_to_check(tmp_path):
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
def test_a_notebook_without_its_folder_says_so(tmp_path):
    blocked = "import sys; sys.path[:] = [p for p in sys.path if 'site-packages' not in p]\n"
    blocked += "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f)]\n"
    name, shown = error_of(blocked + CODE, tmp_path, {})
    assert name == "NoBook" and "git clone https://github.com/someone/a-book" in shown
    assert len(shown.splitlines()) == 1


# --- what start says ----------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch):
    """A machine at home with no GPU on which all fits."""
    for name in ("COLAB_RELEASE_TAG", "TILE_BOOK_BUILD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(device, "current", lambda: None)
    monkeypatch.setattr(fitting, "misfits", list)
    monkeypatch.setattr(toolchain, "available", lambda: True)
    monkeypatch.setattr(toolchain, "compiler", lambda: "NVRTC 13.0")
    return monkeypatch


def test_it_says_what_runs_and_compiles(bare, capsys):
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


def test_on_a_mac_it_says_clang(monkeypatch, capsys):
    monkeypatch.setattr(device, "current", lambda: None)
    monkeypatch.setattr(toolchain, "has_nvrtc", lambda: False)
    monkeypatch.setattr(clang, "version", lambda: "clang 22.1.8 of zig 0.17.1")
    starting.start()
    assert "compiled by clang 22.1.8 of zig 0.17.1" in capsys.readouterr().out


@pytest.mark.parametrize(("system", "says"), [("darwin", "ziglang"), ("linux", "requirements.txt")])
def test_where_there_is_no_compiler_the_first_cell_says_what_to_install(
    system, says, monkeypatch, capsys
):
    monkeypatch.setattr(device, "current", lambda: None)
    monkeypatch.setattr(device, "driver_cuda", lambda: None)
    monkeypatch.setattr(toolchain, "available", lambda: False)
    monkeypatch.setattr(sys, "platform", system)
    starting.start()
    out = capsys.readouterr().out
    assert "no compiler" in out and says in out and "ziglang" in out
    assert ("NVIDIA" in out) == (system == "linux") and "Runtime" not in out


def test_on_colab_alone_the_compiler_is_installed_where_it_lacks(bare):
    """And nothing else is; what pip says against it is one error."""
    ran: list[list[str]] = []
    bare.setattr(starting.subprocess, "run", lambda command, **_: ran.append(command))
    bare.setenv("COLAB_RELEASE_TAG", "release-x")
    starting.start()
    bare.setattr(toolchain, "available", lambda: False)
    bare.delenv("COLAB_RELEASE_TAG")
    starting.start()
    assert ran == []
    bare.setenv("COLAB_RELEASE_TAG", "release-x")
    starting.start()
    [command] = ran
    names = {re.split(r"[<>=]", part)[0] for part in command[5:]}
    assert "nvidia-cuda-nvrtc" in names
    assert all(name.startswith(("nvidia-cuda-", "cuda-pathfinder")) for name in names)

    def fails(command, **_):
        raise subprocess.CalledProcessError(1, command, stderr="noise\nERROR: no network\n")

    bare.setattr(starting.subprocess, "run", fails)
    says = r"(?s)pip says:.*ERROR: no network.*run this cell again"
    with pytest.raises(ToolchainError, match=says):
        starting.start()


def test_a_gpu_without_a_compiler_that_it_takes_is_told(monkeypatch):
    monkeypatch.setattr(device, "current", lambda: replace(T4))
    monkeypatch.setattr(toolchain, "uses_clang", lambda: True)
    monkeypatch.setattr(toolchain, "available", lambda: True)
    monkeypatch.setattr(toolchain, "compiler", lambda: "clang 22.1.8")
    assert any("clang 22.1.8 compiles here" in s and "machine code" in s for s in fitting.misfits())
    monkeypatch.setattr(device, "current", lambda: None)
    assert not any("compiles here" in sentence for sentence in fitting.misfits())
