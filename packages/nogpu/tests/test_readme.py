"""The package's README is right: its example runs, and what it prints is a report."""

from __future__ import annotations

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_the_example_runs(capsys):
    [code] = re.findall(r"(?s)```python\n(.*?)```", README.read_text(encoding="utf-8"))
    names = {}
    exec(code, names)
    assert (names["c"] == 2).all()
    assert "global store" in capsys.readouterr().out
