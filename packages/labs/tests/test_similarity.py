"""Folders for JPlag and Dolos: every text in its place, for its owner alone."""

from __future__ import annotations

import stat

from classes import hand_in, table
from test_grading import TWO

from helpers import __main__ as cli
from tilelabs.grading.similarity import export
from tilelabs.labs import rehearsing
from tilelabs.labs.rehearsing import sources
from tools.hostile import HONEST

STARTER = TWO.starter(TWO.variants[0])


def test_folders_for_jplag_and_dolos(tmp_path, capsys):
    now = hand_in(tmp_path / "in", ada=HONEST, bob=STARTER)
    (now / "..%2f=x.cu").write_text(HONEST, encoding="utf-8")
    (now / "zoe.cu").write_bytes(b"\xff\xfex")
    old = hand_in(tmp_path / "old", eve=HONEST)
    command = ["similar", "2", str(now), "--out", str(tmp_path / "out")]
    assert cli.main([*command, "--with", str(old)]) == 0
    assert "without a text: zoe" in capsys.readouterr().out
    place = tmp_path / "out" / "lab-2-similar"
    rows = table(place / "info.csv", "full_name")
    assert all((place / row["filename"]).is_file() for row in rows.values())
    solutions = [s for s in sources(TWO) if s.kind == "solution"]
    assert solutions and len(rows) == 4 + len(solutions)
    assert {rows[who]["label"] for who in ("ada", "bob", "..%2f=x")} == {"class"}
    [copied] = {rows[f"solution_{s.name}"]["filename"] for s in solutions if s.text == HONEST}
    assert (place / copied).read_text(encoding="utf-8") == HONEST  # word for word what ada has
    assert rows["eve"]["label"] == rows[f"solution_{solutions[0].name}"]["label"] == "before"
    assert (place / "class" / "ada" / "lab2.cpp").read_text(encoding="utf-8") == HONEST
    base = (place / "base" / "base.cpp").read_text(encoding="utf-8")
    assert STARTER in base and (cli.ROOT / "kernels" / "06_tiled.cu").read_text() in base
    assert "-bc base -old before class" in (place / "README.txt").read_text(encoding="utf-8")
    for path in (place, *(p for p in place.rglob("*") if p.is_file())):
        assert stat.S_IMODE(path.stat().st_mode) & 0o77 == 0, path
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["lab-2-similar"]
    assert cli.main(command) == 0  # again, without the earlier class: nothing of it stays
    assert not (place / "before" / "eve").exists()


def test_a_class_of_nobody_without_published_solutions_has_the_base_alone(tmp_path, monkeypatch):
    """As in a clone on Colab: then nothing earlier is named, and nothing is damaged."""
    monkeypatch.setattr(rehearsing, "FOLDER", "not there")
    folder, without = export(TWO, (), (), tmp_path)
    assert without == () and {p.name for p in folder.iterdir() if p.is_dir()} == {"base"}
    words = (folder / "README.txt").read_text("utf-8").replace("before you think", "")
    assert "before" not in words
