"""Fixtures of a class."""

from __future__ import annotations

from pathlib import Path

import pytest
from classes import course_of

from tilelabs.labs import courses


@pytest.fixture
def course(tmp_path: Path) -> courses.Course:
    """One whose lab 2 is the variant of `tools.hostile.HONEST`."""
    return course_of(tmp_path / "course")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a course in it."""
    courses.new(tmp_path / "course")
    return tmp_path
