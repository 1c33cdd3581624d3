"""clang in place of NVRTC: the same results, counts and findings; errors of the same shape; what it
lacks."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from math import erf

import foreign_kernels
import numpy as np
import pytest
import test_emulator_calls

from helpers import resources, trace
from helpers.ladder import usage
from helpers.ladder.kernel import KERNELS, ROOT
from helpers.ladder.rungs import catalog, lay_out
from helpers.page.exercises import results
from nogpu import clang, compiled, emulator, project, toolchain
from nogpu.errors import CompileError, ConfigError, ToolchainError
from tests import test_mutants
from tools import compilers, mutants

SHAPES = ((64, 64, 64), (45, 83, 75))
SCALE = 'extern "C" __global__ void k(const float* x, float* y) { y[threadIdx.x] = %s; }'


@pytest.fixture
def by_clang(monkeypatch):
    """clang compiles in this test."""
    monkeypatch.setenv("TILE_COMPILER", "clang")


def run(source, x, *, arch="sm_80", dtype=None, per=1):
    """y of a kernel k(x, y), one thread for each element of x."""
    y = np.zeros(len(x) * per, dtype or x.dtype)
    report = emulator.launch(source, "k", 1, len(x), [x, y], arch=arch)
    assert report.ok, report
    return y


# -- the same as NVRTC -----------------------------------------------------------------------------


@pytest.mark.nvrtc
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", compilers.KERNELS)
def test_a_kernel_gives_the_same_bits_and_the_same_traffic_line_by_line(name, shape):
    pair = compilers.both(name, shape)
    if pair is None:
        assert name == "tiled_padded"
        return
    ours, theirs = pair
    assert "NVRTC" in ours.compiler and "clang" in theirs.compiler
    assert ours.ok and theirs.ok and ours.C == theirs.C
    assert compilers.unexplained(name, compilers.unequal(ours, theirs), "one", "other") == []


def test_a_difference_is_seen():
    with compilers.using("clang"):
        sound = compilers.seen("tiled_16", SHAPES[0])
    flipped = bytes([sound.C[0] ^ 1]) + sound.C[1:]
    assert compilers.differences(sound, sound) == []
    assert compilers.differences(sound, replace(sound, C=flipped)) == ["C differs"]
    for key in sound.counts:
        more = replace(sound, counts={**sound.counts, key: sound.counts[key] + 1})
        assert len(compilers.differences(sound, more)) == 1


@pytest.mark.parametrize("mutant", test_mutants.sample(), ids=lambda m: m.name)
def test_a_sample_of_mutants_is_found_as_with_nvrtc(mutant, by_clang):
    row = mutants.run(mutant)
    assert mutants.differing([row], list(test_mutants.rows().values())) == []
    blind = row | {"findings": {}, "found": not row["found"]}
    assert mutants.differing([blind], list(test_mutants.rows().values()))


def test_a_report_names_its_compiler(by_clang):
    assert re.search(r"compiled by clang \d+\.\d+\.\d+ of zig", str(trace("naive", 8, 8, 8)))
    assert "NVRTC" in resources("naive").compiler and "stored" in resources("naive").compiler


# -- which compiler --------------------------------------------------------------------------------


def absent():
    raise ToolchainError("no NVRTC library was found on this machine")


@pytest.mark.nvrtc
def test_without_nvrtc_clang_compiles(monkeypatch):
    monkeypatch.delenv("TILE_COMPILER", raising=False)
    assert toolchain.compiler().startswith("NVRTC")
    monkeypatch.setattr(toolchain, "nvrtc", absent)
    assert toolchain.compiler().startswith("clang") and toolchain.available()
    monkeypatch.setattr(clang, "version", lambda: absent())
    assert not toolchain.available()
    with pytest.raises(ToolchainError, match="there is no compiler"):
        toolchain.compile(SCALE % "1")


def test_a_compiler_that_is_none_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("TILE_COMPILER", "gcc")
    with pytest.raises(ConfigError, match='"nvrtc" or "clang"'):
        toolchain.compile(SCALE % "1")
    monkeypatch.setenv("TILE_COMPILER", "clang")
    monkeypatch.setenv("TILE_CLANG", str(tmp_path / "clang"))
    with pytest.raises(ToolchainError, match="cannot be started"):
        toolchain.compile(SCALE % "1")
    monkeypatch.setenv("TILE_CLANG", shutil.which("true") or "")
    with pytest.raises(ToolchainError, match="no clang with the NVPTX target"):
        toolchain.compile(SCALE % "1")


# -- errors ----------------------------------------------------------------------------------------


def refused(source, **options):
    """The error of a source that clang refuses."""
    with pytest.raises(CompileError) as caught:
        toolchain.compile(source, **options)
    return caught.value


def test_an_error_has_the_shape_of_nvrtcs(by_clang):
    error = refused(SCALE % "oops" + "\nint f() { return 1.5e9 + nothing; }", name="06_mine.cu")
    first, second = error.log.split("\n\n")
    assert first.startswith("06_mine.cu(1): error: use of undeclared identifier 'oops'")
    assert second.startswith("06_mine.cu(2): error: ")
    assert "does not compile for sm_75 (clang " in str(error) and not error.hint


def test_an_exercise_shows_errors_without_warnings(by_clang):
    source = "#warning beware\n" + SCALE % "oops"
    log = refused(source).log
    assert "warning: beware" in log
    shown = results._errors(log)
    assert "beware" not in shown and shown.startswith("kernel.cu(2): error: ")


def test_notes_on_our_own_headers_are_left_out(by_clang):
    log = refused(SCALE % "__shfl_sync(1)").log
    assert log.startswith("kernel.cu(1): error: no matching function") and "warps.h" not in log


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("#include <stdio.h>\n", r"no <stdio\.h>: leave it out"),
        ("#include <cooperative_groups.h>\n", r"clang .* cooperative_groups\.h is none.*NVRTC"),
        ("__device__ void f(float* x) { __nv_something(x); }\n", "if __nv_something is CUDA's"),
        ("#include <my_own.h>\n", "my_own.h is none of them"),
    ],
)
def test_what_the_headers_lack_is_said(source, says, by_clang):
    error = refused(source + SCALE % "1")
    assert re.search(says, error.hint), error.hint
    assert error.hint in str(error)


# -- the text that clang reads ---------------------------------------------------------------------


def test_a_comma_in_an_array_bound_gets_parentheses(by_clang):
    text = (KERNELS / "common" / "chunks.cuh").read_text(encoding="utf-8")
    changed = clang.parenthesise_bounds(text)
    assert changed != text and changed.count("\n") == text.count("\n")
    plain = [each.replace("[(", "[").replace(")]", "]") for each in (changed, text)]
    assert plain[0] == plain[1]
    for other in ("a[f<1>::N]", "a[i + g(1, 2)]", "x[b<c, d>e]", "s[(P<1, 2>::N)]"):
        assert clang.parenthesise_bounds(other) == other
    source = (
        "template <int A, int B> struct P { static constexpr int N = A * B; };\n"
        "template <int A, int B> __device__ void f(float (&x)[P<A, B>::N]) { x[0] = A; }\n"
        'extern "C" __global__ void k(float* y) { float x[6]; f<2, 3>(x); y[0] = x[0]; }'
    )
    assert toolchain.compile(source).ptx
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(clang, "parenthesise_bounds", lambda text: text)
        clang.translate.cache_clear()
        with pytest.raises(CompileError):  # if this compiles one day, the rewriting can go
            toolchain.compile(source)
        clang.translate.cache_clear()


def test_macros_change_the_source_and_no_header_it_reaches(by_clang, tmp_path, monkeypatch):
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "outer.cuh").write_text('#include "inner.cuh"\n')
    (tmp_path / "common" / "inner.cuh").write_text("#include <mma.h>\n")
    monkeypatch.setattr(project, "include_folders", [tmp_path])
    names = dict.fromkeys(("M", "N", "K", "T", "a"), "1.0f")
    for header in ("<mma.h>", '"common/outer.cuh"'):
        source, y = f"#include {header}\n" + SCALE % "M + N + K + T + a", np.zeros(4, np.float32)
        emulator.launch(source, "k", 1, 4, [y.copy(), y], defines=names)
        np.testing.assert_array_equal(y, 5)


def test_a_vector_read_from_a_shared_array_is_one_access(by_clang):
    source = """
extern "C" __global__ void k(const float* x, float* y) {
    __shared__ float s[128];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 8) {
        float4 v = *reinterpret_cast<float4*>(&s[4 * threadIdx.x]);
        y[threadIdx.x] = v.x + v.w;
    }
}
"""
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    report = emulator.launch(source, "k", 1, 32, [x, y])
    (read,) = [a for a in report.by_line() if a.line == 7]
    assert (read.width_bytes, read.requests) == (16, 1)
    np.testing.assert_array_equal(y[:8], x.reshape(8, 4)[:, 0] + x.reshape(8, 4)[:, 3])


HOISTED = """
__device__ float sum(const float* A, const float* B, int i, int n) {
    float sum = 0;
    for (int k = 0; k < n; ++k)
        sum +=
            A[i]
            * B[32 * k + i];
    return sum;
}
extern "C" __global__ void k(const float* __restrict__ A, float* __restrict__ C) {
    int i = threadIdx.x;
    C[i] = sum(A, C + 32, i, *A)
        +
        sum(A, C + 64, i, *A);
}
"""


def lines_of_A():
    """Where the kernel HOISTED reads A."""
    A, C = np.full(32, 3, np.float32), np.ones(160, np.float32)
    report = emulator.launch(HOISTED, "k", 1, 32, [A, C])
    np.testing.assert_array_equal(C[:32], 18)
    return {a.line for a in report.by_line() if a.array == "A"}


def test_what_is_moved_out_of_a_loop_keeps_its_line(by_clang):
    assert lines_of_A() == {6, 12}


def test_llvm_forgets_that_line(by_clang, without_lines_told):
    assert 6 not in lines_of_A()  # if this fails one day, the lines need not be told


def test_a_load_before_a_loop_stays_there(by_clang):
    """Moved behind the loop's test, it would be made by fewer threads, and a race go unseen."""
    source = """
extern "C" __global__ void k(const float* A, float* C) {
    __shared__ float s[64];
    s[threadIdx.x] = A[threadIdx.x];
    float t = s[(threadIdx.x + 1) % 64];
    for (int i = threadIdx.x; i < 16; i += 64) C[i] = t;
}
"""
    report = emulator.launch(source, "k", 1, 64, [np.ones(64, np.float32), np.ones(64, np.float32)])
    (race,) = report.findings
    assert (race.line, race.other_line) == (4, 5) and "__syncthreads()" in race.message
    loads = [a for a in report.by_line() if (a.array, a.op) == ("s", "load")]
    assert [(a.line, a.requests) for a in loads] == [(5, 2)]


def test_an_element_is_reached_through_its_neighbour(by_clang):
    report, got, want = foreign_kernels.KERNELS["float4_with_edges"].run(17, 33, 19)
    assert report.ok, report
    np.testing.assert_array_equal(got, want)


def test_a_fragment_that_is_loaded_twice_has_two_loads(by_clang):
    load = "wmma::load_matrix_sync(a, A, 16);"
    source = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(const half* A, float* C) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    wmma::load_matrix_sync(b, A, 16);
    LOADS
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(C, c, 16, wmma::mem_row_major);
}
"""
    for times in (1, 2):
        A, C = np.eye(16, dtype=np.float16), np.zeros((16, 16), np.float32)
        text = source.replace("LOADS", times * load)
        report = emulator.launch(text, "k", 1, 32, [A, C], arch="sm_80")
        loads = [n for op, n in report.instructions.items() if op.startswith("wmma.load.a")]
        assert sum(loads) == times
        np.testing.assert_array_equal(C, np.eye(16))


def test_virtual_functions_and_endless_loops(by_clang):
    test_emulator_calls.test_virtual_functions()
    test_emulator_calls.test_the_heap_is_as_large_as_cudas()
    y = np.zeros(32, np.float32)
    source = SCALE.replace("y[", "while (x[0] == 0) {} y[") % "1"
    report = emulator.launch(source, "k", 1, 32, [y.copy(), y], max_steps=500)
    assert {f.kind for f in report.findings} == {"step-budget"}


# -- functions -------------------------------------------------------------------------------------

MATHS = {
    "exp": (np.exp, -20, 20), "exp2": (np.exp2, -30, 30), "expm1": (np.expm1, -2, 2),
    "log": (np.log, 1e-6, 1e6), "log2": (np.log2, 1e-6, 1e6), "log10": (np.log10, 1e-6, 1e6),
    "log1p": (np.log1p, -0.9, 9), "sin": (np.sin, -100, 100), "cos": (np.cos, -100, 100),
    "tan": (np.tan, -1.5, 1.5), "atan": (np.arctan, -50, 50), "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -0.99, 0.99), "sinh": (np.sinh, -5, 5), "cosh": (np.cosh, -5, 5),
    "tanh": (np.tanh, -5, 5), "cbrt": (np.cbrt, -9, 9), "sqrt": (np.sqrt, 0, 9),
}  # fmt: skip


@pytest.mark.parametrize("name", MATHS)
def test_mathematics(name, by_clang):
    function, low, high = MATHS[name]
    x = np.linspace(low, high, 1000)
    want = function(x)
    near = 1e-14 * np.abs(want) + (1e-13 if name in ("sin", "cos", "acos") else 1e-16)
    got = run(SCALE.replace("float", "double") % f"{name}(x[threadIdx.x])", x)
    assert (np.abs(got - want) <= near).all()
    single = x.astype(np.float32)
    exact = function(single.astype(np.float64))
    got = run(SCALE % f"{name}f(x[threadIdx.x])", single)
    assert (np.abs(got - exact) <= np.spacing(np.abs(exact).astype(np.float32)) + 1e-12).all()


def test_powers_and_the_error_function(by_clang):
    x = np.linspace(0.1, 4, 200, dtype=np.float32)
    wide = x.astype(np.float64)
    for code, want in (
        ("powf(x[threadIdx.x], 2.5f)", wide**2.5),
        ("powf(-x[threadIdx.x], 3.0f)", -(wide**3)),
        ("fmodf(x[threadIdx.x], 0.7f)", np.fmod(x, np.float32(0.7)).astype(np.float64)),
        ("atan2f(x[threadIdx.x], -1.0f)", np.arctan2(wide, -1)),
        ("erff(x[threadIdx.x])", [erf(v) for v in x]),
    ):
        np.testing.assert_allclose(run(SCALE % code, x), want, rtol=3e-7, err_msg=code)


def test_arithmetic_of_halves_rounds_as_numpy_does(by_clang):
    rng = np.random.default_rng(1)
    x = rng.standard_normal(256).astype(np.float16)
    source = (
        '#include <cuda_fp16.h>\nextern "C" __global__ void k(const half* x, half* y) {\n'
        "int i = threadIdx.x; half a = x[i], b = x[i ^ 1];\n"
        "y[4 * i] = a + b; y[4 * i + 1] = a * b - half(0.5f); y[4 * i + 2] = __hfma(a, b, a);\n"
        "y[4 * i + 3] = a < b ? a / b : -a; }"
    )
    y = run(source, x, per=4).reshape(-1, 4)
    a, b = x, x[np.arange(256) ^ 1]
    np.testing.assert_array_equal(y[:, 0], a + b)
    np.testing.assert_array_equal(y[:, 1], a * b - np.float16(0.5))
    wide = a.astype(np.float64)
    np.testing.assert_array_equal(y[:, 2], (wide * b + wide).astype(np.float16))
    np.testing.assert_array_equal(y[:, 3], np.where(a < b, a / b, -a))


# -- machine code: stored --------------------------------------------------------------------------


@pytest.mark.nvrtc
def test_resources_are_those_of_nvrtc(monkeypatch):
    names = ("naive", "tiled_32", "fp32_best", "mma_pipelined", "hopper_1")
    archs = {name: "sm_90a" if name.startswith("hopper") else "sm_90" for name in names}
    want = {name: resources(name, archs[name]) for name in names}
    monkeypatch.setenv("TILE_COMPILER", "clang")
    for name in names:
        got = resources(name, archs[name])
        assert replace(got, compiler="") == replace(want[name], compiler=""), name
        assert got.occupancy == want[name].occupancy


def test_machine_code_that_is_not_stored_is_refused(by_clang):
    with pytest.raises(ToolchainError, match="registers and spills of block_1d are not known here"):
        resources("block_1d", "sm_90", BM=32, BN=32, BK=8, TM=4)
    built = toolchain.compile(SCALE % "1")
    with pytest.raises(ToolchainError, match="no machine code"):
        toolchain.sass_instructions(built.cubin, "k")
    kernel = catalog["tiled_32"]
    macros = {name: str(value) for name, value in kernel.params.items()}
    changed = kernel.source.replace("sum = 0", "sum = 1")
    assert changed != kernel.source
    same = toolchain.compile(kernel.source + "// a word\n", arch="sm_90", defines=macros)
    assert same.kernels[kernel.entry].registers > 0
    with pytest.raises(ToolchainError):
        toolchain.compile(changed, arch="sm_90", defines=macros).kernels[kernel.entry]


@pytest.mark.nvrtc
def test_the_table_is_of_todays_kernels_and_compiler():
    """Whoever changes a kernel, or a page's question, writes it again: python -m tools.compiled."""
    tables = [json.loads(path.read_text()) for path in (ROOT / "data" / "compiled").glob("*.json")]
    assert {table["compiler"] for table in tables} == {toolchain.compiler()}
    for name, kernel in catalog.items():
        arch = "sm_90a" if kernel.min_arch == "sm_90a" else "sm_90"
        launch = lay_out(kernel, 4096, 4096, 4096)
        built = usage.compile_launch(launch, arch)
        macros = tuple(sorted(launch.defines.items()))
        row = compiled.find(kernel.source, arch, macros, ())
        assert row is not None, name
        r = built.kernels[kernel.entry]
        assert row.kernels[kernel.entry] == (
            r.registers, r.spill_stores, r.spill_loads, r.stack, r.shared_bytes,
        )  # fmt: skip


@pytest.mark.nvrtc
@pytest.mark.parametrize("name", ["tiled_32", "block_1d"])
def test_a_stored_disassembly_reads_as_the_whole_one(name, monkeypatch):
    def read():
        built = usage.compile_launch(lay_out(name, 4096, 4096, 4096), "sm_90")
        code = toolchain.sass_instructions(built.cubin, catalog[name].entry)
        return usage.instruction_mix(name, "sm_90"), code

    want = read()
    monkeypatch.setenv("TILE_COMPILER", "clang")
    assert read() == want
