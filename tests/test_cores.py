"""Cores: each rung in a few lines, without bounds, with the accesses of the whole kernel."""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers import matmul, plan
from helpers.ladder.kernel import KERNELS, constants, defines
from helpers.ladder.rungs import blackwell, catalog, cores, find, fingerprint
from nogpu import device
from nogpu.errors import ConfigError, NoGPUError, UnknownKernelError
from nogpu.text import headers, read_source, without_comments
from tests.common import ROOT

LINES = {**dict.fromkeys(cores, 40), "naive_core": 10, "coalesced_core": 10, "tiled_32_core": 20}
LINES |= {"block_1d_core": 25, "block_2d_core": 30}
LINES |= {"hopper_2_core": 46, "hopper_3_core": 60, "hopper_4_core": 74}  # two roles
LINES |= {"mma_tma_core": 66, "hopper_5_core": 68, "hopper_6_core": 75}
LINES |= {"tensor_memory_core": 45, "tensor_roles_core": 63}
LINES |= {"fp32_best_core": 50}  # the whole patch, and the ring
LINES |= {"warp_tiled_core": 50}  # two fetches and two sets of fragments are what it is about
HOUSE = {"sum", "k0", "a_col", "b_col", "c_row", "c_col", "row", "col", "copy", "warp"}
"""Names of the whole climb, which not every file has."""
WORDS = HOUSE | {"f", "auto", "__align__", "a_four", "b_four", "row_length", "__syncthreads"}
"""What a core says and its file or headers do not: an element type in place of T, a copy without a
loop, a block that meets where a cluster of several would."""
AHEAD = {
    "double_buffer_core": {"shared store": 4},
    "lane_map_core": {"shared store": 4},
    "warp_tiled_core": {"shared store": 4, "shared load": 32},
    "fp32_best_core": {"shared load": 32},
    "mma_pipelined_core": {"shared load": 8},
    "wmma_tiled_core": {"shared store": 4, "shared load": 8},
}
"""Where a file does once more than its core: zeros put down after the last of four tiles, fragments
read after the last of eight steps."""
UNSAID = {"STAGES", "MIN_BLOCKS", "GROUP_M", "SMS", "CLUSTER_M", "CLUSTER_N"}
"""Of two stages a core says 2; launch bounds it has none, and no bands; SMs the host counts; what
has no cluster says nothing of it."""
MOVED = ("registers_increase", "setmaxnreg")
"""What moves registers between warps, which needs launch bounds."""


def body(text):
    """Lines of code between the braces of a core."""
    code = without_comments(text)
    code = code[code.index("_core(") :]
    inside = code[code.index("{") + 1 : code.rindex("}")]
    return [line for line in inside.splitlines() if line.strip()]


def identifiers(text):
    return set(re.findall(r"[A-Za-z_]\w*", without_comments(text)))


def counts(t, only=""):
    """What a run asks of memory, by space and op, and its multiply-adds."""
    found = {"multiply-adds": t.multiply_adds}
    for row in t.by_line():
        for what in ("requests", "sectors", "wavefronts"):
            key = f"{row.space} {row.op} {what}"
            found[key] = found.get(key, 0) + getattr(row, what)
    return {key: n for key, n in found.items() if only in key}


@pytest.mark.parametrize("name", list(cores))
def test_a_core_is_short_and_says_what_its_file_says(name):
    core = cores[name]
    text = core.source
    assert len(body(text)) <= LINES[name], len(body(text))
    assert max(map(len, text.splitlines())) <= 84
    bounds = "" if any(word in text for word in MOVED) else "|__launch_bounds__"
    assert not re.search(rf"#\s*(define|if)|template{bounds}", text)
    file = find(core.core_of).source
    known = identifiers(file).union(*(identifiers(read_source(h)) for h in headers(file)))
    assert identifiers(text) - known <= WORDS | {core.entry}
    own = constants(text)
    params = {n: v for n, v in core.params.items() if n in own or n not in UNSAID}
    assert "__cluster_dims__" not in text or {"CLUSTER_M", "CLUSTER_N"} <= set(own)
    assert {n: own.get(n) for n in params} == params
    assert defines(core, core.params) == core.defines


def test_constants_are_read_from_declarations_alone():
    text = "const int BM = 64, BN = 32;  // const int BK = 9;\nconst int a = x / 4, T = 2 * 3;"
    text += " int TM = 7;"
    assert constants(text) == {"BM": 64, "BN": 32}


@pytest.mark.parametrize("name", list(cores))
def test_a_core_is_right_on_whole_tiles(name):
    m, n = plan(name, 4096).tile
    k = cores[name].params.get("BK", 64)
    for shape in ((m, n, k), (2 * m, n, 3 * k), (m, 3 * n, 2 * k)):
        t = plan(name, *shape).trace()
        assert t.ok, (shape, t)


@pytest.mark.parametrize("name", list(cores))
def test_a_core_asks_of_memory_what_its_kernel_asks(name):
    m, n = plan(name, 4096).tile
    k = 4 * cores[name].params.get("BK", 64)
    sizes, of = cores[name].params, cores[name].core_of
    same = {n: size for n, size in sizes.items() if n == "CLUSTER_M"}
    core, whole = plan(name, 2 * m, n, k).trace(), plan(of, 2 * m, n, k, **same).trace()
    mine, its = counts(core), counts(whole)
    for what, more in AHEAD.get(name, {}).items():
        assert counts(whole, what) != counts(core, what)
        assert not any(n % (more + 1) for key, n in its.items() if what in key)
        its |= {key: n * more // (more + 1) for key, n in its.items() if what in key}
    assert mine == its


def test_other_accesses_are_other_counts():
    """The wrong twin: a core that reads its tile of B down its columns."""
    text = cores["tiled_32_core"].source.replace("B_tile[ty][tx]", "B_tile[tx][ty]")
    p = plan("tiled_32_core", 64, 64, 64)
    twin = p.with_source(text.replace("B_tile[k][tx]", "B_tile[tx][k]")).trace()
    assert twin.ok and counts(twin, "shared") != counts(p.trace(), "shared")
    assert counts(twin, "global") == counts(p.trace(), "global")


@pytest.mark.parametrize("name", list(cores))
def test_a_core_refuses_what_is_not_whole_tiles(name):
    (m, n), sizes = plan(name, 4096).tile, cores[name].params
    unnamed = 16 if name == "wmma_core" else 64 if cores[name].host != "plain" else 1
    k = sizes.get("BK", sizes.get("TILE", unnamed))
    ragged = [(m + 1, n, 4 * k, "M"), (m, n + 1, 4 * k, "N")] + [(m, n, k + 1, "K")] * (k > 1)
    for *shape, which in ragged:
        with pytest.raises(ConfigError, match=rf"{which} must be a multiple of .* takes any shape"):
            plan(name, *shape)
        plan(cores[name].core_of, *shape)
    with pytest.raises(ConfigError, match="counts elements in int"):
        plan(name, 65536)


def test_a_core_multiplies_by_its_name_and_has_no_record(monkeypatch):
    monkeypatch.setattr(device, "current", lambda: None)
    rng = np.random.default_rng(3)
    A, B = (rng.integers(-4, 5, (64, 64)).astype(np.float32) for _ in "AB")
    assert (matmul("block_1d_core", A, B) == A @ B).all()
    with pytest.raises(NoGPUError, match="is a core"):
        plan("block_1d_core", 4096).measure()
    with pytest.raises(UnknownKernelError, match="block_1d_core"):
        plan("block_1d_cor", 64)


def test_cores_stand_beside_the_ladder():
    assert not set(cores) & set(catalog)
    for name, core in cores.items():
        assert core.core_of in {*catalog, *blackwell} and name == f"{core.core_of}_core"
        assert not core.choices and not core.candidates
        assert fingerprint(name) != fingerprint(core.core_of)
    on_disk = {p.relative_to(KERNELS).as_posix() for p in (ROOT / "kernels/cores").glob("*")}
    assert on_disk == {core.file for core in cores.values()}
