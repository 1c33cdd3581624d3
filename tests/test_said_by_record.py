"""Sentences of chapters that the record decides: what they say now, and after more is recorded."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

from helpers.page import Markdown
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
