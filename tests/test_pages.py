"""What a page is made of: listings, glued numbers, quizzes, tables and provenance."""

from __future__ import annotations

import math
import re
import sys
from dataclasses import dataclass
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from bs4 import BeautifulSoup

from helpers import catalog, instruction_mix, resources, trace
from helpers.page import (
    Html,
    counters_table,
    format_glued,
    glue,
    loads_table,
    mix_table,
    new_lines,
    provenance,
    quiz,
    resources_table,
    say,
    show_kernel,
    table,
)
from helpers.record import counters, measure
from nogpu.errors import ConfigError, DataError, UnknownNameError

TAG = re.compile(r"</?\w+")


def parsed(shown):
    """The HTML of a piece of a page, checked for what none may hold."""
    html = shown._repr_html_()
    soup = BeautifulSoup(html, "html.parser")
    assert TAG.findall(html) == TAG.findall(str(soup)), "every tag is closed, in its turn"
    assert not soup.find(["script", "link", "iframe", "h1", "h2", "h3", "h4"])
    for name, value in (pair for tag in soup.find_all(True) for pair in tag.attrs.items()):
        assert not name.startswith("on") and "http" not in str(value)
    return soup


@pytest.mark.parametrize(
    "wrong",
    ["<b><i></b></i>", "<p>", "</p>", "<h2></h2>", "<a onclick='x'></a>", "<a href='http:'></a>"],
)
def test_a_piece_that_no_page_may_hold_is_seen(wrong):
    with pytest.raises(AssertionError):
        parsed(Html(wrong, ""))


# -- listings ------------------------------------------------------------------------------------


def code_of(shown):
    """The source as a reader copies it: without line numbers and marks."""
    code = parsed(shown).pre
    assert code
    for number in code.select(".linenos"):
        number.decompose()
    return code.get_text()


def test_a_listing_is_the_file_and_nothing_else():
    shown = show_kernel("vectorised", since="coalesced")
    assert code_of(shown) == catalog["vectorised"].source
    [pre] = parsed(shown).find_all("pre")
    assert pre["tabindex"] == "0" and "10_vectorised.cu" in pre["aria-label"]
    assert "highlight-cuda notranslate" in shown.html
    assert 'class="k"' in shown.html or 'class="kt"' in shown.html
    assert "lines marked + are new since kernels/05_coalesced.cu" in shown.html


def test_new_lines_are_marked_by_sign_tint_and_words():
    shown = show_kernel("coalesced", since="naive")
    expected = new_lines(catalog["coalesced"].source, catalog["naive"].source)
    assert len(expected) == 2
    for part in shown.html.split("<details>"):  # what is new, and the whole file
        assert part.count("new line ") == 2
        assert part.count('class="tile-new"') == 2
        assert part.count('<span aria-hidden="true">+</span>') == 2
    marked = dict(re.findall(r"(?m)^ *(\d+) \+ (.*)", shown.text))
    assert {int(number) for number in marked} == expected
    assert all("threadIdx" in line for line in marked.values())


def test_what_is_new_stands_before_the_whole_file():
    first, _, rest = show_kernel("coalesced", since="naive").html.partition("<details>")
    lines = len(catalog["coalesced"].source.splitlines())
    assert f"the whole file, {lines} lines" in rest and "as before" not in rest
    shown = [int(n) for n in re.findall(r"(?m)> *(\d+) <span aria-hidden", first)]
    new = new_lines(catalog["coalesced"].source, catalog["naive"].source)
    assert set(shown) == {n for at in new for n in range(at - 2, at + 3)}
    skipped = [int(n) for n in re.findall(r"⋯ (\d+) lines? as before", first)]
    assert sum(skipped) + len(shown) == lines
    assert "<details>" not in show_kernel("vectorised", since="naive").html  # nearly all is new
    assert "<details>" not in show_kernel("coalesced").html


def test_what_counts_as_new():
    old = "__global__ void first(int* x)\n{\n    int a = 1;  // one\n    x[0] = a;\n}\n"
    same = "// a header\n__global__ void second(int* x)\n{\n\n  int a  = 1;\n    x[0] = a;\n}\n"
    assert new_lines(same, old) == set()
    grown = old.replace("x[0] = a;", "x[0] = a;\n    x[1] = a;")
    assert new_lines(grown, old) == {5}
    bounds = old.replace("void first(", "void __launch_bounds__(f(2) * 3)\nthird(")
    assert 1 in new_lines(bounds, old)


def test_a_listing_may_be_a_slice_marked_by_hand_or_free_text():
    source = catalog["naive"].source.splitlines()
    row = next(i for i, line in enumerate(source, 1) if "const int row" in line)
    shown = show_kernel("naive", lines=("const int row", "return"), new={row})
    assert shown.text.startswith(f"{row} + ")
    assert "return" in shown.text.splitlines()[-2]
    assert f"lines {row} to" in shown.html
    text = 'extern "C" __global__ void f(const int* a, int* b) {\n    *b = *a < 3 && 1;\n}'
    free = show_kernel(text)
    assert code_of(free) == text + "\n"
    assert "CUDA source" in free.html
    assert "C++ source" in show_kernel("int f()\n{ return 1; }").html
    assert "common/mma.cuh" in show_kernel("common/mma.cuh").html


def test_lines_are_marked_by_their_text_in_place_of_the_difference():
    spans = [("sum = 0", "sum = 0"), ("for (int k", "sum +=")]
    shown = show_kernel("naive", mark=spans)
    source = catalog["naive"].source.splitlines()
    at = next(i for i, line in enumerate(source, 1) if "for (int k" in line)
    marked = {int(number) for number in re.findall(r"(?m)^ *(\d+) \+ ", shown.text)}
    declared = next(i for i, line in enumerate(source, 1) if "sum = 0" in line)
    assert marked == {declared, at, at + 1}
    since = show_kernel("coalesced", since="naive", mark=[("sum = 0", "sum = 0")])
    assert since.html.count('class="tile-new"') == 1
    assert "are new since kernels/04_naive.cu" in since.html
    with pytest.raises(DataError, match="mark="):  # it stands above what is shown
        show_kernel("naive", lines=("sum = 0", "sum +="), mark=[("__global__", "__global__")])


def test_a_folded_listing_is_closed_and_says_its_file():
    shown = show_kernel("tiled_32", folded=True)
    outer, summary = parsed(shown).find_all(True)[:2]
    assert (outer.name, summary.name) == ("details", "summary") and "open" not in outer.attrs
    assert "kernels/06_tiled.cu" in summary.get_text() and "lines" in summary.get_text()
    assert code_of(shown) == catalog["tiled_32"].source


def test_a_listing_reads_without_pygments(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments", None)
    shown = show_kernel("naive")
    assert code_of(shown) == catalog["naive"].source


# -- glued numbers -------------------------------------------------------------------------------

VALUES = [
    0, 7, -12, 4096, 12345678, True, 1.5, -0.0, 22.66, 1e-9, 3e20, math.pi,
    "H200", "it's", "a\nb", "4096", "", "None", "naïve",
]  # fmt: skip
SPECS = [
    "", "s", ".1f", ".0f", ",.2f", "+.1f", ".3g", "e", "%", ".1%", "d", ",d", ",", "x", "5.1f", "n",
]  # fmt: skip


def outcome(format_, *given):
    """What a call returns, or the kind of what it raises."""
    try:
        return format_(*given)
    except Exception as error:
        return type(error)


def test_a_number_reads_the_same_in_the_notebook_as_in_the_book():
    """The role splits name and format at the colon, and takes "s" where there is none."""
    book = pytest.importorskip("myst_nb.core.variables").format_plain_text
    for value, spec in product(VALUES, SPECS):
        want = outcome(book, repr(value), spec or "s")
        assert outcome(format_glued, value, spec) == want, (value, spec)
    kinds = {type(outcome(format_glued, value, spec)) for value, spec in product(VALUES, SPECS)}
    assert kinds == {str, type}  # some combinations raise


def test_say_fills_in_what_was_glued():
    glue("ms_naive", np.float64(276.123))
    glue("edge", np.int64(4096))
    glue("gpu", "NVIDIA H200")
    sentence = say("At {edge:,} on {gpu}: {ms_naive:.1f} ms, ${{x}}_{{i}}$, **{edge}**.")
    assert sentence._repr_markdown_() == "At 4,096 on NVIDIA H200: 276.1 ms, ${x}_{i}$, **4096**."
    assert repr(sentence) == sentence.markdown
    assert say('\nA "paragraph".\n').markdown == 'A "paragraph".'
    glue("edge", 1)
    assert say("{edge}").markdown == "1"


def test_glue_gives_the_book_what_it_can_read_back(monkeypatch):
    """Message for message what MyST-NB's own glue sends, so that its text roles find it."""
    own = pytest.importorskip("myst_nb.ext.glue")
    import IPython.display

    from helpers.page import gluing

    sent: list[tuple[Any, ...]] = []

    def display(data, *, raw, metadata):
        sent.append((data, raw, metadata))

    monkeypatch.setattr(gluing, "_in_ipython", lambda: True)
    monkeypatch.setattr(IPython.display, "display", display)
    monkeypatch.setattr(own, "ipy_display", display)
    for value, kept in ((np.float32(2.5), 2.5), ("it's", "it's"), (np.int64(7), 7), (True, True)):
        glue("speed", value)
        monkeypatch.setattr(gluing, "_in_ipython", lambda: False)
        own.glue("speed", kept, display=False)
        monkeypatch.setattr(gluing, "_in_ipython", lambda: True)
        ours, theirs = sent[-2:]
        assert ours == theirs
    glue(pair={"a": {"b": 1}, "c": 2})
    assert [m["scrapbook"]["name"] for _, _, m in sent[-2:]] == ["pair.a.b", "pair.c"]


def test_many_are_glued_at_once_and_objects_by_their_leaves():
    m = measure(["tiled_32", "block_1d"], sizes=[512, (4096, 4096, 4096)], gpu="h200")
    t = trace("tiled_32", M=64, N=64, K=64)
    r = resources("tiled_32", arch="sm_90")
    glue(gain=1.5, pair=m, seen=t, held=r, at={("x", 512): np.float64(2.5), "mix": {"LDS.128": 3}})
    row = "{pair.block_1d.4096.gflops:.3f} {pair.block_1d.512.ms:.4f} {pair.tiled_32.4096.gpu}"
    assert say(row).markdown == (
        f"{m.value('block_1d', 4096, 'gflops'):.3f} {m.value('block_1d', 512):.4f} NVIDIA H200"
    )
    derived = say("{pair.block_1d.4096.tflops:.4f} {pair.block_1d.4096.percent:.3f}").markdown
    rate, ratio = (m.value("block_1d", 4096, c) for c in ("gflops", "cublas_ratio"))
    assert derived == f"{rate / 1e3:.4f} {100 * ratio:.3f}"
    counts = "{seen.shared.load.requests} {seen.B_tile.load.wavefronts_per_request:.1f}"
    loads = [row for row in t.by_line() if (row.array, row.op) == ("B_tile", "load")]
    expected = f"{t.requests('shared')} {loads[0].wavefronts_per_request:.1f}"
    assert say(counts).markdown == expected
    expected = f"{r.registers} {r.occupancy.fraction:.2f}"
    assert say("{held.registers} {held.occupancy.fraction:.2f}").markdown == expected
    assert say("{gain} {at.x.512} {at.mix.LDS.128:d}").markdown == "1.5 2.5 3"


def test_what_is_not_known_has_no_leaf():
    glue(at={"there": 1.0, "none": None, "gap": math.nan})
    for name in ("none", "gap"):
        with pytest.raises(UnknownNameError, match=f"at.{name}"):
            say(f"{{at.{name}}}")
    with pytest.raises(UnknownNameError, match="gflop"):
        glue(pair=measure(["block_1d"], sizes=4096, gpu="h200"))
        say("{pair.block_1d.4096.gflop}")


# -- quiz ----------------------------------------------------------------------------------------

OPTIONS = {"Yes: `a < b`": "Because *c* > d.", "No & never": "It depends on `x[i]`."}
OPTIONS["2 * 3 * 4"] = "That is 24."


def test_a_quiz_is_folded_options_whose_verdicts_nobody_sees_before_a_choice():
    q = quiz("Is `A[i]` coalesced?", OPTIONS, answer="No & never")
    soup = parsed(q)
    assert [d.attrs for d in soup.find_all("details")] == [soup.details.attrs] * 3
    assert "open" not in soup.details.attrs
    text, summaries = soup.get_text(), [s.get_text() for s in soup.find_all("summary")]
    assert text.count("Right.") == 1 and text.count("Not quite.") == 2
    assert not any("Right" in s or "✓" in s for s in (*summaries, repr(q)))
    assert "<code>A[i]</code>" in q.html and "2 * 3 * 4" in text and "a) Yes" in repr(q)
    [named], [group] = soup.select("[id]"), soup.select("[role=group]")
    assert named["id"] == group["aria-labelledby"]
    several = quiz("Which?", OPTIONS, answer=("No & never", "2 * 3 * 4"))
    assert several.html.count("Right.") == 2


# -- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row as a dataclass."""

    kernel: str
    ms: float | None


def test_a_word_among_numbers_puts_its_column_to_the_left():
    rows: list[dict[str, Any]] = [{"kernel": "naive", "ms": 2.5}, {"kernel": "ours", "ms": None}]
    right = table(rows, caption="Times.").html
    assert right.count("text-align:right") == 3, "the header, a number and a gap"
    left = table([*rows, {"kernel": "theirs", "ms": "not run"}], caption="Times.").html
    assert "text-align:right" not in left


def test_a_table_has_a_caption_headers_and_aligned_numbers():
    t = table(
        [{"kernel": "naive", "ms": 276.1234, "n": 4096}, {"kernel": "a<b", "ms": None, "n": 12345}],
        caption="Times of `kernels`.",
        headers={"ms": "time (ms)"},
        formats={"ms": ".1f"},
        note="Recorded.",
    )
    soup = parsed(t)
    assert [head["scope"] for head in soup.find_all("th")] == ["col"] * 3 + ["row"] * 2
    [region] = soup.select("[role=group]")
    assert region["tabindex"] == "0" and region["aria-label"] == "Times of kernels."
    assert "overflow-x:auto" in region["style"]
    for words in ("276.1", "time (ms)", "12,345", "4096", "no value"):
        assert words in [cell.get_text() for cell in soup.select("th, td, td span")]
    assert "a&lt;b" in t.html
    assert t.html.count("text-align:right") == 6
    lines = repr(t).splitlines()
    assert lines[0] == "Times of `kernels`."
    assert lines[2].split() == ["naive", "276.1", "4096"]
    assert lines[-1] == "Recorded."


def test_tables_of_frames_dataclasses_and_chosen_columns():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"kernel": ["a", "b"], "ms": [1.5, math.nan], "n": [1, 2]})
    t = table(frame, caption="c", columns=["n", "kernel"])
    assert "ms" not in t.text
    assert t.text.splitlines()[1].split() == ["n", "kernel"]
    assert "–" in table(frame, caption="c").text
    assert "1.5" in table([Row("a", 1.5), Row("b", None)], caption="c").text
    words = table(frame, caption="c", formats={"n": lambda n: f"<{n}>"})
    assert "&lt;1&gt;" in words.html


def test_a_turned_table_has_a_column_for_each_thing():
    rows = [{"kernel": "a", "ms": 1.25, "n": 4096}, {"kernel": "b", "ms": None, "n": 8}]
    t = table(rows, caption="c", headers={"ms": "time (ms)"}, formats={"ms": ".1f"}, turned=True)
    lines = [line.split("  ") for line in t.text.splitlines()[1:]]
    cells = [[word.strip() for word in line if word.strip()] for line in lines]
    assert cells == [["kernel", "a", "b"], ["time (ms)", "1.2", "–"], ["n", "4096", "8"]]
    assert t.html.count("text-align:right") == 6, "numbers stand to the right"
    assert t.html.count('scope="row"') == 2
    with pytest.raises(DataError, match="two columns"):
        table([*rows, rows[0]], caption="c", turned=True)


def test_code_in_a_cell_stays_code():
    t = table([{"ms_a_call": 1, "cp_async": 2}], caption="c")
    assert ">ms a call<" in t.html and ">cp_<wbr>async<" in t.html
    assert "cp_async" in str(t)
    t = table([{"source": "*p += a[i] * b[i] * c;"}], caption="c")
    assert "*p += a[i] * b[i] * c;" in t.html


REFUSED: list[tuple[Any, Any, str]] = [
    (lambda: show_kernel("nave"), UnknownNameError, "naive"),
    (lambda: show_kernel("no_such_file.cu"), UnknownNameError, "no_such_file"),
    (lambda: show_kernel("../pyproject.cu"), UnknownNameError, "pyproject"),
    (lambda: show_kernel("naive", since="nope"), UnknownNameError, "nope"),
    (lambda: show_kernel("naive", lines=(0, 5)), DataError, "0, 5"),
    (lambda: show_kernel("naive", lines=(5, 4)), DataError, "5, 4"),
    (lambda: show_kernel("naive", lines=(1, 10_000)), DataError, "10000"),
    (lambda: show_kernel("naive", lines=("never written", "return")), DataError, "never written"),
    (lambda: show_kernel("naive", new={10_000}), DataError, "10000"),
    *((lambda bad=bad: glue(bad, 1), ConfigError, "") for bad in
      ("a.", ".b", "a..b", "a b", "1a", "a:b", "")),
    *((lambda bad=bad: glue("bad", bad), ConfigError, "number or words") for bad in
      (None, [1], np.zeros(3), 1j)),
    (lambda: glue("x"), ConfigError, "a name and its value"),
    (lambda: glue(), ConfigError, "a name and its value"),
    (lambda: glue(x={"a b": 1}), ConfigError, "cannot be part of a glued name"),
    (lambda: glue(x={"a": [1]}), ConfigError, "holds a list"),
    (lambda: glue(x={}), ConfigError, "number or words"),
    (lambda: glue(x={f"a{i}": i for i in range(1001)}), ConfigError, "1000 are the most"),
    (lambda: (glue("gain_of_2", 2.0), say("{gain_of_3:.1f}")), UnknownNameError, "gain_of_2"),
    (lambda: (glue("name", "words"), say("{name:.1f}")), ConfigError, "does not fit"),
    (lambda: (glue("two", 2.0), say("{two!r}")), ConfigError, "format after a colon"),
    (lambda: quiz("?", OPTIONS, answer="Maybe"), ConfigError, "Maybe"),
    (lambda: quiz("?", {"only": "one"}, answer="only"), ConfigError, ""),
    (lambda: quiz("?", OPTIONS, answer=()), ConfigError, ""),
    (lambda: quiz("?", OPTIONS, answer=("Yes", "No & never")), ConfigError, "Yes"),
    (lambda: table([], caption="none"), DataError, ""),
    (lambda: table([{"a": 1}], caption="c", columns=["b"]), DataError, "b"),
    (lambda: table([{"a": 1}], caption="c", headers={"b": "B"}), DataError, "b"),
    (lambda: table([{"a": 1}], caption="c", headers={"a": " "}), DataError, "a"),
    (lambda: table([{"a": 1}], caption="c", formats={"b": ".1f"}), DataError, "b"),
    (lambda: table([3], caption="c"), DataError, ""),
]  # fmt: skip
"""What a page may not ask for: the call, the kind of error, and words of what was given or what to
do."""


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_what_cannot_be_shown_is_refused(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


# -- provenance ----------------------------------------------------------------------------------


def test_provenance_says_live_or_replayed():
    words = "recorded on NVIDIA H200, 2026-11-20"
    old: Any = SimpleNamespace(live=False, label=words, missing=("naive at 8192",))
    new: Any = SimpleNamespace(live=True, label="measured now on Tesla T4, 2026-11-21", missing=())
    text = provenance(old, new, old).text
    assert text == (
        "Replayed from a record, not measured here: recorded on NVIDIA H200, 2026-11-20. "
        "Not in the record: naive at 8192. "
        "Measured here, now: measured now on Tesla T4, 2026-11-21."
    )
    assert "<summary>Replayed from a record, not measured here</summary>" in provenance(old).html
    with pytest.raises(DataError):
        provenance()


# -- in a browser --------------------------------------------------------------------------------


def test_pieces_work_by_keyboard_and_fit_a_phone(browser):
    page = browser.new_page(viewport={"width": 360, "height": 800})
    wide = table(
        [{f"a long column {i}": 1234567 + i for i in range(12)}], caption="a wide table " * 12
    )
    listing = show_kernel("tiled_32", since="naive")
    pieces = [quiz("Which?", OPTIONS, answer="No & never"), wide, listing]
    page.set_content(
        "<!doctype html><meta name=viewport content='width=device-width'>"
        + "".join(piece._repr_html_() for piece in pieces)
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    ends = """() => { const box = document.querySelector('.tile-table [role=group]');
                      const at = scroll => { box.scrollLeft = scroll;
                        const b = box.querySelector('caption span').getBoundingClientRect();
                        return [b.left, b.right]; };
                      return [at(0), at(200)]; }"""
    for left, right in page.evaluate(ends):  # the caption stays in sight while the table scrolls
        assert 0 <= left < right <= 360
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.locator("details[open]").count() == 1
    assert "Right." in page.locator("details[open] p").inner_text()
    hidden = page.evaluate(
        """() => { const s = document.querySelector('.linenos span:not([aria-hidden])');
                   const b = s.getBoundingClientRect(); return b.width <= 1 && b.height <= 1; }"""
    )
    assert hidden
    page.close()


def test_a_table_says_whose_its_numbers_are():
    m = measure(["naive"], sizes=1024, gpu="h200")
    rows = [{"kernel": "naive", "ms": m.value("naive", 1024)}]
    line = f"Replayed from a record, not measured here: {m.label}."
    assert table(rows, caption="Times.", of=m).text.splitlines()[-1] == line
    assert table(rows, caption="Times.", of=[m, m], note="One.").text.endswith(f"One. {line}")
    assert "Replayed" not in table(rows, caption="Times.").text


# -- ready tables --------------------------------------------------------------------------------


def cells_of(shown):
    """The cells of a table, header first, as text."""
    rows = parsed(shown).find_all("tr")
    return [[c.get_text() for c in row.find_all(["th", "td"])] for row in rows]


def test_loads_by_line_are_those_of_the_trace():
    t = {name: trace(name, M=64, N=64, K=32) for name in ("tiled_32", "coalesced")}
    head, *rows = cells_of(loads_table(t))
    assert head == ["source", "kernel", "array", "requests", "sectors each", "wavefronts each"]
    expected = [(name, r) for name, one in t.items() for r in one.by_line() if r.op == "load"]
    assert [row[1:4] for row in rows] == [
        [name, r.array, f"{r.requests:,d}"] for name, r in expected
    ]
    for row, (_, r) in zip(rows, expected, strict=True):
        each = r.sectors_per_request if r.space == "global" else r.wavefronts_per_request
        assert row[4 if r.space == "global" else 5] == f"{each:.2f}"
        assert row[5 if r.space == "global" else 4] == "–no value"
    both = loads_table(t["tiled_32"], op="")
    costs = ["sectors each", "wavefronts each"]
    assert cells_of(both)[0] == ["source", "access", "array", "requests", *costs]
    assert "64 × 64 × 32" in both.text and "tiled_32" in both.text and "emulator" in both.text
    with pytest.raises(DataError, match="coalesced: no loads to show"):
        loads_table({"coalesced": SimpleNamespace(by_line=list)})
    with pytest.raises(ConfigError, match="op='read'"):
        loads_table(t["coalesced"], op="read")


def test_the_mix_is_shares_of_the_whole_loop():
    names = ["tiled_32", "hopper_1"]  # the second one needs sm_90a
    head, *rows = cells_of(mix_table(names, arch="sm_90"))
    assert head == ["instruction", *names] and rows[-1][0].endswith(" others")
    mixes = [instruction_mix("tiled_32", arch="sm_90"), instruction_mix("hopper_1", arch="sm_90a")]
    for at, mix in enumerate(mixes, 1):
        total = sum(mix.values())
        for row in rows[:-1]:
            assert row[at] == f"{100 * mix.get(row[0], 0) / total:.1f}"
        assert abs(sum(float(row[at]) for row in rows) - 100) < 0.3
    made = mix_table({"mine": {"FFMA": 3, "LDS": 1}})
    assert cells_of(made)[1:] == [["FFMA", "75.0"], ["LDS", "25.0"]]
    with pytest.raises(DataError, match="no kernels"):
        mix_table([])


def test_resources_are_the_compilers():
    head, *rows = cells_of(resources_table(["tiled_32", "cp_async"], archs=["sm_75", "sm_90"]))
    assert head[:4] == ["kernel", "arch", "threads", "registers"] and head[-1] == "limited by"
    assert [row[:2] for row in rows] == [
        ["tiled_32", "sm_75"],  # cp.async is not there yet
        ["tiled_32", "sm_90"],
        ["cp_async", "sm_90"],
    ]
    for row in rows:
        r = resources(row[0], arch=row[1])
        spills = r.spill_stores + r.spill_loads
        kilobytes = f"{r.shared_bytes / 1024:.1f}"
        assert row[2:6] == [str(r.threads), str(r.registers), str(spills), kilobytes]
        assert row[6:8] == [str(r.occupancy.blocks), f"{100 * r.occupancy.fraction:.0f}"]
    named = resources_table(
        {"whole": ("block_1d", {}), "half": ("block_1d", {"BK": 4, "TM": 16})}, archs=["sm_90"]
    )
    assert cells_of(named)[0][:2] == ["kernel", "threads"] and "for sm_90" in named.text
    assert [row[0] for row in cells_of(named)[1:]] == ["whole", "half"]
    with pytest.raises(DataError, match="cp_async runs on sm_75"):
        resources_table(["cp_async"], archs=["sm_75"])


def test_counters_are_those_of_the_record():
    shown = counters_table(["coalesced", "tiled_32"], 1024)
    sides = {row[0]: row[1:] for row in cells_of(shown)}
    plain, tiled = counters(["coalesced", "tiled_32"], 1024)
    assert sides["L1 hits (%)"] == [f"{c['l1_hit_percent']:.1f}" for c in (plain, tiled)]
    past = [
        c["global_load_sectors"] * (1 - c["l1_hit_percent"] / 100) / 1e6 for c in (plain, tiled)
    ]
    assert sides["sectors past L1 (millions)"] == [f"{p:.1f}" for p in past]
    counted = f"{tiled['multiply_adds_per_wavefront']:.2f}"
    assert sides["multiply-adds a wavefront"] == ["–no value", counted]
    assert "N = 1024" in shown.text and "recorded on NVIDIA H200" in shown.text
    shared = cells_of(counters_table(["mma_pipelined", "tiled_32"], about="shared"))
    assert shared[0][0] == "kernel" and shared[1][-1] == "–no value" != shared[2][-1]
    with pytest.raises(ConfigError, match="about='dram'"):
        counters_table(["naive"], about="dram")
    with pytest.raises(DataError, match="no counters of naive"):
        counters_table(["naive"], 7)
