"""How elements are stored, rounded and filled, and how far a sum may err."""

from __future__ import annotations

import numpy as np
import pytest

from helpers import catalog
from helpers.ladder import numbers
from nogpu import bfloat16, emulator
from nogpu.emulator.machine import arith

ROUND = """#include <cuda_bf16.h>
extern "C" __global__ void rounded(const float* x, unsigned short* y, __nv_bfloat16 given, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __bfloat16_as_ushort(__float2bfloat16(x[i]));
    if (i == n) y[i] = __bfloat16_as_ushort(given);
}"""


def patterns():
    """Bits of float32 of every kind: random ones, NaNs of both signs, quiet and not, ties."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, 1 << 32, 4000, np.uint32)
    nans = rng.integers(1, 1 << 23, 500, np.uint32) | np.uint32(0x7F800000)
    ties = (rng.integers(0, 1 << 16, 500, np.uint32) << np.uint32(16)) | np.uint32(0x8000)
    edges = np.array([0, 1, 0x7F7FFFFF, 0x7F7F8000, 0x7F800000, 0x7FFFFFFF], np.uint32)
    found = np.concatenate([drawn, nans, ties, edges])
    return np.concatenate([found, found | np.uint32(1 << 31)]).view(np.float32)


def by_hand(x):
    """The nearest bfloat16, ties to the even one, by trying the two that lie around it."""
    bits = int(np.float32(x).view(np.uint32))
    if np.isnan(x):
        return 0x7FFF
    low = bits >> 16
    rest = bits & 0xFFFF
    return low + (rest > 0x8000 or (rest == 0x8000 and low & 1))


def test_bfloat16_rounds_to_the_nearest_and_has_one_nan():
    x = patterns()
    found = bfloat16.to_bfloat16(x)
    assert found.dtype == np.uint16 and found.tolist() == [by_hand(v) for v in x]
    assert set(found[np.isnan(x)].tolist()) == {0x7FFF} == {bfloat16.BFLOAT16_NAN}


def test_a_kernel_in_the_emulator_rounds_alike():
    """Compiled for sm_75 by CUDA's own code in integers, for sm_80 to one instruction, cvt."""
    x = patterns()
    for arch in ("sm_75", "sm_80"):
        y = np.zeros(x.size + 1, np.uint16)
        report = emulator.launch(
            ROUND, "rounded", -(-(x.size + 1) // 256), 256, [x, y, float("nan"), x.size], arch=arch
        )
        assert not report.findings
        assert np.array_equal(y[:-1], bfloat16.to_bfloat16(x)), arch
        assert y[-1] == bfloat16.BFLOAT16_NAN


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_the_emulator_asks_here(mode):
    x = patterns()
    assert np.array_equal(arith.bf16_bits(x, mode).view(np.uint16), bfloat16.bfloat16_bits(x, mode))
    back = arith.bf16_value(arith.bf16_bits(x, mode))
    assert np.array_equal(
        back, bfloat16.from_bfloat16(bfloat16.bfloat16_bits(x, mode)), equal_nan=True
    )


def test_a_number_of_python_is_rounded_once():
    """2^-8 + 2^-40 above 1 lies beyond the tie that it would be as float32."""
    value = 1 + 2.0**-8 + 2.0**-40
    y = np.zeros(1, np.uint16)
    emulator.launch(ROUND, "rounded", 1, 32, [np.zeros(0, np.float32), y, value, 0], arch="sm_80")
    assert y[0] == bfloat16.bfloat16_bits(np.array(value))[()] == 0x3F81
    assert bfloat16.to_bfloat16(np.float32(value)) == 0x3F80
    for huge, bits in ((1e300, 0x7F80), (-1e300, 0xFF80), (float("-inf"), 0xFF80)):
        assert bfloat16.bfloat16_bits(np.array(huge))[()] == bits


def test_poison_is_what_no_kernel_writes():
    assert np.isnan(numbers.poison("float32")) and np.isnan(numbers.poison("float16"))
    assert np.isnan(bfloat16.from_bfloat16(np.array([numbers.poison("bfloat16")], np.uint16)))[0]
    assert numbers.poison("bfloat16") != bfloat16.BFLOAT16_NAN
    assert numbers.poison("int32") == np.iinfo(np.int32).min


@pytest.mark.parametrize("name", ["naive", "naive_int", "wmma", "mma_pipelined_bf16", "hopper_1"])
def test_a_result_within_the_bound_is_right_and_one_beyond_is_not(name):
    A, B = numbers.operands(name, 5, 6, 40)
    exact, bound = numbers.reference(name, A, B), numbers.error_bound(name, A, B)
    dtype = "int32" if name == "naive_int" else "bfloat16" if name == "hopper_1" else "float32"

    def stored(x):
        if dtype == "bfloat16":
            return bfloat16.to_bfloat16(x.astype(np.float32))
        return x.astype(numbers.STORAGE[dtype])

    assert numbers.wrong_elements(name, A, B, stored(exact)) == 0
    assert numbers.wrong_elements(name, A, B, stored(exact + 3 * bound + (dtype == "int32"))) == 30
    spoiled = stored(exact)
    spoiled[2, 3] = numbers.poison(dtype)
    assert numbers.wrong_elements(name, A, B, spoiled) == 1


def test_a_product_that_underflows_in_half_precision_may_lose_half_a_least_step():
    """1e-3 x 1e-3 is below the least normal number, 6.1e-5: its neighbours are 2^-24 apart."""
    k = catalog["hopper_5_fp16"]
    A, B = (np.full((1, 1), 1e-3, np.float16) for _ in "AB")
    C = (A.astype(np.float64) * B.astype(np.float64)).astype(np.float16)
    assert numbers.wrong_elements(k, A, B, C) == 0
    assert numbers.wrong_elements(k, A, B, C + np.float16(2.0**-24)) == 1


def test_what_is_expected_of_small_products_is_kept_and_cannot_be_written_to():
    A, B = numbers.operands("naive", 3, 4, 5, 7)
    want, bound = numbers.expected("naive", A, B, 7)
    assert np.array_equal(want, numbers.reference("naive", A, B))
    assert numbers.expected("coalesced", A, B, 7)[1] is bound  # the same types, the same operands
    assert numbers.expected("wmma", *numbers.operands("wmma", 3, 4, 5, 7), 7)[0] is not want
    assert numbers.expected("naive", *numbers.operands("naive", 3, 4, 5, 8), 8)[0] is not want
    with pytest.raises(ValueError, match="read-only"):
        want[0, 0] = 1
