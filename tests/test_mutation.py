"""The mutation gate itself, on a package of one function: tests that see its edge, in the push ring,
in the day ring, in a child process, and one that does not."""

import ast
import json

import pytest

from tools import mutation

AREAS = {("packages/labs/fake",): ("tests/test_edge.py",)}
RING = """
def pytest_addoption(parser): parser.addoption("--ring")
def pytest_collection_modifyitems(config, items):
    items[:] = [i for i in items if config.getoption("--ring") == "day" or "day" not in i.name]
"""
SEES = "from fake.edge import inside\ndef test_edge(): assert inside(3) and not inside(4)\n"
CHILD = """
import subprocess, sys
def test_edge(tmp_path):
    code = "from fake.edge import inside; assert inside(3) and not inside(4)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
"""
BLIND = "from fake.edge import inside\ndef test_edge(): assert inside(0)\n"


def judged(folder, test, same=()):
    """(part killed, verdicts) of the four mutants of `return n < 4`."""
    for name, text in {
        "packages/labs/fake/__init__.py": "",
        "packages/labs/fake/edge.py": "def inside(n: int) -> bool:\n    return n < 4\n",
        "tests/test_edge.py": test,
        "conftest.py": RING,
        "same.json": json.dumps(list(same)),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    record = folder / "out" / "record.jsonl"
    part = mutation.gate(folder, AREAS, 1, 9, record, folder / "same.json")
    return part, {e["mutation"]: e["verdict"] for e in map(json.loads, record.open())}


def test_an_edge_that_is_tested_is_held_and_the_source_stays(tmp_path):
    part, verdicts = judged(tmp_path, SEES)
    assert part == 1 and set(verdicts.values()) == {"killed"}
    assert {"n < 4 -> (n <= 4)", "4 -> 5", "4 -> 3", "return n < 4 -> return None"} == set(verdicts)
    assert "n < 4" in (tmp_path / "packages/labs/fake/edge.py").read_text()
    assert judged(tmp_path, SEES)[0] == 1  # from the record: nothing was judged again
    assert len((tmp_path / "out/record.jsonl").read_text().splitlines()) == 4


def test_a_blind_test_lets_mutants_live_and_a_reason_takes_one_out(tmp_path):
    part, verdicts = judged(tmp_path, BLIND)
    assert part == 1 / 4 < mutation.LEAST
    assert verdicts["n < 4 -> (n <= 4)"] == "survived"
    entry = {"file": "edge.py", "line": "return n < 4", "mutation": "4 -> 5", "reason": "a trial"}
    assert judged(tmp_path, BLIND, [entry])[0] == 1 / 3


@pytest.mark.parametrize("test", [CHILD, BLIND + SEES.replace("test_edge", "test_day")])
def test_what_a_child_process_or_the_day_ring_alone_sees_is_killed(tmp_path, test):
    """A child imports the copy, too; what lives through the push ring meets the day ring."""
    part, verdicts = judged(tmp_path, test)
    assert part == 1 and len(verdicts) == 4


def test_the_tests_that_name_a_module_come_first(tmp_path):
    texts = {"a.py": "hedge", "b.py": "edge", "c.py": "edge, edges, edge"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    mutant = mutation.Mutant("fake/edge.py", 1, "", "", "")
    assert mutation.nearest_first(tmp_path, mutant, [*texts]) == ["c.py", "b.py", "a.py"]


def test_tests_that_fail_anyway_and_folders_that_moved_judge_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="fail before any mutation"):
        judged(tmp_path, "def test_edge(): assert False\n")
    with pytest.raises(ValueError, match=r"no mutant can be drawn.*gone"):
        mutation.draw(tmp_path, {("gone",): ()}, 1, 1)


def test_every_area_of_the_project_has_mutants_and_tests():
    drawn = mutation.draw(mutation.ROOT, mutation.AREAS, 1, len(mutation.AREAS))
    assert {tests for _, tests in drawn} == set(mutation.AREAS.values())
    assert drawn == mutation.draw(mutation.ROOT, mutation.AREAS, 1, len(mutation.AREAS))


def test_neither_words_for_people_nor_a_strict_zip_are_changed():
    text = 'def f(a: 1):\n    return zip(a, strict=True), f"{a + 2}"\n'
    assert [m.mutation[:9] for m in mutation.mutants("f.py", text)] == ["return zi"]


def test_what_hangs_on_shared_nodes_is_not_copied_and_the_tree_stays(monkeypatch):
    """As IPython's tracebacks do: `executing` sets a parent on every node, on those that all trees
    share, too."""

    class Whole:
        def __deepcopy__(self, memo):
            raise AssertionError("the tree of another file was copied")

    text = "if a < b < 4: return min(c[1:], -x + 1)"
    tree = ast.parse(f"def f():\n    {text}")
    for node in ast.walk(tree):
        monkeypatch.setattr(node, "parent", Whole(), raising=False)
    made = [ast.unparse(new) for node in ast.walk(tree) for new in mutation.changes(node)]
    assert "a <= b < 4" in made and len(made) >= 8
    assert ast.unparse(tree).split() == f"def f(): {text}".replace(": return", ": return").split()
