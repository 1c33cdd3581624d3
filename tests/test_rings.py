"""The rings of tests: what stands in their tables is there, nothing falls out of all of them."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest

from tests import rings
from tests.common import ROOT, completed


@pytest.mark.parametrize("name", [*rings.LATER, *rings.SLICES])
def test_what_a_table_names_is_there(name: str) -> None:
    file, _, test = name.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not test or re.search(rf"^def {test}\(", text, re.MULTILINE), name


def test_as_many_commits_as_a_slice_has_parts_draw_every_case_once() -> None:
    for file, of in rings.SLICES.items():
        name = file if "::" in file else f"{file}::test_x"
        for nodeid in (f"{name}[{i}]" for i in range(40)):
            drawn = [rings.runs(nodeid, "push", 1234 + i) for i in range(of)]
            assert sum(drawn) == (0 if rings.place(nodeid, rings.LATER) else 1), nodeid
            assert rings.runs(nodeid, "week", 0)


def test_a_ring_runs_what_the_smaller_ones_run() -> None:
    for name in [*rings.LATER, *rings.SLICES, "tests/test_text.py"]:
        for i in range(20):
            given = [
                rings.runs(f"{name}{'' if '::' in name else '::test_y'}[{i}]", ring, 7)
                for ring in rings.RINGS
            ]
            assert given == sorted(given) and given[-1]
    assert rings.runs("tests/test_text.py::test_y", "push", 3)


def test_a_smaller_ring_leaves_out_what_it_should() -> None:
    """Through pytest itself, over this project's tests."""
    file = "tests/test_counts_vs_hardware.py"

    def collected(*options: str) -> int:
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, file]
        given = completed(command, cwd=ROOT)
        return given.stdout.count("::test_")

    whole, push = collected(), collected("--ring", "push")
    assert whole == collected("--ring", "day") and 0 < push < whole / 4


def test_a_file_that_a_larger_ring_runs_is_not_even_imported(
    request: pytest.FixtureRequest,
) -> None:
    own = request.config.pluginmanager.getplugin(str(ROOT / "conftest.py"))

    def ignored(file: str, ring: str | None) -> bool:
        return bool(
            own.pytest_ignore_collect(ROOT / file, SimpleNamespace(getoption=lambda _: ring))
        )

    assert ignored("tests/test_colab.py", "push")
    assert not ignored("tests/test_colab.py", "day") and not ignored("tests/test_colab.py", None)
    assert not ignored("tests/test_rings.py", "push") and not ignored("tests", "push")
