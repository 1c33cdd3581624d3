"""C may begin anywhere in its memory: at every offset of its type no store of a kernel is misaligned."""

import numpy as np
import pytest

from helpers.ladder import launch, numbers
from helpers.ladder.kernel import KERNELS, geometry
from helpers.ladder.rungs import catalog
from nogpu.emulator.launching import arguments

VECTOR = 16
"""Bytes of the widest store of a thread."""
SHAPES = {"tiled_padded": (32, 64, 32)}
SHAPE = (40, 66, 24)
"""An even N, for which kernels store pairs and fours."""


def run(k, offset, monkeypatch):
    """Wrong elements and findings of a launch whose C begins `offset` elements into an array."""
    p = geometry(k, *SHAPES.get(k.name, SHAPE))
    A, B = numbers.operands(k, p.M, p.N, p.K, seed=7)
    dtype = numbers.STORAGE[k.out_dtype]
    memory = np.full(p.M * p.N + offset, numbers.poison(k.out_dtype), dtype)
    bind = arguments._bind_one

    def shifted(param, formal, value, heap, label, *others):
        raw = bind(param, formal, memory if label == "C" else value, heap, label, *others)
        at = int.from_bytes(raw, "little") + offset * memory.itemsize
        return at.to_bytes(8, "little") if label == "C" else raw

    C = memory[offset:].reshape(p.M, p.N)
    with monkeypatch.context() as patch:
        patch.setattr(arguments, "_bind_one", shifted)
        report = launch._emulate(p, A, B, C)
    return numbers.wrong_elements(k, A, B, C), [f.kind for f in report.findings]


@pytest.mark.parametrize("name", list(catalog))
def test_c_may_begin_at_every_offset_of_its_type(name, monkeypatch):
    itemsize = np.dtype(numbers.STORAGE[catalog[name].out_dtype]).itemsize
    for offset in range(1, VECTOR // itemsize):
        assert run(catalog[name], offset, monkeypatch) == (0, []), offset


def test_a_store_of_pairs_that_asks_only_for_an_even_row_is_misaligned(monkeypatch):
    k, asked = catalog["hopper_1"], " && reinterpret_cast<size_t>(C) % 4 == 0"
    header = (KERNELS / "common" / "wgmma.cuh").read_text(encoding="utf-8")
    assert asked in header
    own = k.source.replace('#include "common/wgmma.cuh"', header.replace(asked, ""))
    assert run(k, 1, monkeypatch)[1] == []
    assert "misaligned" in run(k.with_source(own), 1, monkeypatch)[1]
