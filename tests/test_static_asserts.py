"""The catalog's rules and the static_asserts of the files say the same of every tile."""

from __future__ import annotations

import math
import re
from contextlib import nullcontext
from dataclasses import replace
from functools import cache
from itertools import product
from random import Random
from typing import NamedTuple

import pytest

from helpers.ladder.kernel import MAX_THREADS, Rule, broken_rules, defines
from helpers.ladder.rungs import catalog
from nogpu import toolchain
from nogpu.errors import CompileError
from tests import static_asserts
from tests.static_asserts import Unknown
from tools.mutants_hopper import SHARED, flat

_REGISTERS = next(r for r in catalog["warp_tiled"].rules if "255" in r.expr)
_EVERY_GPU = next(r for r in catalog["fp32_best"].rules if "101376" in r.expr)
_HALVES = next(r for r in catalog["hopper_3"].rules if "BM % 128" in r.expr)
_PARTS = next(r for r in catalog["hopper_4"].rules if "CLUSTER_N" in r.expr)

_REGISTERS_MORE = (_REGISTERS.expr, "1", "registers: the compiler decides")
_HALVES_MORE = (_HALVES.expr, "BM % 2", "the file halves BM before it asks: 257 passes")
MORE: dict[str, tuple[tuple[str, str, str], ...]] = {
    "13_warp_tiled.cu": (_REGISTERS_MORE,),
    "14_fp32_best.cu": (
        _REGISTERS_MORE,
        (_EVERY_GPU.expr, "1", "a smaller GPU's shared memory, which the file does not know"),
    ),
    "14_fp32_turing.cu": (_REGISTERS_MORE,),
    "16_sliced.cu": (_REGISTERS_MORE,),
    "21_3_persistent.cu": (_HALVES_MORE,),
    **dict.fromkeys(
        ("22_4_cluster.cu", "22_5_overlapped.cu", "22_6_stream_k.cu"),
        (
            _HALVES_MORE,
            (_PARTS.expr, "BM % CLUSTER_N or BN % CLUSTER_M", "the file divides before it asks"),
        ),
    ),
}
"""Rules that refuse more than the file does, for which tiles, and why: they may only be stricter.
"""


def named(expression):
    """Names in an expression."""
    return set(re.findall(r"[A-Za-z_]\w*", expression))


def judge(names, expression):
    """Whether a rule holds for a tile, worked out once for each set of the sizes that it names."""
    at = [i for i, name in enumerate(names) if name in named(expression)]

    @cache
    def holds(*sizes):
        return Rule(expression, "").holds({names[i]: n for i, n in zip(at, sizes, strict=True)})

    return lambda tile: holds(*[tile[i] for i in at])


def rules_of(kernel):
    """The rules about tiles, and the hardware's about threads, each as a judge of a tile."""
    names = tuple(kernel.params)
    rules = {r.expr: judge(names, r.expr) for r in kernel.rules if not named(r.expr) & set("MNK")}
    threads = " * ".join(f"({extent})" for extent in kernel.block)
    return {**rules, "threads": judge(names, f"{threads} <= {MAX_THREADS}")}


def values(kernel, free):
    """Of each tile size its choices, and neighbours outside of them. free: sizes not asked for."""
    inside, outside = [], []
    for name, default in kernel.params.items():
        some = (default,) if name in free else tuple(kernel.choices.get(name, (default,)))
        near = {min(some) // 2, min(some) - 1, max(some) + 1, 2 * max(some)} | ({1} - {default})
        inside.append(some)
        outside.append(() if name in free else tuple(sorted(n for n in near - set(some) if n > 0)))
    return inside, outside


def tiles(kernel, free):
    """Every tile of the choices, and every one with a single size beside them."""
    inside, outside = values(kernel, free)
    yield from product(*inside)
    for i, beyond in enumerate(outside):
        yield from product(*inside[:i], beyond, *inside[i + 1 :])


class Compared(NamedTuple):
    """legal: how many tiles are. differ: those that file and catalog judge apart, and how.

    stricter: how often a rule of MORE alone refused a tile that compiles.
    """

    legal: int
    differ: list[str]
    stricter: dict[str, int]


def compare(kernel, enough=1 << 62):
    """The rules of a kernel and the conditions of its file, over every tile.

    enough: how many differences end it.
    """
    asserts, rules = static_asserts.read(kernel), rules_of(kernel)
    names = tuple(kernel.params)
    more = {expr: judge(names, when) for expr, when, _ in MORE.get(kernel.file, ())}
    used = set(asserts.used) | named(" ".join([*(r.expr for r in kernel.rules), *kernel.block]))
    legal, differ, stricter = 0, list[str](), dict.fromkeys(more, 0)
    for tile in tiles(kernel, set(kernel.params) - used):
        broken = [expr for expr, holds in rules.items() if not holds(tile)]
        compiles = asserts.holds(*tile)
        legal += compiles and not broken
        if compiles == (not broken):
            continue
        if compiles and all(expr in more and more[expr](tile) for expr in broken):
            for expr in broken:
                stricter[expr] += 1
            continue
        sizes = ", ".join(f"{n}={v}" for n, v in zip(kernel.params, tile, strict=True))
        says = "compiles" if compiles else "does not compile"
        differ.append(f"{kernel.name} {sizes}: {says}; broken rules: {broken or 'none'}")
        if len(differ) >= enough:
            break
    return Compared(legal, differ, stricter)


@pytest.mark.parametrize("name", list(catalog))
def test_every_tile_is_judged_alike(name):
    found = compare(catalog[name])
    assert found.differ[:5] == [] and found.legal > 0
    assert all(found.stricter.values()), "a rule of MORE refuses nothing alone: take it off"


def test_the_products_are_whole():
    """2 x 3 choices, and each size with neighbours outside: 2 * 3 + 4 * 3 + 2 * 4, none twice."""
    kernel = replace(
        catalog["tiled_pad_rows"], params={"TILE": 8, "PAD": 4}, choices={"TILE": (8, 16), "PAD": (4, 6, 8)}
    )  # fmt: skip
    found = list(tiles(kernel, set()))
    assert len(found) == len(set(found)) == 2 * 3 + 5 * 3 + 2 * 5
    assert {(8, 4), (16, 8), (4, 6), (33 - 1, 4), (17, 4), (8, 9)} <= set(found)
    assert list(tiles(kernel, {"TILE", "PAD"})) == [(8, 4)]


@pytest.mark.parametrize("name", list(catalog))
def test_the_rules_judged_one_by_one_are_those_that_the_catalog_reports(name):
    kernel, rng = catalog[name], Random(name)
    rules = rules_of(kernel)
    inside, outside = values(kernel, set())
    for _ in range(100):
        tile = tuple(rng.choice(i + o) for i, o in zip(inside, outside, strict=True))
        edge = math.lcm(*tile)  # whole tiles: no rule about a shape is broken
        given = dict(zip(kernel.params, tile, strict=True))
        broken = {r.expr for r in broken_rules(kernel, edge, edge, edge, **given)}
        mine = {expr for expr, holds in rules.items() if not holds(tile)}
        own = mine - {"threads"}
        assert broken == own if own else bool(broken) == bool(mine), tile


def test_no_condition_is_missed():
    """Every static_assert of every file is read, at least once."""
    for kernel in {k.file: k for k in catalog.values()}.values():
        written = static_asserts.strip(kernel.source).count("static_assert")
        assert static_asserts.read(kernel).count >= written, kernel.file


MUTANTS = [
    ("mma_pipelined", "WM * WN <= 4096", "WM * WN <= 9192"),
    ("block_1d", "BK * TM == BM", "BK * TM <= BM"),
    ("warp_tiled", "WN // TN % 2 == 0", "WN // TN >= 1"),
    ("hopper_5", "BM // 128 * (BN // 64) % C_BUFFERS == 0", "C_BUFFERS <= 8"),
    ("tiled_rect", "TILE_COLS % TILE_ROWS == 0", "TILE_COLS >= TILE_ROWS"),
]


@pytest.mark.parametrize(("name", "text", "instead"), MUTANTS)
def test_a_changed_rule_is_seen(name, text, instead):
    kernel = catalog[name]
    rules = tuple(Rule(r.expr.replace(text, instead), r.reason) for r in kernel.rules)
    assert rules != kernel.rules
    assert compare(replace(kernel, rules=rules), enough=1).differ


GONE = [
    ("vectorised", "BM % A_STEP == 0", "1"),
    ("fp32_best", "THREADS % B_LANES == 0 && BN % B_SPAN == 0 && BK % B_STEP == 0", "1"),
    ("mma_pipelined", "STAGES * SLOT * 2 <= 227 * 1024", "STAGES * SLOT <= 227 * 1024"),
    ("hopper_4", "A_PART % BOX == 0 && B_PART % BOX == 0", "A_PART % BOX == 0"),
    ("hopper_6", "sizeof(Shared) <= MOST_BUFFERS", "1"),
]


@pytest.mark.parametrize(("name", "text", "instead"), GONE)
def test_a_changed_condition_of_the_file_is_seen(name, text, instead):
    kernel = catalog[name]
    source = flat(kernel.source, SHARED)
    assert source.count(text) == 1
    assert compare(kernel.with_source(source.replace(text, instead)), enough=1).differ


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("constexpr int X = __builtin_clz(TILE);", "not known"),
        ("constexpr int X = TILE - 40 / 2;", ""),
        ("constexpr int X = (TILE - 40) / 2;", "negative"),
        ("constexpr float X = 0.5f; static_assert(X < 1, \"\");", "float"),
        ("static_assert(Y == 1, \"\");", "Y is not known"),
        ("constexpr int X = TILE[0];", "\\["),
        ("#if TILE > 8\nconstexpr int X = 1;\n#endif", "decides over"),
        ("#if SOME_WORD\n#endif", "no value is known"),
        ("__device__ void f() { static_assert(TILE > 1, \"\"); }", "conditions inside"),
        ("static_assert(sizeof(TILE) == 4, \"\");", "no such type"),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(text, why):
    kernel = catalog["tiled_32"]
    changed = kernel.with_source(f"{text}\n{kernel.source}")
    if not why:
        assert static_asserts.read(changed).holds(16)
        return
    with pytest.raises(Unknown, match=why):
        static_asserts.read(changed).holds(16)


def head(kernel):
    """A kernel's file up to its last condition at the outermost level, as a file of its own, with
    the headers that several rungs share."""
    source = flat(kernel.source, SHARED)
    last = [m.end() for m in re.finditer(r"^static_assert\([^;]*\);", source, re.MULTILINE)][-1]
    return f'{source[:last]}\nextern "C" __global__ void empty() {{}}\n'


@pytest.mark.parametrize(
    "name", ["block_1d", "warp_tiled", "fp32_best", "wmma_tiled", "mma_turing", "mma_tma", "hopper_6"]
)  # fmt: skip
def test_the_compiler_judges_as_the_reader_of_conditions_does(name):
    """The outermost conditions alone, quick; whole kernels are compiled in test_kernels."""
    kernel, rng = catalog[name], Random(name)
    source = head(kernel)
    nested = static_asserts.INSTANCES.get(kernel.file, {})
    asserts = static_asserts.read(kernel)
    inside, outside = values(kernel, set())
    seen = {True: 0, False: 0}
    while min(seen.values()) < 3:
        wide = rng.random() < 0.3
        tile = tuple(rng.choice(i + o * wide) for i, o in zip(inside, outside, strict=True))
        compiles = asserts.holds(*tile)
        if seen[compiles] >= 3:
            continue
        seen[compiles] += 1
        macros = defines(kernel, dict(zip(kernel.params, tile, strict=True)))
        if compiles or not nested:
            with nullcontext() if compiles else pytest.raises(CompileError):
                toolchain.compile(source, name=kernel.file, arch=kernel.min_arch, defines=macros)
