"""The one call that runs a kernel: results, every refusal, and the trace."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.ladder import launch, numbers, usage
from helpers.ladder.rungs import catalog, lay_out
from nogpu import device
from nogpu.errors import ConfigError, DtypeError, EmulationError, NoGPUError, ShapeError


def test_matmul_is_right_and_leaves_its_inputs_alone():
    A, B = numbers.operands("coalesced", 33, 17, 9)
    before = A.copy(), B.copy()
    C = launch.matmul("coalesced", A, B)
    assert numbers.wrong_elements("coalesced", A, B, C) == 0 and C.dtype == np.float32
    assert (A == before[0]).all() and (B == before[1]).all()


def test_the_check_itself_refuses_a_wrong_result():
    A, B = numbers.operands("coalesced", 8, 8, 64)
    C = launch.matmul("coalesced", A, B)
    for bad in (np.nan, C[3, 3] + 1e-3, 0.0):
        wrong = C.copy()
        wrong[3, 3] = bad
        assert numbers.wrong_elements("coalesced", A, B, wrong) == 1
    halves = (A.astype(np.float16).astype(np.float32) @ B.astype(np.float16)).astype(np.float32)
    assert numbers.wrong_elements("coalesced", A, B, halves) > 32


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        (lambda a, b: (a[0], b), ShapeError, "two dimensions"),
        (lambda a, b: (a[None], b), ShapeError, "two dimensions"),
        (lambda a, b: (a, b[:-1].copy()), ShapeError, "columns of A"),
        (lambda a, b: (a[:0], b), ShapeError, "at least one row"),
        (lambda a, b: (a.astype(float), b), DtypeError, "float64.*astype"),
        (lambda a, b: (a, b.astype(complex)), DtypeError, "complex"),
        (lambda a, b: (a.astype(object), b), DtypeError, "object"),
        (lambda a, b: (a.tolist(), b), DtypeError, "list"),
    ],
)
def test_bad_matrices_get_a_clear_error(change, error, says):
    A, B = numbers.operands("coalesced", 6, 5, 4)
    with pytest.raises(error, match=says):
        launch.matmul("coalesced", *change(A, B))


@pytest.mark.parametrize("view", [lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::2]])
def test_a_view_is_copied_and_said_so(view):
    A, B = numbers.operands("coalesced", 6, 6, 6)
    A = view(A)
    with pytest.warns(UserWarning, match="not contiguous"):
        C = launch.matmul("coalesced", A, np.ascontiguousarray(B[: A.shape[1]]))
    assert np.allclose(C, A @ B[: A.shape[1]], atol=1e-5)


@pytest.mark.skipif(launch.device.current() is not None, reason="this machine has a GPU")
def test_cuda_without_a_gpu_says_what_to_do():
    A, B = numbers.operands("coalesced", 4, 4, 4)
    with pytest.raises(NoGPUError, match="emulator"):
        launch.matmul("coalesced", A, B, backend="cuda")


def test_a_faulty_kernel_does_not_return_a_result():
    kernel = catalog["coalesced"]
    kernel = kernel.with_source(kernel.source.replace("col >= N", "false"))
    A, B = numbers.operands(kernel, 5, 5, 5)
    with pytest.raises(EmulationError, match="out-of-bounds"):
        launch.matmul(kernel, A, B, backend="emulator")


SHAPES = ((1, 1, 1), (33, 65, 9), (131, 259, 19), (3, 513, 8), (129, 132, 17))
_OF = {name: len(catalog[name].candidates) for name in ("fp32_best", "fp32_turing")}
CANDIDATES = [(name, number) for name, count in _OF.items() for number in range(count)]


@pytest.mark.parametrize(("name", "number"), CANDIDATES)
def test_every_candidate_is_right_on_awkward_shapes(name, number):
    tile = catalog[name].candidates[number]
    for M, N, K in SHAPES:
        A, B = numbers.operands(name, M, N, K)
        C = launch.matmul(name, A, B, backend="emulator", **tile)
        assert numbers.wrong_elements(name, A, B, C) == 0, (M, N, K, tile)


def test_every_candidate_of_the_t4s_kernel_fits_there_without_spills():
    """And each fills an SM: it holds as many blocks as the launch bounds ask for."""
    for tile in catalog["fp32_turing"].candidates:
        p = lay_out("fp32_turing", 4096, 4096, 4096, **tile)
        r = usage.resources_of(p, "sm_75")
        assert r.spill_stores == r.spill_loads == r.stack == 0, (tile, r)
        assert r.occupancy.blocks >= p.params["MIN_BLOCKS"], (tile, r)


@pytest.mark.parametrize(
    ("name", "gpu", "default", "edge", "sms"),
    [("fp32_turing", "t4", (128, 128), 256, 4), ("fp32_best", "h200", (128, 256), 512, 8)],
)
def test_the_tile_follows_the_shape(name, gpu, default, edge, sms):
    """Few tiles of the default fill a GPU of as many SMs, and none else."""
    gpu = device.gpu(gpu)
    for large in (4096, 8192):
        assert launch.choose(name, large, large, large, gpu=gpu).tile == default
    small = launch.choose(name, edge, edge, edge, gpu=gpu)
    assert small.tile != default and small.why.startswith(f"{edge}x{edge}x{edge} on {gpu.name}")
    assert launch.choose(name, edge, edge, edge, gpu=replace(gpu, sms=sms)).tile == default


def test_the_choice_says_its_blocks():
    p = launch.choose("fp32_best", 1024, 1024, 1024, gpu=device.gpu("h200"))
    assert p.why.startswith("1024x1024x1024 on H200") and "32 blocks" in p.why
    assert p.grid == (128, 1, 1) and p.tile == (64, 128) and p.params["BM"] == 64


def test_matmul_takes_the_choice_only_when_asked(monkeypatch):
    A, B = numbers.operands("fp32_best", 70, 70, 33)
    seen = []
    emulate = launch._emulate
    monkeypatch.setattr(
        launch, "_emulate", lambda p, *a, **o: seen.append(p) or emulate(p, *a, **o)
    )
    for options in ({}, {"tile": "auto"}):
        C = launch.matmul("fp32_best", A, B, backend="emulator", **options)
        assert numbers.wrong_elements("fp32_best", A, B, C) == 0
    assert seen[0].params == catalog["fp32_best"].params and not seen[0].why
    assert seen[1].params != seen[0].params and seen[1].why
    for bad in ({"tile": "best"}, {"tile": "auto", "BM": 64}):
        with pytest.raises(ConfigError, match="auto"):
            launch.matmul("fp32_best", A, B, **bad)
    with pytest.raises(ConfigError, match="fp32_best"):
        launch.choose("tiled_32", 64, 64, 64)
    with pytest.raises(ConfigError, match="sm_80"):
        launch.choose("fp32_best", 64, 64, 64, gpu=device.gpu("t4"))


def test_multiply_adds_are_those_of_elements_only():
    """Loads and stores of fragments, and address arithmetic, are no multiply-adds."""
    t = launch.trace("wmma", M=32, N=16, K=48)
    assert t.multiply_adds == 32 * 16 * 48 // 16**3
    assert (
        sum(n for op, n in t.report.instructions.items() if op.startswith("wmma")) > t.multiply_adds
    )
    assert launch.trace("coalesced_int", M=32, N=32, K=8).multiply_adds == 32 * 8
    k = catalog["coalesced"]
    t = launch.trace(k.with_source(k.source.replace("size_t(row) * N", "row * N")), M=32, N=32, K=8)
    assert t.multiply_adds == 32 * 8
    assert any(op.startswith("mad.") for op in t.report.instructions)


def test_what_the_gpu_is_too_old_for_runs_in_the_emulator(monkeypatch):
    """As on a T4, which has no cp.async: the page goes on."""
    launches: list[str] = []
    monkeypatch.setattr(launch.device, "current", lambda: SimpleNamespace(arch="sm_75"))
    monkeypatch.setattr(launch, "_on_gpu", lambda p, A, B: launches.append(p.kernel.name))
    A, B = np.ones((3, 5), np.float32), np.ones((5, 7), np.float32)
    assert (launch.matmul("cp_async", A, B) == 5).all() and launches == []
    assert launch.matmul("naive", A, B) is None and launches == ["naive"]
    launch.matmul(
        "cp_async", A, B, backend="cuda"
    )  # asked for by name: the error is the GPU's to tell
    assert launches == ["naive", "cp_async"]
