"""How chapters are measured as essays; each measure on a page that keeps its limit and one that
does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.ladder.rungs import catalog, cores
from helpers.page.exercises.registry import find
from tests.common import page
from tools import essays
from tools.essays import Essay, essay, faults, hidden_share, prose, unexcused, words

FRONT = "---\nkernelspec:\n  name: python3\n---\n\n"
PAGE = FRONT + page("essays")


def test_words_are_those_in_sight():
    # One two · Time about 3 minutes · Three four words and 1 says · a b c d · Five six · Summary
    # The end
    count = words(prose(PAGE))
    assert count == 2 + 4 + 6 + 4 + 2 + 3
    assert words(prose(PAGE.replace("The end.", "The end is long."))) == count + 2
    for closed in ("Closed", "Words of", "eight", "hidden = 1", "fenced", "name: python3"):
        assert words(prose(PAGE.replace(closed, f"{closed} and more"))) == count, closed


def test_the_hidden_share_is_of_characters():
    hidden = "```{code-cell} ipython3\n:tags: [remove-input]\n" + "y" * 9 + "\n```\n"
    text = FRONT + "x" * 50 + "\n\n" + hidden
    body = text.removeprefix(FRONT)
    assert hidden_share(text) == pytest.approx(100 * 10 / len(body), rel=0.02)
    assert hidden_share(text.replace("remove-input", "hide-output")) == 0
    assert hidden_share(text.replace("remove-input", "hide-output, hide-input")) > 0
    assert hidden_share(FRONT + ":::{quiz} Why?\n- [ ] a\n  b\n- [x] c\n  d\n:::\n") == 0


def test_a_page_is_measured():
    made = essay("04_first_kernel", PAGE)
    core = len(cores["block_1d_core"].source.splitlines())
    assert made.listing == 4 + core  # the slice and the core stand open, the whole file does not
    assert made.code == 2 + 1
    assert made.figures == 1 + 1 + 1  # a chart, a Markdown table, what %%cuda shows
    assert made.exercises == (find("04.1").kind,) and made.stated == 3
    minutes = made.words / 130 + (7 * (4 + core) + 5 * 3) / 60 + 1.5 * 3
    assert made.minutes == pytest.approx(minutes + essays.EXERCISE_MINUTES[made.exercises[0]])
    assert made.widest <= 84
    wide = essay("x", PAGE.replace("fenced = 1", "fenced = " + "1" * 90))
    assert wide.widest == 99 and wide.widest_line.startswith("fenced")
    assert essay("x", PAGE.replace("04.1", "99.1")).exercises == ("?",)


def test_a_page_whose_listing_is_not_there_is_told():
    wrong = PAGE.replace(":lines: sum = 0 ..", ":lines: never written ..")
    made, broken = essays.measured({"04_first_kernel": PAGE, "05_coalescing": wrong})
    assert [one.page for one in made] == ["04_first_kernel"]
    assert broken[0].startswith("05_coalescing: lines=('never written'")


def test_stated_minutes_are_mended_where_they_are_far_off():
    made = essay("04_first_kernel", PAGE)
    assert made.off > 15
    mended = essays.with_minutes(PAGE, made)
    assert mended != PAGE and mended.count("Time: about") == 1
    after = essay("04_first_kernel", mended)
    assert abs(after.stated - made.minutes) <= 2.5
    near = PAGE.replace("about 3 minutes", f"about {round(made.minutes)} minutes")
    assert essays.with_minutes(near, essay("04_first_kernel", near)) == near


GOOD = Essay(
    "12_good", 1300, 15.0, 10.0, 1.0, 20, 30, 7, ("number", "kernel"), 45, 10.0, "x" * 80, True
)


def test_a_page_within_the_limits_has_no_fault():
    assert GOOD.off < 15
    assert faults([GOOD], {"coalesced": 20.0}) == []


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"words": 1900}, "words of prose 1900.0; at most 1800"),
        ({"short": 21.0}, "sentences of eight words or fewer, %, 21.0; at most 20"),
        ({"numbers": 1.6}, "numbers in a hundred words 1.6; at most 1.5"),
        ({"stated": 30}, "the minutes that it states are off"),
        ({"stated": 60}, "the minutes that it states are off"),
        ({"exercises": ("kernel",) * 3, "stated": 68}, "minutes by count"),
        ({"hidden": 12.4}, "hidden code, % of its characters, 12.4; at most 12"),
        ({"widest_line": "y" * 85}, "columns of its longest line of code 85.0; at most 84: 'yyy"),
        ({"exercises": ("number", "kernel", "?")}, "registered in no chapter"),
    ],
)
def test_a_page_above_a_limit_is_told(change, complaint):
    found = faults([replace(GOOD, **change)], {})
    assert any(complaint in fault for fault in found), found
    assert all(fault.startswith("12_good: ") for fault in found)


def test_sentences_are_those_of_paragraphs_and_lists():
    text = (
        "# A title of words\n\nOne two three. Four `code` five, at {glue:text}`x:.1f` ms and"
        " 4096!\n\n- An item of {doc}`chapter 6 <06_tiling>`.\n- Another, of $N = 3$ rows.\n\n| a |"
        " b |\n|---|---|\n"
    )
    assert essays.sentences(text) == [
        "One two three.", "Four x five, at 1 ms and 4096!", "An item of chapter x.",
        "Another, of x rows.",
    ]  # fmt: skip
    made = essay("x", FRONT + text)
    assert made.mean == (3 + 8 + 5 + 4) / 4 and made.short == 100 and made.numbers == 10


def test_the_hours_are_those_of_the_main_line():
    aside = essay("x", FRONT + f"{essays.OFF}\nWords.\n:::\n")
    assert not aside.is_main and essay("x", FRONT + "Words.\n").is_main
    assert essays.main_hours([GOOD, GOOD, aside]) == pytest.approx(2 * GOOD.minutes / 60)
    longer = replace(GOOD, words=1450)
    assert faults([GOOD] * 12 + [longer], {}) == [] and essays.main_hours([longer] * 13) > 9.6
    assert faults([GOOD] * 14, {}) == ["the main line takes 10.11 hours; at most 10"]
    sentence = "The main line takes about ten hours."
    assert essays.promised(sentence, [GOOD] * 14) == []
    [fault] = essays.promised(sentence.replace("ten", "eight"), [GOOD] * 14)
    assert "takes 10.1 hours, not about 8" in fault
    assert "says nowhere" in essays.promised("", [GOOD])[0]


def test_a_step_with_many_new_lines_needs_a_reason():
    (fault,) = faults([], {"coalesced": 26.0})
    assert "26.0 % of its lines are new since naive; at most 25" in fault
    half = essays.Excuse("05_coalescing", "Half of its lines are new.", 45, 55)
    excused = {"coalesced": half}
    assert faults([], {"coalesced": 52.0}, excused) == []
    for untrue in (26.0, 44.0, 56.0, 100.0):
        (fault,) = faults([], {"coalesced": untrue}, excused)
        assert "'Half of its lines are new.', which allows 45 to 55" in fault
    assert unexcused(excused, {"05_coalescing": "Yes: Half of its lines are new."}) == []
    assert unexcused(excused, {"05_coalescing": "Half of them are new."}) != []
    assert unexcused(excused, {"06_tiling": "Half of its lines are new."}) != []
    assert unexcused({"coalesced": half._replace(sentence="new")}, {"05_coalescing": "new"}) != []


def test_every_kernel_is_a_step_from_a_chapter_before_or_stands_beside_the_steps():
    assert set(essays.BEFORE) | essays.BESIDE == set(catalog)
    assert not set(essays.BEFORE) & essays.BESIDE and set(essays.EXCUSED) <= set(essays.BEFORE)
    for name, old in essays.BEFORE.items():
        assert catalog[old].chapter <= catalog[name].chapter, name


def test_a_chapter_off_the_main_line_may_be_long_and_states_its_minutes_all_the_same():
    aside = replace(GOOD, is_main=False, words=3000, stated=56)
    assert faults([aside], {}) == []
    [fault] = faults([replace(aside, stated=30)], {})
    assert "minutes that it states" in fault


def test_new_lines_are_a_share_of_the_code():
    old = "__global__ void a(int* x)\n{\n    int i = 1;\n    x[0] = i;\n}\n"
    new = old.replace("x[0] = i;", "// why\n\n    x[0] = i;\n    x[1] = i;")
    assert essays.share_new(new, old) == 25 and essays.share_new(old, old) == 0


def test_the_gate_is_as_the_book_is_today():
    assert essays.main(["--check"]) == 0
