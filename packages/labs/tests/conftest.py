"""Fixtures of a class."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from classes import course_of

from tilelabs.grading import judging
from tilelabs.judging.marking import Marked
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


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put a judge in place that finds always the same, and shows what it is asked to `look`."""

    def find(marked: Marked, look: Callable[[Any], None] = lambda of: None) -> None:
        def facts(of: Any) -> Any:
            look(of)
            return json.loads(json.dumps(asdict(marked)))

        monkeypatch.setattr(judging, "facts", facts)

    return find
