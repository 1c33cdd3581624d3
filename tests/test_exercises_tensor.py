"""Exercises of chapters 17 to 22: right answers that count, wrong ones, and hints that are true of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from helpers import exercises
from helpers.exercises import Result
from helpers.hopper import wgmma_descriptor
from tests.conftest import ROOT


def solution(number: str) -> str:
    """The kernel of an exercise's solution."""
    page = next((ROOT / "book").glob(f"{number[:2]}_*.md")).read_text(encoding="utf-8")
    part = page.split(f"### Exercise {number}")[1].split("Solution", 1)[1]
    return re.findall(r'(?s)mine = """(.*?)"""', part)[0]


def starter(number: str) -> str:
    """The kernel that a reader starts from."""
    page = next((ROOT / "book").glob(f"{number[:2]}_*.md")).read_text(encoding="utf-8")
    return re.findall(r'(?s)mine = """(.*?)"""', page.split(f"### Exercise {number}")[1])[0]


def failures(result: Result) -> dict[str, str]:
    """What did not pass, and the hint to it."""
    return {c.what: c.hint for c in result.checks if not c.ok}


def hint(number: str, answer: Any) -> str:
    """The hint to the first check that fails; an answer that passes has none."""
    result = exercises.check(number, answer)
    assert not result.passed, f"{number} accepts {answer!r}"
    return next(iter(failures(result).values()))


# -- chapter 17 ------------------------------------------------------------------------------------


def blocks(M: int, N: int, warps: int) -> tuple[int, int, int]:
    x, y = -(-M // 16), -(-N // (16 * warps))
    return x, y, x * (y * warps - -(-N // 16))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda M, N, w: (-(-M // 16), -(-N // 16), 0), "columns of C does a block cover"),
        (lambda M, N, w: (M // 16, *blocks(M, N, w)[1:]), "down the rows of C"),
        (lambda M, N, w: (*blocks(M, N, w)[:2], 0), "take off one for each tile"),
        (lambda M, N, w: blocks(M, N, w)[:2], "return three numbers"),
        (lambda M, N, w: blocks(M, N, w)[0], "return three numbers"),
    ],
)
def test_a_wrong_grid_gets_a_hint_that_is_true_of_it(
    answer: Callable[[int, int, int], Any], words: str
) -> None:
    assert exercises.check("17.1", blocks).passed
    assert words in hint("17.1", answer)


@pytest.mark.parametrize("answer", [8 / 6, 1.33, 1.3333, 4 / 3])
def test_instructions_for_each_load_count_to_one_percent(answer: float) -> None:
    assert exercises.check("17.2", answer).passed


@pytest.mark.parametrize(
    ("answer", "words"),
    [(8, "divide by the loads"), (6, "these are the loads"), (0.75, "other way round"),
     (0.5, "kept for all its products"), (2.0, "how many pairs")],
)  # fmt: skip
def test_a_wrong_number_of_instructions_gets_its_hint(answer: float, words: str) -> None:
    assert words in hint("17.2", answer).lower()


SCALAR = """
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void two_tiles(const half* A, const half* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * 16, col = blockIdx.x * 32;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c[2];
    for (int j = 0; j < 2; ++j) wmma::fill_fragment(c[j], 0.0f);
    for (int k = 0; k < STEPS; k += 16) {
        wmma::load_matrix_sync(a, A + row * K + k, K);
        for (int j = 0; j < 2; ++j) {
            wmma::load_matrix_sync(b, B + k * N + col + 16 * j, N);
            wmma::mma_sync(c[j], a, b, c[j]);
        }
    }
    for (int j = 0; j < 2; ++j) {
        wmma::store_matrix_sync(C + row * N + col + 16 * j, c[j], N, wmma::mem_row_major);
    }
    __syncwarp();
    for (int i = 0; i < 16; ++i) {
        float sum = 0;
        for (int k = 0; k < K; ++k)
            sum += __half2float(A[(row + i) * K + k]) * __half2float(B[k * N + col + threadIdx.x]);
        C[(row + i) * N + col + threadIdx.x] = sum;
    }
}
"""


@pytest.mark.parametrize("steps", ["16", "K"])
def test_tensor_cores_for_show_and_lanes_for_the_work_are_refused(steps: str) -> None:
    result = exercises.check("17.3", SCALAR.replace("STEPS", steps))
    assert "the Tensor Cores do the work" in failures(result)
    assert all(c.ok for c in result.checks if c.what.endswith("is right"))  # the numbers are right


def test_two_tiles_are_two_multiplies_for_three_loads() -> None:
    right = solution("17.3")
    assert exercises.check("17.3", right).passed
    load_a = "wmma::load_matrix_sync(a, A + row * K + k, K);"
    twice = right.replace(load_a, "").replace(
        "wmma::mma_sync(c[j]", f"{load_a}\n            wmma::mma_sync(c[j]"
    )
    assert (
        "load it once a step"
        in failures(exercises.check("17.3", twice))["two multiplies for three loads"]
    )
    assert "where do they begin" in hint("17.3", starter("17.3"))


# -- chapter 18 ------------------------------------------------------------------------------------


def plain(k: int, col: int) -> tuple[int, int, int]:
    return k % 8 * 4 + col // 2, k // 8, col % 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda k, col: (col * 4 + k % 8 // 2, k // 8, k % 2), "as mma.sync wants it"),
        (lambda k, col: (k % 8 * 4 + col // 2, k // 8 ^ 1, col % 2), "register 0 holds the matrix"),
        (lambda k, col: (k % 8 * 4 + col // 2, k // 8, col % 2 ^ 1), "first of the two"),
        (lambda k, col: (31 - plain(k, col)[0], *plain(k, col)[1:]), "lane 4g + t"),
        (lambda k, col: (k % 8 * 4, k // 8, col % 2), "as many places"),
    ],
)
def test_a_wrong_holder_gets_a_hint_that_is_true_of_it(
    answer: Callable[[int, int], Any], words: str
) -> None:
    assert exercises.check("18.1", plain).passed
    assert words in hint("18.1", answer)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda r, c: r * 32 + c, "the number to XOR with belongs to the line"),
        (lambda r, c: r * 32 + (c // 8 ^ r % 4) * 8 + c % 8, "belongs to the line, not to the row"),
        (lambda r, c: r * 40 + c, "row r keeps the indices"),
        (lambda r, c: r * 32 + c // 8 * 8, "keeps chunks apart"),
        (lambda r, c: r * 32 + (c ^ r // 2 % 4), "col % 8 stays"),
    ],
)
def test_a_wrong_swizzle_gets_a_hint_that_is_true_of_it(
    answer: Callable[[int, int], int], words: str
) -> None:
    assert words in hint("18.2", answer)


@pytest.mark.parametrize(
    "place", [lambda r, c: c // 8 ^ r // 2 % 4, lambda r, c: (c // 8 + r // 2) % 4]
)
def test_an_xor_and_a_rotation_of_chunks_both_pass(place: Callable[[int, int], int]) -> None:
    assert exercises.check("18.2", lambda r, c: r * 32 + place(r, c) * 8 + c % 8).passed


def test_fragments_that_ldmatrix_does_not_read_are_refused() -> None:
    right = solution("18.3")
    assert exercises.check("18.3", right).passed
    read = "ldmatrix_x4(r, shared_address(&tile[place(lane % 16, k + lane / 16 * 8)]));"
    straight = """for (int i = 0; i < 4; ++i) {
            const int row = lane / 4 + i % 2 * 8, col = k + i / 2 * 8 + lane % 4 * 2;
            r[i] = reinterpret_cast<const unsigned*>(x)[(row * 64 + col) / 2];
        }"""
    assert right.count(read) == 1
    cheat = right.replace(read, read + "\n        " + straight)  # ldmatrix for show
    result = exercises.check("18.3", cheat)
    assert list(failures(result)) == ["ldmatrix does the reading"]
    assert "stage x once" in hint("18.3", cheat)
    assert "must be read from where it was stored" in hint(
        "18.3", right.replace("k + lane / 16 * 8)]", "k)]")
    )
    assert "chunks of eight neighbouring rows" in hint("18.3", starter("18.3"))


# -- chapter 19 ------------------------------------------------------------------------------------


def warp_tile(flop: int, delivered: int, registers: int) -> tuple[int, int] | None:
    edges = (16, 32, 64, 128)
    fits = [
        (wm, wn)
        for wm in edges
        for wn in edges
        if flop * (1 / wm + 1 / wn) <= delivered and wm * wn // 32 <= registers
    ]
    return min(fits, key=lambda tile: tile[0] * tile[1], default=None)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda f, d, r: (64, 64), "will do, with fewer sums"),
        (lambda f, d, r: warp_tile(f, 10**9, r), "bytes a clock, and"),
        (lambda f, d, r: warp_tile(f, d, 10**9), "and 64 is the most"),
        (lambda f, d, r: warp_tile(f, d, r) or (64, 64), "sums, and 64 is the most"),
        (lambda f, d, r: None, "does: 128 bytes a clock"),
        (lambda f, d, r: 64, "return (WM, WN)"),
        (lambda f, d, r: (256, 16), "return (WM, WN)"),
    ],
)
def test_a_wrong_warp_tile_gets_a_hint_that_is_true_of_it(
    answer: Callable[[int, int, int], Any], words: str
) -> None:
    assert exercises.check("19.1", warp_tile).passed
    assert exercises.check("19.1", lambda f, d, r: [*(warp_tile(f, d, r) or [])] or None).passed
    assert words in hint("19.1", answer)


WAIT = "wait_groups<STAGES - 2>();"
AHEAD = "copy_slot(slots + ahead % STAGES * SLOT, A, B, ahead, K);"


@pytest.mark.parametrize(
    ("wrong", "what", "words"),
    [
        (lambda s: s.replace(WAIT, ""), "no race at K = 16", "before the barrier"),
        (lambda s: s.replace(WAIT, "wait_groups<STAGES - 1>();"), "no race at K = 16", "before the barrier"),
        (lambda s: s.replace(WAIT, "wait_groups<0>();"), "a younger copy may stay under way", "how many tiles"),
        (lambda s: s.replace(WAIT, 'asm volatile("cp.async.wait_all;" ::: "memory");'), "a younger copy may stay under way", "how many"),
        (lambda s: s.replace(WAIT, "").replace(AHEAD, f"{AHEAD} wait_groups<STAGES - 1>();"), "no race at K = 16", "the barrier must come after it"),
        (lambda s: s.replace("0, j * 8, sum", "0, 8 - j * 8, sum"), "K = 16 is right", "keep the copies"),
    ],
)  # fmt: skip
def test_a_ring_with_another_wait_is_told_what_is_wrong(
    wrong: Callable[[str], str], what: str, words: str
) -> None:
    right = solution("19.2")
    assert right.count(WAIT) == right.count(AHEAD) == 1 and wrong(right) != right
    found = failures(exercises.check("19.2", wrong(right)))
    assert words in found[what]


def test_a_ring_may_wait_before_its_barrier_or_behind_the_next_copies() -> None:
    right = solution("19.2")
    assert exercises.check("19.2", right).passed
    later = right.replace(WAIT, "").replace(
        AHEAD, f"{AHEAD} wait_groups<STAGES - 1>(); __syncwarp();"
    )
    assert exercises.check("19.2", later).passed
    assert "no race at K = 16" in failures(exercises.check("19.2", starter("19.2")))


# -- chapter 20 ------------------------------------------------------------------------------------


def offset(row: int, col: int) -> int:
    box, col = divmod(col, 64)
    return 8192 * box + 128 * row + 16 * (col // 8 ^ row % 8) + 2 * (col % 8)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda r, c: offset(r, c) // 2, "an element has two"),
        (lambda r, c: 2 * (256 * r + c), "the next 64 lie behind all of them"),
        (lambda r, c: 8192 * (c // 64) + 128 * r + 2 * (c % 64), "exclusive or with the row"),
        (lambda r, c: offset(r, c) - 2 * (c % 8), "keeps its place within its chunk"),
    ],
)
def test_a_wrong_place_in_a_box_gets_its_hint(
    answer: Callable[[int, int], int], words: str
) -> None:
    assert exercises.check("20.1", offset).passed
    assert words in hint("20.1", answer)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("at.parity ^ 1", "at.parity", "first round must not wait"),
        ("barrier_wait(&empty[at.stage], at.parity ^ 1);", "", "waits for empty"),
        ("barrier_wait(&full[at.stage], at.parity);", "", "waits for full"),
        ("barrier_arrive(&empty", "if (lane == 0) barrier_arrive(&empty", "as many threads must"),
        ("at.advance();", "__syncthreads(); at.advance();", "meet at full and empty alone"),
    ],
)
def test_a_relay_that_breaks_says_at_which_barrier(old: str, new: str, words: str) -> None:
    right = solution("20.2")
    assert right.count(old) == 1 and exercises.check("20.2", right).passed
    assert words in hint("20.2", right.replace(old, new))
    assert "waits for empty" in hint("20.2", starter("20.2"))


def test_one_arrival_for_all_lanes_is_a_right_relay() -> None:
    one = solution("20.2").replace("empty[threadIdx.x], 32", "empty[threadIdx.x], 1")
    last = "__syncwarp(); if (lane == 0) barrier_arrive(&empty[at.stage])"
    assert exercises.check("20.2", one.replace("barrier_arrive(&empty[at.stage])", last)).passed
    early = one.replace("barrier_arrive(&empty[at.stage])", last.replace("__syncwarp(); ", ""))
    assert "waits for empty" in hint("20.2", early)


# -- chapters 21 and 22 ----------------------------------------------------------------------------


def test_a_producer_that_announces_its_own_part_only_is_told_so() -> None:
    def ring(bm: int, bn: int, cluster: int, c_bytes: int) -> tuple[int, int]:
        return 128 * (bm + bn // cluster), (225 * 1024 - c_bytes) // (128 * (bm + bn))

    told = failures(exercises.check("22.1", ring))
    assert told and all("not all that lands" in words for words in told.values())


def test_a_ring_that_forgets_the_bytes_for_c_is_told_that_one_more_does_not_fit() -> None:
    def ring(bm: int, bn: int, cluster: int, c_bytes: int) -> tuple[int, int]:
        return 128 * (bm + bn), (225 * 1024 - c_bytes) // (128 * (bm + bn))

    assert exercises.check("22.1", ring).passed
    told = failures(exercises.check("22.1", lambda m, n, c, b: ring(m, n, c, 0)))
    assert list(told.values()) == ["one more would not fit beside C"]


def test_a_descriptor_that_keeps_the_number_of_the_block_is_told_so() -> None:
    def unmasked(start: int, leading: int, stride: int) -> int:
        return 1 << 62 | stride >> 4 << 32 | leading >> 4 << 16 | start >> 4

    assert exercises.check("21.1", wgmma_descriptor).passed
    assert "name the block of the cluster" in hint("21.1", unmasked)


def holder(row: int, col: int) -> tuple[int, int]:
    lane = row % 8 * 4 + col % 8 // 2
    return row // 16 * 32 + lane, col // 8 * 4 + row % 16 // 8 * 2 + col % 2


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda r, c: (0, 0), "no two may share one"),
        (
            lambda r, c: (127 - holder(r, c)[0], holder(r, c)[1]),
            "a warp of the group holds 16 rows",
        ),
        (lambda r, c: (holder(r, c)[0] ^ 1, holder(r, c)[1]), "four lanes share eight columns"),
        (lambda r, c: (holder(r, c)[0], holder(r, c)[1] ^ 2), "the row eight further down"),
    ],
)
def test_a_wrong_holder_of_a_sum_gets_its_hint(
    answer: Callable[[int, int], Any], words: str
) -> None:
    assert exercises.check("21.2", holder).passed
    assert words in hint("21.2", answer)
    assert not exercises.check("21.2", lambda r, c: r).passed


def test_rounds_count_to_one_percent_where_tiles_are_cut_and_exactly_where_not() -> None:
    def rounds(tiles: int, workers: int) -> tuple[float, float]:
        whole = -(-tiles // workers)
        return whole, round(tiles / workers, 2) if tiles > workers else whole

    assert exercises.check("22.2", rounds).passed
    assert "round up" in hint("22.2", lambda t, w: (t / w, max(1.0, t / w))).lower()
    assert "not full" in hint("22.2", lambda t, w: (t // w, max(1.0, t / w))).lower()
    assert "nothing is cut" in hint("22.2", lambda t, w: (-(-t // w), t / w)).lower()
    assert "nobody waits" in hint("22.2", lambda t, w: (-(-t // w), -(-t // w))).lower()
    assert not exercises.check("22.2", lambda t, w: (1.005 * -(-t // w), max(1.0, t / w))).passed
