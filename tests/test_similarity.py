"""Which kernels are alike: a renamed copy comes first, what everybody was given counts for nothing."""

from __future__ import annotations

import csv
import re
import stat
from pathlib import Path

import pytest
from test_grading import TWO, hand_in

from helpers import __main__ as cli
from tilelabs.grading import similarity
from tilelabs.grading.collecting import Submission
from tilelabs.grading.similarity import GRAM, pieces, ranked, tokens
from tilelabs.labs.rehearsing import sources
from tools.hostile import HONEST

OTHER = """\
// Bt is N x K. One warp row of the block fetches along K, the threads are numbered by hand.
extern "C" __global__ void lab2(const float* A, const float* Bt, float* C, int M, int N, int K)
{
    __shared__ float left[256], right[16 * 17];
    int lane = threadIdx.x + 16 * threadIdx.y;
    int r = lane / 16, c = lane & 15, i = r + 16 * blockIdx.y, j = c + 16 * blockIdx.x;
    float acc = 0;
    int steps = (K + 15) / 16;
    for (int step = 0; step != steps; step++) {
        int depth = step * 16 + c;
        left[lane] = 0;
        if (i < M) if (depth < K) left[lane] = A[i * K + depth];
        int from = blockIdx.x * 16 + r;
        float fetched = 0;
        if (from < N && depth < K) fetched = Bt[depth + from * K];
        right[17 * r + c] = fetched;
        __syncthreads();
        float* l = left + 16 * r;
        float* q = right + 17 * c;
        int left_over = 16;
        while (left_over--) acc = fmaf(*l++, *q++, acc);
        __syncthreads();
    }
    if (j >= N || i >= M) return;
    C[j + i * N] = acc;
}
"""
"""The variant "B transposed" by somebody else."""


def renamed(text: str) -> str:
    """A copy by somebody who hides it: other names, other tile, other comments and line ends."""
    names = {"A_tile": "sa", "B_tile": "sb", "sum": "acc", "row": "i", "col": "jj", "k0": "base", "tx": "x0",
             "ty": "y0", "a_row": "ia", "T": "TILE", "k": "kk"}  # fmt: skip
    for old, new in names.items():
        text, n = re.subn(rf"\b{old}\b", new, text)
        assert n, old
    return "// my own work\n" + re.sub(r"//[^\n]*", "", text).replace("16", "32").replace(
        "    ", "\t"
    )


def handed(**texts: str) -> list[Submission]:
    return [Submission(who, who, f"{who}.cu", text.encode()) for who, text in texts.items()]


STARTER = TWO.starter(TWO.variants[0])


def test_a_renamed_copy_ranks_first_and_independent_work_far_below() -> None:
    found = ranked(
        TWO, handed(ada=HONEST, bob=OTHER, cy=renamed(HONEST), dan=STARTER, eve=STARTER + "\n")
    )
    first, *rest = found.pairs
    assert {first.one, first.other} == {"ada", "cy"} and first.share == 1 and first.shared > 50
    assert all(pair.share < 0.2 for pair in rest)
    assert found.little == ("dan", "eve") and found.without == ()


def test_without_numbering_the_names_the_copy_would_hide() -> None:
    """The control: compared word by word, what was renamed is not alike."""

    def plain(text: str) -> set[tuple[str, ...]]:
        words = tokens(text)
        return {tuple(words[i : i + GRAM]) for i in range(len(words) - GRAM + 1)}

    one, copy = plain(HONEST), plain(renamed(HONEST))
    assert len(one & copy) < 0.1 * len(one)
    assert pieces(HONEST) == pieces(renamed(HONEST))


def test_without_taking_out_what_was_given_starters_would_be_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    two = handed(dan=STARTER, eve=STARTER + "// nothing yet\n")
    assert ranked(TWO, two).pairs == ()
    monkeypatch.setattr(similarity, "given", lambda lab: {})
    [pair] = ranked(TWO, two).pairs
    assert pair.share == 1


def test_what_the_book_prints_is_nobodys() -> None:
    book = next(t for n, t in similarity.given(TWO).items() if n.endswith("06_tiled.cu"))
    found = ranked(TWO, handed(ada=book, bob=renamed(HONEST), cy=book + "\n"))
    assert found.pairs == () and found.little == ("ada", "cy")


def test_what_half_of_a_class_has_is_nobodys() -> None:
    solutions = [s.text for s in sources(TWO) if s.kind == "solution"]
    crowd = {f"s{i}": HONEST.replace("sum", f"sum{i}") for i in range(10)}
    found = ranked(TWO, handed(**crowd, bob=OTHER, cy=OTHER, dan=solutions[2]))
    assert [(p.one, p.other) for p in found.pairs[:1]] == [("bob", "cy")]
    assert not [p for p in found.pairs if p.one in crowd and p.other in crowd]


def test_the_same_bytes_come_first_even_where_half_of_a_class_has_them() -> None:
    copies = {f"s{i}": HONEST for i in range(8)}
    found = ranked(TWO, handed(**copies, bob=OTHER, cy=OTHER + "\n", dan=STARTER))
    same = [p for p in found.pairs if p.identical]
    assert len(same) == 28 and found.pairs[:28] == tuple(same)
    assert all(p.share == 1 and p.shared >= similarity.LEAST for p in same)
    assert found.everybodys == tuple(copies) and found.little == ("dan",)
    assert [(p.one, p.other, p.identical) for p in found.pairs[28:]] == [("bob", "cy", False)]
    pair = ranked(TWO, handed(a=HONEST, b=HONEST), (), {"g": ("a", "b")}).pairs
    assert pair == ()  # who works together


def test_an_earlier_class_is_compared_with_and_not_within() -> None:
    before = handed(old=OTHER.replace("acc", "total"), twin=OTHER, ada=HONEST)
    found = ranked(TWO, handed(ada=HONEST, bob=OTHER), before)
    assert {(p.one, p.other, p.before) for p in found.pairs if p.share == 1} == {
        ("ada", "ada", True),
        ("bob", "old", True),
        ("bob", "twin", True),
    }
    assert not [p for p in found.pairs if {p.one, p.other} == {"old", "twin"}]


def test_members_of_a_group_are_not_compared() -> None:
    three = handed(ada=HONEST, bob=OTHER, cy=renamed(HONEST))
    assert ranked(TWO, three).pairs[0].share == 1
    assert ranked(TWO, three, (), {"g": ("ada", "cy")}).pairs == ()
    assert ranked(TWO, three, (), {"g": ("ada", "bob"), "h": ("cy",)}).pairs[0].share == 1


@pytest.mark.parametrize("raw", [None, b"", b"\xff\xfex", b"a\0b", b"\xe9"])
def test_what_is_no_text_is_left_out_and_named(raw: bytes | None) -> None:
    found = ranked(
        TWO, [*handed(ada=HONEST), Submission("zoe", "zoe", "zoe.cu", raw, "x" * (raw is None))]
    )
    assert found.without == ("zoe",) and found.pairs == ()


def test_tokens_are_those_of_cuda() -> None:
    assert tokens('a<<=1.5e-3f; /* b */ p->x += \'c\'; // d\n"s" x\n') == [
        "a", "<<=", "0", ";", "p", "->", "x", "+=", '""', ";", '""', "x",
    ]  # fmt: skip
    assert pieces("int a;") == frozenset()


def test_at_the_terminal_for_its_owner_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    now = hand_in(tmp_path / "in", ada=HONEST, bob=OTHER, cy=renamed(HONEST), dan=STARTER)
    (now / "..%2f=x.cu").write_text(OTHER, encoding="utf-8")
    old = hand_in(tmp_path / "old", eve=OTHER)
    asked = ["similar", "2", str(now), "--out", str(tmp_path / "out")]
    assert cli.main([*asked, "--with", str(old)]) == 0
    told = capsys.readouterr().out
    assert "100% of" in told and "ada, cy" in told and "eve of the earlier class" in told
    assert "too little of their own to compare: dan" in told
    assert "  identical: ..%2f=x, bob, eve of the earlier class\n" in told
    assert "identical: ada" not in told  # renamed is not the same
    place = tmp_path / "out" / "lab-2-similar"
    with (place / "pairs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    [row] = [row for row in rows if (row["one"], row["other"]) == ("ada", "cy")]
    assert (row["of"], row["share"]) == ("class", "1.00") and int(row["shared"]) > 50
    with (place / "info.csv").open(encoding="utf-8", newline="") as file:
        listed = [row["filename"] for row in csv.DictReader(file)]
    assert len(listed) == 6 and all((place / name).is_file() for name in listed)
    assert (place / "class" / "ada" / "lab2.cpp").read_text(encoding="utf-8") == HONEST
    assert STARTER in (place / "base" / "base.cpp").read_text(encoding="utf-8")
    assert "-bc base -old before class" in (place / "README.txt").read_text(encoding="utf-8")
    for path in (place, *(p for p in place.rglob("*") if p.is_file())):
        assert stat.S_IMODE(path.stat().st_mode) & 0o77 == 0, path
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["lab-2-similar"]

    assert cli.main(asked) == 0  # again, without the earlier class: nothing of it stays
    assert not (place / "before").exists() and "-old" not in (place / "README.txt").read_text(
        encoding="utf-8"
    )
