"""Whole CUDA programs in foreign styles, run as they stand: right, or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.page.workbench import mine
from nogpu import emulator, toolchain
from nogpu.bfloat16 import to_bfloat16

FOLDER = Path(__file__).parent / "pasted"
RNG = np.random.default_rng(5)


def floats(*shape):
    return RNG.integers(-8, 9, shape).astype(np.float32)


def ints(*shape, high=100):
    return RNG.integers(0, high, shape).astype(np.int32)


@dataclass(frozen=True)
class Case:
    """A launch of one program. expected: from the arguments as they were, what one becomes."""

    entry: str
    grid: Any
    block: Any
    args: list[Any]
    out: int
    expected: Callable[..., np.ndarray]
    shared: int = 0
    close: float = 0.0


def product(A, B):
    return A.astype(np.float64) @ B


def life(now):
    near = sum(np.roll(now, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)) - now
    return (near == 3) | ((near == 2) & (now == 1))


def blurred(image):
    wide = np.pad(image.astype(int), 1, mode="edge")
    h, w = image.shape
    return sum(wide[i : i + h, j : j + w] for i in range(3) for j in range(3)) // 9


def derivative(f):
    wide = np.pad(f, 3)
    n = len(f)
    return sum((wide[3 + r : 3 + r + n] - wide[3 - r : 3 - r + n]) / r for r in (1, 2, 3))


def forces(bodies):
    p = bodies.astype(np.float64)
    d = p[None, :, :3] - p[:, None, :3]
    return (d[..., 0] * ((d**2).sum(-1) + 1e-9) ** -1.5).sum(1)


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


A, B = floats(40, 24), floats(24, 50)
A64, B64 = floats(64, 16), floats(16, 64)
BODIES = RNG.normal(size=(40, 4)).astype(np.float32)
BYTES = RNG.integers(0, 256, 5000).astype(np.uint8)
IMAGE = RNG.integers(0, 256, (20, 33)).astype(np.uint8)
W16, X16 = floats(6, 70), floats(70)

CASES: dict[str, Case] = {
    "01_sgemm_naive": Case("sgemm", (2, 2), (32, 32), [40, 50, 24, 2.0, A, B, 3.0, floats(40, 50)], 7,
                           lambda *a: 2 * product(A, B) + 3 * a[7]),
    "02_block_tile_template": Case("sgemm1D<64, 64, 8, 8>", (1, 1), 512, [64, 64, 16, A64, B64, floats(64, 64)], 5,
                                   lambda *a: product(A64, B64)),
    "03_leet_starter": Case("vector_add", 3, 256, [floats(700), floats(700), floats(700), 700], 2, lambda *a: a[0] + a[1]),
    "04_reduction_volatile": Case("sum_reduction", 2, 256, [ints(1024), ints(2)], 1, lambda v, r: v.reshape(2, 512).sum(1)),
    "05_softmax_limits": Case("softmax_rows", 5, 32, [floats(5, 70), floats(5, 70), 70], 1, lambda *a: softmax(a[0]), close=1e-5),
    "06_histogram_shared": Case("histo_kernel", 4, 256, [BYTES, 5000, np.zeros(256, np.uint32)], 2,
                                lambda *a: np.bincount(BYTES, minlength=256)),
    "07_constant_stencil": Case("derivative", 3, 64, [floats(192), floats(192), 192], 1, lambda f, *_: derivative(f), close=1e-5),
    "08_host_device_functor": Case("affine", 2, 32, [floats(100), floats(100), 100], 1, lambda a, *_: 2 * a + 1),
    "09_half2_axpy": Case("axpy_f16x2_kernel", 1, 64, [floats(100).astype(np.float16), floats(100).astype(np.float16), 100], 1,
                          lambda x, y, _: x + y),
    "10_wmma_sample": Case("wmma_one", 1, 32, [floats(16, 16).astype(np.float16), floats(16, 16).astype(np.float16), floats(16, 16)],
                           2, lambda a, b, _: product(a.astype(np.float32), b.astype(np.float32))),
    "11_cooperative_groups": Case("tile_sums", 2, 64, [ints(128), ints(8)], 1, lambda v, _: v.reshape(8, 16).sum(1)),
    "12_dynamic_shared_reverse": Case("dynamicReverse", 1, 64, [ints(64), 64], 0, lambda d, _: d[::-1], shared=256),
    "13_transpose_padding": Case("transposeNoBankConflicts", (2, 2), (32, 8), [floats(50, 40), floats(40, 50), 50, 40], 0,
                                 lambda o, i, *_: i.T),
    "14_explicit_instances": Case("fill<float, 64>", 2, 64, [floats(100), 2.5, 100], 0, lambda p, *_: np.full(100, 2.5)),
    "15_macro_made_kernels": Case("scale_double", 2, 64, [np.arange(100.0), 0.5, 100], 0, lambda d, *_: d * 0.5),
    "16_namespace_anonymous": Case("roll", 2, 128, [floats(200), floats(200), 200, 7], 1, lambda i, *_: np.roll(i, 7)),
    "17_inline_ptx": Case("lanes", 1, 64, [floats(64)], 0, lambda _: (np.arange(64) % 32)[::-1]),
    "21_game_of_life": Case("step", 2, 64, [(ints(20, 30, high=2)).astype(np.uint8), np.zeros((20, 30), np.uint8), 30, 20], 1,
                            lambda now, *_: life(now.astype(int))),
    "23_bf16_gemv": Case("gemv", 6, 32, [to_bfloat16(W16), to_bfloat16(X16), floats(6), 70], 2, lambda *a: product(W16, X16)),
    "24_struct_of_arrays": Case("bodyForce", 2, 32, [BODIES, floats(40), 40], 1, lambda *a: forces(BODIES), close=1e-3),
    "25_vectorised_copy": Case("relu_f32x4_kernel", 1, 64, [floats(200), floats(200), 200], 1, lambda x, *_: np.maximum(x, 0)),
    "26_guarded_headers": Case("saxpy", 2, 64, [100, 2.0, floats(100), floats(100)], 3, lambda n, a, x, y: 2 * x + y),
    "27_knapsack_ints": Case("knapsack", 2, 64, [ints(101), ints(101), 7, 30, 100], 0,
                             lambda f, old, *_: np.maximum(old, np.r_[np.zeros(7, int), old[:-7] + 30])),
    "28_lambda_and_asserts": Case("polynomial", 2, 64, [np.linspace(0, 1, 100), np.zeros(100), 100], 1,
                                  lambda x, *_: x + 2 * x**2 + 3 * x**3, close=1e-12),
    "29_printf_debug": Case("hello", 2, 4, [ints(8)], 0, lambda _: np.arange(8) % 4),
    "30_pitched_and_min": Case("blur", (2, 2), (32, 16), [IMAGE, 33, np.zeros((20, 33), np.uint8), 33, 20], 2,
                               lambda *a: blurred(IMAGE)),
}  # fmt: skip

REFUSED = {
    "18_curand_states": ("pi", [np.zeros(32, np.uint32), 1], "curand_kernel.h"),
    "19_texture_reference": ("sample", [0, np.zeros(32, np.float32), 32], "tex"),
    "20_dynamic_parallelism": ("parent", [np.zeros(32, np.int32)], "launch kernels"),
}
"""What cannot run here, and a word of the reason."""


NVIDIA_ONLY = {"11_cooperative_groups", "14_explicit_instances", "17_inline_ptx"}
NVIDIA_ONLY |= {"20_dynamic_parallelism"}
"""What needs NVIDIA's own headers, or its compiler's leniency."""


def named(names):
    """Names as parameters of a test; those that clang refuses are for NVRTC."""
    return [pytest.param(n, marks=[pytest.mark.nvrtc] if n in NVIDIA_ONLY else []) for n in names]


def source(name):
    return (FOLDER / f"{name}.cu").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", named(CASES))
def test_a_program_of_another_style_runs_as_it_stands(name):
    case = CASES[name]
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in case.args]
    want = case.expected(*case.args)
    verdict = mine(
        source(name), grid=case.grid, block=case.block, args=args, entry=case.entry,
        shared_bytes=case.shared, arch="sm_80",
    )  # fmt: skip
    assert verdict.ok, verdict
    np.testing.assert_allclose(
        args[case.out].astype(np.float64), want, rtol=case.close, atol=case.close
    )
    if "<stdio.h>" in source(name) or "main(" in source(name):
        assert "Left out, since only the host runs it: line" in repr(verdict)


@pytest.mark.nvrtc
def test_a_race_in_a_pasted_program_is_found_on_its_own_line():
    """Both loops of this scan use one buffer pair a step too early: the published fault."""
    text = source("22_scan_double_buffer")
    x, y = floats(100), floats(100)
    racy = text.replace("        __syncthreads();\n", "")
    report = emulator.launch(racy, "Kogge_Stone_scan_kernel", 1, 128, [x, y, 100])
    assert "race" in {f.kind for f in report.findings}
    lines = text.replace("        __syncthreads();\n", "").splitlines()
    assert all("[threadIdx.x" in lines[f.line - 1] for f in report.findings if f.kind == "race")
    whole = emulator.launch(text, "Kogge_Stone_scan_kernel", 1, 128, [x, y, 100])
    assert whole.ok and np.allclose(y, np.cumsum(x))


@pytest.mark.parametrize("name", named(REFUSED))
def test_what_cannot_run_here_says_why(name):
    entry, args, word = REFUSED[name]
    if any(Path(folder, word).is_file() for folder in toolchain.nvrtc().includes):
        pytest.skip(f"{word} is here: a whole CUDA toolkit is installed")
    verdict = mine(source(name), grid=1, block=32, args=list(args), entry=entry, arch="sm_80")
    assert not verdict.ok and not verdict.findings and word in repr(verdict), verdict


def test_every_program_is_run_or_refused():
    there = {p.stem for p in FOLDER.glob("*.cu")}
    assert there == {*CASES, *REFUSED, "22_scan_double_buffer"} and len(there) == 30
