"""Sums of Tensor Cores: the emulator's bits are an H200's, for every kind of matrix instruction.

The record holds what one instruction of each kind made of operands that NumPy draws
(tools/sums_on_a_gpu.py).
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from nogpu.emulator.machine import sums
from tools import sums_on_a_gpu as gpu_sums

BY_NAME = {i.name: i for i in gpu_sums.INSTRUCTIONS}


def differing(name):
    """Registers with other bits than the GPU's, by case."""
    found = gpu_sums.results(BY_NAME[name], gpu_sums.in_the_emulator) != gpu_sums.read()[name]
    return np.asarray(found.sum(axis=1))


def test_the_record_has_every_instruction_and_says_whose_it_is():
    assert set(gpu_sums.read()) == set(BY_NAME)
    record = json.loads(gpu_sums.FILE.read_text(encoding="utf-8"))
    assert record["gpu"] and all(record["recorded"][n] for n in ("commit", "date", "driver"))
    for name, bits in gpu_sums.read().items():
        assert (bits != 0xFFFFFFFF).all(), f"{name}: everything was written"


@pytest.mark.parametrize("name", BY_NAME)
def test_every_bit_is_the_gpus(name):
    assert differing(name).tolist() == [0] * gpu_sums.CASES


@pytest.mark.parametrize("name", BY_NAME)
def test_bits_kept_more_or_fewer_are_seen(name, monkeypatch):
    """The wrong twins: a Tensor Core that cuts off one bit earlier, or later, or not at all."""
    which = "FP8_ALIGNED_BITS" if name.startswith("wgmma k32") else "ALIGNED_BITS"
    right = getattr(sums, which)
    into_float16 = BY_NAME[name].kinds == ("f16", "f16")  # which hides all but far too few
    few_bits = name.startswith("mma k32")  # of products without the old sum
    for kept in (9,) if into_float16 or few_bits else (right - 1, right + 1, 40):
        monkeypatch.setattr(sums, which, kept)
        assert differing(name).any(), kept


@pytest.mark.parametrize("name", [n for n in BY_NAME if n.startswith("mma k32")])
def test_the_old_sum_comes_last_in_mma_sync_of_eight_bits(name, monkeypatch):
    """The wrong twin adds it with the products."""
    monkeypatch.setattr(sums, "EIGHT", frozenset())
    assert differing(name).any()


def test_what_is_not_finite_is_that_of_a_plain_sum():
    A, B, C = np.ones((3, 1, 4)), np.ones((3, 4, 1)), np.zeros((3, 1, 1))
    A[0, 0, 1], A[1, 0, :2], C[2] = np.inf, (np.inf, -np.inf), np.nan
    found = sums.accumulate(A, B, C, ("f32", "f16"))[:, 0, 0]
    assert found[0] == np.inf and np.isnan(found[1:]).all()


def test_a_sum_of_nothing_is_the_old_sum():
    C = np.array([[0.0, 1.5, 2.0**-140, -(2.0**127)]])
    for factor in sums.FLOATS:
        found = sums.accumulate(np.zeros((1, 32)), np.zeros((32, 4)), C, ("f32", factor))
        assert (found == C).all(), factor
