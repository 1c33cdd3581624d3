"""A rung is renamed by a command: in a copy of the tree, all that knows it still does; and back."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from nogpu.errors import ConfigError, UnknownKernelError
from tests.common import ROOT, completed
from tools import rename

NEW = "_".join(("patch", "2d"))  # a name that stands nowhere, here neither
KERNELS = {
    "naive": ("04_naive.cu", "naive", ""), "mma_naive": ("18_mma_naive.cu", "mma_naive", ""),
    "block_2d": ("09_block_2d.cu", "block_2d", ""), "tiled_32": ("06_tiled.cu", "tiled", ""),
    "block_2d_core": ("cores/09_block_2d.cu", "block_2d_core", ""),
}  # fmt: skip


@pytest.fixture
def copy(tmp_path):
    away = shutil.ignore_patterns("_build", "mine", "__pycache__", ".git", ".venv", ".*_cache")
    return Path(shutil.copytree(ROOT, tmp_path / "copy", ignore=away))


def run(copy, *words, status=0):
    """What a command prints in the copy. status: that it ends with; None: with any."""
    paths = [str(copy / p) for p in (".", "packages/nogpu", "packages/labs")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}
    done = completed([sys.executable, "-m", *words], cwd=copy, env=env)
    assert status in (None, done.returncode), done.stderr[-2000:]
    return done.stdout + done.stderr


def contents(copy):
    every = (p for p in copy.rglob("*") if p.is_file() and ".ruff_cache" not in p.parts)
    return {
        p.relative_to(copy).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in every
    }


def seen(copy, name):
    """The rung's counts, its times beside the others', and what the essays' check finds."""
    shape = ("-m", "64", "-n", "64", "-k", "64")
    times = run(copy, "helpers", "ladder", "--gpu", "h200", "--size", "4096")
    essays = run(copy, "tools.essays", "--check", status=None)
    found = [run(copy, "helpers", "trace", name, *shape), times, essays]
    words = (" ".join(text.split()) for text in found)  # columns are as wide as their longest name
    return [re.sub(rf"(?<!\w){name}(?!\w)", "NAME", text) for text in words]


@pytest.mark.slow
@pytest.mark.nvrtc
@pytest.mark.parametrize(("old", "new"), [("block_2d", NEW), ("lane_map", NEW)])
def test_a_renamed_rung_is_the_same_and_can_be_named_back(old, new, copy):
    before, was = contents(copy), seen(copy, old)
    assert f"{old}.json: gone" in (output := run(copy, "tools.rename", old, new))
    assert "To be looked at" in output and "make figures notebooks lint" in output
    assert seen(copy, new) == was and "NAME" in was[1]
    assert "no kernel is called" in run(copy, "helpers", "trace", old, "-m", "8", "-n", "8", "-k", "8", status=2)  # fmt: skip
    run(copy, "tools.compiled", "--check")
    record = copy / "data" / "measurements" / "h200.json"
    renamed = record.read_bytes()
    shutil.copy(ROOT / "data" / "measurements" / "h200.json", record)
    assert seen(copy, new)[1] != was[1]  # the wrong twin: a record that was left behind
    record.write_bytes(renamed)
    run(copy, "tools.rename", new, old)
    assert contents(copy) == before


@pytest.mark.slow
def test_where_the_renamed_book_does_not_load_nothing_changes(copy):
    rungs = copy / "helpers" / "ladder" / "rungs.py"
    rungs.write_text(rungs.read_text("utf-8") + '\ncatalog["_".join(("block", "2d"))]\n', "utf-8")
    before = contents(copy)
    assert "nothing was changed" in run(copy, "tools.rename", "block_2d", NEW, status=2)
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("block_2d", "tiled_16", "'tiled_16' is taken: "),
        ("block_2d", "cdiv", "is taken"),
        ("block_2d", "2d", "names no kernel"),
        ("block_2d", "lambda", "no keyword"),
        ("block_2d", "typedef", "no keyword"),
        ("block_2d_core", "x_2d", "no rung is called 'block_2d_core'"),
        ("block_2", "x_2d", "block_2d"),
    ],
)
def test_a_name_that_cannot_be_taken_is_refused(old, new, words):
    with pytest.raises((ConfigError, UnknownKernelError), match=words):
        rename.check(rename.contents(ROOT), old, new, KERNELS)


def test_whole_names_change_and_others_stay():
    text, code = rename.patterns("block_2d", KERNELS, word=False)
    for old, new in {
        'plan("block_2d"), a block_2d': 'plan("patch"), a patch',
        "block_2d_core, my_block_2d, block_2d_x": "patch_core, my_block_2d, block_2d_x",
        "cores/09_block_2d.cu, 09_block_2d.md": "cores/09_patch.cu, 09_block_2d.md",
        "{glue:text}`h_block_2d:.1f` `share.block_2d`": "{glue:text}`h_patch:.1f` `share.patch`",
    }.items():
        assert rename.exchange(text, old, "block_2d", "patch") == new
    ptx = ".entry block_2d(.param .u64 block_2d_param_0) _ZZ8block_2dE6A_tile _ZZ13block_2d_coreE1x"
    new = ".entry patch(.param .u64 patch_param_0) _ZZ5patchE6A_tile _ZZ10patch_coreE1x"
    assert rename.exchange(code, ptx, "block_2d", "patch") == new
    text, _ = rename.patterns("tiled_32", KERNELS, word=False)
    assert rename.exchange(text, "06_tiled.cu tiled", "tiled_32", "square") == "06_tiled.cu tiled"


def test_a_line_that_the_new_name_takes_past_its_columns_is_listed():
    python, cuda = b"x = 'patch'" + b" " * 89 + b"#", b"// patch" + b"." * 77
    files = {"helpers/a.py": b"\n" + python, "kernels/a.cu": cuda, "tests/a.py": python}
    lines = ["helpers/a.py:2: 101 columns, at most 100", "kernels/a.cu:1: 85 columns, at most 84"]
    assert rename.too_long({**files, "gone.py": None}, "pat", "patch") == lines
    # the wrong twins: a line with a column left, and one that was too long before
    short = {"helpers/a.py": python.replace(b"  ", b" ", 1), "kernels/a.cu": cuda[:-1]}
    assert not rename.too_long(short, "pat", "patch")
    assert not rename.too_long(files, "patch", "patch")


def test_a_word_of_the_prose_changes_in_code_alone():
    text, _ = rename.patterns("naive", KERNELS, word=True)
    for old, new in {
        'The naive kernel, `naive`, "naive"': 'The naive kernel, `plain`, "plain"',
        "%%cuda naive TILE=3": "%%cuda plain TILE=3",
        '"naive:12:no-bound" "naive: threads"': '"plain:12:no-bound" "naive: threads"',
        "{glue:text}`h_mma_naive`": "{glue:text}`h_mma_naive`",
        "{glue:text}`h_naive`": "{glue:text}`h_plain`",
    }.items():
        assert rename.exchange(text, old, "naive", "plain") == new
