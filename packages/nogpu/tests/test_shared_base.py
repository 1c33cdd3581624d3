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


@pytest.mark.parametrize(
    ("switched", "arch", "right"),
    [
        (BY_DISTANCE, OLD, True),
        (BY_DISTANCE, "sm_89", True),
        (BY_DISTANCE, NEW, True),
        (BY_XOR, OLD, True),
        (BY_XOR, NEW, False),
    ],
)
def test_buffers_switched_by_xor_are_wrong_where_shared_memory_begins_at_1024(
    switched, arch, right
):
    x = np.random.default_rng(0).standard_normal((4, 1024), dtype=np.float32)
    y = np.full_like(x, np.nan)
    defines = {"NEXT(h,t,n)": NEIGHBOUR, "SWITCHED(h,a)": switched}
    report = emulator.launch(SWITCH, "turns", 1, 1024, [x, y, 4], defines=defines, arch=arch)
    assert report.ok == right and ("out-of-bounds" in str(report)) != right
    assert not right or (y == np.roll(x, -1, axis=1)).all()


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


def banks(arch, stride, at):
    out = np.zeros(32, np.float32)
    return emulator.launch(BANKS, "banks", 1, 32, [out, stride, at], arch=arch)


@pytest.mark.parametrize(("stride", "waves"), [(1, 1), (8, 8), (32, 32), (33, 1)])
def test_bank_conflicts_do_not_depend_on_the_base(stride, waves):
    for arch in (OLD, NEW):
        report = banks(arch, stride, 0)
        found = [r for r in report.by_line() if r.space == "shared"]
        assert report.ok and [r.wavefronts for r in found] == [waves, waves]
        assert {r.array for r in found} == {"tile"}


@pytest.mark.parametrize("at", [-1, 33 * 32 - 31])
def test_findings_name_places_from_the_start_of_the_block(at):
    old, new = ([str(f) for f in banks(arch, 1, at).findings] for arch in (OLD, NEW))
    assert old == new and "byte(s)" in old[0]
