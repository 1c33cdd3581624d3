"""Solutions: sealed in the tree, opened by the book's passphrase or a teacher's own."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from helpers import __main__ as cli
from nogpu import emulator
from nogpu.errors import ConfigError, DataError
from tests.common import ROOT, completed
from tilelabs import labs
from tilelabs.labs import rehearsing, sealing

TWO = labs.lab("2")


def solutions_in(pieces):
    """Files of rehearsals, and what they are tried on, whose text stands in one of these."""
    texts: dict[str, bytes] = {}
    for lab in labs.all_labs():
        files = rehearsing.texts(lab).items()
        tried = {s.name: s.text for s in rehearsing.sources(lab) if s.kind != "starter"}
        texts |= {
            f"{lab.number} {name}": t.encode().strip() for name, t in (*files, *tried.items())
        }
    blobs = list(pieces)
    return [name for name, text in texts.items() if any(text in piece for piece in blobs)]


@pytest.fixture
def own(tmp_path):
    """Lab 2 in a folder of one's own."""
    folder = tmp_path / "labs" / TWO.folder.name
    shutil.copytree(TWO.folder, folder)
    for path in sealing.plain(folder / "rehearsal"):
        path.unlink()
    return replace(TWO, folder=folder)


def test_no_file_of_the_tree_holds_a_solution(tmp_path):
    line = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = completed(line, cwd=ROOT, check=True)
    files = [ROOT / name for name in listed.stdout.split("\0") if name]
    assert solutions_in(path.read_bytes() for path in files if path.is_file()) == []
    unpacked = rehearsing.unpack(labs.all_labs(), tmp_path)
    found = solutions_in(path.read_bytes() for path in unpacked)
    assert {"2 a_transposed.cu", "6 climb.cu"} <= set(found)


def test_a_teacher_unpacks_changes_and_packs(own, tmp_path):
    home = own.folder / "rehearsal"
    before = (home / sealing.PACK).read_bytes()
    assert rehearsing.pack([own], _unpacked(own, tmp_path / "a")) == [home / sealing.PACK]
    assert (home / sealing.PACK).read_bytes() == before, "what is the same stays, to the byte"
    mine = _unpacked(own, tmp_path / "b") / own.folder.name / "rehearsal"
    assert {path.stat().st_mode & 0o77 for path in mine.iterdir()} == {0}
    (mine / "no_tiles.cu").write_text("a change", encoding="utf-8")
    (mine / "nobody_names_it.cu").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"no_tiles\.cu is there with another text"):
        rehearsing.unpack([own], tmp_path / "b")
    rehearsing.pack([own], tmp_path / "b")
    texts = rehearsing.texts(own)
    assert texts["no_tiles.cu"] == "a change" and "nobody_names_it.cu" not in texts
    assert (mine / "no_tiles.cu").is_file(), "it is the teacher's"
    assert texts.keys() == rehearsing.texts(TWO).keys()


def _unpacked(lab, folder):
    rehearsing.unpack([lab], folder)
    return folder


def test_an_author_has_plain_files_until_they_are_packed(own):
    home = own.folder / "rehearsal"
    (home / "no_tiles.cu").write_text("in plain", encoding="utf-8")
    assert rehearsing.texts(own)["no_tiles.cu"] == "in plain"
    table = home / "rehearsal.toml"
    table.write_text("[", encoding="utf-8")
    with pytest.raises(DataError, match="damaged"):
        rehearsing.pack([own], home.parents[1])
    assert (home / "no_tiles.cu").is_file()
    table.unlink()
    rehearsing.pack([own], home.parents[1])
    assert [path.name for path in home.iterdir()] == [sealing.PACK]
    assert rehearsing.texts(own)["no_tiles.cu"] == "in plain"
    with pytest.raises(ConfigError, match="unpack into it first"):
        rehearsing.pack([own], home.parents[1])


def test_a_passphrase_of_ones_own(own, tmp_path, monkeypatch):
    pack = own.folder / "rehearsal" / sealing.PACK
    texts, words = rehearsing.texts(own), tmp_path / "words"
    monkeypatch.setenv(sealing.PASSPHRASE_FILE, str(words))
    with pytest.raises(ConfigError, match="No such file"):
        rehearsing.texts(own)
    words.write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="is empty"):
        rehearsing.texts(own)
    words.write_text("mine alone\n", encoding="utf-8")
    assert rehearsing.texts(own) == texts, "what the book has sealed opens yet"
    before = pack.read_bytes()
    sealing.seal(texts, pack.parent)
    assert pack.read_bytes() != before and rehearsing.texts(own) == texts
    monkeypatch.delenv(sealing.PASSPHRASE_FILE)
    with pytest.raises(DataError, match="sealed with another passphrase"):
        rehearsing.texts(own)


@pytest.mark.parametrize("at", [0, 20, -1])
def test_a_damaged_pack_is_refused(own, at):
    pack = own.folder / "rehearsal" / sealing.PACK
    data = bytearray(pack.read_bytes())
    data[at] ^= 1
    pack.write_bytes(data)
    with pytest.raises(DataError, match="does not open"):
        rehearsing.sources(own)
    pack.unlink()
    with pytest.raises(DataError, match="clone the whole book"):
        rehearsing.sources(own)


QUESTIONS = [(lab, one) for lab in labs.all_labs() for one in rehearsing.exam(lab)]


def wrong(question):
    """In what the facts that a question's answer stands on are other ones."""
    odd = [sum_ for sum_, value in question.sums if eval(sum_) != value]
    if question.kernel:
        arrays = [np.ones(4096, np.float32) for _ in range(question.kernel.count("*", 0, 90))]
        report = emulator.launch(question.kernel, "exam", 1, question.block, arrays)
        counts: Counter[tuple[str, str, str]] = Counter()
        for one in report.by_line():
            for what in ("requests", "sectors", "wavefronts"):
                counts[f"{one.space} {one.op}", one.array, what] += getattr(one, what)
        odd += [what for op, of, what, value in question.told if counts[op, of, what] != value]
        odd += [f.kind for f in report.findings if f.kind != question.found]
        odd += [question.found] * (not report.findings and bool(question.found))
    return odd


@pytest.mark.nvrtc
def test_answers_for_an_exam_are_held_by_the_emulator():
    assert len(QUESTIONS) >= 12 and all(q.answer and 0 < q.minutes <= 15 for _, q in QUESTIONS)
    for _, question in QUESTIONS:
        assert not wrong(question), question.ask
    racy = next(q for _, q in QUESTIONS if q.found)
    counted = next(q for _, q in QUESTIONS if q.told)
    for twin in (
        replace(racy, found=""),
        replace(counted, found="race"),
        replace(counted, told=[("global load", "x", "sectors", 31)]),
        replace(counted, sums=[("1 + 1", 3)]),
    ):
        assert wrong(twin)


def test_solutions_at_the_terminal(tmp_path, capsys):
    assert cli.main(["labs", "solutions", "--unpack", str(tmp_path)]) == 0
    words = capsys.readouterr().out.split()
    assert str(tmp_path / "2_tiling" / "rehearsal" / "a_transposed.cu") in words
    assert cli.main(["labs", "solutions", "--pack", str(tmp_path)]) == 0
    assert str(TWO.folder / "rehearsal" / sealing.PACK) in capsys.readouterr().out
    assert cli.main(["labs", "solutions"]) == 2
    assert "--unpack FOLDER or --pack FOLDER" in capsys.readouterr().err
