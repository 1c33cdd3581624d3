"""Quizzes and listings of a page as its author writes them, and as the book's build shows them."""

from __future__ import annotations

import os
import re
import sys

import pytest
from bs4 import BeautifulSoup

from helpers.ladder.rungs import catalog, cores
from helpers.page import quiz, show_kernel
from helpers.page.directives import DirectiveTextError, read_kernel, read_quiz
from helpers.record import measure
from tests.common import ROOT, completed, page
from tools.reading import as_read

BODY = ["- [ ] One.", "  No, it is", "  more.", "", "- [x] Thirty-two.", "  Yes."]


def test_a_quiz_is_read():
    made = read_quiz(" Why? ", BODY)
    assert made.question == "Why?"
    assert made.options == {"One.": "No, it is more.", "Thirty-two.": "Yes."}
    assert made.answer == ("Thirty-two.",)
    several = read_quiz("Which?", [*BODY, "- [X] Also.", "  Yes."])
    assert several.answer == ("Thirty-two.", "Also.")


def test_a_listing_is_read():
    body = [":since: tiled_32", ":folded:", "", ":lines: int a .. a[0], ...", ":mark: x; ; y .. z"]
    made = read_kernel("block_1d", [*body, ":mark: 3 .. 4"])
    assert made.kernel == "block_1d"
    options = {"since": "tiled_32", "folded": True, "lines": ("int a", "a[0], ...")}
    assert made.keywords == {**options, "mark": (("x;", "x;"), ("y", "z"), (3, 4))}
    called = eval(made.call, {"show_kernel": lambda *a, **k: (a, k)})
    assert called == (("block_1d",), dict(made.keywords))


@pytest.mark.parametrize(
    ("read", "head", "body", "line", "complaint"),
    [
        (read_quiz, "", BODY, -1, "without a question"),
        (read_quiz, "Why?", BODY[:3], -1, "has 1 options"),
        (read_quiz, "Why?", [*BODY[:4], "- [ ] Two.", "  No."], -1, "no option"),
        (read_quiz, "Why?", ["- [x] One.", "  Yes.", *BODY[4:]], -1, "every option"),
        (read_quiz, "Why?", [*BODY, "And more."], 6, "'And more.' is no option"),
        (read_quiz, "Why?", ["  A reason first.", *BODY], 0, "is no option"),
        (read_quiz, "Why?", [*BODY, "- Two.", "  No."], 6, "is no option"),
        (read_quiz, "Why?", [*BODY, "- [ ] One.", "  No."], 6, "stands twice"),
        (read_quiz, "Why?", [*BODY, "- [ ] Two."], 6, "has no reason"),
        (read_kernel, "", [], -1, "give one kernel"),
        (read_kernel, "block_1d block_2d", [], -1, "give one kernel"),
        (read_kernel, "block_1d", ["words"], 0, "'words' is no option"),
        (read_kernel, "block_1d", [":folded:", ":line: a .. b"], 1, "Did you mean 'lines'"),
        (read_kernel, "block_1d", [":folded: yes"], 0, "takes no value"),
        (read_kernel, "block_1d", [":since:"], 0, "needs a value"),
        (read_kernel, "block_1d", [":since: a", ":since: b"], 1, "twice"),
        (read_kernel, "block_1d", [":lines: a"], 0, "the first and the last line"),
    ],
)
def test_a_wrong_quiz_or_listing_is_refused(read, head, body, line, complaint):
    with pytest.raises(DirectiveTextError, match=re.escape(complaint)) as caught:
        read(head, body)
    assert caught.value.line == line


def test_a_page_is_read_with_its_quizzes_and_listings():
    read = as_read("quiz", "Why?", "\n".join(BODY))
    assert read.splitlines()[0] == "Why?" and "  wrong: No, it is more." in read
    assert as_read("kernel", "naive", "") == show_kernel("naive").text


# --- in the built book ---------------------------------------------------------------------------

FRONT = (
    "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n"
    "kernelspec:\n  display_name: Python 3\n  language: python\n  name: python3\n---\n\n"
)
PAGE = page("directives")
CONF = """\
import sys
sys.path.insert(0, {extensions!r})
extensions = ["myst_nb", "book_directives", "book_code"]
html_theme = "basic"
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
"""


def build(folder, text):
    """The page as HTML that Sphinx makes of this text, and all that it complains of."""
    (folder / "index.md").write_text(FRONT + text)
    (folder / "conf.py").write_text(CONF.format(extensions=str(ROOT / "book" / "_ext")))
    profile = folder / "profile_default"
    profile.mkdir(exist_ok=True)
    quiet = '{"IPKernelApp": {"log_level": 40}}'
    (profile / "ipython_kernel_config.json").write_text(quiet)
    line = [sys.executable, "-m", "sphinx", "-q", "-n", str(folder), str(folder / "out")]
    ran = completed(line, env=os.environ | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder)})
    page = folder / "out" / "index.html"
    return page.read_text(encoding="utf-8") if page.is_file() else "", ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A page with a glued measurement, a quiz and two listings, built by Sphinx."""
    html, complaints = build(tmp_path_factory.mktemp("page"), PAGE)
    assert complaints == ""
    return BeautifulSoup(html, "html.parser")


def one(soup, selector):
    """The only element that a selector finds."""
    (found,) = soup.select(selector)
    return found


@pytest.mark.slow
def test_leaves_stand_in_the_text(built):
    rate = measure(["block_1d"], sizes=4096, gpu="h200").value("block_1d", 4096, "gflops")
    assert f"It runs at {rate:.1f}, 2.25 and 32." in built.get_text()


@pytest.mark.slow
def test_a_quiz_in_the_book_is_that_of_the_helper_with_its_roles(built):
    shown = one(built, ".tile-quiz")
    plain = quiz("What is", {"a": "b", "c": "d"}, answer="c").html
    bare = BeautifulSoup(plain, "html.parser")

    def shape(tag):
        return [one.name for one in tag.find_all(["p", "details", "summary"])]

    assert shape(shown) == shape(bare)
    assert [a["href"] for a in shown.find_all("a")] == ["#term-warp", "#spot"]
    assert shown.p.get_text() == "What is a warp of a < b, \\(k\\) and 32?"
    assert [s.get_text() for s in shown.find_all("summary")] == ["One thread.", "Many."]
    assert [p.strong.get_text() for p in shown.select("details > p")] == ["Not quite.", "Right."]
    assert "Right. See there." in shown.get_text() and "holds" not in str(shown)


@pytest.mark.slow
def test_a_listing_in_the_book_is_that_of_the_helper(built):
    folded = one(built, ".tile-folded:has(figure)")
    assert "open" not in folded.attrs
    expected = show_kernel("block_1d", since="tiled_32", folded=True).html
    assert str(folded) == str(BeautifulSoup(expected, "html.parser"))
    assert [c.get_text() for c in built.find_all("figcaption")][-1] == "words"


@pytest.mark.slow
def test_an_error_in_a_page_names_its_line(tmp_path):
    wrong = (
        "# A\n\n:::{kernel} block_1e\n:::\n\n:::{kernel} block_1d\n\n:line: a .. b\n:::\n\n"
        ":::{quiz} Why?\n- [ ] One.\n  No.\nwords\n:::\n"
    )
    _, complaints = build(tmp_path, wrong)
    above = FRONT.count("\n")
    for line, words in (
        (3, "kernel: no kernel is called 'block_1e'. Did you mean 'block_1d'"),
        (8, "kernel: a listing has no option :line:. Did you mean 'lines'"),
        (14, "quiz: 'words' is no option and no reason below one. Write `:::{quiz}"),
    ):
        assert f"index.md:{above + line}: ERROR: {words}" in complaints


# --- CUDA in the built book -------------------------------------------------------------------------


def coloured(soup, word):
    """The token classes of a word wherever a code block colours it."""
    return [" ".join(s["class"]) for s in soup.select(".highlight span") if s.get_text() == word]


def cell(soup, words):
    """The first code cell that holds these words."""
    return next(c for c in soup.select(".cell_input") if words in c.get_text())


@pytest.mark.slow
def test_cuda_in_python_strings_is_coloured_as_cuda(built):
    given = cell(built, "mine = ")
    assert coloured(given, "__global__")[0].startswith("k") and coloured(given, "threadIdx") == [
        "nb"
    ]
    assert coloured(given, "mine") == ["n"]  # it is Python around it
    assert "void" not in [s.get_text() for s in given.select(".s1")]
    assert '"int main"' in [s.get_text() for s in given.select("span[class^=s]")]  # no CUDA in that
    assert [s.get_text() for s in given.select("span.si")] == ["{", "}"]
    fence = next(c for c in built.select(".highlight-python") if "check(" in c.get_text())
    assert coloured(fence, "void")[0].startswith("k")
    text = given.get_text()
    assert '"""\n#define T 16\n__global__ void column(float* C)' in text


@pytest.mark.slow
def test_a_kernels_cell_shows_the_kernels_text(built):
    core = cell(built, "%%cuda block_1d_core")
    assert core.pre.get_text().strip() == (
        "%%cuda block_1d_core\n" + cores["block_1d_core"].source.strip()
    )
    assert coloured(core, "__global__")[0].startswith("k") and not core.find("details")
    full = cell(built, "%%cuda block_2d TM=8")
    assert full.pre.get_text() == "%%cuda block_2d TM=8\n// the book's own text\n"
    folded = one(full, "details")
    assert "open" not in folded.attrs and "kernels/09_block_2d.cu" in folded.summary.get_text()
    assert folded.pre.get_text().strip() == (
        "%%cuda block_2d TM=8\n" + catalog["block_2d"].source.strip()
    )
    own = cell(built, "const int at = blockIdx.x;")
    assert not own.find("details") and coloured(own, "blockIdx") == ["nb"]
