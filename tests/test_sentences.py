"""What chapters 7 to 11 claim by the record: all of it is true of the record, and of another it is
not.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from typing import Any

import pytest

from helpers.chapters.ch07 import sentences as ch07
from helpers.chapters.ch07 import sweeps
from helpers.chapters.ch08 import sentences as ch08
from helpers.chapters.ch09 import sentences as ch09
from helpers.chapters.ch10 import sentences as ch10
from helpers.chapters.ch11 import sentences as ch11
from helpers.chapters.ch11 import steps
from helpers.page import claims
from tests.common import ROOT


def claimed(page: str, **names: Any) -> dict[str, bool]:
    """The conditions of a page that rest on these names, on its imports and on what its cell of
    conditions makes of them, by key.
    """
    [path] = (ROOT / "book").glob(f"{page}_*.md")
    cells = [ast.parse(c) for _, c in claims.cells(path.read_text("utf-8")) if c[:2] != "%%"]
    found: dict[str, bool] = {}

    def run(node: ast.AST) -> Any:
        kind = "eval" if isinstance(node, ast.Expression) else "exec"
        return eval(compile(node, path.name, kind), names)  # type: ignore[arg-type]

    for statement in cells[0].body:
        run(ast.Module([statement], []))
    for cell in cells:
        calls = [s.value for s in cell.body if "holds(" == ast.unparse(s)[:6]]
        for statement in cell.body if calls else ():
            if isinstance(statement, ast.Expr):
                continue
            with contextlib.suppress(NameError):  # of another cell's
                run(ast.Module([statement], []))
        for keyword in [k for call in calls for k in call.keywords]:  # type: ignore[attr-defined]
            with contextlib.suppress(NameError):
                found[keyword.arg] = run(ast.Expression(keyword.value))
    return found


def refuted(page: str, **names: Any) -> set[str]:
    """Keys of those that do not hold."""
    return {key for key, holds in claimed(page, **names).items() if not holds}


def of_the_record(module: Any, page: str) -> dict[str, Any]:
    """What a page's cells above its conditions make of the record."""
    if page == "09":
        return {"facts": module.of_the_record(), "mirrored": module.of_the_mirrors()}
    if page == "11":
        known = steps.recorded(module.NAMES)
        facts = module.of_the_record(known)
        return {"known": known, "facts": facts, "NAMES": module.NAMES}
    return {"facts": module.of_the_record()}


@pytest.mark.parametrize(
    ("page", "module", "least"),
    [("07", ch07, 8), ("08", ch08, 12), ("09", ch09, 17), ("10", ch10, 12), ("11", ch11, 20)],
)
def test_every_condition_holds_on_the_record(page: str, module: Any, least: int) -> None:
    found = claimed(page, **of_the_record(module, page))
    assert len(found) >= least and all(found.values())


@pytest.mark.parametrize(
    ("page", "module", "column", "factor", "falls"),
    [
        ("07", ch07, "multiply_adds_per_wavefront", {"tiled_pad_rows": 1.5}, {"more_wavefronts", "rate_follows"}),
        ("07", ch07, "occupancy_percent", {"tiled_8": 0.5}, {"not_occupancy"}),
        ("08", ch08, "multiply_adds_per_wavefront", {"tiled_32": 2.0}, {"less_than_one", "complete"}),
        ("08", ch08, "multiply_adds_per_wavefront", {"block_1d": 0.5}, {"predicted"}),
        ("09", ch09, "shared_load_conflicts", {"block_2d": 0.1}, {"collide"}),
        ("09", ch09, "store_sectors_per_request", {"block_2d": 0.1}, {"stores"}),
        ("10", ch10, "shared_load_instructions", {"vectorised": 0.25}, {"each", "same_reads"}),
        ("10", ch10, "global_load_requests", {"vectorised": 4.0}, {"fewer"}),
    ],
)  # fmt: skip
def test_other_counters_refute_what_rests_on_them_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch, page: str, module: Any, column: str, factor: dict[str, float],
    falls: set[str],
) -> None:  # fmt: skip
    counted = module.counters

    def other(kernel: str, size: int) -> list[dict[str, float]]:
        [row] = counted(kernel, size)
        return [dict(row) | {column: row[column] * factor.get(kernel, 1)}]

    monkeypatch.setattr(module, "counters", other)
    assert refuted(page, **of_the_record(module, page)) == falls


@pytest.mark.parametrize(
    ("kernel", "bk", "share", "falls"),
    [
        ("cp_async", 8, 90.0, {"behind"}),
        ("cp_async", 16, 80.0, {"buys_the_step"}),
        ("prefetch", 16, 84.0, {"both_lose"}),
        ("vectorised", 16, 70.0, {"every_step"}),
    ],
)
def test_other_steps_refute_what_rests_on_them(
    kernel: str, bk: int, share: float, falls: set[str]
) -> None:
    known = steps.recorded(ch11.NAMES)
    other = dataclasses.replace(known, share=known.share | {(kernel, bk): share})
    names = {"facts": ch11.of_the_record(other), "known": other, "NAMES": ch11.NAMES}
    assert falls <= refuted("11", **names)


def test_other_sweeps_refute_what_rests_on_them() -> None:
    rests = {"doubles", "fuller", "from_eight", "from_twelve"}

    def of(patches: sweeps.Patches, more: sweeps.MoreWarps) -> set[str]:
        from_12 = more.since(12)
        names = {"patches": patches, "more": more, "from_8": more.since(8), "from_12": from_12}
        gaining = sum(change > 0 for change in from_12)
        return rests & refuted("07", facts=ch07.of_the_record(), gaining=gaining, **names)

    patches, more = sweeps.by_patch("h200"), sweeps.with_more_warps("h200")
    assert of(patches, more) == set()
    turned = dataclasses.replace(patches, rows=patches.rows[::-1], fuller=0.9)
    lost = {steps_: [-abs(c) for c in found] for steps_, found in more.changes.items()}
    assert of(turned, dataclasses.replace(more, changes=lost)) == rests
