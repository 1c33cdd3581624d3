"""Fixtures of a class."""

from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from classes import course_of

from tilelabs.grading import judging
from tilelabs.labs import courses


@pytest.fixture
def course(tmp_path):
    """One whose lab 2 is the variant of `tools.hostile.HONEST`."""
    return course_of(tmp_path / "course")


@pytest.fixture
def place(tmp_path):
    """A folder with a course in it."""
    courses.new(tmp_path / "course")
    return tmp_path


@pytest.fixture
def judge(monkeypatch):
    """Put a judge in place that finds always the same, and shows what it is asked to `look`."""

    def find(marked, look=lambda of: None):
        def facts(of):
            look(of)
            return json.loads(json.dumps(asdict(marked)))

        monkeypatch.setattr(judging, "facts", facts)

    return find
