"""Sentences of chapters that the record decides: what they say now, and after more is recorded."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.chapters.ch17 import checks
from helpers.page import Markdown, exercises
from helpers.page.claims import FalseSentenceError, holds
from tests.common import ROOT


def cell(page: str, words: str) -> str:
    """The one code cell of a page that holds these words."""
    text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
    cells = re.findall(r"(?ms)^```{code-cell} ipython3\n(.*?)^```$", text)
    [found] = [c for c in cells if words in c]
    return re.sub(r"(?m)^:[\w-]+:.*$", "", found)


def shown(code: str, **names: Any) -> str:
    """What the last expression of a cell displays, as text; empty for None."""
    head, last = code.rstrip().rsplit("\nMarkdown(", 1)
    names = {"holds": lambda *_, **__: None} | names
    exec(head, names)
    value = eval(f"Markdown({last}", names | {"Markdown": Markdown})
    return "" if value is None else str(value)


PROMISED = [1.8, 1.8]


def test_the_ragged_gain_is_untested_until_it_is_recorded() -> None:
    code = cell("15_tile_for_shape", "found = ragged()")
    before = shown(code, ragged=lambda: None, promised=PROMISED, math=math)
    assert "1.80 times" in before
    assert "untested" in before and "Measured" not in before

    class Found(SimpleNamespace):
        def __str__(self) -> str:
            return "20 shapes, every element right"

    after = shown(code, ragged=lambda: Found(share=0.8, default=0.5), promised=PROMISED, math=math)
    assert "Measured it is 1.60 times: 20 shapes, every element right." in after
    assert "untested" not in after


# -- exercises of chapter 17 that are new with its first kernel
# --------------------------------------


def solution(number: str) -> str:
    """The kernel of an exercise's solution."""
    text = (ROOT / "book" / "17_tensor_cores.md").read_text(encoding="utf-8")
    part = text.split(f"### Exercise {number}")[1].split("Solution", 1)[1]
    return re.findall(r'(?s)mine = """(.*?)"""', part)[0]


def passes(name: str, answer: Any) -> bool:
    return exercises.check(name, answer).passed


def test_two_tiles_that_load_a_twice_or_take_one_column_too_few_are_refused() -> None:
    right = solution("17.3")
    assert passes("17.3", right)
    load_a = "wmma::load_matrix_sync(a, A + row * K + k, K);"
    load_b = "wmma::load_matrix_sync(b, B + k * N + col + 16 * j, N);"
    assert right.count(load_a) == right.count(load_b) == 1
    twice = right.replace(load_a, "").replace(load_b, load_a + load_b)
    report = list(checks.two_tiles(twice))
    assert [c.ok for c in report] == [True] * (len(report) - 1) + [False]
    assert not passes("17.3", right.replace("+ col + 16 * j, c[j]", "+ col, c[j]"))
    assert not passes("17.3", right.replace("blockIdx.x * 32", "blockIdx.x * 16"))


def test_a_grid_that_starts_too_many_blocks_or_counts_too_few_idle_warps_is_refused() -> None:
    def grid(M: int, N: int, warps: int) -> tuple[int, int, int]:
        x, y, tiles = -(-M // 16), -(-N // (16 * warps)), -(-N // 16)
        return x, y, x * (y * warps - tiles)

    assert passes("17.1", grid)
    assert not passes("17.1", lambda M, N, w: (-(-M // 16), -(-N // 16), 0))
    assert not passes("17.1", lambda M, N, w: (*grid(M, N, w)[:2], grid(1, N, w)[2]))
    assert not passes("17.1", lambda M, N, w: (M // 16, N // (16 * w), 0))
    assert not passes("17.1", lambda M, N, w: ...)


def test_what_warps_wait_for_is_said_where_it_is_recorded() -> None:
    code = cell("20_copy_engine", "if waits:")
    assert shown(code, waits={}, holds=holds) == "What its warps wait for now is not recorded."
    waits = {"most": "wait math_pipe_throttle", "mma_tma": 0.0, "mma_pipelined": 6.5}
    told = shown(code, waits=waits, holds=holds)
    assert "a busy Tensor Core, and its latency" in told and "not recorded" not in told


def test_other_waits_stop_what_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    code = cell("20_copy_engine", "if waits:")
    monkeypatch.setenv("TILE_BOOK_BUILD", "1")
    waits = {"most": "wait long_scoreboard", "mma_tma": 0.0, "mma_pipelined": 6.5}
    with pytest.raises(FalseSentenceError, match="they wait for the instruction"):
        shown(code, waits=waits, holds=holds)
