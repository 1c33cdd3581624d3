"""How a chapter reads, as numbers: words, sentences, minutes, hidden code, long lines, new lines
from rung to rung, and the hours of the main line.

    python -m tools.essays             one table of all chapters, one of the rungs
    python -m tools.essays --check     faults, for `make lint`: what is above a limit
    python -m tools.essays --minutes   write the minutes by count into boxes that are far off
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

WORDS_A_MINUTE = 130
SECONDS = {"listing": 7, "code": 5}
"""To read a line of a listing, and of a code cell, that stands open."""
FIGURE_MINUTES = 1.5
# A repair is a kernel that is there, of which the findings name the lines at fault.
EXERCISE_MINUTES = {"number": 3, "choice": 3, "python": 6, "repair": 8, "kernel": 15}

LIMITS: Mapping[str, float] = {
    "words": 1800, "short": 20, "numbers": 1.5, "minutes": 45, "off": 15, "hidden": 12, "widest": 84,
}  # fmt: skip
"""Of a chapter: words of prose, sentences of eight words and fewer (%), numbers in a hundred words,
minutes, how far the minutes that it states are from those computed (%), hidden code (% of its
characters), columns of its longest line of code. The words and the minutes fit what two readers
took: 130 words a minute, a minute and a half for a figure or a table."""
OF_THE_MAIN_LINE = frozenset({"words", "short", "numbers", "minutes"})
"""Limits that a chapter off the main line need not keep."""
HOURS = 10
"""Of the main line: all numbered chapters but those with a box "Off the main line"."""
OFF = ":::{admonition} Off the main line"
NEW_LINES = 25
"""Percent of a rung's lines of code that the rung before it does not have."""

CELL = re.compile(r"(?ms)^```\{code-cell\} ipython3\n((?::[\w-]+:[^\n]*\n)*)(.*?)^```$")
FENCE = re.compile(r"(?ms)^```(?:python|cuda|cpp|c|bash)\n(.*?)^```$")
DIRECTIVE = re.compile(r"(?ms)^:::+\{(quiz|kernel)\}[ \t]*([^\n]*)\n(.*?)^:::+$")
DROPDOWN = re.compile(r"(?ms)^(:::+)\{dropdown\}[^\n]*\n(.*?)^\1$")
IMAGE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
TABLE = re.compile(r"(?m)^\|[ :|-]*-[ :|-]*\|$")
STATED = re.compile(r"Time: about (\d+) minutes")
NO_FIGURE = frozenset(("glue", "holds", "check", "print", "provenance", "tuned_note"))


@dataclass(frozen=True)
class Essay:
    """The measures of one chapter. mean: words a sentence; listing, code: lines that stand open;
    stated: its own minutes, 0 if none."""

    page: str
    words: int
    mean: float
    short: float
    numbers: float
    listing: int
    code: int
    figures: int
    exercises: tuple[str, ...]
    stated: int
    hidden: float
    widest_line: str
    is_main: bool

    @property
    def widest(self) -> int:
        """Columns of the longest line of code."""
        return len(self.widest_line)

    @property
    def minutes(self) -> float:
        """The time that a reader takes."""
        lines = (SECONDS["listing"] * self.listing + SECONDS["code"] * self.code) / 60
        tasks = sum(EXERCISE_MINUTES.get(kind, 0) for kind in self.exercises)
        return self.words / WORDS_A_MINUTE + lines + FIGURE_MINUTES * self.figures + tasks

    @property
    def off(self) -> float:
        """How far the stated minutes are from the computed ones, in percent of these."""
        return 100 * abs(self.stated / self.minutes - 1) if self.minutes else 0.0


def body(text: str) -> str:
    """A page without its front matter."""
    return re.sub(r"(?s)\A---\n.*?\n---\n", "", text)


def tags_of(options: str) -> set[str]:
    """The tags of a code cell."""
    found = re.search(r"(?m)^:tags:\s*\[(.*)\]", options)
    return {tag.strip() for tag in found[1].split(",")} if found else set()


def is_hidden(options: str) -> bool:
    """Whether a reader of the book does not see the code of a cell."""
    return bool(tags_of(options) & {"hide-input", "remove-input"})


def hidden_share(text: str) -> float:
    """Characters of hidden code cells, in percent of the page without its front matter."""
    page = body(text)
    hidden = sum(len(cell[2]) for cell in CELL.finditer(page) if is_hidden(cell[1]))
    return 100 * hidden / max(len(page), 1)


def prose(text: str) -> str:
    """What stands in sight as words: no code, no closed box, no exercise; the questions of quizzes
    count, and a glued number is "1"."""
    from helpers.page.claims import unmarked

    page = IMAGE.sub("", CELL.sub("", body(unmarked(text))))
    page = re.sub(r"(?ms)^## Exercises\n.*?(?=^## |\Z)", "", page)
    page = DROPDOWN.sub("", FENCE.sub("", page))
    page = DIRECTIVE.sub(lambda m: m[2] if m[1] == "quiz" else "", page)
    page = re.sub(r"(?s)<!--.*?-->", "", page)
    page = re.sub(r"(?m)^:::.*$|^\([\w-]+\)=$|^```.*$", "", page)
    page = re.sub(r"\{cite\}`[^`]*`", "", page)
    page = re.sub(r"\{glue:text\}`[^`]*`", "1", page)
    return re.sub(r"\{\w+\}`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", page)


def words(text: str) -> int:
    """Words of a piece of prose."""
    return len(re.findall(r"\w[\w.,'’-]*", text))


def sentences(text: str) -> list[str]:
    """The sentences of a page's paragraphs and lists: no headings, tables, formulas, questions of
    quizzes; a formula or a piece of code within a sentence is a word."""
    page = DIRECTIVE.sub("", text)
    page = re.sub(r"(?ms)^\$\$.*?^\$\$[^\n]*$", "", prose(page))
    page = re.sub(r"(?m)^(?:#|\|).*$", "", page)
    page = re.sub(r"(?m)^\s*(?:[-*]|\d+\.|\[\^\w+\]:)\s+", "\n", page)
    page = re.sub(r"\bchapters? \d+(?: (?:to|and) \d+)?", "chapter x", page)
    page = re.sub(r"`[^`]*`|\$[^$]*\$", "x", page)
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\n)", page):
        whole = " ".join(paragraph.split())
        found += [s for s in re.split(r"(?<=[.?!])[)\"*_]*\s+(?=[^a-z])", whole) if words(s)]
    return found


def listings(text: str) -> Iterator[tuple[str, int, bool]]:
    """Source, lines shown and whether it stands open, of each listing of a page."""
    from helpers.ladder.rungs import cores, find
    from helpers.notebook.cells import kernel_of
    from helpers.page import show_kernel
    from helpers.page.directives import read_kernel

    page = body(text)
    for made in DIRECTIVE.finditer(page):
        if made[1] == "kernel":
            directive = read_kernel(made[2], made[3].splitlines())
            *shown, _ = show_kernel(directive.kernel, **directive.keywords).text.splitlines()
            yield "\n".join(shown), len(shown), "folded" not in directive.keywords
    for cell in CELL.finditer(page):
        if name := kernel_of(cell[2].rstrip("\n")):
            source = find(name).source
            yield source, len(source.splitlines()), name in cores


def is_figure(options: str, code: str) -> bool:
    """Whether a cell ends in a call that shows a figure or a table."""
    if "remove-output" in tags_of(options):
        return False
    if code.startswith("%%"):
        return True  # what was tried, and what the memory saw
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return False
    last = tree.body[-1] if tree.body else None
    if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)):
        return False
    return ast.unparse(last.value.func) not in NO_FIGURE


def exercise_kinds(text: str) -> tuple[str, ...]:
    """What kind of answer each exercise of a page takes; "?" of one that is registered nowhere."""
    from helpers.page.exercises.registry import find as find_exercise
    from nogpu.errors import TileError

    def kind(number: str) -> str:
        try:
            return find_exercise(number).kind
        except TileError:
            return "?"

    return tuple(map(kind, re.findall(r"(?m)^### Exercise (\d\d\.\d+)", text)))


def lines_of(codes: Iterable[str]) -> list[str]:
    """The lines of pieces of code that are not blank."""
    return [line for code in codes for line in code.splitlines() if line.strip()]


def essay(page: str, text: str) -> Essay:
    """The measures of a page."""
    main = re.sub(r"(?ms)^## Exercises\n.*?(?=^## |\Z)", "", body(text))
    shown = list(listings(text))
    cells = [(c[1], c[2]) for c in CELL.finditer(main)]
    in_sight = [code for options, code in cells if not is_hidden(options)]
    seen = lines_of(code for code in in_sight if not code.startswith("%%"))
    bare = DROPDOWN.sub("", CELL.sub("", main))
    fenced = lines_of(m[1] for m in FENCE.finditer(bare))
    every = lines_of(c[2] for c in CELL.finditer(body(text)) if not is_hidden(c[1]))
    every += lines_of(m[1] for m in FENCE.finditer(body(text)))
    every += [re.sub(r"^ *\d+ [+ ] ", "", line) for line in lines_of(s for s, _, _ in shown)]
    stated = STATED.search(text)
    lengths = [words(sentence) for sentence in sentences(text)] or [0]
    numbers = sum(len(re.findall(r"(?<![\w.])\d[\d.,]*", s)) for s in sentences(text))
    figures = sum(is_figure(*cell) for cell in cells) + len(TABLE.findall(bare))
    return Essay(
        page=page, words=words(prose(text)), mean=sum(lengths) / len(lengths),
        short=100 * sum(length <= 8 for length in lengths) / len(lengths),
        numbers=100 * numbers / max(sum(lengths), 1), code=len(seen) + len(fenced),
        listing=sum(lines for _, lines, is_open in shown if is_open),
        figures=figures + len(IMAGE.findall(bare)), exercises=exercise_kinds(text),
        stated=int(stated[1]) if stated else 0, hidden=hidden_share(text),
        widest_line=max(every, key=len, default=""), is_main=OFF not in text,
    )  # fmt: skip


# --- rungs ---------------------------------------------------------------------------------------

_STEPS = (
    ("naive", "coalesced", "tiled_32", "block_1d", "block_2d", "vectorised", "prefetch"),
    ("prefetch", "double_buffer", "cp_async"),
    ("double_buffer", "lane_map", "warp_tiled", "fp32_best", "fp32_sliced"),
    ("warp_tiled", "fp32_turing"),
    ("wmma", "wmma_shared", "wmma_tiled", "mma_naive", "mma_ldmatrix", "mma_swizzle"),
    ("mma_swizzle", "mma_pipelined", "mma_tma"), ("mma_swizzle", "mma_turing"),
    ("mma_tma", "hopper_1", "hopper_2", "hopper_3", "hopper_4", "hopper_5", "hopper_6"),
)  # fmt: skip
BEFORE = {rung: before for steps in _STEPS for before, rung in pairwise(steps)}
"""Each rung and the one that its chapter compares it with. `naive` and `wmma` begin."""


class Excuse(NamedTuple):
    """Where a page says why a rung has more new lines than NEW_LINES: the sentence, and the percent
    it allows."""

    page: str
    sentence: str
    low: float
    high: float


EXCUSED: Mapping[str, Excuse] = {
    "tiled_32": Excuse("deeper_06_tiling", "Three quarters of its lines are new, since a tile", 70, 80),
    "block_1d": Excuse("deeper_08_block_1d", "Hardly a line of the tiled kernel is left, since four things", 85, 100),
    "block_2d": Excuse("deeper_09_block_2d", "More than half of its lines are new, since a second operand", 50, 60),
    "vectorised": Excuse("deeper_10_vectorised", "Nearly two thirds of its lines are new, since sixteen bytes", 60, 66),
    "cp_async": Excuse("deeper_11_pipelining", "Nearly a third of the file's lines are new, for four changes", 29, 33),
    "warp_tiled": Excuse("13_loop_registers", "a third of new lines, since four parts come together", 30, 37),
    "fp32_best": Excuse("14_ring_of_tiles", "two fifths of the file's lines, since the ring changes", 37, 43),
    "fp32_sliced": Excuse("16_slices_of_k", "Nearly half of its lines are new, since blocks that share a tile have to meet and rows", 40, 50),
    "wmma_shared": Excuse("deeper_17_tensor_cores", "Nearly all of its lines are new, since `wmma` has no tile", 88, 100),
    "wmma_tiled": Excuse("deeper_17_tensor_cores", "Almost half of its lines are new, for four changes", 43, 50),
    "mma_naive": Excuse("deeper_18_who_holds_what", "Half of the first one is new, since nothing of WMMA's", 45, 55),
    "mma_pipelined": Excuse("deeper_19_feeding", "Most of the file's lines are new since `mma_swizzle`, and not all", 60, 90),
    "mma_turing": Excuse("deeper_19_feeding", "Most lines of this file are new as well: it is the tiles of", 55, 90),
    "mma_tma": Excuse("deeper_20_copy_engine", "Two of three lines of the file are new since `mma_pipelined`", 63, 70),
    "hopper_1": Excuse("deeper_21_wgmma", "The first starts again from the simplest form", 25, 75),
    "hopper_2": Excuse("deeper_21_wgmma", "the second takes the loop of the first apart into", 25, 75),
    "hopper_3": Excuse("deeper_21_wgmma", "the tile, its warpgroups and their registers come", 25, 75),
    "hopper_4": Excuse("deeper_22_last_ten_percent", "A third of the lines of steps 4 and 6 is new, more than", 30, 40),
    "hopper_6": Excuse("deeper_22_last_ten_percent", "A third of the lines of steps 4 and 6 is new, more than", 30, 40),
}  # fmt: skip
"""Rungs with more new lines than NEW_LINES.

A change that leaves the range makes the sentence untrue.
"""

BESIDE = frozenset(
    {
        "naive", "wmma", "naive_int", "coalesced_int", "unrolled", "coarsened", "tiled_8", "tiled_16",
        "tiled_int_32", "tiled_padded", "tiled_rect", "tiled_pad_rows", "privatised_2", "privatised_4",
        "wmma_launch_l", "mma_pipelined_bf16", "mma_sliced", "mma_sliced_bf16", "hopper_5_fp16",
        "hopper_6_fp16",
        "thin_rows", "thin_rows_bf16", "thin_rows_fp16", "thin_columns",
        "thin_columns_bf16", "thin_columns_fp16",
    }
)  # fmt: skip
"""What no rung's step is counted for: the two first ones, and kernels beside the ladder."""


def share_new(source: str, before: str) -> float:
    """Lines that `before` does not have, in percent of a source's lines of code: no comments, no
    blank lines, no braces alone."""
    from helpers.page import new_lines

    return 100 * len(new_lines(source, before)) / max(len(new_lines(source, "")), 1)


def rungs() -> dict[str, float]:
    """The share of new lines of every rung.

    Raises UnknownKernelError for one that is not in the catalog.
    """
    from helpers.ladder.rungs import catalog

    return {
        name: share_new(catalog[name].source, catalog[before].source)
        for name, before in BEFORE.items()
    }


def unexcused(excused: Mapping[str, Excuse], pages: Mapping[str, str]) -> list[str]:
    """Excuses whose sentence does not stand in the page that they name."""
    return [
        f"EXCUSED[{name!r}]: book/{page}.md does not say {sentence!r}. Say there why the rung has"
        " so many new lines"
        for name, (page, sentence, _, _) in excused.items()
        if len(sentence.split()) < 4 or sentence not in pages.get(page, "")
    ]


# --- limits and ceilings -------------------------------------------------------------------------


def above(one: Essay, what: str) -> bool:
    """Whether a chapter is above the limit of one of its measures."""
    counts = one.is_main or what not in OF_THE_MAIN_LINE
    return counts and bool(getattr(one, what) > LIMITS[what])


def faults(
    essays: Sequence[Essay], new: Mapping[str, float], excused: Mapping[str, Excuse] = EXCUSED
) -> list[str]:
    """What is above its limit."""
    found = []
    for one in essays:
        for what, limit in LIMITS.items():
            if above(one, what):
                line = f": {one.widest_line.strip()!r}" if what == "widest" else ""
                found.append(
                    f"{one.page}: {PHRASES[what]} {getattr(one, what):.1f}; at most {limit:g}{line}"
                )
        if "?" in one.exercises:
            found.append(f"{one.page}: an exercise is registered in no chapter")
    for name, share in new.items():
        since = f"{share:.1f} % of its lines are new since {BEFORE.get(name, '')}"
        if name not in excused and share > NEW_LINES:
            found.append(
                f"{name}: {since}; at most {NEW_LINES}. Make the step smaller, or say in the"
                " chapter why, and name that sentence in EXCUSED"
            )
        elif name in excused and not excused[name].low <= share <= excused[name].high:
            page, sentence, low, high = excused[name]
            found.append(
                f"{name}: {since}, and {page} says {sentence!r}, which allows {low:g} to {high:g}:"
                " mend the sentence"
            )
    if (hours := main_hours(essays)) > HOURS:
        found.append(f"the main line takes {hours:.2f} hours; at most {HOURS}")
    return found


IN_WORDS = {
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "fifteen": 15, "twenty": 20,
}  # fmt: skip


def promised(intro: str, essays: Sequence[Essay]) -> list[str]:
    """What the start page says of the main line's hours, where the count says otherwise."""
    found = re.search(r"main line takes about (\w+) hours", intro)
    hours = IN_WORDS.get(found[1] if found else "")
    if hours is None:
        return [f"intro: says nowhere that the main line takes about ... hours ({[*IN_WORDS]})"]
    if abs(main_hours(essays) / hours - 1) > 0.1:
        return [f"intro: the main line takes {main_hours(essays):.1f} hours, not about {hours}"]
    return []


def main_hours(essays: Sequence[Essay]) -> float:
    """Hours of the chapters that stand on the main line."""
    return sum(one.minutes for one in essays if one.is_main) / 60


PHRASES = {
    "words": "words of prose",
    "short": "sentences of eight words or fewer, %,",
    "numbers": "numbers in a hundred words",
    "minutes": "minutes by count",
    "off": "the minutes that it states are off (%) by",
    "hidden": "hidden code, % of its characters,",
    "widest": "columns of its longest line of code",
}


def with_minutes(text: str, made: Essay) -> str:
    """The page with the minutes by count in its box, to five, where it states others that are far
    off."""
    if made.off <= LIMITS["off"]:
        return text
    return STATED.sub(f"Time: about {max(5, 5 * round(made.minutes / 5))} minutes", text, count=1)


def measured(pages: Mapping[str, str]) -> tuple[list[Essay], list[str]]:
    """The measures of pages, and what stands in those that cannot be measured."""
    from nogpu.errors import TileError

    made, broken = [], []
    for page, text in pages.items():
        try:
            made.append(essay(page, text))
        except TileError as error:
            broken.append(f"{page}: {error}")
    return made, broken


def chapters(kind: str = "[0-9][0-9]") -> dict[str, str]:
    """The numbered chapters, or the Deeper pages ("deeper"): text by name."""
    paths = sorted((ROOT / "book").glob(f"{kind}_*.md"))
    return {path.stem: path.read_text(encoding="utf-8") for path in paths}


def show(essays: Sequence[Essay], new: Mapping[str, float]) -> None:
    """Print both tables; a star marks what is above its limit."""
    from helpers.wording import print_table

    def cell(one: Essay, what: str, form: str) -> str:
        return format(getattr(one, what), form) + "*" * above(one, what)

    rows = [
        {
            "chapter": one.page,
            "words": cell(one, "words", ",d"),
            "a sentence": f"{one.mean:.1f}",
            "short %": cell(one, "short", ".0f"),
            "numbers": cell(one, "numbers", ".1f"),
            "listing": one.listing,
            "code": one.code,
            "figures": one.figures,
            "exercises": " ".join(kind[0] for kind in one.exercises),
            "minutes": cell(one, "minutes", ".0f"),
            "stated": f"{one.stated} ({cell(one, 'off', '.0f')} %)",
            "hidden %": cell(one, "hidden", ".1f"),
            "widest": cell(one, "widest", "d"),
        }
        for one in essays
    ]
    print_table(rows, dict.fromkeys(rows[0], ">") | {"chapter": ""})
    main = [one for one in essays if one.is_main]
    count = f"{len(main)} pages, {sum(one.words for one in main):,} words"
    print(f"\nmain line: {count}, {main_hours(essays):.1f} hours (at most {HOURS})")
    print("\nrung: new lines of code since the one before, %")
    for name, share in new.items():
        mark = "excused" if name in EXCUSED else ""
        print(f"{name:<15} {share:5.1f} since {BEFORE[name]} {mark}".rstrip())
    print()


def main(given: Sequence[str] | None = None) -> int:
    """The command line; 1 where --check finds faults."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--check", action="store_true", help="faults only")
    parser.add_argument("--minutes", action="store_true", help="mend the minutes that pages state")
    options = parser.parse_args(given)
    pages = chapters()
    if options.minutes:
        for page, text in pages.items():
            pages[page] = with_minutes(text, essay(page, text))
            (ROOT / "book" / f"{page}.md").write_text(pages[page], encoding="utf-8")
    essays, broken = measured(pages)
    new = rungs()
    if options.check:
        problems = broken + faults(essays, new) + unexcused(EXCUSED, pages | chapters("deeper"))
        intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
        problems += promised(intro, essays)
        print("\n".join(problems), end="\n" if problems else "")
        return 1 if problems else 0
    show(essays, new)
    print("\n".join(["* above its limit", *broken]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
