"""CUDA source as text: comments, declarations, and a whole program cut down to its kernels."""

from __future__ import annotations

import pytest
from foreign_kernels import cuda

from nogpu import text, toolchain
from nogpu.errors import CompileError

PROGRAM = cuda("whole_program")


def compiled(source):
    options = (f"--pre-include={text.PRELUDE}",)
    return set(toolchain.compile(source, options=options).kernels)


def test_a_whole_program_compiles_without_its_host():
    with pytest.raises(CompileError):
        toolchain.compile(PROGRAM)
    cut = text.device_code(PROGRAM)
    assert cut.kernels == ("tile", "add")
    assert compiled(cut.text) == {"add"}  # of the template nobody asked for an instance


def test_every_line_keeps_its_number_and_what_is_left_out_is_named():
    cut = text.device_code(PROGRAM)
    old, new = PROGRAM.splitlines(), cut.text.splitlines()
    assert len(old) == len(new)
    assert all(b == a or not b.strip() for a, b in zip(old, new, strict=True))
    gaps = {(g.line, g.what) for g in cut.left_out}
    assert {what for _, what in gaps} == {
        "#include <stdio.h>",
        "#include <vector>",
        '#include "timer.h"',
        "host()",
        "struct Timer",
        "cudaStream_t stream",
        "main()",
    }
    for line, what in gaps:
        assert what.removesuffix("()").split()[-1] in old[line - 1], (line, what)


def test_device_code_alone_is_left_as_it_is():
    source = (
        "#include <mma.h>\n__device__ int f(int a) { return a; }\n__global__ void k(int* p) { *p ="
        " f(1); }\n"
    )
    assert text.device_code(source) == text.Pasted(source, ("k",), ())


def test_a_broken_program_goes_to_the_compiler_as_it_stands():
    for source in (
        "__global__ void k(int* p) { *p = 1;",
        "}}}",
        "(((",
        "",
        '"',
        "/*",
        "template <",
    ):
        assert text.device_code(source).text == source


def test_a_header_that_is_there_stays(tmp_path):
    (tmp_path / "mine.cuh").write_text("")
    source = '#include "mine.cuh"\n__global__ void k() {}'
    assert text.device_code(source, (str(tmp_path),)) == text.Pasted(source, ("k",), ())
    assert [str(g) for g in text.device_code(source).left_out] == [
        'line 1: #include "mine.cuh" (no such file here)'
    ]


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("int a; // b", "int a;     "),
        ("int a; /* b\n c */ int d;", "int a;     \n      int d;"),
        ('char* s = "// no";', 'char* s = "// no";'),
        ("char c = '\"'; // yes", "char c = '\"';       "),
        ('R"(/* no */)"', 'R"(/* no */)"'),
        ("int n = 1'000'000; // x", "int n = 1'000'000;     "),
        ("a /* open", "a        "),
    ],
)
def test_comments_go_and_literals_stay(source, kept):
    assert text.without_comments(source) == kept


@pytest.mark.parametrize(
    ("source", "kind", "name"),
    [
        ("__global__ void k(int* p) { }", "function", "k"),
        ("template <int A, class B = int> __device__ B f(B b) { return b; }", "function", "f"),
        ("__global__ void __launch_bounds__(2 * (3), 1) k(float* p) { }", "function", "k"),
        ("struct S { int a; };", "type", "S"),
        ("struct S make(int a) { return {}; }", "function", "make"),
        ("const int table[] = {1, 2};", "statement", "table"),
        ("__constant__ float w[9];", "statement", "w"),
        ("typedef struct { int x; } P;", "type", "struct"),
    ],
)
def test_declarations_are_told_apart(source, kind, name):
    (piece,) = text.pieces(source)
    assert (piece.kind, piece.name) == (kind, name)
    assert source[piece.start : piece.end] == source


def test_the_prelude_goes_with_cudas_own_headers():
    headers = (
        "cuda_fp16.h", "cuda_bf16.h", "mma.h", "cuda/std/cstdint", "cuda/std/climits",
        "cuda/std/limits",
    )  # fmt: skip
    for header in headers:
        source = f"#include <{header}>\n__global__ void k(uint32_t* p) {{ *p = UINT_MAX; }}"
        assert compiled(source) != set(), header
    both = (
        "#include <cooperative_groups.h>\n#include <cuda/std/cmath>\n__global__ void k(float* p) {"
        " *p = INFINITY; }"
    )
    assert compiled(both) != set()


def test_what_calls_or_names_a_function_of_the_hosts_goes_with_it():
    program = """namespace a { __global__ void k() {}
void run() { k<<<1, 1>>>(); }
int twice(int n) { return 2 * n; }
}
using a::run;
using a::twice;
__host__ int plain() { return 1; }
void all(int n) { if (n) run(); }
"""
    cut = text.device_code(program)
    assert [gone.what for gone in cut.left_out] == ["run()", "using a::run", "plain()", "all()"]
    assert "the host's: it names run" in cut.note and "using a::twice;" in cut.text
    assert compiled(cut.text) == {"_ZN1a1kEv"}
    kept = text.device_code(program.replace("k<<<1, 1>>>();", ""))
    assert [gone.what for gone in kept.left_out] == ["plain()"]


def test_the_prelude_warns_of_nothing():
    again = "#define FLT_MAX 1.0f\n__global__ void k(CUtensorMap m, float* x) { *x = FLT_MAX; }\n"
    options = (f"--pre-include={text.PRELUDE}",)
    assert "warning" not in toolchain.compile(again, options=options).log
    with pytest.raises(CompileError) as refused:
        toolchain.compile(again.replace("*x = ", "*x = y + "), options=options)
    assert "warning" not in refused.value.log


def test_host_variables_that_are_computed_and_instances_of_host_functions_are_left_out():
    host = (
        "int N = 1024;\nint tiles = (N / 2) * N;\n"
        "template <class T> void start(T* a) { k<<<1, 1>>>(a); }\n"
        "template void start<float>(float* a);\n"
    )
    kernel = 'extern "C" __global__ void k(float* a) { a[0] = 1; }\n'
    cut = text.device_code(host + kernel)
    assert [gone.line for gone in cut.left_out] == [2, 3, 4]
    assert compiled(cut.text) == {"k"}
    kept = "const int both = sizeof(int) * 2;\n__device__ int two = 1 + 1;\n"
    assert not text.device_code(kept + kernel).left_out
