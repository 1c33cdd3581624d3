"""Sentences tied to conditions: what holds() does, that every mark of a page has its condition, and
that a changed record stops the book at the sentence that it makes false."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from helpers.page import claims
from helpers.page.claims import FalseSentenceError, faults, holds, marks, unmarked
from nogpu.errors import ConfigError
from tests.common import ROOT, texts_of
from tools import reading
from tools.sentences import main

PAGE = """# A page

[The larger tile loses]{holds="loses"}. So [does `a[1]`]{holds="loses"},
and [{term}`warps <warp>`, a[1] too]{holds="equal"}.

```{code-cell} ipython3
:tags: [hide-input]
rows = [{"ms": 1.5}]
holds(
    loses=gain < 0 and all(row["ms"] > 1 for row in rows),
    equal=sizes[4] == sizes[8],
)
```

The end.
"""
PLAIN = (
    "# A page\n\nThe larger tile loses. So does `a[1]`,\nand {term}`warps <warp>`, a[1] too.\n\n"
)


@pytest.fixture
def book(tmp_path, monkeypatch):
    (tmp_path / "12_page.md").write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(claims, "BOOK", tmp_path)
    monkeypatch.setenv("TILE_PAGE", "12_page.md")
    return tmp_path


@pytest.fixture
def built(book, monkeypatch):
    monkeypatch.setenv("TILE_BOOK_BUILD", "1")
    return book


def test_sentences_that_hold_say_nothing(built, capsys):
    holds(loses=True, equal=np.bool_(True))
    assert capsys.readouterr().out == ""


def test_a_false_sentence_stops_the_build_with_its_places_and_numbers(built):
    gain, sizes, rows = 0.1234567, {4: "few", 8: "many"}, [{"ms": 2}]
    with pytest.raises(FalseSentenceError) as stopped:
        holds(loses=gain < 0 and all(row["ms"] > 1 for row in rows), equal=sizes[4] == sizes[8])
    message = str(stopped.value)
    assert "book/12_page.md:3: “The larger tile loses”" in message
    assert "book/12_page.md:3: “does `a[1]`”" in message
    assert "The condition: gain < 0 and all(" in message and "where gain = 0.123457." in message
    assert "book/12_page.md:4: “{term}`warps <warp>`, a[1] too”. The condition: sizes[4]" in message
    assert "sizes[4] = few; sizes[8] = many" in message
    with pytest.raises(FalseSentenceError) as stopped:
        holds(loses=True, equal=False)
    assert "The larger tile" not in str(stopped.value)


def test_on_a_readers_machine_a_note_says_which_sentence_does_not_hold(book, monkeypatch, capsys):
    monkeypatch.delenv("TILE_BOOK_BUILD", raising=False)
    gain, rows = 2, []
    holds(loses=gain < 0, equal=True, mine=True)
    note = capsys.readouterr().out
    assert "“The larger tile loses” does not hold" in note and "gain = 2" in note and not rows
    monkeypatch.delenv("TILE_PAGE")
    holds(loses=gain < 0)
    note = "Here it is otherwise than the text says: “loses” does not hold.\n"
    assert capsys.readouterr().out == note


@pytest.mark.parametrize("condition", [1, 0.0, "yes", None, [True], np.float64(2.0)])
def test_a_number_is_no_condition(condition):
    with pytest.raises(ConfigError, match="give a comparison"):
        holds(loses=condition)


def test_a_page_reads_without_its_marks():
    assert [(m.key, m.line) for m in marks(PAGE)] == [("loses", 3), ("loses", 3), ("equal", 4)]
    assert marks(PAGE)[2].words == "{term}`warps <warp>`, a[1] too"
    assert unmarked(PAGE).split("```")[0] == PLAIN and unmarked(PLAIN) == PLAIN
    assert unmarked(PAGE).count("\n") == PAGE.count("\n")
    fenced = '```text\n[words]{holds="key"}\n```\n'
    assert marks(fenced) == [] and unmarked(fenced) == fenced and faults(fenced) == []


WRONG = {
    "no condition": ("equal=sizes[4] == sizes[8],", "", 4, "no cell states the condition equal"),
    "no mark": ("equal=", "other=", 11, 'no words are marked with {holds="other"}'),
    "twice": ("The end.", "```{code-cell} ipython3\nholds(equal=a < b)\n```", 16, "stated twice"),
    "rests on nothing": ("sizes[4] == sizes[8]", "1 < 2", 11, "rests on no value"),
    "may not run": ("\nholds(", "\nif rows: holds(", 9, "inside a statement"),
    "unseen": ("equal=sizes[4] == sizes[8]", "**found", 9, "one by one"),
    "no brackets": ("[The larger", "The larger", 3, "write a mark as"),
    "bare": ('{holds="equal"}', "{holds=equal}", 4, "write a mark as"),
    "empty": ("[The larger tile loses]", "[]", 3, "holds no words"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_with_a_page_is_found_with_its_line(name):
    old, new, line, says = WRONG[name]
    assert PAGE.count(old) == 1 and faults(PAGE) == []
    found = faults(PAGE.replace(old, new))
    assert any(at == line and says in fault for at, fault in found), found


def test_lint_names_page_and_line(book, capsys):
    assert main(book) == 0
    assert capsys.readouterr().out == "1 pages: claims have conditions, numbers are glued\n"
    (book / "12_page.md").write_text(PAGE.replace("equal=", "other="), encoding="utf-8")
    assert main(book) == 1
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("12_page.md:4: no cell states the condition equal, of '{term}`warps")
    assert second == '12_page.md:11: no words are marked with {holds="other"}'


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("It takes 22.7 ms, not 9 ms.", ["22.7 ms", "9 ms"]),
        ("It reaches 12 % of it\nand 300 GB/s.", ["12 %", "300 GB/s"]),
        ("## Exercises\n\nIt takes 5 ms.\n", []),
        ("It takes {glue:text}`ms:.1f` ms on 32 lanes of 4 bytes.", []),
    ],
)
def test_a_typed_number_is_named(text, typed, book, capsys):
    (book / "12_page.md").write_text(text, encoding="utf-8")
    assert main(book) == bool(typed)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("'")[1] for line in lines if "is typed: glue it" in line] == typed


# -- the pages of this book ----------------------------------------------------------------------

PAGES = sorted((ROOT / "book").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_every_mark_of_a_page_has_its_condition(page):
    assert faults(page.read_text(encoding="utf-8")) == []


CLIMB = [p for p in PAGES if re.match(r"\d\d_", p.name) and p.name >= "04"]


@pytest.mark.parametrize("page", CLIMB, ids=lambda p: p.stem)
def test_a_chapter_of_the_climb_ties_its_sentences(page):
    texts = texts_of(page.name[:2])
    tied, numbers = [len(marks(t)) for t in texts], sum(t.count("{glue:text}") for t in texts)
    assert all(tied) and sum(tied) >= 8 and 4 * sum(tied) >= numbers


# -- records that make a sentence false ----------------------------------------------------------

Record = dict[str, Any]


def entries(record, section, kernel, size=None):
    found = [e for e in record[section] if e["kernel"] == kernel and size in (None, e["m"])]
    assert found, (section, kernel, size)
    return found


TIMES, RATES = ("ms", "q1", "q3"), ("gflops", "cublas_ratio", "ratio_q1", "ratio_q3")


def times(entry, factor, *rates):
    """A time, and what is one over it, as if all took a factor times as long."""
    entry |= {name: entry[name] * factor for name in TIMES}
    entry |= {name: entry[name] / factor for name in rates}


def slower(record):
    """The sign of a gain flipped: warp_tiled falls behind the double buffer."""
    for entry in entries(record, "points", "warp_tiled"):
        times(entry, 1 / 0.7, *RATES)


def exchanged(record):
    """Two rungs exchanged: the tiled kernel has the coalesced one's times, and vice versa."""
    for size in (1024, 4096):
        [a] = entries(record, "points", "coalesced", size)
        [b] = entries(record, "points", "tiled_32", size)
        for name in TIMES + RATES:
            a[name], b[name] = b[name], a[name]


def hurried(record):
    """Panels from pageable memory overlap after all: they take half of their time."""
    rows = entries(record, "overlap", "vectorised")
    panels = [e for e in rows if e["memory"] == "pageable" and e["panels"] > 1]
    assert panels
    for entry in panels:
        times(entry, 1 / 2, "speedup", "speedup_q1", "speedup_q3")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "mutate"),
    [("13_loop_registers", slower), ("06_tiling", exchanged), ("24_streams", hurried)],
)
def test_a_changed_record_stops_the_page_at_the_sentence(page, mutate):
    record = json.loads((ROOT / "data" / "measurements" / "h200.json").read_text())
    mutate(record)
    with pytest.raises(FalseSentenceError, match=rf"{page}\.md:\d+"):
        reading.run(page, record)
