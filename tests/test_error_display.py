"""What an error looks like in a notebook: the reader's line the message, nothing of the library."""

from __future__ import annotations

import re

import IPython
import nbclient
import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell

from nogpu.errors import ConfigError

SOURCE = 'extern "C" __global__ void f(float *x)\n{\n    x[0] = y;\n}\n'
ANSI = re.compile(r"\x1b\[[\d;]*m")


@pytest.fixture(scope="module")
def shell():
    """A real IPython, not this process's own one."""
    made = InteractiveShell()
    made.run_cell("from helpers import launch, toolchain\nfrom helpers.ladder.rungs import catalog")
    return made


def shown(shell, cell, capsys):
    """What a cell that fails prints."""
    capsys.readouterr()
    result = shell.run_cell(cell, store_history=True)
    assert not result.success
    captured = capsys.readouterr()
    return ANSI.sub("", captured.out + captured.err)


def test_an_error_is_its_message_and_the_readers_line(shell, capsys):
    output = shown(shell, 'size = 64\nlaunch.trace("tiled_32", size, size, size, BM=100)', capsys)
    line, message = output.splitlines()
    assert line == '----> 2 launch.trace("tiled_32", size, size, size, BM=100)'
    assert message.startswith("ConfigError: ") and "BM" in message


def test_a_function_of_the_readers_is_shown_on_the_way(shell, capsys):
    shell.run_cell("def mine(n):\n    return catalog['no_such_kernel_at_all']")
    lines = shown(shell, "mine(3)", capsys).splitlines()
    assert lines[:2] == ["----> 1 mine(3)", "----> 2 return catalog['no_such_kernel_at_all']"]
    assert lines[2].startswith("Unknown") and len(lines) == 3


@pytest.mark.nvrtc
def test_a_compile_error_is_the_compilers_message(shell, capsys):
    output = shown(shell, f"source = {SOURCE!r}\ntoolchain.compile(source, name='mine.cu')", capsys)
    lines = output.splitlines()
    assert lines[0].startswith("----> 2 toolchain.compile(") and lines[1].startswith("CompileError")
    assert any(line.startswith("mine.cu(3): error:") and '"y"' in line for line in lines)
    assert any(line.strip() == "^" for line in lines)
    assert "helpers" not in output and len(lines) < 12


@pytest.mark.parametrize("way", ["TILE_TRACEBACK", "%xmode Verbose"])
def test_the_whole_traceback_remains(
    way, shell, capsys,
    monkeypatch,
):  # fmt: skip
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    if way.startswith("%"):
        shell.run_line_magic("xmode", "Verbose")
    else:
        monkeypatch.setenv(way, "1")
    output = shown(shell, 'launch.trace("tiled_32", 64, 64, 64, BM=100)', capsys)
    shell.run_line_magic("xmode", "Context")
    monkeypatch.delenv("TILE_TRACEBACK", raising=False)
    assert "helpers/" in output and "ConfigError" in output and len(output.splitlines()) > 10
    assert "helpers/" not in shown(shell, 'launch.trace("tiled_32", 64, 64, 64, BM=100)', capsys)


def test_another_error_keeps_its_frames(shell, capsys):
    """The wrong twin: an error of another kind that is raised inside the library."""
    output = shown(shell, 'launch.trace("tiled_32", 64, 64, 64, seed="x")', capsys)
    assert "TypeError" in output and "helpers/" in output


def test_outside_ipython_nothing_changes():
    error = ConfigError("given, rule, what to do")
    assert error._render_traceback_() == ["ConfigError: given, rule, what to do"]
    assert str(error) == "given, rule, what to do"


@pytest.mark.slow
def test_in_a_kernel_a_failing_cell_carries_the_short_text():
    """As a notebook stores it; a cell magic's call is not the reader's line."""
    magic = (
        "from IPython.core.magic import register_cell_magic\n"
        "from helpers.ladder.rungs import catalog\n"
        "@register_cell_magic\n"
        "def find(line, cell):\n"
        "    return catalog[cell.strip()]"
    )
    cells = [magic, "%%find\nno_such_kernel"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    nbclient.NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    (output,) = notebook.cells[1].outputs
    text = ANSI.sub("", "\n".join(output["traceback"]))
    assert output["ename"] == "UnknownKernelError" and "run_cell_magic" not in text
    assert text.splitlines()[0] == "----> 5 return catalog[cell.strip()]"
    assert len(text.splitlines()) == 2
