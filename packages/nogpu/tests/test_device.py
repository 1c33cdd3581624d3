"""The GPU table and the limits: known values, ratios and errors."""

import pytest

from nogpu import device
from nogpu.errors import UnknownNameError


def test_peaks_follow_from_lanes_and_clock():
    assert device.gpu("t4").fp32_peak_gflops == pytest.approx(8141, rel=1e-3)
    assert device.gpu("h200").fp32_peak_gflops == pytest.approx(66908, rel=1e-3)
    assert device.gpu("rtx3070_laptop").fp32_peak_gflops == pytest.approx(16.6e3, rel=0.01)  # as L
    # L prints 448.06 GB/s and 16.6 TFLOP/s, but 34.5 as their quotient: it is 37.
    assert device.gpu("rtx3070_laptop").ridge == pytest.approx(37.0, rel=0.01)


def test_tensor_peak_is_a_multiple_of_fp32():
    for gpu in device.GPUS.values():
        assert gpu.peak_gflops("fp16") >= 2 * gpu.peak_gflops("fp32")
        assert gpu.peak_gflops("tf32") == gpu.peak_gflops("bf16") / 2


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"])
def test_limits_are_consistent(arch):
    limits = device.limits(arch)
    assert limits.max_warps_per_sm * 32 == limits.max_threads_per_sm
    assert limits.shared_per_block <= limits.shared_per_block_optin <= limits.shared_per_sm


def test_suffix_of_an_arch_is_ignored_and_unknown_refused():
    assert device.limits("sm_90a") is device.limits("sm_90")
    with pytest.raises(UnknownNameError, match="sm_61"):
        device.limits("sm_61")
