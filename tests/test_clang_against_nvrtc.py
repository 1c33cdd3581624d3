"""The record of clang beside NVRTC: of today's code, without a difference, true when run again."""

from __future__ import annotations

import copy
import json
from functools import cache

import pytest

from tests import test_mutants
from tools import clang_against_nvrtc as compared
from tools import compilers, mutants


@cache
def record(path=compared.FILE):
    return json.loads(path.read_text(encoding="utf-8"))


BY_IR = record(compared.FILE_BY_IR)


def row(section, name):
    [found] = [r for r in record()[section] if next(iter(r.values())) == name]
    return found


def test_the_record_is_of_every_kernel_mutant_and_exercise_of_today():
    """Whoever changes one writes it again: python -m tools.clang_against_nvrtc."""
    assert compared.stale(record()) == []


def test_the_record_of_the_route_by_llvm_ir_is_of_today():
    """Whoever changes one writes it again: python -m tools.clang_against_nvrtc --by-ir."""
    assert compared.stale(BY_IR, "ir") == []
    twin = copy.deepcopy(BY_IR)
    twin["cores"][2]["code"] = "0" * 12
    assert len(compared.stale(twin, "ir")) == 1


def test_by_llvm_ir_results_are_the_same_and_no_count_is_unexplained():
    assert BY_IR["versions"]["ir"].endswith(" by LLVM IR")
    for r in (*BY_IR["cores"], *BY_IR["kernels"]):
        assert r["launches"] == r["bits"] == r["right"] >= 1, r["kernel"]
        unexplained = compilers.unexplained(r["kernel"], r["differences"], "nvrtc", "ir")
        assert unexplained == [], r["kernel"]
    for section in ("exercises", "mutants"):
        assert all(r["differences"] == [] for r in BY_IR[section])


@pytest.mark.parametrize(
    ("section", "what"),
    [("kernels", "code"), ("kernels", "defines"), ("mutants", "code"), ("exercises", "code")],
)
def test_a_record_of_other_code_is_seen(section, what):
    twin = copy.deepcopy(record())
    twin[section][3][what] = "0" * 12
    assert len(compared.stale(twin)) == 1
    del twin[section][3]
    assert "not in the record" in compared.stale(twin)[0]


def unexplained(row):
    return compilers.unexplained(row["kernel"], row["differences"], "nvrtc", "clang")


def test_another_difference_would_be_told():
    [some] = [r for r in record()["kernels"] if r["kernel"] == "thin_rows"]
    for change in ({"space": "global"}, {"op": "store"}, {"array": "A_tile", "clang": 10**9}):
        twin = copy.deepcopy(some)
        twin["differences"][0] |= change
        assert unexplained(twin)
    assert unexplained({**some, "kernel": "naive"})


def test_results_and_counts_are_those_of_nvrtc():
    for r in record()["kernels"]:
        assert r["launches"] == r["bits"] == r["right"] >= 4, r["kernel"]
        assert r["counts"] > r["lines"] > 0
        assert unexplained(r) == [], r["kernel"]


def test_starters_and_solutions_are_judged_alike():
    for r in record()["exercises"]:
        assert r["solution"] == {"nvrtc": True, "clang": True}, r["exercise"]
        assert r["starter"] == {"nvrtc": False, "clang": False}, r["exercise"]
        assert r["differences"] == [], r["exercise"]


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", ["tiled_16", "vectorised", "mma_ldmatrix"])
def test_a_kernel_compared_again_gives_what_is_recorded(name):
    first, *_, last = compared.launches(name)
    again = compared.kernel_row(name, [first, last])
    assert (again["bits"], again["right"], again["differences"]) == (2, 2, [])
    assert {w: again[w] for w in ("code", "defines")} == {
        w: row("kernels", name)[w] for w in ("code", "defines")
    }


@pytest.mark.nvrtc
def test_counts_that_stand_under_another_line_are_told(without_lines_told):
    """Without the line given back, LLVM's hoisted loads of chapter 10 stand under the barrier."""
    found = compared.kernel_row("vectorised", compared.launches("vectorised")[-1:])
    assert found["bits"] == 1
    assert {d["array"] for d in found["differences"]} == {"A_tile", "B_tile"}
    assert all(d["nvrtc"] == 0 or d["clang"] == 0 for d in found["differences"])


@pytest.mark.nvrtc
@pytest.mark.parametrize("mutant", test_mutants.sample()[::4], ids=lambda m: m.name)
def test_a_mutant_compared_again_gives_what_is_recorded(mutant):
    assert compared.mutant_row(mutant) == row("mutants", mutant.name)


@pytest.mark.nvrtc
def test_a_mutant_that_one_compiler_misses_is_told(monkeypatch):
    mutant, run = test_mutants.sample()[0], mutants.run

    def blind(mutant, see):
        found = run(mutant, see)
        if compared.toolchain.compiler().startswith("clang"):
            found |= {"found": False, "findings": {s: [] for s in found["findings"]}}
        return found

    monkeypatch.setattr(mutants, "run", blind)
    differences = compared.mutant_row(mutant)["differences"]
    assert [d["what"] for d in differences] == ["findings", "found"]


@pytest.mark.nvrtc
def test_an_exercise_compared_again_gives_what_is_recorded():
    assert compared.exercise_row("06.2") == row("exercises", "06.2")


def test_a_run_goes_on_where_it_stopped(tmp_path):
    part = {"kernels": record()["kernels"][:3]}
    path = tmp_path / "clang.json"
    compared.write(path, part, compared.todo())
    again = json.loads(path.read_text(encoding="utf-8"))
    assert [r["kernel"] for r in again["kernels"]] == list(compilers.KERNELS[:3])
    part["kernels"][1] = {**part["kernels"][1], "code": "other"}
    compared.write(path, part, compared.todo())
    assert len(json.loads(path.read_text(encoding="utf-8"))["kernels"]) == 2
