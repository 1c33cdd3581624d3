"""A student's feedback: a page that stands by itself and that everybody can read, and the same as
text.
"""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from test_policy import BANKS, RIGHT, TWO

from tilelabs.grading.feedback import MOST_FEEDBACK, Given, Told, page, text
from tilelabs.judging.marking import Marked, Run
from tilelabs.labs.checking import judged

VILE = '</td><script>alert(1)</script>\x1b[2J\u202eevil & "quoted" <img src=x onerror=y> http://x'


def told(marked: Marked = BANKS, **more: Any) -> Told:
    found = judged(TWO, TWO.variants[0], marked)
    points: dict[str, float | None] = {
        p.rubric.id: None if p.rubric.by_hand else p.points for p in found.parts
    }
    facts = {"name": "Ada", "checked": found, "points": points, "given": {}, "notes": ()}
    return Told(TWO, "s1", **(facts | {"closing": ("Total: 75 of 100 points",)} | more))


class Seen(HTMLParser):
    def __init__(self, made: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(made)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data


def told_by_everybody(marked: Marked = BANKS) -> Told:
    return told(
        marked, name=VILE, notes=(VILE, "look: for the teacher"), given={"written": Given(7.5, VILE)}
    )  # fmt: skip


def test_whatever_a_student_writes_stays_words() -> None:
    vile = told_by_everybody(Marked(VILE, "compile", VILE))
    made, plain = page(vile), text(vile)
    seen = Seen(made)
    names = {tag for tag, _ in seen.tags}
    assert not names & {"script", "img", "link", "iframe", "object", "form", "a"}
    assert not any(a.startswith("on") or a in ("src", "href") for _, at in seen.tags for a in at)
    assert made.count("<style>") == 1 and "url(" not in made and "@import" not in made
    for words in (made, plain):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", words)
        assert len(words.encode()) <= MOST_FEEDBACK and "for the teacher" not in words
    assert "<script>" in seen.words and "<script>" in Seen("<p>&lt;script></p>").words
    assert "script" in {t for t, _ in Seen("<script>x</script>").tags}  # control: it would be seen


def test_page_and_text_tell_the_same() -> None:
    facts = told(given={"wavefronts": Given(7.5, "explained the banks")}, notes=("2 files",))
    seen, plain = Seen(page(facts)), text(facts)
    for part in facts.checked.parts if facts.checked else ():
        assert part.words in seen.words and part.words in plain and part.rubric.id in plain
    for words in (
        "explained the banks",
        "2 files",
        "Total: 75 of 100 points",
        "Lab version 1, attempt 1",
    ):
        assert words in seen.words and words in plain
    nobody = told(checked=None)
    assert "no submission" in text(nobody) and "No submission" in page(nobody)


def test_the_page_has_headings_header_cells_and_a_word_for_each_colour() -> None:
    tags = Seen(page(told_by_everybody())).tags
    assert ("html", {"lang": "en"}) in tags and [t for t, _ in tags].count("h1") == 1
    heads = [at for tag, at in tags if tag == "th"]
    assert {at.get("scope") for at in heads} == {"col", "row"} and len(heads) == 3 + len(TWO.parts)
    made = page(told(BANKS))
    assert 'class="all">all points' in made and 'class="lacks">no points' in made
    assert "not marked yet" in made


def test_long_words_are_cut_until_the_page_is_small() -> None:
    runs = tuple(replace(RIGHT.runs[0], findings=(("race", 1, "&" * 5000),)) for _ in range(3))
    long = told(replace(RIGHT, runs=runs), notes=tuple("&" * 5000 for _ in range(2000)))
    assert len(page(long).encode()) <= MOST_FEEDBACK and len(text(long).encode()) <= MOST_FEEDBACK
    assert page(long).endswith("</html>\n") and isinstance(runs[0], Run)
    many = told(given={p.id: Given(1, "ä" * 10_000) for p in TWO.parts}, notes=("\ud800",) * 30)
    assert len(page(many).encode()) <= MOST_FEEDBACK and "Total" in page(many)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(browser: Any, scheme: str) -> None:
    asked: list[str] = []
    context = browser.new_context(color_scheme=scheme, viewport={"width": 360, "height": 740})
    context.route("**/*", lambda route: (asked.append(route.request.url), route.abort()))
    try:
        for facts in (told_by_everybody(), told(RIGHT), told(checked=None)):
            shown = context.new_page()
            shown.set_content(page(facts), wait_until="load")
            found = Axe().run(shown, options={"preload": False}).response
            assert [
                (v["id"], [n["target"] for n in v["nodes"]][:3]) for v in found["violations"]
            ] == []
            assert "color-contrast" in {p["id"] for p in found["passes"]}
            assert shown.evaluate("document.documentElement.scrollWidth") <= 360
        bad = (
            page(told(RIGHT))
            .replace('lang="en"', "")
            .replace("#00684b", "#eee")
            .replace("#5fd6ae", "#333")
        )
        shown = context.new_page()
        shown.set_content(bad, wait_until="load")
        ids = {v["id"] for v in Axe().run(shown, options={"preload": False}).response["violations"]}
        assert {"html-has-lang", "color-contrast"} <= ids  # control
        assert asked == []
    finally:
        context.close()
