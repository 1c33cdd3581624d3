"""Exercises of chapters 17 to 22: right answers that count, wrong ones, and hints that are true of
them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from helpers.ladder.hopper import wgmma_descriptor
from helpers.page import exercises
from helpers.page.exercises import Result
from tests.common import ROOT


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


def twin(number: str, *changes: tuple[str, str]) -> str:
    """The solution of an exercise with texts replaced that stand in it once."""
    source = solution(number)
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


ASKED = ("            barrier_wait(&empty[at], step / SLOTS % 2 ^ 1);\n", "")
GIVEN = ("            barrier_arrive(&empty[at]);\n", "")
FIXED = ("full[at], step / SLOTS % 2)", "full[at], 0)")
SHALLOW = ("SLOTS = 3", "SLOTS = 2")
FEW = ("&full[at], sizeof(slot[at])", "&full[at], COLS * sizeof(float)")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([FEW], "engine bring for one box"),
        ([("sizeof(slot[at])", "2 * sizeof(slot[at])")], "engine bring for one box"),
        ([ASKED, GIVEN], "the producer waits for empty before it asks"),
        ([ASKED], "the producer waits for empty before it asks"),
        ([GIVEN], "the consumer has arrived once it has read"),
        ([FIXED], "Which parity has the round"),
        ([("step / SLOTS % 2 ^ 1", "1")], "Which parity has the round"),
        ([("% 2 ^ 1", "% 2")], "first round must not wait"),
        ([("barrier_arrive(&e", "if (threadIdx.x == 0) barrier_arrive(&e")], "as many threads must"),
        ([("            barrier_wait(&full[at], step / SLOTS % 2);\n", "")], "consumer waits for full"),
        ([("tma_load(slot[at]", "tma_load(&slot[at][0][4]")], "how slot is declared"),
        ([("float sum = 0;", "float sum = 0; __syncthreads();")], "meet at full and empty alone"),
        ([("step * ROWS, 0", "0, step * ROWS")], "in the same order"),
        ([("sum += slot", "sum = slot")], "in the same order"),
        ([SHALLOW], "see what each of them hangs on"),
        ([("SLOTS = 3", "SLOTS = 4")], "see what each of them hangs on"),
        ([("at = step % SLOTS;\n            barrier_wait(&e", "at = step % 2;\n            barrier_wait(&e")],
         "a phase of empty that does not end"),
    ],
)  # fmt: skip
def test_a_ring_of_boxes_that_breaks_is_told_what_to_look_at_next(
    changes: list[tuple[str, str]], words: str
) -> None:
    assert words in hint("20.2", twin("20.2", *changes))


def test_the_ring_to_be_mended_leads_from_fault_to_fault() -> None:
    assert "engine bring for one box" in hint("20.2", starter("20.2"))
    assert starter("20.2") == twin("20.2", FEW, ASKED, GIVEN, FIXED, SHALLOW)
    assert "the producer waits for empty" in hint("20.2", twin("20.2", ASKED, GIVEN, FIXED))
    assert "Which parity" in hint("20.2", twin("20.2", FIXED))
    assert exercises.check("20.2", solution("20.2")).passed


@pytest.mark.parametrize(
    "changes",
    [
        [("full[SLOTS], empty[SLOTS]", "full[4], empty[4]")],
        [("threadIdx.x], 32", "threadIdx.x], 1"), GIVEN,
         (" + threadIdx.x] = sum;\n", " + threadIdx.x] = sum; __syncwarp();\nif (threadIdx.x == 0) barrier_arrive(&empty[at]);\n")],
        [("ROWS = 8, COLS", "ROWS = 8, ALL = 1024, COLS"), ("&full[at], sizeof(slot[at])", "&full[at], ALL")],
    ],
    ids=["barriers to spare", "one arrival for all lanes", "bytes as a number"],
)  # fmt: skip
def test_other_rings_of_boxes_are_right_too(changes: list[tuple[str, str]]) -> None:
    assert exercises.check("20.2", twin("20.2", *changes)).passed


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


SHOWN = ("        tma_store_fence();  // what was stored, an engine may read\n", "")
AWAITED = ("        wgmma_finish(sum);\n", "")
LOWER = (" + i / 2 % 2 * 8", "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([SHOWN], "Each thread says of its own stores"),
        ([SHOWN, AWAITED], "Each thread says of its own stores"),
        ([("tma_store_fence();", "wgmma_fence();")], "Each thread says of its own stores"),
        ([("tma_store_fence();", "if (threadIdx.x == 0) tma_store_fence();")], "Each thread says of its own stores"),
        ([AWAITED], "nobody may refill the tiles or read the sums"),
        ([AWAITED, ("wgmma_boxes(", "wgmma_finish(sum); wgmma_boxes(")], "nobody may refill"),
        ([("        __syncthreads();\n        wgmma_boxes", "        wgmma_boxes")], "stands a barrier of the block"),
        ([LOWER], "two of the row eight further down"),
        ([("lane % 4 * 2", "lane % 4")], "look at the picture"),
        ([("k0 > 0", "false")], "the first tiles are right"),
    ],
)  # fmt: skip
def test_a_product_that_breaks_is_told_what_to_look_at_next(
    changes: list[tuple[str, str]], words: str
) -> None:
    assert words in hint("21.2", twin("21.2", *changes))


def test_the_product_to_be_mended_leads_from_fault_to_fault() -> None:
    assert starter("21.2") == twin("21.2", SHOWN, AWAITED, LOWER)
    assert "says of its own stores" in hint("21.2", starter("21.2"))
    told = failures(exercises.check("21.2", twin("21.2", AWAITED, LOWER)))
    assert len(told) == 2 and "32 rows were never written" in list(told.values())[1]
    assert exercises.check("21.2", solution("21.2")).passed


@pytest.mark.parametrize(
    "changes",
    [
        [("wgmma_finish(sum)", "wgmma_wait<0>()")],
        [SHOWN, ("        wgmma_boxes", "        tma_store_fence();\n        wgmma_boxes")],
    ],
    ids=["a bare wait", "the fence behind the barrier"],
)
def test_other_products_are_right_too(changes: list[tuple[str, str]]) -> None:
    assert exercises.check("21.2", twin("21.2", *changes)).passed


def test_adding_up_by_one_owner_and_in_shares() -> None:
    def adding_up(parts: int, tile: float) -> tuple[float, float]:
        return (parts - 1) * tile, 2 * (parts - 1) * tile / parts

    assert exercises.check("22.2", adding_up).passed
    wrong_owner = {
        "its own part": lambda p, t: p * t, "from each": lambda p, t: t,
        "in registers": lambda p, t: 0.9 * p * t,
    }  # fmt: skip
    for words, one in wrong_owner.items():
        assert words in hint("22.2", lambda p, t, way=one: (way(p, t), adding_up(p, t)[1])), words
    wrong_shares = {
        "leaves as much": lambda p, t: (p - 1) * t / p, "need not leave": lambda p, t: 2 * t,
        "as many pieces": lambda p, t: 2 * (p - 1) * t, "takes its share": lambda p, t: 0.5,
    }  # fmt: skip
    for words, shares in wrong_shares.items():
        assert words in hint("22.2", lambda p, t, way=shares: ((p - 1) * t, way(p, t))), words
