"""Exercises that are answered with numbers and functions: what is right passes in any form, and
each likely mistake is told something that is true of it.

The solutions that the pages print are tested in tests/test_exercises.py.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from helpers import trace
from helpers.chapters.ch14 import turing
from helpers.chapters.ch24 import checks
from helpers.ladder.hopper import wgmma_descriptor
from helpers.ladder.streams import makespan, schedule, simulate
from helpers.page.exercises import check
from helpers.record import costs
from tests.common import ROOT
from tests.test_exercises import printed

# -- 02.3: quartiles by any usual definition ------------------------------------------------------


summary = printed("02.3")


def pythons(times, method="exclusive"):
    q1, median, q3 = statistics.quantiles(times, n=4, method=method)
    return [median, q3 - q1]


def halves(times):
    ordered, half = sorted(times), len(times) // 2
    low, high = (statistics.median(part) for part in (ordered[:half], ordered[-half:]))
    return statistics.median(times), high - low


# -- 03.2: a loop over k, and outer products ------------------------------------------------------


def by_broadcast(A, B):
    C = 0
    for a, b in zip(A.T, B, strict=True):
        C = C + a[:, None] * b[None, :]
    return C


def by_rows(A, B):
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        C[i] = A[i] @ B
    return C


def by_two_loops(A, B, columns=(slice(None),)):
    C = np.zeros((A.shape[0], B.shape[1]))
    for i in range(A.shape[0]):
        for j in columns:
            for k in range(A.shape[1]):
                C[i, j] += A[i, k] * B[k, j]
    return C


# -- 12.2 and 12.3: phases of a read, and lane maps -----------------------------------------------


def quarters(groups, far=(1, 2), banks=True):
    """The rule of phases, with its parts to switch off."""

    def phase(lanes):
        different = {groups[i] for i in lanes}
        if not banks:
            return -(-len(different) // 8)
        return max(sum(g % 8 == bank for g in different) for bank in range(8))

    total = 0
    for half in (range(16), range(16, 32)):
        together = any(all(groups[i] == groups[i ^ f] for i in half) for f in far)
        total += phase(half) if together else phase(half[:8]) + phase(half[8:])
    return total


def mirrored(lane, down, across):
    """CUTLASS's: rows and columns exchanged."""
    return lane // (2 * across) * 2 + lane % 2, lane // 2 % across


def banks(parts):
    """13.2, by some of the parts of each line."""

    def count(lines):
        found = [[re.search(r"R(\d+)", part) for part in parts(line)] for line in lines]
        return sum(all(each) and len({int(f[1]) % 2 for f in each if f}) == 1 for each in found)

    return count


def registers(line):
    return [part.strip() for part in line.split(",")]


# -- 15 and 16: registers, tiles and slices -------------------------------------------------------


def fits(sets=2, rest=32, most=255, file=65536):
    """The rule of the exercise, or with another number in it."""
    return lambda tm, tn, threads, blocks: (
        tm * tn + sets * (tm + tn) + rest <= min(most, file // (threads * blocks))
    )


def fits_in_other_words(tm, tn, threads, blocks):
    need = tm * tn + (tm + tn) * 2 + 32
    return need < 256 and need * threads * blocks <= 65536


def up(a, b):
    return -(-a // b)


def area(tile):
    return tile[0] * tile[1]


def work(tile, m, n, sms):
    return up(up(m, tile[0]) * up(n, tile[1]), sms) * area(tile)


def least(key):
    """15.3: the tile of the least key."""
    return lambda tiles, m, n, sms: min(tiles, key=lambda x: key(x, m, n, sms))


def slices(key):
    """16.1: the number of slices of the least key."""
    return lambda tiles, sms, most: min(range(1, most + 1), key=lambda s: key(tiles, s, sms))


# -- 17 to 22: grids, lanes, chunks, boxes and rings ----------------------------------------------

blocks, holder, offset = printed("17.1"), printed("18.1"), printed("20.1")
warp_tile, ring, adding_up = printed("19.1"), printed("22.1"), printed("22.2")


def chunked(place):
    """18.2, by the place of a chunk in its line."""
    return lambda r, c: r * 32 + place(r, c) * 8 + c % 8


# -- 23: roundings, and a library that reads columns ----------------------------------------------


def cut_off(x, bits):
    return (x.view(np.uint32) & np.uint32(2**32 - 2 ** (24 - bits))).view(np.float32)


def in_wrong_order(A, B, library):
    (M, K), N = A.shape, B.shape[1]
    return np.asarray(library((A.ravel(), K, M), (B.ravel(), N, K))[0]).reshape(M, N)


def in_wrong_shapes(A, B, library):
    return np.asarray(library((B.ravel(), *A.shape), (A.ravel(), *A.shape))[0])


def by_transposing(A, B, library):
    (M, K), N = A.shape, B.shape[1]
    flat, _, _ = library((A.ravel(order="F"), M, K), (B.ravel(order="F"), K, N))
    return np.asarray(flat).reshape(N, M).T


RIGHT: Mapping[str, Sequence[Any]] = {
    "01.2": [37.1], "02.1": [6.25], "02.2": [17, 16.9],
    "02.3": [pythons, lambda t: pythons(t, "inclusive"), halves],
    "03.2": [by_broadcast,
             lambda A, B: sum(A[:, k : k + 1] @ B[k : k + 1, :] for k in range(A.shape[1])),
             lambda A, B: sum(np.einsum("i,j->ij", A[:, k], B[k]) for k in range(A.shape[1]))],
    "04.3": [0.21], "05.1": [12.0], "06.1": [6.36], "08.1": [1.78],
    "09.1": [(0.31, 0.19), [0.3125, 0.1875], (5 / 16, 0.188)],
    "10.1": [(1024, 1000), {1000, 1024}], "12.2": [quarters], "12.3": [mirrored],
    "12.4": [{"lane_m": "lane / 16 * 2 + lane % 4 / 2", "lane_n": "lane / 4 % 4 * 2 + lane % 2"}],
    "15.1": [72.7, 73, 72.73],
    "15.2": [fits(), fits_in_other_words, lambda *case: int(fits_in_other_words(*case))],
    "15.3": [least(lambda x, m, n, s: (work(x, m, n, s), -area(x))),
             lambda t, *given: list(least(work)(sorted(t, key=area, reverse=True), *given))],
    "17.2": [1.33, 1.3333],
    "18.2": [chunked(lambda r, c: (c // 8 + r // 2) % 4)],
    "19.1": [lambda *given: [*(warp_tile(*given) or [])] or None],
    "21.1": [wgmma_descriptor], "23.1": [" fp16 ", ["FP16"], ("fp16",), {"FP16"}],
    "24.1": [8], "25.1": [4.44, 4.4], "25.2": [26.76, 26.8], "25.3": [123.3, 123.34],
}  # fmt: skip
"""Answers that pass beside the printed solution, also in the precision that the page prints."""

WRONG: Mapping[str, Sequence[tuple[Any, str]]] = {
    "01.1": [(41, "No thread is left over"), (4, "one block"), (7, "Count the warps of one block"),
             (32, "does not cross the end of its block"), (1000, "load together"),
             (30, "last threads of a block need a warp")],
    "01.3": [(1.33, "round down"), (1.3, "round down"), (2, "count the registers too"),
             (5, "of threads and of registers")],
    "02.3": [(lambda t: (np.median(t), max(t) - min(t)), "outliers included"),
             (lambda t: (np.mean(t), summary(t)[1]), "That is the mean"),
             (lambda t: (np.median(t), np.std(t)), "standard deviation"),
             (lambda t: (np.median(t), summary(t)[1] / np.median(t)), "over the median"),
             (lambda t: (np.median(t), -summary(t)[1]), "not the other way round"),
             (lambda t: (np.median(t), summary(t)[1] / 2), "half of the range"),
             (lambda t: (np.median(t), 0.0), "Subtract the first from the third"),
             (lambda t: (np.median(t), "2"), "one number"),
             (lambda t: np.median(t), "two numbers")],
    "03.2": [(lambda A, B: A @ B, "matmul, which adds up over k by itself"),
             (lambda A, B: A.dot(B), "dot, which adds up over k by itself"),
             (lambda A, B: np.dot(A, B), "dot, which adds up over k by itself"),
             (lambda A, B: np.einsum("ik,kj->ij", A, B), "einsum, which adds up"),
             (lambda A, B: np.tensordot(A, B, 1), "tensordot, which adds up"),
             (lambda A, B: np.asarray(A) @ np.asarray(B), "There is no loop over k"),
             (lambda A, B: (A[:, :, None] * B[None]).sum(1), "There is no loop over k"),
             (by_rows, "matmul, which adds up over k by itself"),
             (lambda A, B: by_two_loops(A, B, range(B.shape[1])), "More than one loop"),
             (by_two_loops, "More than one loop"),
             (lambda A, B: np.outer(A[:, 0], B[0]), "Only one k was added")],
    "03.3": [(lambda n: len({4 * n * r // 64 for r in range(n)}),
              "different lines; take them modulo"),
             (lambda n: len({n * r // 64 % 64 for r in range(n)}), "a float has 4."),
             (lambda n: len({n * r // 64 for r in range(n)}), "A float has 4 bytes, and a line"),
             (lambda n: len({4 * r // 64 % 64 for r in range(n)}), "walks along a row"),
             (lambda n: n, "the number of rows"),
             (lambda n: len({4 * n * r % 64 for r in range(n)}), "a place within a line"),
             (lambda n: 1, "Put the set of each row"), (lambda n: n + 0.5, "Put the set"),
             (lambda n: "4", "Put the set"),
             (lambda n: None if n > 5 else 1, "the function returns a number")],
    "04.1": [((63, 19, 1), "multiply them"), ([63, 19, 1], "multiply them"), (82, "19 by 63"),
             (5, "cover 1000 rows")],
    "04.3": [(2 * 4096**2 / (40 * 64 * 2 * 1590e6) * 1e3, "other one is higher"),
             ((4096**2 + 2 * 4096) * 4 / 320e9, "seconds")],
    "05.1": [(4, "side by side"), (11, "last float"), (13, "x starts at a sector boundary"),
             (24, "eight floats, not four"), (32, "neighbours share sectors"), (7, "lane 31"),
             (94, "first to the last")],
    "05.3": [(12.5, "a double has 8 bytes"), (0.25, "percentage"), (6.25, "line of 128 bytes"),
             (100, "1000 doubles apart"), (33, "fetched for one lane")],
    "06.1": [(3.2, "two operations"), (12.8, "four bytes"), (16, "square tile"),
             (1, "one step along K")],
    "06.3": [(128, "128 KB"), (78, "power of two"), (16, "larger power of two"), (50, "Two tiles")],
    "07.1": [(32, "32 words a row"), (36, "width of a row"), (5, "busiest bank")],
    "07.2": [(3.2, "round down"), (6, "by registers"), (4, "80 KB"), (12, "warps"),
             (7, "the least counts")],
    "08.1": [(1.6, "TM = 8"), (3.2, "only the reads of B"), (0.94, "half a wavefront"),
             (0.56, "wavefronts for each multiply-add"), (2, "leaves out B"), (7, "sixteenth")],
    "08.3": [({"BM": 32, "BN": 128, "BK": 8, "TM": 16},
              "BM * BK = 256, BK * BN = 1024, threads 256"),
             ({"BM": 32, "BN": 128, "BK": 8, "TM": 16}, "The rule: ")],
    "09.1": [((0.25, 0.1875), "8x8 patch"), ((0.3125, 0.31), "That is the reads"),
             ((0.3125, 1.0625), "mirror image"), ((0.3125, 0.28), "not the other way round"),
             ((0.19, 0.31), "give the reads first"), (0.31, "Give both"),
             ((0.3125, 0.5), "half a wavefront")],
    "09.3": [(16, "one direction"), (255, "along one edge")],
    "10.1": [([1024], "4000 is 250"), ([1000, 1022, 1024], "4088"), (3, "list of numbers"),
             (["many"], "list of numbers")],
    "10.2": [(4, "without conflicts"), (8, "four banks, here at two"), (5, "For each phase"),
             (32, "two lanes pass together")],
    "11.1": [(2.67, "round up"), (4, "not under way any more"), (8, "whole tiles")],
    "11.2": [(65.5, "thousands of bytes"), (65536, "in KB"), (10, "over 1024")],
    "12.1": [(12, "one row of lanes has none"), (6, "those are the reads"), (10, "A lane reads"),
             (24, "two quarters pass together"), (8, "what A takes, or B"),
             (20, "it is A that all lanes want alike")],
    "12.2": [(lambda g: quarters(g, far=(1,)), ""), (lambda g: quarters(g, far=(2,)), ""),
             (lambda g: quarters(g, far=()), ""), (lambda g: quarters(g, banks=False), ""),
             (lambda groups: len(set(groups)), ""), (lambda groups: 4, "")],
    "12.3": [(lambda lane, down, across: (lane // across, lane % across), "square of two by two"),
             (lambda lane, down, across: (lane % down, lane // down), "square of two by two"),
             (lambda lane, down, across: (lane // 2 % 2, lane % 2), "32 places"),
             (lambda lane, *_: (lane % 4 // 2, lane // 4 * 2 + lane % 2), "32 places")],
    "12.4": [({"lane_m": "lane / 8 % 4", "lane_n": "lane % 8"}, "square of two by two"),
             ({"lane_m": "lane / 2 % 4", "lane_n": "lane / 8 * 2 + lane % 2"}, "along the rows"),
             ({"lane_m": "0", "lane_n": "lane % 8"}, "every pair is taken once"),
             ({"lane_m": "oops", "lane_n": "lane % 8"}, "undefined"), ("lane / 8", "")],
    "13.1": [(lambda m, n, back: m * n - 1, "Every row from left to right"),
             (lambda m, n, back: m * (n - 1), "On the way back"),
             (lambda m, n, back: m * n if back else m * (n - 1) + 1, "none before it"),
             (lambda m, n, back: 0, "Follow the numbers")],
    "13.2": [(banks(registers), "destination"),
             (banks(lambda line: [p for p in registers(line)[1:] if p[0] != "-"]), "minus sign"),
             (banks(lambda line: [p for p in registers(line)[1:] if ".reuse" not in p]), ".reuse")],
    "14.1": [(lambda t, s: (t, t % s, t + s, t % s), "still in use"),
             (lambda t, s: (t, t % s, t + 1, (t + 1) % s), "Before the loop"),
             (lambda t, s: (t, t % s, t + s - 1, t % s), "is free, and no other"),
             (lambda t, s: (t, t, t + s - 1, t + s - 1), "taken in turn"),
             (lambda t, s: (t + 1, (t + 1) % s, t + s, t % s), "Step t multiplies tile t"),
             (lambda t, s: t, "the function returns")],
    "14.2": [(lambda r, c, g, n: (-(-n // c), min(n, c)), "the order row by row"),
             (lambda r, c, g, n: (min(g, r), -(-n // min(g, r))), "the last band may be lower"),
             (lambda r, c, g, n: (g, n), "column by column")],
    "14.3": [({"8x8": "issue slots", "4x4": "shared memory"}, "when half of the slots are"),
             ({"8x8": "FMA pipe", "4x4": "FMA pipe"}, "two for each wavefront"),
             ({"8x8": "FMA pipe"}, "Choose one of"), ("FMA pipe", "Give a dict")],
    "15.1": [(0.727, "in percent"), (27.3, "without work"), (218.2, "the last one is not full"),
             (2.18, "the last one is not full"), (18.2, "the last wave alone"), (100, "not full"),
             (3, "that many waves"), (50, "how many slots")],
    "15.2": [(fits(sets=1), "two sets of fragments"),
             (fits(most=10**6), "No thread has more than 255"),
             (fits(rest=0), "32 registers go to everything else"),
             (lambda tm, tn, t, b: tm * tn + 2 * (tm + tn) + 32 <= 255, "all resident threads"),
             (lambda tm, tn, t, b: fits()(tm, tn, t, 1), "All blocks on the SM"),
             (lambda tm, tn, t, b: tm * tn + 2 * (tm + tn) + 32 < min(255, 65536 // (t * b)),
              "exactly as many"),
             (lambda *case: True, "expected False"), (lambda *case: False, "expected True"),
             (fits(sets=3), "expected True")],
    "15.3": [(least(work), "take the one with the largest area"),
             (least(lambda x, m, n, s: (work(x, m, n, s), area(x))), "not the smallest"),
             (least(lambda x, m, n, s: (work(x, n, m, s), -area(x))), "BM counts rows"),
             (least(lambda x, m, n, s: (up(m // x[0] * (n // x[1]), s) * area(x), -area(x))),
              "round the number of tiles up"),
             (least(lambda x, m, n, s: (up(m, x[0]) * up(n, x[1]) / s * area(x), -area(x))),
              "whole tiles"),
             (least(lambda x, m, n, s: (up(up(m, x[0]) * up(n, x[1]), s), -area(x))),
              "Few tiles are not little work"),
             (least(lambda x, m, n, s: -area(x)), "Few tiles are not little work"),
             (least(lambda x, m, n, s: m * n % (area(x) + 7)), "How many tiles has the busiest SM"),
             *((lambda t, m, n, s, at=at: t[at], "") for at in range(4))],
    "16.1": [(slices(lambda t, s, sms: (up(t * s, sms) / s, -s)), "take the smallest"),
             (slices(lambda t, s, sms: up(t * s, sms)), "divide the slices of the busiest SM"),
             (slices(lambda t, s, sms: t * s / sms / s), "round the slices"),
             (slices(lambda t, s, sms: -s), "More slices are not always"),
             (slices(lambda t, s, sms: abs(t * s - sms)), "One slice an SM"),
             (slices(lambda t, s, sms: (t * 31 + s) % 7), "which part of a tile is each")],
    "16.2": [(4, "read again"), (1, "C itself"), (6, "leaves its sums, too"), (2, "four bytes"),
             (8388608, "divide by 1048576"), (8.389, "of 1048576 bytes"),
             (5, "leaves a tile of sums")],
    "17.1": [(lambda M, N, w: (-(-M // 16), -(-N // 16), 0), "columns of C does a block cover"),
             (lambda M, N, w: (M // 16, *blocks(M, N, w)[1:]), "down the rows of C"),
             (lambda M, N, w: (*blocks(M, N, w)[:2], 0), "take off one for each tile"),
             (lambda M, N, w: (*blocks(M, N, w)[:2], blocks(1, N, w)[2]), ""),
             (lambda M, N, w: (M // 16, N // (16 * w), 0), ""),
             (lambda M, N, w: blocks(M, N, w)[:2], "return three numbers"),
             (lambda M, N, w: blocks(M, N, w)[0], "return three numbers")],
    "17.2": [(8, "divide by the loads"), (6, "these are the loads"), (0.75, "other way round"),
             (0.5, "kept for all its products"), (2.0, "how many pairs")],
    "18.1": [(lambda k, col: (col * 4 + k % 8 // 2, k // 8, k % 2), "as mma.sync wants it"),
             (lambda k, col: (k % 8 * 4 + col // 2, k // 8 ^ 1, col % 2),
              "register 0 holds the matrix"),
             (lambda k, col: (k % 8 * 4 + col // 2, k // 8, col % 2 ^ 1), "first of the two"),
             (lambda k, col: (31 - holder(k, col)[0], *holder(k, col)[1:]), "lane 4g + t"),
             (lambda k, col: (k % 8 * 4, k // 8, col % 2), "as many places")],
    "18.2": [(lambda r, c: r * 32 + c, "the number to XOR with belongs to the line"),
             (chunked(lambda r, c: c // 8 ^ r % 4), "belongs to the line, not to the row"),
             (lambda r, c: r * 40 + c, "row r keeps the indices"),
             (lambda r, c: r * 32 + c // 8 * 8, "keeps chunks apart"),
             (lambda r, c: r * 32 + (c ^ r // 2 % 4), "col % 8 stays")],
    "19.1": [(lambda f, d, r: (64, 64), "will do, with fewer sums"),
             (lambda f, d, r: warp_tile(f, 10**9, r), "bytes a clock, and"),
             (lambda f, d, r: warp_tile(f, d, 10**9), "and 64 is the most"),
             (lambda f, d, r: warp_tile(f, d, r) or (64, 64), "sums, and 64 is the most"),
             (lambda f, d, r: None, "does: 128 bytes a clock"),
             (lambda f, d, r: 64, "return (WM, WN)"),
             (lambda f, d, r: (256, 16), "return (WM, WN)")],
    "20.1": [(lambda r, c: offset(r, c) // 2, "an element has two"),
             (lambda r, c: 2 * (256 * r + c), "the next 64 lie behind all of them"),
             (lambda r, c: 8192 * (c // 64) + 128 * r + 2 * (c % 64), "exclusive or with the row"),
             (lambda r, c: offset(r, c) - 2 * (c % 8), "keeps its place within its chunk")],
    "21.1": [(lambda at, lead, row: 1 << 62 | row >> 4 << 32 | lead >> 4 << 16 | at >> 4,
              "name the block of the cluster")],
    "19.3": [(4, "two bytes, not four"), (18, "two bytes, not one"),
             (14, "a tile of A beside the tile of B"), (28, "a tile of B beside the tile of A"),
             (9.46, "A part of a stage")],
    "20.3": [(4, "comes on top")], "21.3": [(162, "multiple of eight")],
    "22.3": [(13.42, "without a tile")],
    "22.1": [(lambda m, n, c, b: (128 * (m + n // c), ring(m, n, c, b)[1]), "not all that lands"),
             (lambda m, n, c, b: ring(m, n, c, 0), "one more would not fit beside C")],
    "22.2": [(lambda p, t: (p * t, adding_up(p, t)[1]), "its own part"),
             (lambda p, t: (t, adding_up(p, t)[1]), "from each"),
             (lambda p, t: (0.9 * p * t, adding_up(p, t)[1]), "in registers"),
             (lambda p, t: ((p - 1) * t, (p - 1) * t / p), "leaves as much"),
             (lambda p, t: ((p - 1) * t, 2 * t), "need not leave"),
             (lambda p, t: ((p - 1) * t, 2 * (p - 1) * t), "as many pieces"),
             (lambda p, t: ((p - 1) * t, 0.5), "takes its share")],
    "23.1": [("BF16", "It has the exponent of FP32."), (["TF32"], "It has the exponent of FP32."),
             (["FP16", "BF16"], "One of them is right."), ("FP8", "one of FP16, BF16, TF32"),
             ([], "one of FP16, BF16, TF32"), (16, "one of FP16, BF16, TF32")],
    "23.2": [(by_transposing, ""), (lambda A, B, library: A @ B, ""),
             (in_wrong_order, "the library sees transposes"), (in_wrong_order, "X has 2 columns"),
             (in_wrong_shapes, "the library sees transposes"),
             (in_wrong_shapes, "12 elements, not 2 x 4")],
    "23.3": [(cut_off, "Add half of a step"),
             (lambda x, bits: cut_off(x, bits - 3), "Only the lowest bits go")],
    "24.1": [(11, "serial"), (7, "B's copy is missing"), (2.75, "B is not cut"),
             (3.5, "three more panels"), (7.5, "the last of C"), (42, "Which stage never pauses")],
    "25.1": [(360, "Divide"), (0.0444, "in percent"), (31, "not subtracted"),
             (4, "nine times the rate"), (17, "is at 40 %")],
    "25.2": [(66.9, "the multiply-adds"), (48.7, "issue slots' bound"), (13.72, "not their sum"),
             (13.38, "two operations"), (0.2027, "one SM"), (26763, "in GFLOP/s"),
             (60, "the largest counts")],
    "25.3": [(61.67, "two clocks"), (127.2, "element of B"), (0.1233, "in GFLOP/s"),
             (3.083, "one SM"), (5, "over the clocks of a step")],
    "25.5": [(160, "scales of its own"), (192, "both have scales"), (512, "a power of two already"),
             (100, "powers of two")],
}  # fmt: skip
"""Answers that do not, and words of what they are told."""


def accepted(exercise, answers):
    return [one for one in answers if check(exercise, one).passed]


def misled(exercise, answers):
    """Wrong answers that pass, count as none or are told something else."""
    results = [(answer, hint, check(exercise, answer)) for answer, hint in answers]
    return [
        (answer, hint, repr(result))
        for answer, hint, result in results
        if result.passed or not result.answered or hint.casefold() not in repr(result).casefold()
    ]


@pytest.mark.parametrize("exercise", RIGHT)
def test_a_right_answer_passes_in_any_form(exercise):
    assert accepted(exercise, RIGHT[exercise]) == [*RIGHT[exercise]]


@pytest.mark.parametrize("exercise", WRONG)
def test_a_wrong_answer_gets_a_hint_that_is_true_of_it(exercise):
    assert misled(exercise, WRONG[exercise]) == []


def test_another_hint_and_a_right_answer_among_the_wrong_are_seen():
    assert len(misled("01.1", [(40, ""), (41, "one block"), (41, "left over"), (..., "")])) == 3
    assert accepted("01.1", [41]) == []


@pytest.mark.parametrize("exercise", ["03.3", "22.1"])
def test_one_mistake_has_one_hint(exercise):
    """A mistake shows in several checks, and each of them says the same of it."""
    for answer, hint in WRONG[exercise][:7]:
        failed = [c for c in check(exercise, answer).checks if not c.ok]
        assert all(hint.casefold() in c.hint.casefold() for c in failed) and failed, hint


def test_the_sets_that_the_page_names_are_the_right_ones():
    page = (ROOT / "book" / "03_cpu.md").read_text(encoding="utf-8")
    assert "256 uses four sets" in page and "512 uses two and 1024 one" in page
    right = {256: 4, 512: 2, 1024: 1, 1000: 64, 1: 1, 5: 2, 17: 17, 1025: 64}
    assert not check("03.3", lambda n: {**right, 256: 16}[n]).passed
    result = check("03.3", lambda n: right[n])
    assert [c.what for c in result.checks if not c.ok and "17" not in c.what] == []


def test_the_cost_model_agrees_with_what_binds_on_a_t4():
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


def test_the_hints_of_24_1_name_what_those_numbers_are():
    """7 ms is both the time without B's copy and the limit of many panels; 8 ms is the answer."""
    stages, even = checks.STAGES, (1, 1, 1, 1)
    assert makespan(simulate(schedule(4, 4), even, stages)) == 8
    assert makespan(simulate(schedule(4, 4), even, {**stages, "B": 0.0})) == 7
    assert stages["B"] + max(stages["A"], stages["kernel"], stages["C"]) == 7


def test_what_the_library_says_is_said_without_a_traceback():
    result = check("23.2", by_transposing)
    assert [c.ok for c in result.checks if c.what.startswith("C for")] == [True] * 3
    for answer in (in_wrong_order, in_wrong_shapes):
        words = repr(check("23.2", answer))
        assert "gufunc" not in words and "ValueError" not in words
