"""The rings of tests: what stands in their tables is there, nothing falls out of all of them."""

from __future__ import annotations

import re
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from tests import rings
from tests.common import ROOT, completed


@pytest.mark.parametrize("name", rings.LATER)
def test_what_a_table_names_is_there(name):
    file, _, test = name.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert not test or re.search(rf"^def {test}\(", text, re.MULTILINE), name


CASES = {f"tests/test_{of}.py::test_x": [f"[{i}]" for i in range(of)] for of in (1, 3, 8, 40)}
NODEIDS = [name + case for name, cases in CASES.items() for case in cases]
LONG = dict.fromkeys(CASES, 3.0)


@pytest.mark.parametrize("ring", sorted(rings.BUDGET))
def test_commits_that_follow_each_other_draw_every_case_alike_often(ring):
    times = Counter(n for i in range(64) for n in rings.drawn(NODEIDS, ring, 1234 + i, LONG))
    for name, cases in CASES.items():
        whole = len(cases) * LONG[name]
        each = {times[name + case] for case in cases}
        assert len(each) == 1, name
        share, fits = each.pop() / 64, rings.BUDGET[ring] / whole
        assert share == 1 if fits >= 1 else fits / 2 < share <= fits


def test_a_test_that_nobody_measured_or_that_takes_no_time_runs_always():
    assert rings.drawn(NODEIDS, "push", 5, {}) == set(NODEIDS)
    assert rings.drawn(NODEIDS, "week", 5, LONG) == set(NODEIDS)


def test_a_ring_runs_what_the_smaller_ones_run():
    later = [n if "::" in n else f"{n}::test_y" for n in rings.LATER]
    names = [*NODEIDS, *(f"{name}[{i}]" for name in later for i in range(9))]
    for commit in range(20):
        push, day, week = (rings.drawn(names, ring, commit, LONG) for ring in rings.RINGS)
        assert push < day < week == set(names)


def test_what_is_named_for_a_ring_runs_whole_in_it():
    name = next(n for n, ring in rings.LATER.items() if ring == "day" and "::" in n)
    cases = [f"{name}[{i}]" for i in range(9)]
    assert not rings.drawn(cases, "push", 3, {name: 30.0})
    assert rings.drawn(cases, "day", 3, {name: 30.0}) == set(cases)


def test_seconds_are_kept_by_test_and_what_is_quick_is_not(tmp_path, monkeypatch, request):
    """As pytest tells of it: what is made for a case counts, what failed does not."""
    (tmp_path / "tests").mkdir()
    monkeypatch.setattr(rings, "SECONDS", tmp_path / "tests" / "seconds.json")
    names = ("other", "gone", "slow", "quick", "wrong")
    (tmp_path / "a").write_text("".join(f"def {name}():\n" for name in names))
    rings.write({"a::other": [4.0], "a::gone": [4.0], "a::slow": [9.0]})
    (tmp_path / "a").write_text((tmp_path / "a").read_text().replace("gone", "came"))
    plugin = request.config.pluginmanager.getplugin(str(ROOT / "conftest.py")).Seconds()
    for nodeid, seconds, outcome in (
        ("a::slow[1]@book", 3.0, "passed"),
        ("a::slow[1]@book", 2.0, "passed"),
        ("a::slow[2]", 1.0, "passed"),
        ("a::quick", 0.01, "passed"),
        ("a::wrong", 7.0, "failed"),
    ):
        plugin.pytest_runtest_logreport(
            SimpleNamespace(nodeid=nodeid, duration=seconds, outcome=outcome)
        )
    plugin.pytest_sessionfinish()
    assert rings.seconds() == {"a::other": 4.0, "a::slow": 3.0}


def test_a_smaller_ring_leaves_out_what_it_should():
    """Through pytest itself, over this project's tests."""
    file = "tests/test_steps.py"

    def collected(*options):
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", *options, file]
        given = completed(command, cwd=ROOT)
        return given.stdout.count("::test_")

    whole, day, push = (collected(*of) for of in ((), ("--ring", "day"), ("--ring", "push")))
    assert 0 < push < day < whole


def test_a_file_of_a_larger_ring_is_not_even_imported(request):
    own = request.config.pluginmanager.getplugin(str(ROOT / "conftest.py"))

    def ignored(file, ring):
        config = SimpleNamespace(getoption=lambda _: ring)
        return bool(own.pytest_ignore_collect(ROOT / file, config))

    assert ignored("tests/test_colab.py", "push")
    assert not ignored("tests/test_colab.py", "day") and not ignored("tests/test_colab.py", None)
    assert not ignored("tests/test_rings.py", "push") and not ignored("tests", "push")
