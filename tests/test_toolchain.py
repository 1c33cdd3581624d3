"""NVRTC without a GPU: resources, errors with file and line, SASS."""

import sys

import pytest

from helpers.chapters.ch13.register_file import operands, sources
from helpers.ladder import usage
from nogpu import toolchain
from nogpu.errors import CompileError, ToolchainError
from tests.common import completed

SMALL = """
extern "C" __global__ void copy(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
template <int N> __global__ void fill(float* y) { y[threadIdx.x] = N; }
"""


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120"])
def test_compiles_for_every_architecture(arch):
    compiled = toolchain.compile(SMALL, arch=arch)
    assert "copy" in compiled.kernels and compiled.kernels["copy"].registers > 0
    assert compiled.cubin and ".entry copy" in compiled.ptx


def test_defines_and_headers_are_found():
    source = "#include <mma.h>\n#include <cuda_fp16.h>\n" + SMALL.replace("= N", "= N + EXTRA")
    assert toolchain.compile(source, defines={"EXTRA": "7"}).ptx


def test_a_source_that_does_not_compile_names_file_and_line():
    with pytest.raises(CompileError, match=r"06_mine\.cu\(2\)") as caught:
        toolchain.compile(SMALL.replace("= x[", "= oops["), name="06_mine.cu")
    assert "oops" in caught.value.log


def test_spills_are_seen():
    """A kernel held to 32 registers that wants more must report a spill."""
    body = "".join(f"float v{i} = x[{i}];\n" for i in range(200))
    use = " + ".join(f"v{i} * v{199 - i}" for i in range(200))
    source = (
        'extern "C" __global__ void __launch_bounds__(1024, 2) fat(const volatile float* x, '
        f"float* y) {{ {body} __syncthreads(); y[threadIdx.x] = {use}; }}"
    )
    r = toolchain.compile(source, arch="sm_90").kernels["fat"]
    assert r.spill_stores > 0 and r.spill_loads > 0
    assert toolchain.compile(SMALL).kernels["copy"].spill_stores == 0


def test_resources_of_a_tile():
    small, large = (usage.resources(f"tiled_{n}", "sm_86") for n in (16, 32))
    assert (small.threads, large.threads) == (256, 1024)
    assert (small.shared_bytes, large.shared_bytes) == (2 * 16 * 16 * 4, 2 * 32 * 32 * 4)
    assert small.occupancy.fraction == 1 and large.occupancy.fraction == pytest.approx(2 / 3)


def test_instruction_mix_sees_the_main_loop():
    mix = usage.instruction_mix("coalesced", "sm_75")
    assert mix["LDG"] == 2 * mix["FFMA"] > 2  # two loads a multiply-add; the compiler unrolled
    assert any(op.startswith("LDS") for op in usage.instruction_mix("tiled_32", "sm_75"))


def test_a_cubin_that_is_none_is_refused():
    with pytest.raises(ToolchainError):
        toolchain.sass(b"not a cubin")


def test_a_template_on_an_undefined_type_is_a_compile_error():
    """NVRTC itself ends the process, so this is tried in another one."""
    source = "template <int N> __global__ void f(half* A) { A[N] = A[0]; }"
    code = (
        "from helpers import toolchain\n"
        "from nogpu.errors import CompileError\n"
        f"try: toolchain.compile({source!r}, name_expressions=('f<2>',))\n"
        "except CompileError as error: print('refused', 'half' in str(error))\n"
    )
    done = completed([sys.executable, "-c", code])
    assert (done.returncode, done.stdout.split()) == (0, ["refused", "True"]), done.stderr
    sound = source.replace("half", "float")
    made = toolchain.compile(sound, name_expressions=("f<2>",))
    assert "_Z" in made.name_map["f<2>"] and made.name_map["f<2>"] in made.ptx


def test_the_zeros_and_the_way_back_show_in_the_operands():
    """Of warp_tiled's multiply-adds none has all operands in one bank; without zeros some do."""
    whole = operands("warp_tiled")
    assert whole.ffma == 1024 and whole.alike == 0
    assert operands("warp_tiled", ZEROS_ADDED=0).alike > 0
    assert operands("warp_tiled", BACK_AND_FORTH=0).reuse < whole.reuse
    assert operands("lane_map").alike > 0


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("R0, R4, R6, R8", [4, 6, 8]),
        ("R1, R5.reuse, -R7, |R9|", [5, 7, 9]),
        ("R0, R4, UR6, R8", [4, 8]),
        ("R0, R4, RZ, R8", [4, 8]),
        ("R0, R4, 2, c[0x0][0x160]", [4]),
    ],
)
def test_the_sources_of_a_multiply_add(words, numbers):
    assert sources(words) == numbers
