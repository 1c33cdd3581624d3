"""Which kernels are alike: a ranking of pairs for a person to look into, and folders for JPlag and Dolos.

Never part of a mark, and no proof of anything: thirty lines that ask for one thing resemble each other. What
everybody was given (the starter, the book's kernels and listings) is taken out first, then what half of the
class has. Names of variables and numbers do not count: a copy is renamed before it is handed in.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

from helpers.ladder.kernel import ROOT
from nogpu.disk import replace_file
from nogpu.errors import SourceError
from nogpu.text import decode, without_comments
from tilelabs.grading.collecting import Submission
from tilelabs.grading.tables import PRIVATE, inert, safe_name
from tilelabs.labs.rubrics import Lab

GRAM = 16
"""Tokens of a piece: what two texts share counts from about two short statements on."""
LEAST = 24
"""Pieces of its own that a text has, or it is the starter with little done to it, and is compared with nobody."""
CROWD = 8
"""Texts from which on a piece that more than half of them have is everybody's."""

_TOKEN = re.compile(
    r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.'])*"
    r"|<<=|>>=|\+\+|--|&&|\|\||<<|>>|::|->|[-+*/%&|^=!<>]=|\S"
)
_KEPT = frozenset(
    [
        "auto",
        "bool",
        "break",
        "case",
        "char",
        "const",
        "constexpr",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "false",
        "float",
        "for",
        "goto",
        "half",
        "if",
        "inline",
        "int",
        "long",
        "namespace",
        "operator",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "true",
        "typedef",
        "typename",
        "union",
        "unsigned",
        "using",
        "void",
        "volatile",
        "while",
        "define",
        "include",
        "pragma",
        "unroll",
        "threadIdx",
        "blockIdx",
        "blockDim",
        "gridDim",
        "warpSize",
    ]
)

Piece = tuple[str, ...]


@dataclass(frozen=True)
class Pair:
    """Two texts that share pieces: how many, and the share of those that the one with fewer has of its own.

    before: the other one is of an earlier class. identical: the same bytes, whoever else has them, too.
    """

    one: str
    other: str
    shared: int
    share: float
    before: bool = False
    identical: bool = False


@dataclass(frozen=True)
class Ranking:
    """Pairs, identical ones first and then the most alike; who has too little of their own to be compared; who
    has no text; of whose text half of the class has so much that too little is left."""

    pairs: tuple[Pair, ...]
    little: tuple[str, ...]
    without: tuple[str, ...]
    everybodys: tuple[str, ...] = ()


def tokens(source: str) -> list[str]:
    """The words of a source, without comments; every number is `0`, every literal `""`."""
    found = _TOKEN.findall(without_comments(source))
    return [
        "0" if re.match(r"\.?\d", token) else '""' if token[0] in "\"'" else token
        for token in found
    ]


def pieces(source: str) -> frozenset[Piece]:
    """All runs of `GRAM` tokens, in each of which the names are numbered as they come, so that renaming changes
    none; CUDA's words and keywords stay.

    Source: Schleimer, Wilkerson, Aiken, Winnowing (SIGMOD 2003), with a window of one, since a kernel is short;
    Baker, A theory of parameterized pattern matching (STOC 1993), for names.
    """
    words = tokens(source)
    return frozenset(_numbered(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1))


def _numbered(words: list[str]) -> Piece:
    seen: dict[str, str] = {}
    return tuple(seen.setdefault(w, f"v{len(seen)}") if _named(w) else w for w in words)


def _named(word: str) -> bool:
    """Whether its author chose a word."""
    return (word[0].isalpha() or word[0] == "_") and not (word in _KEPT or word.startswith("__"))


def given(lab: Lab) -> dict[str, str]:
    """What every student was given, by name: the lab's starters, the book's kernels, the CUDA on its pages."""
    found = {f"starter_{i}": lab.starter(v) for i, v in enumerate(lab.variants)}
    for path in sorted((ROOT / "kernels").rglob("*.cu*")):
        found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "book").glob("*.md")):
        fenced = re.findall(r"(?ms)^```[^\n]*\n(.*?)^```", path.read_text(encoding="utf-8"))
        if listings := [text for text in fenced if "__global__" in text or "__device__" in text]:
            found[f"book/{path.stem}"] = "\n".join(listings)
    return found


def ranked(
    lab: Lab,
    now: Sequence[Submission],
    before: Sequence[Submission] = (),
    of: Mapping[str, Sequence[str]] | None = None,
) -> Ranking:
    """Every two of a class, and each of it with each of an earlier one, by the share of what they share.

    of: students by group, who work together and are not compared.
    """
    group = {student: name for name, members in (of or {}).items() for student in members}
    base = frozenset[Piece]().union(*map(pieces, given(lab).values()))
    texts = {(early, s.student): t for early, group in ((False, now), (True, before)) for s in group
             if (t := _text(s)) is not None}  # fmt: skip
    own = {who: pieces(text) - base for who, text in texts.items()}
    whole = own
    if len(own) >= CROWD:
        had = Counter(piece for all_ in own.values() for piece in all_)
        common = {piece for piece, n in had.items() if n > len(own) / 2}
        own = {who: all_ - common for who, all_ in own.items()}
    raw = {
        (early, s.student): s.raw
        for early, of_all in ((False, now), (True, before))
        for s in of_all
    }
    enough = {who for who, all_ in own.items() if len(all_) >= LEAST}
    new, old = ([who for who in own if who[0] is early] for early in (False, True))
    found = []
    for one, other in (*combinations(new, 2), *product(new, old)):
        if not other[0] and one[1] in group and group[one[1]] == group.get(other[1]):
            continue
        shared = len(own[one] & own[other])
        if raw[one] == raw[other]:
            found.append(Pair(one[1], other[1], len(whole[one]), 1.0, other[0], True))
        elif shared and one in enough and other in enough:
            share = shared / min(len(own[one]), len(own[other]))
            found.append(Pair(one[1], other[1], shared, share, other[0]))
    found.sort(key=lambda p: (not p.identical, -p.share, -p.shared, p.before, p.one, p.other))
    mine = {s.student for s in now}
    with_text = {student for early, student in texts if not early}
    short = with_text - {student for early, student in enough if not early}
    crowded = {student for student in short if len(whole[False, student]) >= LEAST}
    return Ranking(
        tuple(found),
        tuple(sorted(short - crowded)),
        tuple(sorted(mine - with_text)),
        tuple(sorted(crowded)),
    )


def _text(s: Submission) -> str | None:
    try:
        return None if s.raw is None else decode(s.raw)
    except SourceError:
        return None


# -- files -------------------------------------------------------------------------------------------

HOW = """\
Lab {lab}: which kernels are alike. For a person, and no part of any mark.

pairs.csv      every two texts that share something: identical ones (the same bytes) first, whoever else has them,
               then the most alike. share: of the text with less of its own,
               what the other has, too, in runs of {gram} tokens, after the starter, the book's kernels and listings
               and what half of the class has are taken out. Look at both texts before you think anything.
class/         a folder for each student, with the kernel; before/ the same of an earlier class
base/          what everybody was given; base.cpp is all of it
info.csv       for Dolos: whose each file is, by number

JPlag (Java; everything stays on this machine), in this folder:
    java -jar jplag.jar -l cpp -bc base {old}class
Dolos (Node; everything stays on this machine), in this folder:
    dolos run -f web -l cpp -i base/base.cpp info.csv

Both read CUDA as C++, which it is but for a few words. Do not hand this folder to a service elsewhere: it says
who wrote what.
"""


def export(
    lab: Lab,
    now: Sequence[Submission],
    before: Sequence[Submission],
    out: Path,
    of: Mapping[str, Sequence[str]] | None = None,
) -> tuple[Path, Ranking]:
    """Write out/lab-N-similar/, for its owner alone: the ranking, and folders for JPlag and Dolos.

    Source: JPlag's page How to Use JPlag (-l, -bc, -old); Dolos's pages Running Dolos CLI and Adding metadata.
    """
    folder = out / f"lab-{lab.number}-similar"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, mode=0o700)
    found, rows = ranked(lab, now, before, of), [["filename", "label", "full_name"]]
    for place, group in (("class", now), ("before", before)):
        for s in group:
            if (text := _text(s)) is not None:
                file = f"{place}/{safe_name(s.student)}/{lab.entry}.cpp"
                _write(folder / file, text)
                rows.append([file, place, inert(s.student)])
    texts = given(lab)
    for name, text in texts.items():
        _write(folder / "base" / f"{safe_name(name)}.cpp", text)
    _write(folder / "base" / "base.cpp", "\n".join(texts.values()))
    _write(folder / "info.csv", _csv(rows))
    pairs = [[inert(p.one), inert(p.other), "before" if p.before else "class", str(p.shared), f"{p.share:.2f}",
              "yes" if p.identical else ""]
             for p in found.pairs]  # fmt: skip
    _write(
        folder / "pairs.csv", _csv([["one", "other", "of", "shared", "share", "identical"], *pairs])
    )
    _write(
        folder / "README.txt",
        HOW.format(lab=lab.number, gram=GRAM, old="-old before " * bool(before)),
    )
    return folder, found


def _write(path: Path, text: str) -> None:
    replace_file(path, text, PRIVATE)


def _csv(rows: Sequence[Sequence[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


__all__ = ["Pair", "Ranking", "export", "given", "pieces", "ranked", "tokens"]
