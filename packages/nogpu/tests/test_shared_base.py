"""Where a block's shared memory begins: at 0 before compute capability 9.0, at 1024 from it on."""

import re

import numpy as np
import pytest
from foreign_kernels import cuda

from nogpu import emulator, toolchain

OLD, NEW = "sm_75", "sm_90"

SWITCH = cuda("buffers")
# Each round stores into the buffer that the last one did not use, and reads the neighbour's
# element.
# Switching by XOR with a buffer's size needs a first buffer at a multiple of twice that size.
NEIGHBOUR = "(h) - 4 * (t) + 4 * (((t) + 1) % (n))"
BY_XOR = "(h) ^ 4096u"
BY_DISTANCE = "(a) + (((h) - (a)) ^ 4096u)"


def turns(switched, arch, rounds=4, threads=1024):
    x = np.random.default_rng(0).standard_normal((rounds, threads), dtype=np.float32)
    y = np.full_like(x, np.nan)
    defines = {"NEXT(h,t,n)": NEIGHBOUR, "SWITCHED(h,a)": switched}
    report = emulator.launch(
        SWITCH, "turns", 1, threads, [x, y, rounds], defines=defines, arch=arch
    )
    return report, bool((y == np.roll(x, -1, axis=1)).all())


@pytest.mark.parametrize("arch", [OLD, "sm_89", NEW])
def test_buffers_switched_by_distance_are_right_everywhere(arch):
    report, right = turns(BY_DISTANCE, arch)
    assert report.ok and right


def test_buffers_switched_by_xor_of_addresses_are_wrong_where_shared_memory_begins_at_1024():
    report, right = turns(BY_XOR, OLD)
    assert report.ok and right
    report, _ = turns(BY_XOR, NEW)
    assert [f.kind for f in report.findings if f.kind == "out-of-bounds"], report


WHERE = """
extern "C" __global__ void where(unsigned* out) {
  __shared__ char a[3]; __shared__ double b[2]; __shared__ __align__(128) float c[5];
  extern __shared__ float rest[];
  out[0] = (unsigned)__cvta_generic_to_shared(a); out[1] = (unsigned)__cvta_generic_to_shared(b);
  out[2] = (unsigned)__cvta_generic_to_shared(c); out[3] = (unsigned)__cvta_generic_to_shared(rest);
  volatile char* p = a; volatile double* q = b; volatile float* r = c; volatile float* s = rest;
  p[threadIdx.x] = 1; q[threadIdx.x] = 2; r[threadIdx.x] = 3; s[threadIdx.x] = 4;
  out[4] = p[threadIdx.x] + (int)q[threadIdx.x] + (int)r[threadIdx.x] + (int)s[threadIdx.x];
}
"""


def addresses(arch):
    out = np.zeros(5, np.uint32)
    report = emulator.launch(WHERE, "where", 1, 1, [out], 64, arch=arch)
    assert report.ok and out[4] == 10
    return out[:4].tolist()


def constants(arch):
    code, _ = toolchain.sass_instructions(toolchain.compile(WHERE, arch=arch).cubin, "where")
    return {int(x, 16) for i in code for x in re.findall(r"\b0x[0-9a-f]+\b", i.operands)}


def test_addresses_are_those_of_the_machine_code():
    old = addresses(OLD)
    assert old == [0, 8, 128, 160]
    assert set(old[1:]) <= constants(OLD) and 1024 not in constants(OLD)
    assert {1024, *old[1:]} <= constants(NEW)
    assert addresses(NEW) == [a + 1024 for a in old]


BANKS = """
extern "C" __global__ void banks(float* out, int stride, int at) {
  __shared__ float tile[33 * 32];
  tile[threadIdx.x * stride] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = tile[threadIdx.x * stride + at];
}
"""


@pytest.mark.parametrize(("stride", "waves"), [(1, 1), (8, 8), (32, 32), (33, 1)])
def test_bank_conflicts_do_not_depend_on_the_base(stride, waves):
    for arch in (OLD, NEW):
        report = emulator.launch(
            BANKS, "banks", 1, 32, [np.zeros(32, np.float32), stride, 0], arch=arch
        )
        found = [r for r in report.by_line() if r.space == "shared"]
        assert report.ok and [r.wavefronts for r in found] == [waves, waves]
        assert {r.array for r in found} == {"tile"}


@pytest.mark.parametrize("at", [-1, 33 * 32 - 31])
def test_findings_name_places_from_the_start_of_the_block(at):
    said = []
    for arch in (OLD, NEW):
        report = emulator.launch(
            BANKS, "banks", 1, 32, [np.zeros(32, np.float32), 1, at], arch=arch
        )
        said.append([str(f) for f in report.findings])
    assert said[0] and said[0] == said[1]
    assert "byte(s)" in said[0][0]
