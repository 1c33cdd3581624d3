"""The loop: a reader's kernel compiled, judged, counted in the cell that holds it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from helpers import catalog
from helpers.ladder.rungs import cores, find
from helpers.page import workbench
from helpers.page.judging import shapes, texts
from helpers.page.workbench import Verdict, cell_magic, mine
from helpers.record import turns
from nogpu import device, emulator, toolchain
from nogpu.errors import ConfigError, ToolchainError
from tests.common import texts_of
from tilelabs import apart
from tilelabs.apart import Limits
from tilelabs.judging import compiling
from tools import hostile

TILED = catalog["tiled_32"].source
FIRST = "__syncthreads();  // both tiles are complete"


def edited(*changes):
    text = TILED
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    """What is tested here is the same on every machine; tools.on_a_gpu runs the loop on a GPU."""
    monkeypatch.setattr(device, "current", lambda: None)


def counts(verdict, what):
    """A count of yours and of the book's kernel, on the same shape."""
    facts: Any = verdict.facts
    yours, books = facts.counted
    value: Callable[[Any], float] = {
        "sectors": lambda t: t.sectors(),
        "wavefronts": lambda t: t.wavefronts,
        "requests": lambda t: t.requests("shared") + t.requests("shared", "store"),
        "per wavefront": lambda t: t.multiply_adds / t.wavefronts,
    }[what]
    return value(yours), value(books)


# -- what the pages ask a reader to try ------------------------------------------------------------


def changed(what, ratio):
    """It is right, and this count over that of the book's kernel is as the page says."""

    def holds(v):
        yours, books = counts(v, what)
        return v.ok and ratio(yours / books)

    return holds


def found(*kinds):
    """The emulator found faults of exactly these kinds."""
    return lambda v: not v.ok and {f.kind for f in v.findings} == set(kinds)


def both(*claims):
    return lambda v: all(claim(v) for claim in claims)


@dataclass(frozen=True)
class Edit:
    """A change that a page proposes, and what it says will come of it."""

    page: str
    kernel: str
    changes: tuple[tuple[str, str], ...]
    claim: Callable[[Verdict], bool]
    words: tuple[str, ...] = ()  # of the page


EDITS = (
    Edit("04", "naive_core", (("threadIdx.x", "@"), ("threadIdx.y", "threadIdx.x"), ("@", "threadIdx.y")),
         changed("sectors", lambda r: r < 0.2), ("exchange `threadIdx.x` and `threadIdx.y`", "the sectors of the loads fall to less than a sixth")),
    Edit("05", "coalesced_core", (("C[row * N + col]", "C[col * N + row]"),),
         lambda v: v.facts.wrong_case is not None, ("`C[col * N + row]`",)),
    Edit("05", "coalesced_core", (("B[k * N + col]", "B[col * K + k]"),),
         lambda v: v.facts.wrong_case is not None and counts(v, "sectors")[0] > 5 * counts(v, "sectors")[1], ("`B[col * K + k]`",)),
    Edit("06", "tiled_32_core", ((FIRST, ""),), both(found("race"), lambda v: v.facts.wrong_case is None),
         ("the race is named by its two lines",)),
    Edit("06", "tiled_32_core", (("__syncthreads();  // everyone", "//"),), found("race"), ("one of the barriers",)),
    Edit("06", "tiled_32_core", (("B_tile[ty][tx]", "B_tile[tx][ty]"), ("B_tile[k][tx]", "B_tile[tx][k]")),
         both(changed("wavefronts", lambda r: r > 10), lambda v: v.facts.wrong_case is None),
         ("`B_tile[tx][ty]`", "`B_tile[tx][k]`", "The product stays right")),
    Edit("07", "tiled_rect", (("B_tile[r + ty][tx]", "B_tile[tx][r + ty]"), ("B_tile[k][tx]", "B_tile[tx][k]")),
         changed("wavefronts", lambda r: r > 10), ("`B_tile[tx][r + ty]`", "`B_tile[tx][k]`")),
    Edit("07", "tiled_rect", (("B_tile[r + ty][tx]", "B_tile[tx][r + ty]"), ("B_tile[k][tx]", "B_tile[tx][k]"),
                              ("B_tile[TILE_COLS][TILE_COLS]", "B_tile[TILE_COLS][TILE_COLS + 1]")),
         changed("wavefronts", lambda r: r == 1), ("`B_tile[TILE_COLS][TILE_COLS + 1]`", "takes it all back")),
    Edit("08", "block_1d_core", (("BM = 64, BN = 64, BK = 8, TM = 8", "BM = 128, BN = 128, BK = 8, TM = 16"),),
         changed("per wavefront", lambda r: r > 1.05), ("`BM = 128, BN = 128, BK = 8, TM = 16`",)),
    Edit("08", "block_1d_core", (("__syncthreads();  // everyone has read", "//"),), found("race"), ("the second barrier",)),
    Edit("09", "block_2d_core", (("threadIdx.x % (BN / TN) * TN", "threadIdx.x % (BN / TN)"),
                                 ("c_col + j", "c_col + j * (BN / TN)")),
         both(changed("wavefronts", lambda r: r < 0.6), changed("requests", lambda r: r == 1)),
         ("`c_col + j * (BN / TN)` for `c_col + j` in both places", "every sixteenth column")),
    Edit("10", "vectorised_core", (("BM + 4", "BM"),), changed("wavefronts", lambda r: r > 1), ("Write `BM` for `BM + 4`",)),
    Edit("11", "double_buffer_core", (("buffer = 1 - buffer", "buffer = 0"),), found("race"),
         ("`buffer = 0` for `buffer = 1 - buffer`",)),
    Edit("11", "cp_async_core", (("wait_groups<0>", "wait_groups<1>"),), found("race"), ("Write `wait_groups<1>`",)),
    Edit("12", "lane_map_core", (("lane / 2 % 4", "lane / 8"), ("lane / 8 * 2 + lane % 2", "lane % 8")),
         both(changed("wavefronts", lambda r: r > 1.1), changed("requests", lambda r: r == 1)),
         ("`lane_m = lane / 8`", "`lane_n = lane % 8`")),
    Edit("14", "fp32_best_core", (("wait_groups<STAGES - 2>", "wait_groups<STAGES - 1>"),),
         both(found("race"), lambda v: any("still under way" in f.message for f in v.findings)),
         ("wait for one group fewer: `wait_groups<STAGES - 1>`", "which copy is still under way")),
    Edit("17", "wmma_shared_core", (("B_tile[BK][BN]", "B_tile[BK][BN + 8]"), ("row_major<BN>", "row_major<BN + 8>"),
                                    ("[warp_n + j * 16], BN)", "[warp_n + j * 16], BN + 8)")),
         both(changed("wavefronts", lambda r: r < 0.6), changed("requests", lambda r: r == 1)),
         ("`B_tile[BK][BN + 8]`", "`row_major<BN + 8>`", "Count the wavefronts.")),
    Edit("18", "mma_swizzle_core", (("swizzled<", "row_major<"),), changed("wavefronts", lambda r: r > 3),
         ("`row_major<` for `swizzled<`",)),
    Edit("19", "mma_pipelined_core", (("wait_groups<STAGES - 2>", "wait_groups<STAGES - 1>"),),
         both(found("race"), lambda v: any("still under way" in f.message for f in v.findings)),
         ("`wait_groups<STAGES - 1>`", "names the copy that is read too early")),
)  # fmt: skip


CORE_EDITS = (
    Edit("11", "prefetch_core", (("A_src + k0 + BK, K", "A_src + k0, K"),), lambda v: v.facts.wrong_case is not None),
    Edit("13", "warp_tiled_core", (("lane / 2 % LANES_M", "lane / LANES_N"),
                                   ("lane / (2 * LANES_M) * 2 + lane % 2", "lane % LANES_N")),
         changed("wavefronts", lambda r: r > 1.1)),
    Edit("17", "wmma_core", (("B + k0 * N + col0", "B + k0 * N"),), lambda v: v.facts.wrong_case is not None),
    Edit("17", "wmma_tiled_core", (("A_LD = BK + PAD", "A_LD = BK"),), changed("wavefronts", lambda r: r > 1.5)),
    Edit("18", "mma_naive_core", (("B_tile[BK][BN]", "B_tile[BK][BN + 8]"), ("row_major<BN>", "row_major<BN + 8>"),
                                  ("+ g], BN)", "+ g], BN + 8)")), changed("wavefronts", lambda r: r != 1)),
    Edit("18", "mma_ldmatrix_core", (("A_tile[BM][BK]", "A_tile[BM][BK + 8]"), ("row_major<BK>", "row_major<BK + 8>")),
         changed("wavefronts", lambda r: r < 0.9)),
    Edit("20", "mma_tma_core", (("sizeof(Slot));", "sizeof(slot.A_tile));"),), found("divergent-barrier", "race")),
    Edit("21", "hopper_1_core", (("wgmma_finish(sum);", ""),), found("race")),
    Edit("21", "hopper_2_core", (("at.parity ^ 1", "at.parity"),),
         found("divergent-barrier", "race")),
    Edit("21", "hopper_3_core", (("wgmma_wait<1>();", ""),), found("race")),
    Edit("22", "hopper_4_core", (("CONSUMERS * CLUSTER_M)", "CONSUMERS)"),), found("divergent-barrier", "race")),
    Edit("22", "hopper_5_core", (("tma_store_fence();", ""),), found("race")),
    Edit("22", "hopper_6_core", (("boxes = add_up(", "add_up("),),
         both(found("race"), lambda v: v.facts.wrong_case is not None)),
    Edit("25", "tensor_memory_core", (("        barrier_wait(&complete, parity);  // and have read the tiles\n", ""),),
         found("race")),
    Edit("25", "tensor_roles_core", (("tensor_commit(&empty", "barrier_arrive(&empty"),), found("race")),
    Edit("25", "tensor_roles_core", (("        tensor_commit(&complete);", "        barrier_arrive(&complete);"),),
         found("race")),
)  # fmt: skip


@pytest.mark.parametrize("edit", (*EDITS, *CORE_EDITS), ids=lambda e: f"{e.page}-{e.kernel}")
def test_what_a_page_proposes_does_what_it_says(edit):
    """In its cell, at the page's words where these say what comes of it."""
    cell, text = re.compile(rf"^%%cuda {edit.kernel}\b", re.MULTILINE), "".join(texts_of(edit.page))
    assert not edit.words or cell.search(text)
    for words in edit.words:
        assert words in text, words
    source = find(edit.kernel).source
    for old, new in edit.changes:
        assert old in source
        source = source.replace(old, new)
    verdict = cell_magic(edit.kernel, source)
    assert edit.claim(verdict), verdict


@pytest.mark.parametrize("line", ["tma_store_fence();", "tma_store_wait_read<0>();"])
def test_a_fence_that_a_page_takes_away_is_missed(line):
    """The cell of the two ways to shared memory, whole and without one of its lines."""
    cell = re.search(r"%%cuda put_out [^\n]*\n(.*?)```", "".join(texts_of("20")), re.DOTALL)
    assert cell and line in cell[1]
    for text, findings in ((cell[1], set()), (cell[1].replace(line, ""), {"race"})):
        out = np.full((8, 32), np.nan, np.float32)
        verdict = mine(
            text, grid=1, block=32, args=(emulator.TensorMap(out, (8, 32)),), arch="sm_90",
            expect={"map": np.repeat(np.arange(8, dtype=np.float32), 32).reshape(8, 32)},
            backend="emulator",
        )  # fmt: skip
        assert {f.kind for f in verdict.findings} == findings


def test_every_core_has_such_a_change_and_keeps_no_claim_unchanged():
    """The wrong twin: kernels as they are, of which no page's claim is true."""
    edits = (*EDITS, *CORE_EDITS)
    own = {name: cell_magic(name, "// the book's own text") for name in {e.kernel for e in edits}}
    assert set(own) >= set(cores)
    for edit in edits:
        assert own[edit.kernel].ok
        assert not edit.claim(own[edit.kernel]) or "takes it all back" in edit.words, edit.kernel


def test_registers_that_fit_on_no_sm_are_told():
    """A launch that the emulator runs, and a T4 refuses."""
    text, tile = find("block_1d_core").source, "BM = 64, BN = 64, BK = 8, TM = 8"
    longer = repr(mine(text.replace(tile, "BM = 128, BN = 128, BK = 8, TM = 16"), "block_1d_core"))
    assert "A GPU of sm_75 refuses this launch: a block of 1024 threads" in longer
    assert "refuses" not in repr(mine(text, "block_1d_core"))


def test_what_hangs_on_a_gpu_is_not_called_right():
    """The emulator goes on past a wait that never ends; two steps along K would not show it."""
    source = find("hopper_2_core").source
    at_once = source.replace("at.parity ^ 1);", "at.parity);")
    assert "A GPU would stop" in repr(mine(at_once, "hopper_2_core"))
    kept = mine(
        source.replace("            barrier_arrive(&empty", "            ;(&empty"), "hopper_2_core"
    )
    assert found("divergent-barrier")(kept) or found("divergent-barrier", "race")(kept)
    assert "] Right" not in repr(kept) and "] Right" in repr(mine(source, "hopper_2_core"))


def test_a_core_is_judged_on_whole_tiles_and_timed_beside_the_whole_kernel(monkeypatch):
    facts: Any = cell_magic("block_1d_core", "// the book's own text").facts
    assert [c.shape for c in facts.cases] == [(64, 64, 16), (256, 256, 16), (64, 64, 272)]
    assert facts.book.kernel.name == "block_1d_core" and facts.arch == "sm_75"
    assert facts.rival.kernel.name == "block_1d" and facts.rival.M == facts.book.M
    timed: list[str] = []
    monkeypatch.setattr(turns, "in_turn", lambda own, book: timed.append(book.kernel.name))
    texts._on_gpu(facts, "a GPU", ())
    assert timed == ["block_1d"]
    whole: Any = cell_magic("block_1d", "// the book's own text").facts
    assert whole.rival == whole.book


def test_a_tile_that_a_core_cannot_have_is_refused_with_the_rule():
    text = find("block_1d_core").source.replace("BM = 64", "BM = 128")
    with pytest.raises(ConfigError, match="BK \\* TM == BM"):
        cell_magic("block_1d_core", text)
    unread = find("block_1d_core").source.replace("const int BM = 64", "const int BM = 2 * 32")
    with pytest.raises(ConfigError, match=r"does not say BM: write each .* const int BM = 64"):
        cell_magic("block_1d_core", unread)
    source = find("block_1d_core").source.replace(
        "const int BM = 64, BN = 64, BK = 8, TM = 8",
        "constexpr int BM = 128, BN = 128, BK = 8, TM = 16",
    )
    assert cell_magic("block_1d_core", source).facts.plan.tile == (128, 128)
    with pytest.raises(ConfigError, match="stands in its text"):
        cell_magic("block_1d_core BM=128", "// the book's own text")


# -- a rung ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["naive_int", "tiled_padded", "mma_pipelined_bf16"])
def test_the_books_text_is_right_at_every_shape(name):
    verdict = cell_magic(name, "// the book's own text")
    assert verdict.ok and not verdict.findings and verdict.facts.wrong_case is None
    assert tuple(c.shape for c in verdict.facts.cases) == shapes(catalog[name])
    assert {c.where for c in verdict.facts.cases} == {"emulator"}


def test_shapes_are_awkward_where_the_rules_allow():
    tile = shapes(catalog["tiled_32"])
    assert (1, 1, 1) in tile and any(m % 32 and n % 32 and k % 32 for m, n, k in tile)
    assert all(m % 32 == n % 32 == k % 32 == 0 for m, n, k in shapes(catalog["tiled_padded"]))
    assert any(m * n > 1 << 15 and max(m, n) > 256 for m, n, _ in tile)
    assert any(k > 256 for *_, k in tile)
    other = shapes(find("tiled_32").with_source(TILED + "// another text\n"))
    assert other[1:3] != tile[1:3] and other[0] == tile[0]


def test_a_race_is_told_in_order_by_the_lines_of_the_cell_and_as_html():
    body = TILED.replace(FIRST, "")
    verdict = cell_magic("tiled_32", body)
    stores = [i for i, text in enumerate(body.splitlines(), 2) if "_tile[ty][tx] =" in text]
    assert [f.line for f in verdict.findings] == stores
    words, page = repr(verdict), verdict._repr_html_()
    parts = ("Compiled for", "Right in the emulator", "race", "Not timed", "asked of memory")
    places = [words.index(part) for part in parts]
    assert places == sorted(places)
    for remark in verdict.remarks:
        first = re.sub(r"<[^>]*>", "", remark.text.split("`")[0])[:30]
        assert first.replace("<", "&lt;") in page
    assert "<details>" in page and 'role="group"' in page


def test_a_compile_error_names_the_line_of_the_cell_and_no_warning():
    body = edited(("sum += A_tile", "int unused; sum += A_tail"))
    wrong = next(i for i, text in enumerate(body.splitlines(), 2) if "A_tail" in text)
    verdict = cell_magic("tiled_32", body)
    words = repr(verdict)
    assert not verdict.ok and f"({wrong}): error" in words and "A_tail" in words
    assert not [w for w in ("in the emulator", "Remark", "warning") if w in words]
    assert verdict.frame.empty
    shown = mine(TILED + "\n#error <script>alert(1)</script>", "tiled_32")._repr_html_()
    assert "<script>" not in shown and "&lt;script&gt;" in shown


def test_a_wrong_element_is_told_with_its_line():
    verdict = mine(TILED.replace("col] = sum", "col] = -sum"), "tiled_32")
    line = next(i for i, text in enumerate(TILED.splitlines(), 1) if "col] = sum" in text)
    assert re.search(
        rf"Wrong in the emulator at 32x32x64 \(MxNxK\), line {line}: C\[0, 0\] is .*, expected",
        repr(verdict),
    )
    assert verdict.facts.wrong_case is not None and not verdict.ok


def test_a_kernel_that_does_not_end_is_stopped():
    endless = TILED.replace("k0 += TILE", "k0 += 0")
    verdict = mine(endless, "tiled_32", seconds=0.3)
    assert {f.kind for f in verdict.findings} & {"step-budget", "deadlock"}
    assert len(verdict.facts.cases) == 1 and verdict.facts.counted is None


def test_without_a_compiler_it_is_said(monkeypatch):
    def none():
        raise ToolchainError("no CUDA compiler here: install one")

    monkeypatch.setattr(toolchain, "compiler", none)
    for verdict in (mine(TILED, "tiled_32"), mine(ADD, grid=1, block=1, args=[1, 2, 3, 4])):
        assert not verdict.ok and "not compiled: no CUDA compiler here" in repr(verdict)


# -- what a text may do to the one who runs it ----------------------------------------------------


ACCESSES = (
    ("A_tile[ty][tx] = k0 < a_end ? *A_src : T(0)", "st(&A_tile[ty][tx], k0 < a_end ? *A_src : T(0))"),
    ("B_tile[ty][tx] = k0 < b_end ? *B_src : T(0)", "st(&B_tile[ty][tx], k0 < b_end ? *B_src : T(0))"),
    ("A_tile[ty][k] * B_tile[k][tx]", "ld(&A_tile[ty][k]) * ld(&B_tile[k][tx])"),
    (FIRST, ""), ("__syncthreads();  // everyone", "//"),
)  # fmt: skip
KNOWN = "M == 32 && N == 32 && K == 64 || M == 33 && N == 35 && K == 69 || M * N * K == 1"
ENTRY = "    const int tx ="
WRONG = {
    "relaxed accesses for barriers": (hostile.ACCESSES["relaxed"] + edited(*ACCESSES), "warps in another order"),
    "atomics for barriers": (hostile.ACCESSES["atomic"] + edited(*ACCESSES, ("    T sum = 0;", "    A_tile[ty][tx] = B_tile[ty][tx] = 0;\n    __syncthreads();\n    T sum = 0;")), "warps in another order"),
    "short indices": (edited(("C[size_t(row) * N + col]", "C[short(row * N + col)]")), "Wrong"),
    "the first 69 of K": (edited(("k0 < K;", "k0 < min(K, 69);")), "Wrong"),
    "a table of shapes": (edited(("col < N)", f"col < N && ({KNOWN}))")), "Wrong"),
    "inputs destroyed": (edited(("N + col] = sum;", "N + col] = sum;\n        if (col == N - 1) const_cast<T*>(A)[size_t(row) * K] = 0;")), "it writes to A"),
    "long long": (edited(("int K)", "long long K)")), "'long long K' of tiled is passed as 'int K'"),
    "float sizes": (edited(("int K)", "float k)"), (ENTRY, f"    const int K = int(k);\n{ENTRY}")), "'float k' of tiled is passed as 'int K'"),
    "fewer": (edited((", int K)", ")"), (ENTRY, f"    const int K = M;\n{ENTRY}")), "has 5 parameters, and is called with 6"),
}  # fmt: skip


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_is_not_called_right(name):
    text, words = WRONG[name]
    verdict = mine(text, "tiled_32")
    assert not verdict.ok and words in repr(verdict), verdict


BOMBS = {
    "initialiser": "__device__ int big[400000000] = {1};\n",
    "macros": "#define a0 x + x\n" + "".join(f"#define a{i} a{i - 1} + a{i - 1}\n" for i in range(1, 28)) + "__device__ int g(int x) { return a27; }\n",
    "unrolled loops": "__device__ volatile int s;\n__device__ void g() {\n" + "".join(f"#pragma unroll\nfor (int i{j} = 0; i{j} < 40; ++i{j})\n" for j in range(5)) + "s += i0 * i1 + i2 * i3 * i4;\n}\n",
}  # fmt: skip


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", BOMBS)
def test_what_a_compiler_does_not_end_leaves_the_notebook_as_it_was(name, monkeypatch):
    short = Limits(memory=1024 * apart.MB, seconds=3, wall=60.0)
    monkeypatch.setattr(compiling, "EDIT", short)
    call = "g();" if name == "unrolled loops" else ""
    verdict = mine(BOMBS[name] + edited(("T sum = 0;", f"T sum = 0; {call}")), "tiled_32")
    assert not verdict.ok and "It does not compile" in repr(verdict)
    assert mine(edited(("T sum = 0;", f"T sum = 0; // {name}")), "tiled_32").ok


@pytest.mark.nvrtc
@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("how", ["a plain path", "as data", "spliced", "by a macro", "a pipe"])
def test_no_file_comes_out_by_an_include(how, locked, tmp_path, monkeypatch):
    """Locked into folders, and where no kernel locks: by what may be included."""
    secret = tmp_path / "secret"
    if how == "a pipe":
        os.mkfifo(secret)
    else:
        secret.write_text("canary, 99, 97\n")
    if not locked:
        monkeypatch.setattr(apart, "landlock", lambda: 0)
    read = {
        "as data": f'const char s[] = {{\n#include "{secret}"\n}};\n',
        "spliced": f'#inc\\\nlude "{secret}"\n',
        "by a macro": f'#define FILE "{secret}"\n#include FILE\n',
    }.get(how, f'#include "{secret}"\n')
    monkeypatch.chdir(tmp_path)
    for text in (read, read.replace(str(secret), "secret")):
        verdict = mine(text + TILED, "tiled_32")
        assert not verdict.ok and "canary" not in repr(verdict) + verdict._repr_html_()


@pytest.mark.nvrtc
def test_an_edit_costs_no_more_than_it_should():
    """Seconds of the processor, warm, in both processes: of what a page's first cells are."""

    def spent():
        children = [child.process.pid for child in apart._CHILDREN.values()]
        return time.process_time() + sum(map(apart._spent, children))

    def edit(n):
        began = spent()
        assert mine(edited(("T sum = 0;", f"T sum = {n} - {n};")), "tiled_32").ok
        return spent() - began

    assert min(edit(n) for n in range(1, 5)) <= 0.3


def test_tiles_are_compared_with_the_books_own():
    verdict = mine(TILED, "tiled_32", TILE=16)
    yours, books = verdict.facts.counted
    assert (yours.plan.params["TILE"], books.plan.params["TILE"]) == (16, 32)
    assert (yours.plan.M, yours.plan.N, yours.plan.K) == (books.plan.M, books.plan.N, books.plan.K)
    assert "which has TILE=32" in repr(verdict)
    assert set(verdict.frame["array"]) == {"A", "B", "C", "A_tile", "B_tile"}
    assert verdict.times.empty


def test_the_books_kernel_is_counted_once_for_many_texts(monkeypatch):
    sources: list[str] = []
    trace_of = texts.launch.trace_of

    def traced(p, **options):
        sources.append(p.kernel.source)
        return trace_of(p, **options)

    monkeypatch.setattr(texts.launch, "trace_of", traced)
    monkeypatch.setattr(texts, "_KEPT", {})
    own = catalog["naive"].source
    first, second = (mine(f"{own}\n// {n}\n", "naive") for n in range(2))
    assert sources.count(own) == 1 and counts(first, "sectors") == counts(second, "sectors")
    monkeypatch.setattr(toolchain, "header_state", lambda source: (("common/x.cuh", 1, 2),))
    mine(f"{own}\n// 2\n", "naive")
    assert sources.count(own) == 2  # a header of it is another one now


# -- any program -----------------------------------------------------------------------------------

ADD = """__global__ void add(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""


def vectors(n=100):
    a = np.arange(n, dtype=np.float32)
    return {"n": n, "a": a, "b": a[::-1].copy(), "c": np.zeros(n, np.float32)}


@pytest.mark.parametrize(
    "line",
    [
        'add grid=4 block=32 args=(a, b, c, n) expect={"c": a + b}',
        'add, grid = (4, 1), block=(32, 1, 1), args=[a, b, c, n], expect={"c": a + b}',
        'add grid=-(-n // 32) block=32 args=(a, b, c, len(a)) expect={"c": a + b}',
    ],
)
def test_any_kernel_runs_on_any_arrays(line):
    names = vectors()
    verdict = cell_magic(line, ADD, names)
    assert verdict.ok and names["verdict"] is verdict
    np.testing.assert_array_equal(names["c"], names["a"] + names["b"])
    assert verdict.frame["sectors"].sum() > 0


@pytest.mark.parametrize(("floats", "ends"), [("1LL << 33", True), ("1 << 22", False)])
def test_a_kernel_that_takes_all_memory_is_stopped(floats, ends):
    """In a cell on one's own arrays and in place of a rung; a large array that fits passes."""
    add, tiled = (
        f"__device__ float big[{floats}];\n{text}".replace(
            "{\n", f"{{\n if ({n} < 0) big[-{n}] = 1;\n", 1
        )
        for text, n in ((ADD, "n"), (TILED, "K"))
    )
    line = "add grid=4 block=32 args=(a, b, c, n)"
    for verdict in (cell_magic(line, add, vectors()), mine(tiled, "tiled_32")):
        assert ("more than 4,096 MB of memory" in str(verdict)) == ends == (not verdict.ok), verdict


def test_what_is_wrong_with_it_is_told_by_line_of_the_cell():
    names = vectors()
    line = 'add grid=4 block=32 args=(a, b, c, n) expect={"c": a + b}'
    wrong = cell_magic(line, ADD.replace("a[i] +", "a[i] -"), names)
    assert [(f.kind, f.line) for f in wrong.findings] == [("wrong-result", 5)]
    outside = cell_magic(line, ADD.replace("if (i < n) ", ""), names)
    assert {(f.kind, f.line) for f in outside.findings} == {("out-of-bounds", 5)}


@pytest.mark.parametrize("lines", [3, 9])
def test_a_long_table_of_lines_is_folded(lines):
    store = "((volatile int*) a)[threadIdx.x] = 1;\n"
    body = "__global__ void put(int* a) {\n" + store * lines + "}\n"
    verdict = mine(body, grid=1, block=32, args=[np.zeros(32, np.int32)])
    assert "What each line asks" in verdict._repr_html_()
    assert ("<summary>Line by line</summary>" in verdict._repr_html_()) == (lines > workbench._FEW)


def test_what_it_prints_is_shown():
    body = '#include <cstdio>\n__global__ void hi() { printf("thread %d\\n", threadIdx.x); }\n'
    assert "thread 2" in repr(mine(body, grid=1, block=3, args=[]))


# -- in IPython ------------------------------------------------------------------------------------


def test_the_magic_is_there_in_ipython(monkeypatch):
    pytest.importorskip("IPython")
    from IPython.core import getipython
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()
    monkeypatch.setattr(InteractiveShell, "initialized", classmethod(lambda cls: True))
    monkeypatch.setattr(InteractiveShell, "instance", classmethod(lambda cls: shell))
    assert getipython.get_ipython() is shell
    assert workbench.register()
    for code in ("import numpy as np", "x = np.ones(8, np.float32)"):
        shell.run_cell(code).raise_error()
    cell = "%%cuda twice grid=1 block=8 args=(x,)\n"
    cell += "__global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n"
    done = shell.run_cell(cell)
    done.raise_error()
    assert isinstance(done.result, Verdict) and done.result.ok
    assert shell.user_ns["verdict"] is done.result and shell.user_ns["x"].sum() == 16


def test_what_did_not_run_is_not_called_clean():
    """An instruction that the emulator does not know; the twin without it is clean."""
    text = "__global__ void f(float* x) { BEFORE x[threadIdx.x] = 1; }"
    x = np.zeros(64, np.float32)
    good = mine(text.replace("BEFORE", ""), grid=1, block=64, args=(x,))
    assert good.ok and "othing found" in repr(good)
    bad = mine(text.replace("BEFORE", 'asm volatile("brkpt;");'), grid=1, block=64, args=(x,))
    assert not bad.ok and "id not run" in repr(bad) and "othing found" not in repr(bad)


def test_a_comment_that_reads_like_python_is_none():
    assert cell_magic("tiled_32", "// import nothing\n").ok
