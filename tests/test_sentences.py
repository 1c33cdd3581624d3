"""What chapters 7 to 11 claim by the record, on their pages and the Deeper pages below them: all of
it is true of the record, and of another it is not."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from unittest import mock

import pytest

from helpers.chapters.ch07 import sentences as ch07
from helpers.chapters.ch07 import sweeps
from helpers.chapters.ch08 import sentences as ch08
from helpers.chapters.ch09 import sentences as ch09
from helpers.chapters.ch10 import sentences as ch10
from helpers.chapters.ch11 import sentences as ch11
from helpers.chapters.ch11 import steps
from helpers.page import claims
from nogpu import device
from tests.common import texts_of


def claimed(chapter, **names):
    """The conditions of a chapter that rest on these names, by key; those of its Deeper page as
    "deeper.key".

    Each page is taken alone: its imports, its set-up cell (the second) and what its cells of
    conditions make of them run, these names standing before what the set-up finds.
    """
    found: dict[str, bool] = {}
    for text, prefix in zip(texts_of(chapter), ("", "deeper."), strict=False):
        with mock.patch.object(device, "current", lambda: None):  # a page replays its record
            found |= {f"{prefix}{key}": is_so for key, is_so in _conditions(text, names).items()}
    return found


def _conditions(text, names):
    """Those of one page's text that rest on these names, by key."""
    cells = [ast.parse(code) for _, code in claims.cells(text) if code[:2] != "%%"]
    scope, found = dict(names), {}

    def run(node):
        kind = "eval" if isinstance(node, ast.Expression) else "exec"
        value = eval(compile(node, "<page>", kind), scope)
        scope.update(names)
        return value

    for statement in (*cells[0].body, *cells[1].body):
        if not isinstance(statement, ast.Expr):
            run(ast.Module([statement], []))
    for cell in cells[2:]:
        calls = [s.value for s in cell.body if "holds(" == ast.unparse(s)[:6]]
        for statement in cell.body if calls else ():
            if isinstance(statement, ast.Expr):
                continue
            with contextlib.suppress(NameError):  # of another cell's
                run(ast.Module([statement], []))
        for keyword in [k for call in calls for k in call.keywords]:
            with contextlib.suppress(NameError):
                found[keyword.arg] = run(ast.Expression(keyword.value))
    return found


def refuted(chapter, **names):
    """Keys of those that do not hold."""
    return {key for key, is_so in claimed(chapter, **names).items() if not is_so}


def slower(measured, kernel, factor):
    """`measure` of a record in which a kernel takes a factor times as long."""

    def other(*request, **how):
        found = measured(*request, **how)
        factors = {"ms": factor, "gflops": 1 / factor, "cublas_ratio": 1 / factor}
        rows = tuple(
            row | {name: row[name] * f for name, f in factors.items() if row["kernel"] == kernel}
            for row in found.rows
        )
        return dataclasses.replace(found, rows=rows)

    return other


@pytest.mark.parametrize(
    ("chapter", "least", "deeper"),
    [("07", 10, 9), ("08", 8, 8), ("09", 6, 17), ("10", 8, 7), ("11", 12, 20)],
)
def test_every_condition_holds_on_the_record(chapter, least, deeper):
    found = claimed(chapter)
    below = sum(key.startswith("deeper.") for key in found)
    assert len(found) - below >= least and below >= deeper
    assert all(found.values())


@pytest.mark.parametrize(
    ("chapter", "module", "column", "factor", "falls"),
    [
        ("07", ch07, "multiply_adds_per_wavefront", {"tiled_pad_rows": 1.5}, {"deeper.more_wavefronts", "deeper.rate_follows"}),
        ("07", ch07, "occupancy_percent", {"tiled_8": 0.5}, {"can_fill", "deeper.not_occupancy"}),
        ("08", ch08, "multiply_adds_per_wavefront", {"tiled_32": 2.0}, {"less_than_one", "complete"}),
        ("08", ch08, "multiply_adds_per_wavefront", {"block_1d": 0.5}, {"deeper.predicted"}),
        ("09", ch09, "shared_load_conflicts", {"block_2d": 0.1}, {"deeper.collide"}),
        ("09", ch09, "store_sectors_per_request", {"block_2d": 0.1}, {"deeper.stores"}),
        ("10", ch10, "shared_load_instructions", {"vectorised": 0.25}, {"same_reads", "deeper.each", "deeper.same_reads"}),
        ("10", ch10, "global_load_requests", {"vectorised": 4.0},
         {"fewer", "deeper.fewer", "deeper.to_a_quarter"}),
        ("10", ch10, "instructions", {"vectorised": 1.1}, {"fewer", "deeper.fewer"}),
    ],
)  # fmt: skip
def test_other_counters_refute_what_rests_on_them_and_nothing_else(
    monkeypatch, chapter, module, column,
    factor, falls,
):  # fmt: skip
    counted = module.counters

    def other(kernel, size):
        [row] = counted(kernel, size)
        return [dict(row) | {column: row[column] * factor.get(kernel, 1)}]

    monkeypatch.setattr(module, "counters", other)
    assert refuted(chapter) == falls


@pytest.mark.parametrize(
    ("chapter", "module", "kernel", "factor", "falls"),
    [
        ("07", ch07, "tiled_pad_rows", 0.8, {"rate_follows", "deeper.rate_follows"}),
        ("07", ch07, "tiled_rect", 0.9, {"not_occupancy", "notes", "deeper.not_occupancy"}),
        ("07", ch07, "tiled_padded", 0.9, {"no_gain", "deeper.no_gain"}),
        ("08", ch08, "block_1d", 1.3, {"gain", "with_copies", "deeper.gain"}),
        ("09", ch09, "block_2d", 0.6, {"less_than_half", "twice", "neither", "deeper.neither"}),
        ("10", ch10, "vectorised", 1.2, {"gain", "deeper.idle"}),
        ("10", ch10, "vectorised", 0.7, {"waits", "deeper.idle"}),
        ("11", ch11, "prefetch", 1.2, {"all_gain", "deeper.all_gain"}),
        ("11", ch11, "tiled_pad_rows", 0.5, {"no_gain"}),
    ],
)
def test_other_times_refute_what_rests_on_them_and_nothing_else(
    monkeypatch, chapter, module, kernel, factor,
    falls,
):  # fmt: skip
    monkeypatch.setattr(module, "measure", slower(module.measure, kernel, factor))
    assert refuted(chapter) == falls


@pytest.mark.parametrize(
    ("kernel", "bk", "share", "falls"),
    [
        ("cp_async", 8, 90.0, {"deeper.behind"}),
        ("cp_async", 16, 80.0, {"buys_the_step", "deeper.buys_the_step"}),
        ("prefetch", 16, 84.0, {"deeper.both_lose"}),
        ("double_buffer", 16, 84.0, {"both_lose", "deeper.both_lose"}),
        ("vectorised", 16, 70.0, {"deeper.every_step"}),
    ],
)
def test_other_steps_refute_what_rests_on_them(kernel, bk, share, falls):
    known = steps.recorded(ch11.NAMES)
    other = dataclasses.replace(known, share=known.share | {(kernel, bk): share})
    assert refuted("11", facts=ch11.of_the_record(other), known=other) == falls


def test_other_sweeps_refute_what_rests_on_them():
    rests = {f"deeper.{key}" for key in ("doubles", "fuller", "from_eight", "from_twelve")}

    def of(patches, more):
        from_12 = more.since(12)
        names = {"patches": patches, "more": more, "from_8": more.since(8), "from_12": from_12}
        found = claimed("07", gaining=sum(change > 0 for change in from_12), **names)
        assert rests <= found.keys()
        return {key for key, is_so in found.items() if not is_so}

    patches, more = sweeps.by_patch("h200"), sweeps.with_more_warps("h200")
    assert of(patches, more) == set()
    turned = dataclasses.replace(patches, rows=patches.rows[::-1], fuller=0.9)
    lost = {steps_: [-abs(c) for c in found] for steps_, found in more.changes.items()}
    assert of(turned, dataclasses.replace(more, changes=lost)) == rests
