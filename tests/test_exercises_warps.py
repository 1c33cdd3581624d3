"""Exercises of chapters 12 to 15: right answers pass, wrong ones fail and are told why."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from helpers import trace
from helpers.chapters.ch14 import turing
from helpers.page.exercises import check
from helpers.record import costs
from tests.common import ROOT


def said(id: str, answer: Any) -> str:
    """What a refused answer is told."""
    result = check(id, answer)
    assert result.answered and not result.passed, result
    return repr(result)


def solution(page: str, id: str) -> dict[str, Any]:
    """The names that the solution printed on a page defines."""
    text = (ROOT / "book" / f"{page}.md").read_text(encoding="utf-8")
    part = text.split(f"### Exercise {id}")[1].split("{dropdown} Solution", 1)[1]
    code = part.split("```python\n", 1)[1].split("```", 1)[0]
    lines = [
        line
        for line in code.splitlines()
        if not line.startswith(("check(", "print(", "t = ", "reads", "         if"))
    ]
    names: dict[str, Any] = {}
    exec("\n".join(lines), names)
    return names


@pytest.mark.parametrize(
    ("page", "id", "name"),
    [
        ("12_lane_map", "12.1", "wavefronts"),
        ("12_lane_map", "12.2", "wavefronts"),
        ("12_lane_map", "12.3", "place"),
        ("12_lane_map", "12.4", "places"),
        ("13_loop_registers", "13.1", "kept"),
        ("13_loop_registers", "13.2", "one_bank"),
        ("14_ring_of_tiles", "14.1", "step"),
        ("14_ring_of_tiles", "14.2", "needs"),
        ("14_ring_of_tiles", "14.3", "binds"),
        ("15_tile_for_shape", "15.1", "share"),
        ("15_tile_for_shape", "15.2", "fits"),
        ("15_tile_for_shape", "15.3", "best_tile"),
        ("16_slices_of_k", "16.1", "best_slices"),
        ("16_slices_of_k", "16.2", "handed_over"),
    ],
)
def test_the_printed_solution_passes(page: str, id: str, name: str) -> None:
    assert check(id, solution(page, id)[name]).passed


# -- 12.1
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [16, 16.0])
def test_wavefronts_of_a_strip(answer: float) -> None:
    assert check("12.1", answer).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (12, "one row of lanes has none"),
        (6, "those are the reads"),
        (24, "two quarters pass together"),
        (8, "what A takes, or B"),
        (20, "it is A that all lanes want alike"),
        (10, "A lane reads"),
    ],
)
def test_a_wrong_strip_is_told_why(answer: float, hint: str) -> None:
    assert hint.lower() in said("12.1", answer).lower()


# -- 12.2 and 12.3
# -------------------------------------------------------------------------------------


def quarters(groups: list[int], far: tuple[int, ...] = (1, 2), banks: bool = True) -> int:
    """The rule of phases, with its parts to switch off."""

    def phase(lanes: range) -> int:
        different = {groups[i] for i in lanes}
        if not banks:
            return -(-len(different) // 8)
        return max(sum(g % 8 == bank for g in different) for bank in range(8))

    total = 0
    for half in (range(16), range(16, 32)):
        together = any(all(groups[i] == groups[i ^ f] for i in half) for f in far)
        total += phase(half) if together else phase(half[:8]) + phase(half[8:])
    return total


def test_a_count_of_a_read_passes_only_if_it_knows_both_neighbours_and_the_banks() -> None:
    assert check("12.2", quarters).passed
    assert not check("12.2", lambda groups: quarters(groups, far=(1,))).passed
    assert not check("12.2", lambda groups: quarters(groups, far=(2,))).passed
    assert not check("12.2", lambda groups: quarters(groups, far=())).passed
    assert not check("12.2", lambda groups: quarters(groups, banks=False)).passed
    assert not check("12.2", lambda groups: len(set(groups))).passed
    assert not check("12.2", lambda groups: 4).passed


def squares(lane: int, down: int, across: int) -> tuple[int, int]:
    """The kernel's map."""
    return lane // 2 % down, lane // (2 * down) * 2 + lane % 2


def mirrored(lane: int, down: int, across: int) -> tuple[int, int]:
    """CUTLASS's: rows and columns exchanged."""
    return lane // (2 * across) * 2 + lane % 2, lane // 2 % across


def test_lane_maps_in_squares_pass_however_they_are_numbered() -> None:
    assert check("12.3", squares).passed
    assert check("12.3", mirrored).passed


@pytest.mark.parametrize(
    ("place", "hint"),
    [
        (lambda lane, down, across: (lane // across, lane % across), "square of two by two"),
        (lambda lane, down, across: (lane % down, lane // down), "square of two by two"),
        (lambda lane, down, across: (lane // 2 % 2, lane % 2), "32 places"),
        (lambda lane, down, across: (lane % 4 // 2, lane // 4 * 2 + lane % 2), "32 places"),
    ],
)
def test_other_lane_maps_are_told_why(place: Callable[..., Any], hint: str) -> None:
    assert hint in said("12.3", place)


# -- 15.1
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [100 * 288 / 396, 72.7, 73, 72.73])
def test_the_last_wave_in_the_precision_of_the_solution(answer: float) -> None:
    assert check("15.1", answer).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (0.727, "in percent"),
        (27.3, "without work"),
        (218.2, "the last one is not full"),
        (2.18, "the last one is not full"),
        (18.2, "the last wave alone"),
        (3, "that many waves"),
        (100, "not full"),
        (50, "how many slots"),
    ],
)
def test_a_wrong_share_is_told_why(answer: float, hint: str) -> None:
    assert hint.lower() in said("15.1", answer).lower()


# -- 15.2
# --------------------------------------------------------------------------------------------


def fits(sets: int = 2, rest: int = 32, most: int = 255, file: int = 65536) -> Callable[..., bool]:
    """The rule of the exercise, or with another number in it."""
    return lambda tm, tn, threads, blocks: (
        tm * tn + sets * (tm + tn) + rest <= min(most, file // (threads * blocks))
    )


def test_the_rule_of_registers_passes_also_in_other_words() -> None:
    assert check("15.2", fits()).passed

    def longer(tm: int, tn: int, threads: int, blocks: int) -> bool:
        need = tm * tn + (tm + tn) * 2 + 32
        return need < 256 and need * threads * blocks <= 65536

    assert check("15.2", longer).passed
    assert check("15.2", lambda *case: int(longer(*case))).passed


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (fits(sets=1), "two sets of fragments"),
        (fits(rest=0), "32 registers go to everything else"),
        (fits(most=10**6), "No thread has more than 255"),
        (lambda tm, tn, t, b: tm * tn + 2 * (tm + tn) + 32 <= 255, "all resident threads"),
        (lambda tm, tn, t, b: fits()(tm, tn, t, 1), "All blocks on the SM"),
        (
            lambda tm, tn, t, b: tm * tn + 2 * (tm + tn) + 32 < min(255, 65536 // (t * b)),
            "exactly as many",
        ),
        (lambda *case: True, "expected False"),
        (lambda *case: False, "expected True"),
        (fits(sets=3), "expected True"),
    ],
)
def test_a_wrong_rule_of_registers_is_told_why(answer: Callable[..., Any], hint: str) -> None:
    assert hint in said("15.2", answer)


# -- 15.3
# --------------------------------------------------------------------------------------------


def up(a: int, b: int) -> int:
    return -(-a // b)


def work(tile: tuple[int, int], m: int, n: int, sms: int) -> int:
    bm, bn = tile
    return up(up(m, bm) * up(n, bn), sms) * bm * bn


def area(tile: tuple[int, int]) -> int:
    return tile[0] * tile[1]


def test_a_tile_for_a_size_passes_however_it_is_found() -> None:
    assert check(
        "15.3", lambda t, m, n, s: min(t, key=lambda x: (work(x, m, n, s), -area(x)))
    ).passed
    assert check(
        "15.3",
        lambda t, m, n, s: list(
            min(sorted(t, key=area, reverse=True), key=lambda x: work(x, m, n, s))
        ),
    ).passed


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        (lambda x, m, n, s: work(x, m, n, s), "take the one with the largest area"),
        (lambda x, m, n, s: (work(x, m, n, s), area(x)), "not the smallest"),
        (lambda x, m, n, s: (work(x, n, m, s), -area(x)), "BM counts rows"),
        (
            lambda x, m, n, s: (up(m // x[0] * (n // x[1]), s) * area(x), -area(x)),
            "round the number of tiles up",
        ),
        (lambda x, m, n, s: (up(m, x[0]) * up(n, x[1]) / s * area(x), -area(x)), "whole tiles"),
        (
            lambda x, m, n, s: (up(up(m, x[0]) * up(n, x[1]), s), -area(x)),
            "Few tiles are not little work",
        ),
        (lambda x, m, n, s: -area(x), "Few tiles are not little work"),
        (lambda x, m, n, s: m * n % (area(x) + 7), "How many tiles has the busiest SM"),
    ],
)
def test_another_choice_of_tile_is_told_why(key: Callable[..., Any], hint: str) -> None:
    assert hint in said("15.3", lambda t, m, n, s: min(t, key=lambda x: key(x, m, n, s)))


@pytest.mark.parametrize("at", range(4))
def test_no_place_in_the_list_is_always_the_answer(at: int) -> None:
    assert not check("15.3", lambda t, m, n, s: t[at]).passed


# -- 16.1, 16.2
# --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        (lambda t, s, sms: (up(t * s, sms) / s, -s), "take the smallest"),
        (lambda t, s, sms: up(t * s, sms), "divide the slices of the busiest SM"),
        (lambda t, s, sms: t * s / sms / s, "round the slices"),
        (lambda t, s, sms: -s, "More slices are not always"),
        (lambda t, s, sms: abs(t * s - sms), "One slice an SM"),
        (lambda t, s, sms: (t * 31 + s) % 7, "which part of a tile is each"),
    ],
)
def test_another_count_of_slices_is_told_why(key: Callable[..., Any], hint: str) -> None:
    def answer(tiles: int, sms: int, most: int) -> int:
        return min(range(1, most + 1), key=lambda s: key(tiles, s, sms))

    assert hint in said("16.1", answer)


@pytest.mark.parametrize(
    ("answer", "hint"),
    [
        (4, "read again"),
        (1, "C itself"),
        (6, "leaves its sums, too"),
        (8388608, "divide by 1048576"),
        (2, "four bytes"),
        (8.389, "of 1048576 bytes"),
        (5, "leaves a tile of sums"),
    ],
)
def test_other_bytes_handed_over_are_told_why(answer: float, hint: str) -> None:
    assert not check("16.2", answer).passed and hint in said("16.2", answer)


# -- 12.4
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lane_m", "lane_n", "hint"),
    [
        ("lane / 8 % 4", "lane % 8", "square of two by two"),
        ("lane / 2 % 4", "lane / 8 * 2 + lane % 2", "along the rows"),
        ("0", "lane % 8", "every pair is taken once"),
        ("oops", "lane % 8", "undefined"),
    ],
)
def test_a_map_that_is_run_is_told_why(lane_m: str, lane_n: str, hint: str) -> None:
    assert hint in said("12.4", {"lane_m": lane_m, "lane_n": lane_n})


def test_squares_along_the_rows_run() -> None:
    along = {"lane_m": "lane / 16 * 2 + lane % 4 / 2", "lane_n": "lane / 4 % 4 * 2 + lane % 2"}
    assert check("12.4", along).passed
    assert not check("12.4", "lane / 8").passed


# -- 13.1 and 13.2
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "hint"),
    [
        (lambda m, n, back: m * n - 1, "Every row from left to right"),
        (lambda m, n, back: m * (n - 1), "On the way back"),
        (lambda m, n, back: m * n if back else m * (n - 1) + 1, "none before it"),
        (lambda m, n, back: 0, "Follow the numbers"),
    ],
)
def test_a_wrong_count_of_kept_operands_is_told_why(kept: Callable[..., int], hint: str) -> None:
    assert hint in said("13.1", kept)


def registers(line: str) -> list[str]:
    return [part.strip() for part in line.split(",")]


@pytest.mark.parametrize(
    ("parts", "hint"),
    [
        (lambda line: registers(line), "destination"),
        (lambda line: [p for p in registers(line)[1:] if p[0] != "-"], "minus sign"),
        (lambda line: [p for p in registers(line)[1:] if ".reuse" not in p], ".reuse"),
    ],
)
def test_a_wrong_count_of_banks_is_told_why(parts: Callable[[str], list[str]], hint: str) -> None:
    def count(lines: list[str]) -> int:
        found = [[re.search(r"R(\d+)", part) for part in parts(line)] for line in lines]
        return sum(all(each) and len({int(f[1]) % 2 for f in each if f}) == 1 for each in found)

    assert hint in said("13.2", count)


# -- 14.1 and 14.2
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (lambda t, s: (t, t % s, t + s, t % s), "still in use"),
        (lambda t, s: (t, t % s, t + 1, (t + 1) % s), "Before the loop"),
        (lambda t, s: (t, t % s, t + s - 1, t % s), "is free, and no other"),
        (lambda t, s: (t, t, t + s - 1, t + s - 1), "taken in turn"),
        (lambda t, s: (t + 1, (t + 1) % s, t + s, t % s), "Step t multiplies tile t"),
        (lambda t, s: t, "the function returns"),
    ],
)
def test_a_wrong_trace_of_a_ring_is_told_why(step: Callable[..., Any], hint: str) -> None:
    assert hint in said("14.1", step)


@pytest.mark.parametrize(
    ("needs", "hint"),
    [
        (lambda r, c, g, n: (-(-n // c), min(n, c)), "the order row by row"),
        (lambda r, c, g, n: (min(g, r), -(-n // min(g, r))), "the last band may be lower"),
        (lambda r, c, g, n: (g, n), "column by column"),
    ],
)
def test_a_wrong_need_of_a_band_is_told_why(needs: Callable[..., Any], hint: str) -> None:
    assert hint in said("14.2", needs)


@pytest.mark.parametrize(
    ("binds", "hint"),
    [
        ({"8x8": "issue slots", "4x4": "shared memory"}, "when half of the slots are"),
        ({"8x8": "FMA pipe", "4x4": "FMA pipe"}, "two for each wavefront"),
        ({"8x8": "FMA pipe"}, "Choose one of"),
        ("FMA pipe", "Give a dict"),
    ],
)
def test_a_wrong_guess_of_what_binds_on_a_t4_is_told_why(binds: Any, hint: str) -> None:
    assert hint in said("14.3", binds)


def test_the_cost_model_agrees_with_what_binds_on_a_t4() -> None:
    """The exercise counts reads and products alone; the model counts stores and copies as well."""
    small = {"BM": 32, "BN": 32, "TM": 4, "TN": 4}
    binding = [costs.bounds("double_buffer", 4096, gpu="t4", **t).binding for t in ({}, small)]
    assert binding == ["FMA pipe", costs.L1]
    for tile, patch in (({}, (8, 8)), (small, (4, 4))):
        bm, bn = (tile.get(side, 128) for side in ("BM", "BN"))
        rows = trace("double_buffer", M=bm, N=bn, K=32, **tile).by_line()
        reads = {r.array: r for r in rows if (r.space, r.op) == ("shared", "load")}
        found = tuple(reads[name].wavefronts_per_request for name in ("A_tile", "B_tile"))
        assert found == (2, 4) and turing.clocks(*patch, found)
