"""Sentences of chapters that the record decides: what they say now, and after more is recorded."""

from __future__ import annotations

import math
import re
from types import SimpleNamespace

from helpers.chapters.ch15 import facts as ch15
from helpers.page import Markdown
from tests.common import texts_of
from tests.test_sentences import refuted


def cell(chapter, words):
    """The one code cell of a chapter, or of its Deeper page, that holds these words."""
    text = "\n".join(texts_of(chapter))
    cells = re.findall(r"(?ms)^```{code-cell} ipython3\n(.*?)^```$", text)
    [found] = [c for c in cells if words in c]
    return re.sub(r"(?m)^:[\w-]+:.*$", "", found)


def shown(code, **names):
    """What the last expression of a cell displays, as text; empty for None."""
    head, last = code.rstrip().rsplit("\nMarkdown(", 1)
    names = {"holds": lambda *_, **__: None} | names
    exec(head, names)
    value = eval(f"Markdown({last}", names | {"Markdown": Markdown})
    return "" if value is None else str(value)


PROMISED = [1.8, 1.8]


class Found(SimpleNamespace):
    def __str__(self):
        return "20 shapes, every element right"


def test_the_ragged_gain_is_untested_until_it_is_recorded():
    code = cell("15", "found = ragged()")
    before = shown(code, ragged=lambda: None, promised=PROMISED, math=math)
    assert "1.80 times" in before
    assert "untested" in before and "Measured" not in before

    after = shown(code, ragged=lambda: Found(share=0.8, default=0.5), promised=PROMISED, math=math)
    assert "Measured it is 1.60 times: 20 shapes, every element right." in after
    assert "untested" not in after


def test_the_chapter_says_the_ragged_gain_only_as_the_record_has_it(monkeypatch):
    assert refuted("15") == set()
    for found in (Found(share=0.4, default=0.5), None):
        monkeypatch.setattr(ch15, "ragged", lambda found=found: found)
        assert refuted("15") == {"falls_short"}
    for found, falls in ((Found(share=0.8, default=0.5), {"deeper.falls_short"}), (None, set())):
        assert refuted("15", gain=1.8, found=found) - {"falls_short"} == falls
