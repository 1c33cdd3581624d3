"""For every test, the packages' too: what they share (tests/common.py), which of them run, and
where."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import pytest

from tests import rings
from tests.common import ROOT, bare, browser, html, root, site, without_lines_told

__all__ = ["bare", "browser", "html", "root", "site", "without_lines_told"]


def pytest_addoption(parser):
    """`--ring`: without it every test runs. `--seconds`: how long each took is kept."""
    parser.addoption("--ring", choices=rings.RINGS, help="leave out what a larger ring runs")
    parser.addoption("--seconds", action="store_true", help="write tests/seconds.json anew")


def pytest_ignore_collect(collection_path, config):
    """Whether a larger ring runs all of a file: then it is not even imported."""
    if ring := config.getoption("--ring"):
        later = rings.LATER.get(collection_path.relative_to(ROOT).as_posix(), ring)
        return rings.RINGS.index(later) > rings.RINGS.index(ring) or None
    return None


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(config, items):
    """Leave out what another ring runs.

    Tests of the built book run in one worker, and those that share a fixture of their module;
    others say so where they cannot run.
    """
    from nogpu import device, toolchain

    if ring := config.getoption("--ring"):
        names = [item.nodeid for item in items]
        run = rings.drawn(names, ring, rings.commit(ROOT), rings.seconds())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in run])
        items[:] = [item for item in items if item.nodeid in run]

    no_gpu = pytest.mark.skip(reason="no NVIDIA GPU here: this test did not run")
    no_nvrtc = pytest.mark.skip(reason="no NVRTC here: this test did not run")
    gpu: Any = "not asked yet"
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        if item.get_closest_marker("nvrtc") and not toolchain.has_nvrtc():
            item.add_marker(no_nvrtc)
        if item.get_closest_marker("book") or item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.xdist_group("book"))
        elif not item.get_closest_marker("xdist_group") and shares(item):
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        if item.get_closest_marker("gpu"):
            if gpu == "not asked yet":
                gpu = device.current()
            if gpu is None:
                item.add_marker(no_gpu)


class Seconds:
    """Adds up how long each case takes, what is made for it included, and writes it at the end."""

    def __init__(self):
        self.cases: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report):
        if report.outcome == "passed":
            self.cases[report.nodeid] += report.duration

    def pytest_sessionfinish(self):
        measured: dict[str, list[float]] = defaultdict(list)
        for nodeid, seconds in self.cases.items():
            measured[rings.test_of(nodeid)].append(seconds)
        rings.write(measured)


def pytest_configure(config):
    """Measure where that is asked for, in the process that hears of every case."""
    if config.getoption("--seconds") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Seconds())


@pytest.fixture(autouse=True)
def _environment_stays():
    """A test that leaves a variable of the environment changed fails, not the ones after it: they
    get it back."""
    before = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    yield
    after = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    for name in after.keys() ^ before.keys() | {n for n, v in after.items() if before.get(n) != v}:
        os.environ.pop(name, None)
        if name in before:
            os.environ[name] = before[name]
    assert after == before, sorted(after.items() ^ before.items())


def shares(item):
    """Whether a test takes a fixture that is made once for its module."""
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs.values() if info else ()
    return any(one.scope == "module" for defs in found for one in defs)
