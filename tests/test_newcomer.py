"""A newcomer's path through chapter 6 in JupyterLab: gone again in a browser, and what is recorded
of it.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.common import ROOT
from tools import newcomer

RECORD = ROOT / "data" / "validation" / "newcomer.json"


def held() -> list[dict[str, Any]]:
    return json.loads(RECORD.read_text(encoding="utf-8"))["steps"]


def between_edit_and_result(steps: list[dict[str, Any]]) -> dict[str, int]:
    """Actions from an edit to its result, by step; opening and running all are no edits."""
    return {s["step"]: len(s["actions"]) for s in steps[2:]}


def test_the_record_has_every_step_and_one_action_between_an_edit_and_its_result():
    steps = held()
    assert len(steps) == 6
    assert all(s["saw"] and 0 < s["seconds"] < 600 for s in steps)
    assert set(between_edit_and_result(steps).values()) == {1}
    longer = [*steps[:3], {**steps[3], "actions": ["save", "restart", "run"]}]
    assert set(between_edit_and_result(longer).values()) != {1}


def test_cells_are_done_when_each_has_a_number():
    assert newcomer.finished(["[1]:", "", "[12]:"])
    for prompts in (["[1]:", "[*]:"], ["[1]:", "[ ]:"], ["", ""], []):
        assert not newcomer.finished(prompts)


def test_a_line_is_counted_as_the_report_counts():
    cell = "%%cuda x\nfirst\n  second;"
    assert newcomer.line_of(cell, "second") == 3
    with pytest.raises(ValueError):
        newcomer.line_of(cell, "third")


@pytest.mark.browser
@pytest.mark.slow
def test_the_path_in_a_browser(browser: Any, tmp_path: Path) -> None:
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: this test did not run")
    shutil.copy(newcomer.NOTEBOOK, tmp_path)
    with newcomer.laboratory(tmp_path) as lab:
        context = browser.new_context(viewport={"width": 1280, "height": 2600})
        steps = newcomer.walk(context.new_page(), lab, tmp_path)
        context.close()
    assert [s.step for s in steps] == [s["step"] for s in held()]
    assert set(between_edit_and_result([vars(s) for s in steps]).values()) == {1}
    assert (tmp_path / "tiles.png").read_bytes().startswith(b"\x89PNG")
    with (tmp_path / "tiles.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["kernel"] for row in rows} >= {"tiled_16", "tiled_32"}
    assert all(float(row["ms"]) > 0 for row in rows if row["ms"])
