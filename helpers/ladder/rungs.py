"""The rungs: every kernel of the book, with its tile sizes, rules and geometry, in one catalog."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from helpers.ladder.kernel import (
    DEPTHS,
    KERNELS,
    Catalog,
    Geometry,
    Kernel,
    Room,
    Rule,
    evaluate,
    geometry,
)
from nogpu.errors import ConfigError, UnknownKernelError, near_matches
from nogpu.text import without_comments

# -- shared pieces of entries ------------------------------------------------------------------

INT = {"ELEMENT": "int"}
ELEMENT = {"bfloat16": "__nv_bfloat16", "float16": "half"}
"""Of a kernel that is compiled for several types, what its macro ELEMENT is."""
MOST_CUT = 1 << 20
"""Tiles that a sliced kernel cuts at most, unless a launch says fewer: all of them."""


def _sizes(text: str) -> dict[str, int]:
    """Tile sizes by name, from "BM 128, BN 256"."""
    return {name: int(size) for name, size in (part.split() for part in text.split(", "))}


def _choices(text: str) -> dict[str, tuple[int, ...]]:
    """What tile sizes may be, from "BM BN: 32 64; BK: 8 16 32"."""
    parts = [[side.split() for side in part.split(":")] for part in text.split(";")]
    return {name: tuple(map(int, values)) for names, values in parts for name in names}


def _integers(kernel: Kernel, name: str, title: str) -> Kernel:
    """The same kernel for int32."""
    int32: dict[str, Any] = {"dtype": "int32", "out_dtype": "int32", "defines": INT}
    return replace(kernel, name=name, title=title, baseline="none", **int32)


def _in_type(kernel: Kernel, dtype: str, **changes: Any) -> Kernel:
    """A kernel with operands of two bytes, its baseline that of the type."""
    changes = {"defines": {"ELEMENT": ELEMENT[dtype]}, **changes}
    baseline = {"bfloat16": "cublas_bf16", "float16": "cublas_fp16"}[dtype]
    return replace(kernel, dtype=dtype, baseline=baseline, **changes)


# -- chapters 04 to 06: one thread, one element of C --------------------------------------------

_NAIVE = Kernel(
    name="naive",
    title="naive: threadIdx.x walks down a column of C",
    file="04_naive.cu",
    entry="naive",
    chapter=4,
    params={"BX": 32, "BY": 32},
    choices={"BX": (4, 8, 16, 32, 64), "BY": (4, 8, 16, 32, 64)},
    block=("BX", "BY", "1"),
    grid=("cdiv(M, BX)", "cdiv(N, BY)", "1"),
    tile=("BX", "BY"),
    reuse="warp",
    warp=("min(BX, 32)", "max(1, 32 // BX)"),
    note="MatmulXrow of document L: a warp's loads of A and stores of C are uncoalesced",
)
_COALESCED = Kernel(
    name="coalesced",
    title="coalesced: threadIdx.x walks along a row of C",
    file="05_coalesced.cu",
    entry="coalesced",
    chapter=5,
    params={"BX": 32, "BY": 32},
    choices={"BX": (4, 8, 16, 32, 64), "BY": (4, 8, 16, 32, 64)},
    block=("BX", "BY", "1"),
    grid=("cdiv(N, BX)", "cdiv(M, BY)", "1"),
    tile=("BY", "BX"),
    reuse="warp",
    note="MatmulYrow of document L",
)


def _tiled(tile: int) -> Kernel:
    return Kernel(
        name=f"tiled_{tile}",
        title=f"shared-memory tile {tile}x{tile}",
        file="06_tiled.cu",
        entry="tiled",
        chapter=6,
        params={"TILE": tile},
        choices={"TILE": (4, 8, 16, 32)},
        block=("TILE", "TILE", "1"),
        grid=("cdiv(N, TILE)", "cdiv(M, TILE)", "1"),
        tile=("TILE", "TILE"),
    )


_ONE_ELEMENT = (
    _NAIVE,
    _integers(_NAIVE, "naive_int", "naive, int32"),
    _COALESCED,
    _integers(_COALESCED, "coalesced_int", "coalesced, int32"),
    _tiled(8),
    _tiled(16),
    _tiled(32),
)

# -- SIMT kernels of chapters 04, 06 to 11 (add here) --------------------------------------------

_SIDES = (4, 8, 16, 32, 64)
_STATIC_SHARED = "a block's static shared memory holds 48 KB"
_PAD_OR_CHECK = "it checks no bounds: pad the matrices with zeros to whole tiles, or use tiled_32"


def _along_rows(name: str, title: str, file: str, note: str, columns: int = 1) -> Kernel:
    """A relative of coalesced: no shared memory, `columns` columns of C a thread."""
    coarse = {"COARSE": columns} if columns > 1 else {}
    width = "BX * COARSE" if coarse else "BX"
    return replace(
        _COALESCED,
        name=name,
        title=title,
        file=file,
        entry=name,
        chapter=4,
        after=_COALESCED.chapter,
        params={"BX": 32, "BY": 32, **coarse},
        choices={"BX": _SIDES, "BY": _SIDES, **({"COARSE": (1, 2, 4, 8)} if coarse else {})},
        grid=(f"cdiv(N, {width})", "cdiv(M, BY)", "1"),
        tile=("BY", width),
        warp=("max(1, 32 // BX)", "min(BX, 32)" + (" * COARSE" if coarse else "")),
        note=note,
    )


def _privatised(columns: int) -> Kernel:
    return Kernel(
        name=f"privatised_{columns}",
        title=f"privatised: {columns} columns a thread",
        file="08_privatised.cu",
        entry="privatised",
        chapter=8,
        params={"TILE": 16, "REG_TILE": columns},
        choices={"TILE": (8, 16, 32), "REG_TILE": (1, 2, 4, 8)},
        rules=(Rule("4 * TILE * TILE * (1 + REG_TILE) <= 49152", _STATIC_SHARED),),
        block=("TILE", "TILE", "1"),
        grid=("cdiv(N, TILE * REG_TILE)", "cdiv(M, TILE)", "1"),
        tile=("TILE", "TILE * REG_TILE"),
        note="document S, version 5, its grid divided so that blocks do not overlap",
    )


_EVEN_TILE = (
    Rule("BM % TM == 0", "threads split the rows of the tile of C evenly"),
    Rule("BN % TN == 0", "threads split the columns of the tile of C evenly"),
)
# A block of T = (BM / TM) * (BN / TN) threads copies T elements in one go, or T fours.
_A_BY_ELEMENT = (
    Rule("BM * BN % (TM * TN * BK) == 0", "the block copies whole rows of A in one go"),
    Rule("TM * TN * BK % BN == 0", "every thread copies equally many elements of A"),
)
_B_BY_ELEMENT = (
    Rule("BM % (TM * TN) == 0", "the block copies whole rows of B in one go"),
    Rule("TM * TN * BK % BM == 0", "every thread copies equally many elements of B"),
)
_A_BY_FOUR = (
    Rule("BK % 4 == 0", "a row of the tile of A is copied four floats at a time"),
    Rule("4 * BM * BN % (TM * TN * BK) == 0", "the block copies whole rows of A in one go"),
    Rule("TM * TN * BK % (4 * BN) == 0", "every thread copies equally many fours of A"),
)
_B_BY_FOUR = (
    Rule("4 * BM % (TM * TN) == 0", "the block copies whole rows of B in one go"),
    Rule("TM * TN * BK % (4 * BM) == 0", "every thread copies equally many fours of B"),
)
_FRAGMENTS_BY_FOUR = (
    Rule("TM % 4 == 0", "a thread reads its rows of the tile of A four at a time"),
    Rule("TN % 4 == 0", "a thread reads its columns of the tile of B four at a time"),
)


_TWO_STAGES = Rule("STAGES >= 2", "one tile is used while the next arrives")


def _shared(buffers: str) -> Rule:
    return Rule(f"{buffers} * 4 * BK * (BM + 4 + BN) <= 49152", _STATIC_SHARED)


_BLOCK_2D = Kernel(
    name="block_2d",
    title="2D register blocking",
    file="09_block_2d.cu",
    entry="block_2d",
    chapter=9,
    params=_sizes("BM 128, BN 128, BK 8, TM 8, TN 8"),
    choices=_choices("BM BN: 32 64 128 256; BK: 4 8 16 32; TM TN: 2 4 8 16"),
    rules=(
        *_EVEN_TILE,
        *_A_BY_ELEMENT,
        *_B_BY_ELEMENT,
        Rule("4 * BK * (BM + BN) <= 49152", _STATIC_SHARED),
    ),
    block=("(BM // TM) * (BN // TN)", "1", "1"),
    grid=("cdiv(N, BN)", "cdiv(M, BM)", "1"),
    tile=("BM", "BN"),
    note="document L, part 2, section 2",
)
_VECTORISED = replace(
    _BLOCK_2D,
    name="vectorised",
    title="vectorised: float4, the tile of A transposed",
    file="10_vectorised.cu",
    entry="vectorised",
    chapter=10,
    choices={**_BLOCK_2D.choices, "TM": (4, 8, 16), "TN": (4, 8, 16)},
    rules=(*_EVEN_TILE, *_FRAGMENTS_BY_FOUR, *_A_BY_FOUR, *_B_BY_FOUR, _shared("1")),
    note="document L, part 2, section 3",
)

_DOUBLE_BUFFER = replace(
    _VECTORISED,
    name="double_buffer",
    title="two buffers in shared memory, one barrier a tile",
    file="11_double_buffer.cu",
    entry="double_buffer",
    chapter=11,
    rules=(*_VECTORISED.rules[:-1], _shared("2")),
    note="",
)

_SIMT: tuple[Kernel, ...] = (
    _along_rows("unrolled", "k loop unrolled by hand", "04_unrolled.cu", "document S, version 2"),
    _along_rows(
        "coarsened",
        "coarsened: neighbouring columns a thread",
        "04_coarsened.cu",
        "document S, version 4",
        columns=4,
    ),
    _integers(_tiled(32), "tiled_int_32", "shared-memory tile 32x32, int32"),
    replace(
        _tiled(32),
        name="tiled_padded",
        title="tiled, matrices padded to whole tiles",
        file="07_tiled_padded.cu",
        entry="tiled_padded",
        chapter=7,
        rules=tuple(Rule(f"{d} % TILE == 0", _PAD_OR_CHECK) for d in "MNK"),
        grid=("N // TILE", "M // TILE", "1"),
        note="document P: no bounds checks, the caller pads",
    ),
    Kernel(
        name="tiled_rect",
        title="tiled, rectangular tile",
        file="07_rectangular.cu",
        entry="tiled_rect",
        chapter=7,
        params={"TILE_ROWS": 8, "TILE_COLS": 32},
        choices={"TILE_ROWS": (4, 8, 16, 32), "TILE_COLS": (8, 16, 32, 64)},
        rules=(Rule("TILE_COLS % TILE_ROWS == 0", "every thread copies equally many rows of B"),),
        block=("TILE_COLS", "TILE_ROWS", "1"),
        grid=("cdiv(N, TILE_COLS)", "cdiv(M, TILE_ROWS)", "1"),
        tile=("TILE_ROWS", "TILE_COLS"),
        note="document P: 8 rows by 32 columns",
    ),
    replace(
        _tiled(32),
        name="tiled_pad_rows",
        title="tiled, rows of shared memory padded",
        file="07_pad_rows.cu",
        entry="tiled_pad_rows",
        chapter=7,
        params={"TILE": 32, "PAD": 1},
        choices={"TILE": (4, 8, 16, 32), "PAD": (1, 2, 4)},
        note="document S, version 6, without its prefetch",
    ),
    Kernel(
        name="block_1d",
        title="1D register blocking",
        file="08_block_1d.cu",
        entry="block_1d",
        chapter=8,
        params=_sizes("BM 64, BN 64, BK 8, TM 8"),
        choices=_choices("BM BN: 16 32 64 128; BK TM: 4 8 16"),
        rules=(
            Rule("BM % TM == 0", "threads split the rows of the tile evenly"),
            Rule("BK * TM == BN", "BM * BN / TM threads copy one element each of BM x BK of A"),
            Rule("BK * TM == BM", "BM * BN / TM threads copy one element each of BK x BN of B"),
        ),
        block=("BM * BN // TM", "1", "1"),
        grid=("cdiv(N, BN)", "cdiv(M, BM)", "1"),
        tile=("BM", "BN"),
        note="document L, part 2, section 1",
    ),
    _privatised(2),
    _privatised(4),
    _BLOCK_2D,
    _VECTORISED,
    replace(
        _VECTORISED,
        name="prefetch",
        title="next tiles prefetched into registers",
        file="11_prefetch.cu",
        entry="prefetch",
        chapter=11,
        note="what document S, version 6, set out to do",
    ),
    _DOUBLE_BUFFER,
    replace(
        _VECTORISED,
        name="cp_async",
        title="cp.async, several tiles under way",
        file="11_cp_async.cu",
        entry="cp_async",
        chapter=11,
        params={**_VECTORISED.params, "STAGES": 2},
        choices={**_VECTORISED.choices, "STAGES": (2, 3, 4, 5)},
        rules=(
            *_EVEN_TILE,
            *_FRAGMENTS_BY_FOUR,
            *_A_BY_ELEMENT,
            *_B_BY_FOUR,
            _TWO_STAGES,
            _shared("STAGES"),
        ),
        min_arch="sm_80",
        note="compute capability 8.0 or newer; double_buffer runs on older GPUs",
    ),
)

# -- warp tiling and the best FP32 kernel, chapters 12 to 14 (add here) -------------------------

_WARPS = ("BM // WM * (BN // WN) * 32", "1", "1")
_WARP_THREADS = "max(1, BM // WM * (BN // WN)) * 32"


def _copies_of_b(width: int) -> tuple[Rule, ...]:
    """B moves `width` floats at a time (4, or 1 where rows are unaligned): all threads alike."""
    along = f"min(BN // {width}, {_WARP_THREADS})"
    reason = f"every thread copies the same part of B, {width} float{'s' * (width > 1)} at a time"
    return (
        Rule(f"({_WARP_THREADS}) % {along} == 0", reason),
        Rule(f"BN % ({width} * {along}) == 0", reason),
        Rule(f"BK % ({_WARP_THREADS} // {along}) == 0", reason),
    )


_WARP_RULES = (
    Rule("BM % WM == 0", "warps split the rows of the block's tile evenly"),
    Rule("BN % WN == 0", "warps split the columns of the block's tile evenly"),
    Rule("WM % TM == 0 and WN % TN == 0", "lanes split the warp's tile evenly"),
    Rule("WM // TM * (WN // TN) == 32", "a warp has 32 lanes"),
    *_FRAGMENTS_BY_FOUR,
    Rule("WN // TN % 2 == 0", "neighbouring lanes share a row"),
    Rule(
        f"TM * TN + 2 * (TM + TN) + 32 <= min(255, 65536 // ({_WARP_THREADS} * MIN_BLOCKS))",
        "a thread's sums, two sets of fragments and its addresses must fit in the registers that "
        "MIN_BLOCKS blocks on an SM leave it",
    ),
)
_WARP_CHOICES = _choices(
    "BM BN: 32 64 128 256; BK: 8 16 32; WM WN: 32 64 128; TM TN: 4 8 16; MIN_BLOCKS: 1 2 4 8"
)
_SMALL_WARPS = {"BK": 16, "WM": 32, "WN": 32, "TM": 8, "TN": 4}
_WARP_TILED: tuple[Kernel, ...] = (
    replace(
        _DOUBLE_BUFFER,
        name="lane_map",
        title="lanes in squares of two by two",
        file="12_lane_map.cu",
        entry="lane_map",
        chapter=12,
        params={**_DOUBLE_BUFFER.params, "MIN_BLOCKS": 2},
        choices={**_DOUBLE_BUFFER.choices, "MIN_BLOCKS": (1, 2)},
        rules=(
            *_DOUBLE_BUFFER.rules,
            Rule("BM % (4 * TM) == 0", "a warp is 4 lanes high and 8 wide"),
            Rule("BN % (8 * TN) == 0", "a warp is 4 lanes high and 8 wide"),
        ),
    ),
    Kernel(
        name="warp_tiled",
        title="warp tiling",
        file="13_warp_tiled.cu",
        entry="warp_tiled",
        chapter=13,
        params=_sizes("BM 128, BN 256, BK 8, WM 64, WN 64, TM 16, TN 8, MIN_BLOCKS 1"),
        choices=_WARP_CHOICES,
        rules=(*_WARP_RULES, *_A_BY_FOUR, *_B_BY_FOUR, _shared("2")),
        block=_WARPS,
        grid=("cdiv(N, BN)", "cdiv(M, BM)", "1"),
        tile=("BM", "BN"),
        note="document L, part 2, section 4",
    ),
    Kernel(
        name="fp32_best",
        title="best FP32: cp.async ring",
        file="14_fp32_best.cu",
        entry="fp32_best",
        chapter=14,
        params=_sizes(
            "BM 128, BN 256, BK 8, WM 64, WN 64, TM 16, TN 8, STAGES 3, GROUP_M 8, MIN_BLOCKS 1"
        ),
        choices={**_WARP_CHOICES, "STAGES": (2, 3, 4), "GROUP_M": (1, 4, 8, 16)},
        rules=(
            *_WARP_RULES,
            Rule("BK % 8 == 0", "A is copied a sector of eight floats at a time"),
            Rule(f"BM % ({_WARP_THREADS} // 8) == 0", "threads copy equally much of A"),
            *_copies_of_b(4),
            *_copies_of_b(1),
            _TWO_STAGES,
            Rule(
                "4 * STAGES * BK * (BM + 4 + BN) <= 101376",
                "a block may have 99 KB of shared memory on every GPU from 8.0 on",
            ),
        ),
        block=_WARPS,
        grid=("cdiv(M, BM) * cdiv(N, BN)", "1", "1"),
        shared="4 * STAGES * BK * (BM + 4 + BN)",
        tile=("BM", "BN"),
        min_arch="sm_80",
        # Each about a quarter of the one before, so that some tile fills the GPU at every shape.
        candidates=(
            {},
            {"BM": 64, "BN": 128, "WM": 32, "TM": 8, "MIN_BLOCKS": 4},
            {**_SMALL_WARPS, "BM": 64, "BN": 64, "MIN_BLOCKS": 5},
            {**_SMALL_WARPS, "BM": 32, "BN": 32, "MIN_BLOCKS": 8},
        ),
        note="compute capability 8.0 or newer; fp32_turing runs on older GPUs",
    ),
    Kernel(
        name="fp32_turing",
        title="FP32 without cp.async: two blocks an SM",
        file="14_fp32_turing.cu",
        entry="fp32_turing",
        chapter=14,
        params=_sizes("BM 128, BN 128, BK 8, WM 32, WN 64, TM 8, TN 8, GROUP_M 8, MIN_BLOCKS 2"),
        choices={**_WARP_CHOICES, "GROUP_M": (1, 4, 8, 16)},
        rules=(*_WARP_RULES, *_A_BY_FOUR, *_B_BY_FOUR, _shared("2")),
        block=_WARPS,
        grid=("cdiv(M, BM) * cdiv(N, BN)", "1", "1"),
        tile=("BM", "BN"),
        # As those of fp32_best, within the 64 KB of shared memory of a T4's SM.
        candidates=(
            {},
            {"BN": 64, "MIN_BLOCKS": 4},
            {"BM": 64, "BN": 64, "WN": 32, "TN": 4, "MIN_BLOCKS": 5},
            {"BM": 32, "BN": 32, "WN": 32, "TN": 4, "MIN_BLOCKS": 8},
        ),
        note="for compute capability 7.5, and any later one; no time on a T4 is recorded",
    ),
)
_FP32_BEST = next(k for k in _WARP_TILED if k.name == "fp32_best")
_TILES = "cdiv(M, BM) * cdiv(N, BN)"
_SHORT_RING = {"BK": 8, "STAGES": 2}
_FP32_SLICED = replace(
    _FP32_BEST,
    name="fp32_sliced",
    title="slices of K for few tiles",
    file="16_sliced.cu",
    entry="fp32_sliced",
    chapter=16,
    params={**_FP32_BEST.params, "CUT": MOST_CUT, "SLICES": 1},
    choices={"SLICES": (1, 2, 4, 8, 16)},
    candidates=(
        {},
        {"BM": 64, "BN": 128, "WM": 32, "TM": 8, "MIN_BLOCKS": 4},
        {**_SMALL_WARPS, "BM": 64, "BN": 64, "STAGES": 4, "MIN_BLOCKS": 4},
        {**_SMALL_WARPS, "BM": 32, "BN": 128, "MIN_BLOCKS": 4},
        {**_SMALL_WARPS, "BM": 32, "BN": 64, "MIN_BLOCKS": 8},
        {**_SMALL_WARPS, "BM": 32, "BN": 32, "WM": 16, "TM": 4, "MIN_BLOCKS": 8},
        {**_SMALL_WARPS, "BM": 16, "BN": 64, "WM": 16, "TM": 4, "MIN_BLOCKS": 8},
        # For short K (choosing.SHORT_K): fewer steps that are none, and a ring that is soon filled.
        {**_SMALL_WARPS, "BM": 32, "BN": 128, "MIN_BLOCKS": 4, **_SHORT_RING},
        {**_SMALL_WARPS, "BM": 32, "BN": 32, "WM": 16, "TM": 4, "MIN_BLOCKS": 8, **_SHORT_RING},
    ),
    passed=("CUT", "SLICES"),
    grid=(f"max(0, {_TILES} - CUT) + min(CUT, {_TILES}) * SLICES", "1", "1"),
    room=(
        Room("partial", "float32", f"max(1, (SLICES > 1) * min(CUT, {_TILES}) * SLICES * BM * BN)"),
        Room("arrived", "int32", f"min(CUT, {_TILES})"),
    ),
    note="split-K in one launch; the same bits in every run",
)

# -- thin products, chapter 16: few rows of A or few columns of B -------------------------------

_A_BLOCK = Rule("WARPS <= 32", "a block holds at most 1024 threads")
_THIN_SLICES = "1 2 4 8 16 32"


def _of_precision(kernel: Kernel, suffix: str) -> Kernel:
    """The entry of a thin kernel's file for FP32, "_bf16" or "_fp16": A, B, C are of one type."""
    if not suffix:
        return kernel
    dtype = "bfloat16" if suffix == "_bf16" else "float16"
    return _in_type(
        kernel,
        dtype,
        name=f"{kernel.name}{suffix}",
        title=f"{kernel.title}, {suffix[1:].upper()}",
        out_dtype=dtype,
        min_arch="sm_80" if dtype == "bfloat16" else "sm_75",
    )


def _thin_room(tiles: str, sums: str) -> tuple[Room, ...]:
    """Sums of each slice of each tile of C, where K is cut; a counter for each tile."""
    return (
        Room("partial", "float32", f"max(1, (SLICES > 1) * SLICES * {tiles} * {sums})"),
        Room("arrived", "int32", tiles),
    )


def _thin_rows(suffix: str) -> Kernel:
    """Few rows of A: lanes along a row of B, 16 bytes each."""
    columns = 8 if suffix else 4  # a lane
    width = 32 * columns
    tiles = f"cdiv(M, ROWS) * cdiv(N, {width})"
    most = f"max(1, 4096 // (WARPS * {width}))"
    fixed = Kernel(
        name="thin_rows",
        title="few rows of A",
        file="16_thin_rows.cu",
        entry="thin_rows",
        chapter=16,
        params={"ROWS": 1, "WARPS": 8, "AHEAD": 8, "MIN_BLOCKS": 2 if suffix else 4, "SLICES": 1},
        choices=_choices(
            f"ROWS: 1 2 4 8{'' if suffix else ' 16'}; WARPS: 4 8 16; AHEAD: 4 8; "
            f"MIN_BLOCKS: 1 2 4; SLICES: {_THIN_SLICES}"
        ),
        rules=(
            Rule("16 % ROWS == 0", "rows of A are read from shared memory in fours"),
            Rule(f"ROWS * {columns} <= 64", "a lane keeps its sums in registers"),
            _A_BLOCK,
            Rule(
                f"ROWS % min(ROWS, {most}) == 0", "sums pass through shared memory in equal parts"
            ),
            Rule("4 * WARPS * AHEAD % 8 == 0", "lanes copy whole sectors of A"),
            Rule(
                "4 * (4 * WARPS * AHEAD * (ROWS + 4 * (ROWS >= 8)) "
                f"+ WARPS * min(ROWS, {most}) * {width}) <= 49152",
                _STATIC_SHARED,
            ),
        ),
        passed=("SLICES",),
        block=("32 * WARPS", "1", "1"),
        grid=(f"{tiles} * SLICES", "1", "1"),
        tile=("ROWS", str(width)),
        room=_thin_room(tiles, f"ROWS * {width}"),
        candidates=tuple(
            {"ROWS": rows, "MIN_BLOCKS": blocks}
            for rows, blocks in (
                ((1, 2), (2, 2), (4, 1), (8, 1))
                if suffix
                else ((1, 4), (2, 2), (4, 2), (8, 2), (16, 1))
            )
        ),
        note="reads B once where ROWS rows are enough; the same bits in every run",
    )
    return _of_precision(fixed, suffix)


def _thin_columns(suffix: str) -> Kernel:
    """Few columns of B: lanes along rows of A, 16 bytes each."""
    size = 2 if suffix else 4  # bytes of an element
    step = 32 * 16 // size
    tiles = "cdiv(M, WARPS * ROWS) * cdiv(N, COLUMNS)"
    fixed = Kernel(
        name="thin_columns",
        title="few columns of B",
        file="16_thin_columns.cu",
        entry="thin_columns",
        chapter=16,
        params=_sizes("ROWS 4, COLUMNS 4, WARPS 8, AHEAD 2, MIN_BLOCKS 2, SLICES 1"),
        choices=_choices(
            "ROWS: 1 2 4; COLUMNS: 1 2 4 8 16; WARPS: 4 8; AHEAD: 1 2 4; MIN_BLOCKS: 1 2 4; "
            f"SLICES: {_THIN_SLICES}"
        ),
        rules=(
            Rule("4 % ROWS == 0 and 16 % COLUMNS == 0", "sums are halved from lane to lane"),
            _A_BLOCK,
            Rule(
                "(16 // COLUMNS if COLUMNS < 4 else 4) % AHEAD == 0",
                "a chunk is whole turns of what is under way",
            ),
            Rule(
                f"{size} * COLUMNS * ((16 // COLUMNS if COLUMNS < 4 else 4) * {step} + "
                f"{16 // size}) <= 49152",
                _STATIC_SHARED,
            ),
        ),
        passed=("SLICES",),
        block=("32 * WARPS", "1", "1"),
        grid=(f"{tiles} * SLICES", "1", "1"),
        tile=("WARPS * ROWS", "COLUMNS"),
        room=_thin_room(tiles, "WARPS * ROWS * COLUMNS"),
        candidates=tuple(
            {"ROWS": rows, "COLUMNS": columns, "MIN_BLOCKS": blocks}
            for rows, columns, blocks in (
                (4, 1, 2 if suffix else 4),
                (2 if suffix else 4, 2, 2),
                (4, 4, 2),
                (2, 8, 2),
                (4, 8, 1),
                (2, 16, 2),
                (4, 16, 1),
            )
        ),
        note=f"K in steps of {step}; reads A once where COLUMNS columns are enough",
    )
    return _of_precision(fixed, suffix)


_THIN = tuple(
    make(suffix) for make in (_thin_rows, _thin_columns) for suffix in ("", "_bf16", "_fp16")
)

# -- Tensor Cores, chapters 17 to 19 (add here) -------------------------------------------------

_WMMA = Kernel(
    name="wmma",
    title="WMMA from global memory",
    file="17_wmma.cu",
    entry="wmma",
    chapter=17,
    block=("32", "32", "1"),
    grid=("cdiv(M, 16)", "cdiv(N, 16 * 32)", "1"),
    tile=("16", "16 * 32"),
    dtype="float16",
    baseline="cublas_fp16",
    reuse="warp",
    warp=("16", "16"),
    note="document L, Tensor Cores, with the grid that its blocks of 32 warps need",
)
_MMA_THREADS = "max(32, (BM // WM) * (BN // WN) * 32)"
_MMA_RULES = (
    Rule("BM % WM == 0", "warp tiles cover the rows of the block's tile"),
    Rule("BN % WN == 0", "warp tiles cover the columns of the block's tile"),
    Rule("WM % 16 == 0 and WN % 16 == 0", "a warp tile is made of 16 x 16 pieces"),
    Rule("BK % 16 == 0", "one step takes 16 values of k"),
    Rule("WM * WN <= 4096", "a lane keeps WM * WN / 32 sums in registers, 128 at most"),
    Rule(
        "(BK in (16, 32) or BK % 64 == 0) and (BN in (16, 32) or BN % 64 == 0)",
        "rows of a tile are whole lines of 128 bytes, or a half or a quarter of one",
    ),
    Rule(
        f"min(BK // 8, 8) * BM % {_MMA_THREADS} == 0",
        "every thread copies equally many chunks of A, whole rows at a time",
    ),
    Rule(
        f"min(BN // 8, 8) * BK % {_MMA_THREADS} == 0",
        "every thread copies equally many chunks of B, whole rows at a time",
    ),
)
_XOR_STEPS = (
    Rule("WN in (16, 32, 64, 128)", "the fragments of a swizzled row are one XOR apart"),
    Rule("BK in (16, 32, 64, 128)", "the steps along a swizzled row are one XOR apart"),
)


def _most_shared(bytes_: str) -> Rule:
    return Rule(f"{bytes_} <= 227 * 1024", "no block has more than 227 KB of shared memory")


_EVEN_WARPS = Rule(
    f"{_MMA_THREADS} % 64 == 0",
    "with an even number of warps, the rows that a thread copies are swizzled alike",
)
_EVEN_STEPS = Rule("BK % 32 == 0", "fragments are read one step ahead, into two sets in turn")
_MMA_CHOICES = _choices("BM BN: 64 128 256; BK: 16 32 64; WM WN: 16 32 64 128")


def _mma(name: str, title: str, file: str, **changes: object) -> Kernel:
    base = Kernel(
        name=name,
        title=title,
        file=file,
        entry=name,
        chapter=18,
        params=_sizes("BM 128, BN 128, BK 32, WM 64, WN 64"),
        choices=_MMA_CHOICES,
        rules=(*_MMA_RULES, Rule("2 * BK * (BM + BN) <= 49152", _STATIC_SHARED)),
        block=_WARPS,
        grid=("cdiv(N, BN)", "cdiv(M, BM)", "1"),
        tile=("BM", "BN"),
        dtype="float16",
        baseline="cublas_fp16",
    )
    return replace(base, **changes)  # type: ignore[arg-type]


_WMMA_BYTES = "4 * (BM * (BK + PAD) + BK * (BN + PAD))"
_RING_OF_TILES = "2 * STAGES * BK * (BM + BN)"
_TWO_BUFFERS = "4 * BK * (BM + BN)"
_MMA_PIPELINED = _mma(
    "mma_pipelined",
    "mma.sync: a ring of cp.async tiles",
    "19_mma_pipelined.cu",
    chapter=19,
    min_arch="sm_80",
    params=_sizes("BM 128, BN 256, BK 32, WM 64, WN 64, STAGES 4, GROUP_M 8"),
    choices={
        **_MMA_CHOICES,
        "BK": (32, 64, 128),
        "STAGES": (2, 3, 4, 5, 6),
        "GROUP_M": (1, 4, 8, 16),
    },
    rules=(
        *_MMA_RULES,
        *_XOR_STEPS,
        _EVEN_STEPS,
        _EVEN_WARPS,
        _TWO_STAGES,
        _most_shared(_RING_OF_TILES),
    ),
    grid=("cdiv(M, BM) * cdiv(N, BN)", "1", "1"),
    shared=_RING_OF_TILES,
    note="compute capability 8.0 or newer; mma_turing runs on older GPUs",
    candidates=({},),
)


def _mma_sliced(dtype: str) -> Kernel:
    """Few tiles and odd edges on Tensor Cores: A, B and C are of one type of two bytes."""
    bf16 = dtype == "bfloat16"
    defines = {"ELEMENT": ELEMENT[dtype]} if bf16 else {}
    a_lines, b_lines = "max(1, BK // 64)", "max(1, BN // 64)"
    return _in_type(
        _MMA_PIPELINED,
        dtype,
        name="mma_sliced_bf16" if bf16 else "mma_sliced",
        title="mma.sync: slices of K, rows that start anywhere" + (", BF16" if bf16 else ""),
        file="19_mma_sliced.cu",
        entry="mma_sliced",
        out_dtype=dtype,
        defines=defines,
        params=_sizes(
            "BM 64, BN 64, BK 64, WM 32, WN 32, STAGES 4, GROUP_M 8, MIN_BLOCKS 3, SLICES 1"
        ),
        choices=_choices(
            "BM: 16 32 64 128; BN BK: 32 64 128; WM WN: 16 32 64; STAGES: 3 4 6; GROUP_M: 1 8; "
            "MIN_BLOCKS: 1 2 3 4; SLICES: 1 2 4 8 16"
        ),
        rules=(
            *_MMA_RULES,
            *_XOR_STEPS,
            _EVEN_STEPS,
            _EVEN_WARPS,
            Rule("STAGES >= 3", "one slot is read, another is filled, one is for edges"),
            Rule(
                f"(STAGES - 1) * 8 * (BM * {a_lines} + BK * {b_lines}) <= (BM + BN) * BK",
                "where rows start anywhere, one slot holds what the others have beside their tiles",
            ),
            Rule("BM * (BN + 8) <= STAGES * (BM + BN) * BK", "the tile of C fits in the ring"),
            _most_shared(_RING_OF_TILES),
        ),
        grid=(f"{_TILES} * SLICES", "1", "1"),
        passed=("SLICES",),
        room=(
            Room("partial", "float32", f"max(1, (SLICES > 1) * SLICES * {_TILES} * BM * BN)"),
            Room("arrived", "int32", _TILES),
        ),
        candidates=(
            {},
            {"BM": 64, "BN": 64, "BK": 32, "MIN_BLOCKS": 4},
            {"BM": 64, "BN": 64, "BK": 128, "STAGES": 3, "MIN_BLOCKS": 2},
            {"BM": 16, "BN": 64, "WM": 16, "WN": 16, "STAGES": 6},
            {"BM": 16, "BN": 128, "WM": 16},
            {"BM": 64, "BN": 32, "BK": 128, "WM": 16, "MIN_BLOCKS": 2},
            {"BM": 128, "BN": 64, "MIN_BLOCKS": 2},
            {"BM": 128, "BN": 128, "MIN_BLOCKS": 1},
        ),
        note="split-K in one launch; the same bits in every run; "
        "no copies of matrices with odd rows",
    )


_MMA_SLICED_BF16 = _mma_sliced("bfloat16")
_TENSOR: tuple[Kernel, ...] = (
    replace(
        _WMMA,
        name="wmma_launch_l",
        title="WMMA with the grid of document L",
        grid=("cdiv(M, 16)", "cdiv(N, 16)", "1"),
        note="document L starts one block for each 16 columns; 31 of 32 blocks have nothing to do",
    ),
    _WMMA,
    _mma(
        "wmma_shared",
        "WMMA, tiles in shared memory",
        "17_wmma_shared.cu",
        chapter=17,
        rules=(
            *_MMA_RULES,
            Rule(
                f"2 * BK * (BM + BN) + 1024 * ({_MMA_THREADS} // 32) <= 49152",
                "the tiles, and a fragment of C a warp, fit in 48 KB of static shared memory",
            ),
        ),
    ),
    _mma(
        "wmma_tiled",
        "WMMA, tiled",
        "17_wmma_tiled.cu",
        chapter=17,
        params=_sizes("BM 128, BN 256, BK 32, WM 64, WN 64, PAD 8"),
        choices={**_MMA_CHOICES, "BK": (32, 64), "PAD": (8, 16, 24)},
        rules=(
            *_MMA_RULES,
            _EVEN_STEPS,
            Rule("PAD % 8 == 0", "a row in shared memory is a multiple of 16 bytes"),
            Rule(
                f"{_MMA_THREADS} * 32 <= {_WMMA_BYTES}",
                "a fragment of C of every warp fits in the buffers, on its way to global memory",
            ),
            _most_shared(_WMMA_BYTES),
        ),
        shared=_WMMA_BYTES,
    ),
    _mma("mma_naive", "mma.sync, fragments gathered by hand", "18_mma_naive.cu"),
    _mma("mma_ldmatrix", "mma.sync, fragments by ldmatrix", "18_mma_ldmatrix.cu"),
    _mma("mma_swizzle", "mma.sync, swizzled tiles", "18_mma_swizzle.cu"),
    _mma(
        "mma_turing",
        "mma.sync: two buffers, a third tile in registers",
        "19_mma_turing.cu",
        chapter=19,
        params=_sizes("BM 256, BN 128, BK 32, WM 64, WN 64, MMA_K 8"),
        choices={**_MMA_CHOICES, "MMA_K": (8, 16)},
        rules=(
            *_MMA_RULES,
            *_XOR_STEPS,
            Rule("MMA_K in (8, 16)", "mma.sync takes 8 or 16 values of k"),
            _most_shared(_TWO_BUFFERS),
        ),
        shared=_TWO_BUFFERS,
        candidates=({},),
        note="runs on a T4; MMA_K=16 is one instruction from compute capability 8.0 on",
    ),
    _MMA_PIPELINED,
    _in_type(
        _MMA_PIPELINED,
        "bfloat16",
        name="mma_pipelined_bf16",
        title="mma.sync: a ring of cp.async tiles, BF16",
    ),
    _mma_sliced("float16"),
    _MMA_SLICED_BF16,
)

# -- Hopper, chapters 20 to 22 (add here)
# ---------------------------------------------------------------

_WGMMA_N = Rule("BN in (128, 256)", "common/wgmma.cuh holds the shapes n128 and n256")
_RING = Rule("STAGES >= 2", "one stage is used while another is filled")
_RING_FITS = Rule(
    "STAGES * (BM + BN) * 128 <= 225 * 1024",
    "a block has 227 KB of shared memory, and barriers and alignment take up to 2 of them",
)
_RING_BYTES = "STAGES * (BM + BN) * 128 + 1024"
"""Tiles of 64 steps of k in 2-byte elements, and room to start them at a multiple of 1024."""
_ONE_WARPGROUP = (
    Rule("BM % 64 == 0", "wgmma takes 64 rows"),
    _WGMMA_N,
    Rule("BM // 64 * BN <= 256", "the sums of a thread must fit in its registers"),
)
_TWO_WARPGROUPS = (
    Rule("BM % 128 == 0", "wgmma takes 64 rows, and two warpgroups share the tile"),
    _WGMMA_N,
    Rule("BM // 128 * BN <= 256", "the sums of a thread must fit in its registers"),
    _RING,
)
_CLUSTERS = (
    Rule(
        "BM % (64 * CLUSTER_N) == 0 and BN % (64 * CLUSTER_M) == 0",
        "the blocks of a cluster share a tile in whole boxes of 64",
    ),
    Rule("SMS >= CLUSTER_M * CLUSTER_N", "some cluster must run"),
    Rule("CLUSTER_M * CLUSTER_N <= 8", "a cluster of more than 8 blocks does not run everywhere"),
)
_C_BUFFERS = (
    Rule("BM // 128 * (BN // 64) % C_BUFFERS == 0", "each tile of C begins with the first buffer"),
    Rule(
        "STAGES * (BM + BN) * 128 + 16384 * C_BUFFERS <= 225 * 1024",
        "a block has 227 KB of shared memory, and barriers and alignment take up to 2 of them",
    ),
)
_CLUSTER_TILES = "cdiv(M, BM * CLUSTER_M) * cdiv(N, BN * CLUSTER_N)"
_CLUSTER_ROOM = "(SMS // (CLUSTER_M * CLUSTER_N))"
_FEW_TILES: tuple[dict[str, int], ...] = (
    {},
    {"CLUSTER_M": 1},
    {"BN": 128, "STAGES": 6},
    {"BN": 128, "STAGES": 6, "CLUSTER_M": 1},
)
"""Tiles of hopper_5 and hopper_6 to choose from: where C has few rows, the second block of a
cluster has none."""
_TILE_CHOICES = _choices("BM: 64 128 192 256; BN: 64 128 256; STAGES: 1 2 3 4 5 6 8")

_HOPPER_1 = Kernel(
    name="hopper_1",
    title="wgmma and TMA, one stage",
    file="21_1_wgmma_tma.cu",
    entry="wgmma_tma",
    chapter=21,
    params={"BM": 128, "BN": 128},
    choices={"BM": (64, 128, 192, 256), "BN": (64, 128, 256)},
    rules=_ONE_WARPGROUP,
    block=("128", "1", "1"),
    grid=("cdiv(N, BN)", "cdiv(M, BM)", "1"),
    shared="(BM + BN) * 128 + 1024",
    tile=("BM", "BN"),
    dtype="bfloat16",
    out_dtype="bfloat16",
    defines={"ELEMENT": ELEMENT["bfloat16"]},
    min_arch="sm_90a",
    baseline="cublas_bf16",
    host="tma",
    note="one thread copies, one warpgroup multiplies; three blocks share an SM",
)
_HOPPER_2 = replace(
    _HOPPER_1,
    name="hopper_2",
    title="a producer warp and a ring of stages",
    file="21_2_ring.cu",
    entry="wgmma_ring",
    params=_sizes("BM 128, BN 128, STAGES 3"),
    choices=_TILE_CHOICES,
    rules=(*_ONE_WARPGROUP, _RING, _RING_FITS),
    block=("160", "1", "1"),
    shared=_RING_BYTES,
    note="warp specialisation; three stages, so that two blocks share an SM",
)
_HOPPER_3 = replace(
    _HOPPER_2,
    name="hopper_3",
    title="128 x 256, two consumers, persistent blocks",
    file="21_3_persistent.cu",
    entry="wgmma_persistent",
    # SMS is no tile size but the SMs to fill: as many blocks start as give each an equal share.
    params=_sizes("BM 128, BN 256, STAGES 4, GROUP_M 16, SMS 132"),
    choices={**_TILE_CHOICES, "GROUP_M": (1, 2, 4, 8, 16, 32)},
    rules=(*_TWO_WARPGROUPS, _RING_FITS),
    block=("384", "1", "1"),
    grid=("cdiv(cdiv(M, BM) * cdiv(N, BN), cdiv(cdiv(M, BM) * cdiv(N, BN), SMS))", "1", "1"),
    note="setmaxnreg, grouped walk, one group of wgmma always in flight",
)
_HOPPER_4 = replace(
    _HOPPER_3,
    name="hopper_4",
    title="clusters of two and multicast",
    file="22_4_cluster.cu",
    entry="wgmma_cluster",
    chapter=22,
    params=_sizes("BM 128, BN 256, STAGES 4, GROUP_M 8, CLUSTER_M 2, CLUSTER_N 1, SMS 132"),
    choices={**_HOPPER_3.choices, "CLUSTER_M": (1, 2, 4), "CLUSTER_N": (1, 2, 4)},
    rules=(*_TWO_WARPGROUPS, *_CLUSTERS, _RING_FITS),
    grid=(
        f"CLUSTER_M * CLUSTER_N * cdiv({_CLUSTER_TILES}, cdiv({_CLUSTER_TILES}, {_CLUSTER_ROOM}))",
        "1",
        "1",
    ),
    note="two blocks one below the other share each tile of B",
)
_HOPPER_5 = replace(
    _HOPPER_4,
    name="hopper_5",
    title="tiles of C leave during the next tile",
    file="22_5_overlapped.cu",
    entry="wgmma_overlapped",
    params={**_HOPPER_4.params, "C_BUFFERS": 2},
    choices={**_HOPPER_4.choices, "C_BUFFERS": (1, 2, 4, 8)},
    rules=(*_TWO_WARPGROUPS, *_CLUSTERS, *_C_BUFFERS),
    shared=f"{_RING_BYTES} + 16384 * C_BUFFERS",
    candidates=_FEW_TILES,
    note="sums packed to two bytes, stmatrix, TMA store",
)
_HOPPER_6 = replace(
    _HOPPER_5,
    name="hopper_6",
    title="the last tiles cut along k (stream-K)",
    file="22_6_stream_k.cu",
    entry="wgmma_stream_k",
    # One cluster for each that the SMs have room for: of few tiles each gets a piece.
    grid=(
        f"CLUSTER_M * CLUSTER_N * min({_CLUSTER_TILES} * cdiv(K, 64), {_CLUSTER_ROOM})",
        "1",
        "1",
    ),
    note="every SM works to the end, for the price of handing sums over in global memory",
)

_MMA_TMA = Kernel(
    name="mma_tma",
    title="mma.sync, fed by the copy engine",
    file="20_mma_tma.cu",
    entry="mma_tma",
    chapter=20,
    params=_sizes("BM 128, BN 256, WM 64, WN 64, STAGES 4, GROUP_M 8, SMS 132"),
    choices=_choices(
        "BM BN: 64 128 192 256; WM: 16 32 64 128; WN: 16 32 64; STAGES: 2 3 4 5 6; "
        "GROUP_M: 1 4 8 16; SMS: 108 132 144"
    ),
    rules=(
        Rule("BM % WM == 0 and BN % WN == 0", "warp tiles must cover the block tile"),
        Rule("BM % 64 == 0 and BN % 64 == 0", "tiles are made of boxes of 64 x 64"),
        Rule("WM % 16 == 0", "a warp tile is made of 16 x 16 pieces"),
        Rule("WN in (16, 32, 64)", "a warp's columns lie in one box, one XOR apart"),
        _RING,
        Rule("WM * WN <= 4096", "a lane keeps WM * WN / 32 accumulators in registers: 128 at most"),
        Rule("BM // WM * (BN // WN) in (4, 8)", "registers move between two or three warpgroups"),
        _RING_FITS,
    ),
    block=("BM // WM * (BN // WN) * 32 + 128", "1", "1"),
    grid=("min(SMS, cdiv(M, BM) * cdiv(N, BN))", "1", "1"),
    shared=_RING_BYTES,
    tile=("BM", "BN"),
    dtype="float16",
    min_arch="sm_90a",
    baseline="cublas_fp16",
    host="tma",
    note="no thread issues 16-byte copies; wgmma comes next",
)

_HOPPER: tuple[Kernel, ...] = (
    _MMA_TMA,
    _HOPPER_1,
    _HOPPER_2,
    _HOPPER_3,
    _HOPPER_4,
    _HOPPER_5,
    _HOPPER_6,
    *(
        _in_type(
            of, "float16", name=f"{of.name}_fp16", title=f"{of.title}, FP16", out_dtype="float16"
        )
        for of in (_HOPPER_5, _HOPPER_6)
    ),
)

catalog = Catalog(
    tuple(
        sorted(
            (*_ONE_ELEMENT, *_SIMT, *_WARP_TILED, _FP32_SLICED, *_THIN, *_TENSOR, *_HOPPER),
            key=lambda k: k.place,
        )
    )
)


# -- Blackwell: what no card at hand has run ------------------------------------------------------

_BOXES_OF_B = Rule("BN in (64, 128, 256)", "whole boxes, and a power of two of tensor memory")
_TENSOR_MEMORY = replace(
    _HOPPER_1,
    name="tensor_memory",
    title="tcgen05: one thread multiplies",
    file="blackwell/24_1_tensor_memory.cu",
    entry="tensor_memory",
    chapter=25,
    params={"BN": 128},
    choices={"BN": (64, 128, 256)},
    rules=(_BOXES_OF_B,),
    grid=("cdiv(N, BN)", "cdiv(M, 128)", "1"),
    shared="(128 + BN) * 128 + 1024",
    tile=("128", "BN"),
    min_arch="sm_100a",
    note="",
)
_TENSOR_ROLES = replace(
    _TENSOR_MEMORY,
    name="tensor_roles",
    title="warps with roles, and a ring",
    file="blackwell/24_2_roles.cu",
    entry="tensor_roles",
    params=_sizes("BN 256, STAGES 4"),
    choices=_choices("BN: 64 128 256; STAGES: 2 3 4 5 6 8"),
    rules=(_BOXES_OF_B, _RING, _most_shared("STAGES * (128 + BN) * 128 + 1024")),
    block=("192", "1", "1"),
    shared="STAGES * (128 + BN) * 128 + 1024",
)
_TENSOR_PAIR = replace(
    _TENSOR_ROLES,
    name="tensor_pair",
    title="two blocks multiply as one",
    file="blackwell/24_3_pair.cu",
    entry="tensor_pair",
    params=_sizes("BN 256, STAGES 6"),
    choices=_choices("BN: 128 256; STAGES: 2 3 4 5 6"),
    rules=(
        Rule("BN in (128, 256)", "whole boxes in each block, a power of two"),
        _RING,
        _most_shared("STAGES * (128 + BN // 2) * 128 + 1024"),
    ),
    grid=("2 * cdiv(M, 256)", "cdiv(N, BN)", "1"),
    shared="STAGES * (128 + BN // 2) * 128 + 1024",
)
blackwell = Catalog(
    (
        _TENSOR_MEMORY,
        _TENSOR_ROLES,
        _TENSOR_PAIR,
        replace(
            _TENSOR_PAIR,
            name="tensor_persistent",
            title="pairs that take over tiles",
            file="blackwell/24_4_persistent.cu",
            entry="tensor_persistent",
            block=("224", "1", "1"),
        ),
    )
)
"""Kernels for compute capability 10.0, which the emulator runs and no card here has timed."""


# -- cores: each rung without bounds and macros, for the page that opens with it -------------------


def _core(
    name: str, *more: Rule, depth: str = "", shared: str | None = None, **sizes: int
) -> Kernel:
    """The entry of a kernel's core: kernels/cores/, the kernel's own launch and rules, whole tiles.

    shared: the bytes that the launch gives a block, where the core declares arrays of its own
    instead. sizes: those in which the core differs from the kernel, such as a cluster of one block.
    """
    of = (blackwell if name in blackwell else catalog)[name].with_params(**sizes)
    depth = depth or next((d for d in DEPTHS if d in of.params), "1")
    steps = [str(evaluate(s, {})) if not re.search("[A-Z]", s) else s for s in (*of.tile, depth)]
    tiles = tuple(
        Rule(
            f"{d} % ({step}) == 0" if " " in step else f"{d} % {step} == 0",
            f"{d} must be a multiple of {step}: the core has no bounds; {name} takes any shape",
        )
        for d, step in zip("MNK", steps, strict=True)
        if step != "1"
    )
    counted = Rule(
        "max(M * N, M * K, K * N) < 2 ** 31", f"the core counts elements in int; {name} does not"
    )
    return replace(
        of,
        name=f"{name}_core",
        title=f"core of {name}",
        file=f"cores/{of.path.name}",
        entry=f"{of.entry}_core",
        choices={},
        shared=of.shared if shared is None else shared,
        rules=(*of.rules, *more, *tiles, counted),
        candidates=(),
        core_of=name,
        note=f"whole tiles only; {name} takes any shape",
    )


_ONE_FOUR = (
    Rule("BM * BK * TM * TN == 4 * BM * BN", "each thread copies one four of A"),
    Rule("BK * BN * TM * TN == 4 * BM * BN", "each thread copies one four of B"),
)
_DECLARED = Rule(
    "4 * STAGES * BK * (BM + 4 + BN) <= 49152",
    "arrays that a kernel declares with their sizes may have 48 KB",
)
cores = Catalog(
    (
        _core("naive"),
        _core("coalesced"),
        _core("tiled_32"),
        _core("block_1d"),
        _core("block_2d"),
        _core("vectorised", *_ONE_FOUR),
        _core("prefetch", *_ONE_FOUR),
        _core("double_buffer", *_ONE_FOUR),
        _core("cp_async"),
        _core("lane_map", *_ONE_FOUR),
        _core("warp_tiled"),
        _core("fp32_best", _DECLARED, shared="0"),
        _core("wmma", depth="16"),
        _core("wmma_shared"),
        _core("wmma_tiled"),
        _core("mma_naive"),
        _core("mma_ldmatrix"),
        _core("mma_swizzle"),
        _core("mma_pipelined"),
        _core("mma_tma", depth="64"),
        _core("hopper_1", depth="64"),
        _core("hopper_2", depth="64"),
        _core("hopper_3", depth="64"),
        _core("hopper_4", depth="64"),
        _core("hopper_5", depth="64", CLUSTER_M=1),
        _core("hopper_6", depth="64", CLUSTER_M=1),
        _core("tensor_memory", depth="64"),
        _core("tensor_roles", depth="64"),
    )
)
"""Cores stand beside the catalog: what walks over the rungs (records, sweeps, plots) meets none."""


# -- steps: what lies between two rungs that change several things ---------------------------------

_STEP_FILES: Mapping[str, str] = {
    "wide_loads": "10_wide_loads",
    "mma_pieces": "19_mma_pieces",
    "mma_short": "19_mma_short",
    "mma_one_asks": "20_one_asks",
    "mma_producer": "20_producer",
    "in_flight": "21_in_flight",
    "two_consumers": "21_two_consumers",
    "ping_pong": "22_ping_pong",
    "box_store": "22_box_store",
    "even_shares": "22_even_shares",
}  # fmt: skip


def _step(name: str, of: Kernel, title: str, entry: str, **changes: Any) -> Kernel:
    """The entry of a step, in kernels/steps/: what it shares with a rung or another step, and
    what it does not."""
    file = f"steps/{_STEP_FILES[name]}.cu"
    own = {"candidates": (), "note": "", **changes}
    return replace(of, name=name, title=title, file=file, entry=entry, **own)


def _one_tile(name: str, title: str, warps_more: int) -> Kernel:
    """A step towards mma_tma: a block for each tile, and no registers that move."""
    sizes = {size: value for size, value in _MMA_TMA.params.items() if size != "SMS"}
    warps = f"(BM // WM * (BN // WN) + {warps_more}) * 32"
    return _step(
        name,
        _MMA_TMA,
        title,
        name,
        params=sizes,
        rules=tuple(rule for rule in _MMA_TMA.rules if "registers move" not in rule.reason),
        block=(warps, "1", "1"),
        grid=("cdiv(M, BM) * cdiv(N, BN)", "1", "1"),
    )


_TWO_CONSUMERS = _step(
    "two_consumers",
    _HOPPER_2,
    "128 x 256, two consumers",
    "wgmma_two_consumers",
    params=_sizes("BM 128, BN 256, STAGES 4"),
    rules=(*_TWO_WARPGROUPS, _RING_FITS),
    block=("288", "1", "1"),
)
steps = Catalog(
    (
        _step(
            "wide_loads",
            _VECTORISED,
            "fours of global memory",
            "wide_loads",
            rules=(
                *_EVEN_TILE,
                *_FRAGMENTS_BY_FOUR[1:],
                *_A_BY_FOUR,
                *_B_BY_FOUR,
                _BLOCK_2D.rules[-1],
            ),
        ),
        _step(
            "mma_pieces",
            _MMA_SLICED_BF16,
            "rows that start at 4 or 8 bytes in pieces, BF16",
            "mma_pieces",
            candidates=_MMA_SLICED_BF16.candidates,
        ),
        _step(
            "mma_short",
            _MMA_SLICED_BF16,
            "short K, rows that start anywhere by way of registers, BF16",
            "mma_short",
            params=_sizes("BM 64, BN 64, BK 32, WM 32, WN 32, GROUP_M 8, MIN_BLOCKS 4"),
            choices=_choices(
                "BM: 16 32 64 128; BN BK: 16 32 64 128; WM WN: 16 32 64; GROUP_M: 1 8; "
                "MIN_BLOCKS: 1 2 3 4 8"
            ),
            rules=(
                *_MMA_RULES[:5],
                Rule(
                    f"{_MMA_THREADS} % BK == 0 and {_MMA_THREADS} % BN == 0"
                    f" and BM * BK % {_MMA_THREADS} == 0 and BK * BN % {_MMA_THREADS} == 0",
                    "every thread copies equally many elements, whole rows at a time",
                ),
                Rule("BM * (BN + 8) <= 2 * (BM * (BK + 8) + BK * (BN + 8))", "the tile of C fits"),
                Rule(
                    "4 * (BM * (BK + 8) + BK * (BN + 8)) <= 49152",
                    "arrays that a kernel declares with their sizes may have 48 KB",
                ),
            ),
            grid=(_TILES, "1", "1"),
            shared="0",
            passed=(),
            room=(),
            candidates=(
                {"BM": 32, "BN": 32, "WM": 16, "WN": 16, "MIN_BLOCKS": 8},
                {"BM": 32, "BN": 32, "BK": 128, "WM": 16, "WN": 16, "MIN_BLOCKS": 2},
                {"BM": 16, "BK": 128, "WM": 16, "WN": 16, "MIN_BLOCKS": 2},
                {"BK": 16},
                {"BK": 64, "MIN_BLOCKS": 3},
                {"BM": 128, "BN": 128, "WM": 64, "MIN_BLOCKS": 2},
            ),
            note="no slices: made for K of a few hundred at most",
        ),
        _one_tile("mma_one_asks", "TMA, asked by a thread that multiplies", 0),
        _one_tile("mma_producer", "a producer warp, empty barriers", 1),
        _step("in_flight", _HOPPER_2, "one group of wgmma in flight", "wgmma_in_flight"),
        _TWO_CONSUMERS,
        _step(
            "ping_pong",
            _HOPPER_3,
            "two consumers take turns",
            "wgmma_ping_pong",
            params={**_HOPPER_3.params, "BN": 128, "STAGES": 6},
            rules=(*_ONE_WARPGROUP, _RING, _RING_FITS),
        ),
        _step("box_store", _HOPPER_5, "the copy engine stores C", "wgmma_box_store"),
        _step(
            "even_shares",
            _HOPPER_5,
            "nearly the same share of C for every SM",
            "wgmma_even_shares",
            params=_sizes(
                "BM 256, BN 128, LOW 192, STAGES 4, GROUP_M 8, CLUSTER_M 1, CLUSTER_N 2, "
                "C_BUFFERS 8, SMS 132"
            ),
            choices=_choices(
                "BM: 256; BN: 128; LOW: 192 208 224 240 256; STAGES: 2 3 4; CLUSTER_M: 1; "
                "CLUSTER_N: 1 2 4; GROUP_M: 1 2 4 8 16 32; C_BUFFERS: 2 4 8 16"
            ),
            grid=(
                f"CLUSTER_N * min(cdiv(M, LOW) * cdiv(N, BN * CLUSTER_N), {_CLUSTER_ROOM})",
                "1",
                "1",
            ),
            rules=(
                Rule("BM == 256 and BN == 128", "a consumer has a box of columns"),
                Rule("192 <= LOW <= BM and LOW % 8 == 0", "wgmma_turned.cuh holds these rows"),
                Rule("CLUSTER_M == 1", "blocks of a cluster stand side by side"),
                *_CLUSTERS,
                _RING,
                Rule(
                    "C_BUFFERS > 1 and BM // 16 % C_BUFFERS == 0",
                    "each tile of C begins with the first buffer",
                ),
                Rule(
                    "STAGES * (BM + BN) * 128 + 4096 * C_BUFFERS <= 225 * 1024",
                    "a block has 227 KB of shared memory, and barriers and alignment take up to 2 "
                    "of them",
                ),
            ),
            shared=f"{_RING_BYTES} + 4096 * C_BUFFERS",
            candidates=({},),
        ),
    )
)
"""Kernels with one change more than the rung or step before them; they stand beside the catalog, as
cores do. helpers/ladder/chains.py says which follow each other; a choice weighs those that have
candidates.
"""


def find(kernel: Kernel | str) -> Kernel:
    """A kernel of the catalog, a core, a step or one for Blackwell, by name; a Kernel is returned
    as it is.

    Raises UnknownKernelError.
    """
    if isinstance(kernel, Kernel):
        return kernel
    for known in (catalog, cores, steps, blackwell):
        if kernel in known:
            return known[kernel]
    names = [*catalog, *cores, *steps, *blackwell]
    raise UnknownKernelError(f"no kernel is called {kernel!r}. {near_matches(str(kernel), names)}")


def lay_out(kernel: Kernel | str, M: int, N: int, K: int, **params: int) -> Geometry:
    """`geometry` of a kernel by name. Raises its errors, and UnknownKernelError."""
    return geometry(find(kernel), M, N, K, **params)


LEFT_OUT = ("FRAGMENTS_AHEAD", "BACK_AND_FORTH", "ZEROS_ADDED")
"""Macros of warp_tiled and fp32_best: 0 leaves out what each names."""


REMOVED: Mapping[str, str] = {
    "naive": "words queue in one bank",
    "coalesced": "a fetch for each use: a shared tile",
    "tiled_32": "a read of B for each use: a column of sums",
    "block_1d": "the same for A: a thread tile",
    "block_2d": "reads that collide, narrow reads",
    "vectorised": "waiting for the next tile",
    "prefetch": "one of two barriers",
    "double_buffer": "registers that carry a tile",
    "cp_async": "words delivered twice: lanes in squares, on double_buffer",
    "lane_map": "waiting for fragments: a step ahead",
    "warp_tiled": "waiting for copies: a ring",
    "fp32_best": "FP32 itself: Tensor Cores",
    "wmma": "a fetch for each use: a shared tile",
    "wmma_shared": "bank conflicts; waiting for the next tile",
    "wmma_tiled": "a layout nobody knows: mma.sync",
    "mma_naive": "many reads a fragment: ldmatrix",
    "mma_ldmatrix": "rows in the same banks: XOR",
    "mma_swizzle": "tiles through registers; waiting for copies",
    "mma_pipelined": "threads that copy: TMA",
    "mma_tma": "fragments in registers: wgmma",
    "hopper_1": "copying in turns: roles and a ring",
    "hopper_2": "small tiles, blocks that end",
    "hopper_3": "one tile fetched twice: pairs",
    "hopper_4": "idle units while sums are stored",
    "hopper_5": "a last round with few tiles",
    "hopper_6": "",
}
"""The rungs of the ladder in order, and what each still pays for and the next one does not."""


def without(kernel: Kernel | str, *parts: str) -> Kernel:
    """A kernel without some of the parts that LEFT_OUT names, its name saying so; for no record.

    Raises ConfigError for a part that the kernel's file has no macro for.
    """
    k = find(kernel)
    for part in parts:
        if part not in LEFT_OUT or f"#ifndef {part}\n" not in k.source:
            raise ConfigError(
                f"{k.name} has no macro {part!r} to leave it out by. {near_matches(part, LEFT_OUT)}"
            )
    defines = {**k.defines, **dict.fromkeys(parts, "0")}
    return replace(k, name=f"{k.name} without {', '.join(parts)}", defines=defines) if parts else k


_INCLUDE = re.compile(r'#include\s+"([^"]+)"')


@lru_cache(maxsize=256)
def _code(text: str) -> str:
    """A text without its comments, however its lines are broken."""
    return " ".join(without_comments(text).split())


def fingerprint(kernel: Kernel | str) -> str:
    """Short hash of a kernel's code and of our headers that it includes; comments do not count.

    A measurement keeps it, so that a figure measured with other code than the file now holds is
    known.
    """
    k, seen, texts = find(kernel), set(), []
    queue = [k.source]
    while queue:
        text = queue.pop()
        texts.append(_code(text))
        for name in _INCLUDE.findall(text):
            path = KERNELS / name
            if name not in seen and path.is_file():
                seen.add(name)
                queue.append(path.read_text(encoding="utf-8"))
    texts.append(repr(sorted(k.defines.items())))
    if k.text is not None:
        texts.append("a reader's own")  # never taken for what a record holds
    return hashlib.sha256("\n".join(sorted(texts)).encode()).hexdigest()[:12]
