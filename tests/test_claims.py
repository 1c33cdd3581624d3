"""Sentences tied to numbers: what holds() does, that every page quotes itself, and that a changed
record stops the book at the sentence that it makes false.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.page import claims
from helpers.page.claims import FalseSentenceError, holds, place
from nogpu.errors import ConfigError
from tests.common import ROOT
from tools import reading
from tools.quotations import faults, main, quotations

PAGE = """# A page

The larger tile loses. So does the smaller.

```{code-cell} ipython3
:tags: [remove-input]
gain = -1
holds("The larger tile loses",
      gain < 0, gain=gain)
holds(("So does the smaller", "Not on this page"), gain < 0)
```

The end.
"""


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "12_page.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(claims, "BOOK", tmp_path)
    return tmp_path


def test_a_sentence_that_holds_says_nothing(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILE_BOOK_BUILD", "1")
    holds("The larger tile loses", True)
    holds(("The larger tile loses", "So does"), np.bool_(True), gain=1.0)
    assert capsys.readouterr().out == ""


def test_a_false_sentence_stops_the_build_with_its_place(
    book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_BOOK_BUILD", "1")
    with pytest.raises(FalseSentenceError) as stopped:
        holds("The larger tile loses", 3 < 2, gain=0.1234567, kernel="fp32_best")
    said = str(stopped.value)
    assert "book/12_page.md:3: “The larger tile loses”" in said
    assert "gain = 0.123457" in said and "kernel = fp32_best" in said
    with pytest.raises(FalseSentenceError, match="on no page: “Nobody wrote this”"):
        holds("Nobody wrote this", False)


def test_on_a_readers_machine_a_note_says_which_sentence_does_not_hold(
    book: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TILE_BOOK_BUILD", raising=False)
    holds("The larger tile loses", False, gain=2)
    said = capsys.readouterr().out
    assert "“The larger tile loses” does not hold" in said and "gain = 2" in said


@pytest.mark.parametrize("condition", [1, 0.0, "yes", None, [True], np.float64(2.0)])
def test_a_number_is_no_condition(condition: Any) -> None:
    with pytest.raises(ConfigError, match="give a comparison"):
        holds("The larger tile loses", condition)


@pytest.mark.parametrize("words", ["", (), ("", "x"), 3])
def test_no_words_are_no_sentence(words: Any) -> None:
    with pytest.raises(ConfigError, match="words of a sentence"):
        holds(words, True)


def test_the_call_itself_is_no_place_of_its_words(book: Path) -> None:
    assert place("The larger tile loses") == "book/12_page.md:3: “The larger tile loses”"
    assert claims.prose(PAGE).count("\n") == PAGE.count("\n")
    assert "Not on this page" not in claims.prose(PAGE)


# -- the pages of this book
# --------------------------------------------------------------------------

PAGES = sorted((ROOT / "book").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_page_quotes_its_own_sentences(page: Path) -> None:
    assert faults(page.read_text(encoding="utf-8")) == []


def test_lint_names_the_page_of_a_wrong_quotation(
    book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(book) == 1
    assert capsys.readouterr().out == "12_page.md:10: 'Not on this page' is not on the page\n"
    (book / "12_page.md").write_text(PAGE.replace(', "Not on this page"', ""), encoding="utf-8")
    assert main(book) == 0 and capsys.readouterr().out == ""


def test_wrong_quotations_are_found() -> None:
    assert faults(PAGE) == ["10: 'Not on this page' is not on the page"]
    assert faults(PAGE.replace("gain < 0, gain", "1 < 2, gain").replace(', "Not on this page"', ""))
    broken = PAGE.replace("The larger tile loses. So", "The larger tile\nloses. So")
    assert any("larger tile loses" in fault for fault in faults(broken))


def chapters() -> list[Path]:
    return [page for page in PAGES if re.match(r"\d\d_", page.name) and page.name >= "04"]


@pytest.mark.parametrize("page", chapters(), ids=lambda path: path.stem)
def test_a_chapter_of_the_climb_ties_its_sentences(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    tied = quotations(text)
    glued = len(re.findall(r"\{glue:text\}", claims.prose(text)))
    assert len(tied) >= 8 and 4 * len(tied) >= glued


# -- records that make a sentence false
# ----------------------------------------------------------------

Record = dict[str, Any]


def entries(record: Record, section: str, kernel: str, size: int | None = None) -> list[Record]:
    found = [e for e in record[section] if e["kernel"] == kernel and size in (None, e["m"])]
    assert found, (section, kernel, size)
    return found


def slower(record: Record) -> None:
    """The sign of a gain flipped: warp_tiled falls behind the double buffer."""
    for entry in entries(record, "points", "warp_tiled"):
        for name in ("gflops", "cublas_ratio", "ratio_q1", "ratio_q3"):
            entry[name] *= 0.7
        for name in ("ms", "q1", "q3"):
            entry[name] /= 0.7


def exchanged(record: Record) -> None:
    """Two rungs exchanged: the tiled kernel has the coalesced one's times, and the other way round."""
    for size in (1024, 4096):
        [a] = entries(record, "points", "coalesced", size)
        [b] = entries(record, "points", "tiled_32", size)
        for name in ("ms", "q1", "q3", "gflops", "cublas_ratio", "ratio_q1", "ratio_q3"):
            a[name], b[name] = b[name], a[name]


def hurried(record: Record) -> None:
    """Panels from pageable memory overlap after all: they take half of their time."""
    panels = [
        e
        for e in entries(record, "overlap", "vectorised")
        if e["memory"] == "pageable" and e["panels"] > 1
    ]
    assert panels
    for entry in panels:
        for name in ("ms", "q1", "q3"):
            entry[name] /= 2
        for name in ("speedup", "speedup_q1", "speedup_q3"):
            entry[name] *= 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "mutate", "says"),
    [
        ("13_loop_registers", slower, r"13_loop_registers\.md:\d+"),
        ("06_tiling", exchanged, r"06_tiling\.md:\d+"),
        ("24_streams", hurried, r"24_streams\.md:\d+"),
    ],
)
def test_a_changed_record_stops_the_page_at_the_sentence(
    page: str, mutate: Callable[[Record], None], says: str
) -> None:
    record = json.loads((ROOT / "data" / "measurements" / "h200.json").read_text())
    changed = copy.deepcopy(record)
    mutate(changed)
    with pytest.raises(FalseSentenceError, match=says) as stopped:
        reading.run(page, changed)
    print(stopped.value)
