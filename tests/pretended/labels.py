"""Numbers that stand under the name of a GPU that did not measure them.

A page is run three times: on a pretended GPU, on one whose times are all others, and with a record
whose times are all others. A number that differs in the second run was measured here, one that
differs in the third comes from the record. Whose it is said to be is read as a reader would: from
the head of its row or column, another cell, the caption and note; in prose from the nearest name.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
_TOKEN = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?|\w+|[^\w\s]")
RECORD = r"H200|\brecord(?:ed)?\b"
HERE = r"measured (?:now|here)|(?:this|your) (?:GPU|card|machine)|GPU at hand"


@dataclass(frozen=True)
class Number:
    """A number in a text: where it stands, and whether it was measured here or is recorded."""

    start: int
    end: int
    live: bool
    recorded: bool


@dataclass(frozen=True)
class Fault:
    """A number under a wrong name."""

    number: str
    of: str
    name: str
    where: str

    def __str__(self):
        return f"{self.number}, {self.of}, stands as {self.name}'s: {self.where}"


def differing(text, other):
    """Where numbers of a text begin that are others in another run."""
    mine, theirs = list(_TOKEN.finditer(text)), list(_TOKEN.finditer(other))
    shape = [["#" if m[0][0].isdigit() else m[0] for m in found] for found in (mine, theirs)]
    if shape[0] == shape[1]:
        same = {i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a[0] == b[0]}
    else:  # words differ, too, and what stands in another place is no other number
        left, same = Counter(m[0] for m in theirs), set()
        for i, token in enumerate(mine):
            if left[token[0]]:
                left[token[0]] -= 1
                same.add(i)
    return {m.start() for i, m in enumerate(mine) if i not in same and m[0][0].isdigit()}


def numbers(text, other_gpu, other_record):
    """The numbers of a text with what they come from."""
    live, recorded = differing(text, other_gpu), differing(text, other_record)
    found = ((m.start(), m.end()) for m in NUMBER.finditer(text))
    return [Number(a, b, a in live, a in recorded) for a, b in found]


def names(text, here):
    """Where a text names the GPU of the record ("record") and the one at hand ("here")."""
    at = [(m.start(), "record") for m in re.finditer(RECORD, text)]
    own = "|".join([HERE, re.escape(here), r"\b" + re.escape(here.split()[-1]) + r"\b"])
    return sorted(at + [(m.start(), "here") for m in re.finditer(own, text)])


def _verdict(number, owners):
    """What is wrong with a number that stands as that of these; "" if nothing."""
    if number.live and number.recorded:  # a ratio of the two: both have to be named
        return "" if len(owners) != 1 else "measured here and recorded"
    if number.live and owners == {"record"}:
        return "measured here"
    if number.recorded and owners == {"here"}:
        return "recorded"
    return ""


# -- prose -----------------------------------------------------------------------------------------

_LINK = re.compile(r'(?<=\])\([^()\s]*(?:\s+"[^"]*")?\)')
"""Where a link leads, and the title that shows over it: no words of the sentence."""
_SENTENCE = re.compile(r"(?s).+?(?:[.!?][)\"”]*(?=\s|$)|$)\s*")


def in_prose(text, found, here):
    """Numbers of a text whose sentence, or what stands before it, names another GPU."""
    text = _LINK.sub(lambda m: " " * len(m[0]), text)
    for paragraph in re.finditer(r"(?:.+\n?)+", text):
        known: list[tuple[int, str]] = []
        if paragraph[0].startswith("Figure: "):  # its source stands at the end
            known = names(paragraph[0], here)[-1:]
        for piece in _SENTENCE.finditer(paragraph[0]):
            first = paragraph.start() + piece.start()
            inside = [(first + at, who) for at, who in names(piece[0], here)]
            for number in found:
                if not first <= number.start < first + len(piece[0]):
                    continue
                if number.live and number.recorded:
                    owners = {who for _, who in inside or known[-1:]}
                else:
                    owners = _nearest(number, inside, text) or {who for _, who in known[-1:]}
                if of := _verdict(number, owners):
                    yield number, of, " and ".join(owners), piece[0].strip()
            known += [name for name in inside if not text[name[0] :].startswith("record")]


_CLAUSE = re.compile(r"[,;:]\s|\b(?:and|but|where|while|against|than)\b")


def _nearest(number, inside, text):
    """Whose a number is by names in its sentence: in its clause, else before it, else after it."""
    first = max((m.end() for m in _CLAUSE.finditer(text, 0, number.start)), default=0)
    last = next((m.start() for m in _CLAUSE.finditer(text, number.end)), len(text))
    clause = [who for at, who in inside if first <= at < last]
    before = [who for at, who in inside if at < number.start]
    return set(clause[-1:] or before[-1:] or [who for _, who in inside[:1]])


# -- tables ----------------------------------------------------------------------------------------


def _plain(markup):
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).split())


@dataclass(frozen=True)
class Table:
    """A table of a page: its caption and note, the heads of its columns, its rows."""

    about: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(markup):
    """The tables of a piece of HTML."""
    made = []
    for found in re.finditer(r"(?s)<table.*?</table>(.*?)(?=<table|$)", markup):
        rows = [
            tuple(_plain(c) for c in re.findall(r"(?s)<t[hd][^>]*>(.*?)</t[hd]>", row))
            for row in re.findall(r"(?s)<tr[^>]*>(.*?)</tr>", found[0])
        ]
        caption = re.search(r"(?s)<caption.*?</caption>", found[0])
        about = _plain((caption[0] if caption else "") + " " + found[1])
        if rows:
            made.append(Table(about, rows[0], tuple(rows[1:])))
    return made


def _outside_tables(markup):
    """The text of a piece of HTML without its tables, a line to each paragraph or point."""
    rest = re.sub(r"(?s)<(table|style|script|svg)\b.*?</\1>", "", markup)
    parts = re.split(r"</?(?:p|li|ul|div|summary|details)\b[^>]*>", rest)
    return "\n\n".join(filter(None, map(_plain, parts)))


def in_tables(own, gpu, record, here):
    """Numbers of tables under the name of another GPU."""
    for t, other, changed in zip(tables(own), tables(gpu), tables(record), strict=False):
        for r, row in enumerate(t.rows):
            for c, cell in enumerate(row):
                try:
                    taken = numbers(cell, other.rows[r][c], changed.rows[r][c])
                except IndexError:
                    continue
                head = f"{row[0] if c else ''} | {t.heads[c] if c < len(t.heads) else ''}"
                places = (names(words, here) for words in (head, " | ".join(row), t.about))
                owners = {who for _, who in next(filter(None, places), [])}
                for number in taken:
                    if of := _verdict(number, owners):
                        where = f"{t.about} [{head}]"
                        yield cell[number.start : number.end], of, " and ".join(owners), where


def faults(passes, here):
    """What stands under a wrong name on a page, from its three runs. here: the pretended GPU."""
    found = []
    runs = (passes["own"], passes["other_gpu"], passes["other_record"])
    for cells in zip(*runs, strict=True):
        for own, gpu, record in zip(*(c.shown for c in cells), strict=False):
            if "<table" in own:
                found += [Fault(*about) for about in in_tables(own, gpu, record, here)]
                own, gpu, record = map(_outside_tables, (own, gpu, record))
            taken = numbers(own, gpu, record)
            found += [
                Fault(own[n.start : n.end], of, name, where)
                for n, of, name, where in in_prose(own, taken, here)
            ]
    return found
