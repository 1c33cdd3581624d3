"""C may begin anywhere in its memory: at every offset of its type no store of a kernel is
misaligned."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from helpers.ladder import hopper, launch, numbers
from helpers.ladder.kernel import geometry
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
    bind = arguments._Place.bind

    def shifted(place, value, arrays):
        raw = bind(place, memory if place.label == "C" else value, arrays)
        at = int.from_bytes(raw, "little") + offset * memory.itemsize
        return at.to_bytes(8, "little") if place.label == "C" else raw

    C = memory[offset:].reshape(p.M, p.N)
    with monkeypatch.context() as patch:
        patch.setattr(arguments._Place, "bind", shifted)
        report = launch._emulate(p, A, B, C)
    return numbers.wrong_elements(k, A, B, C), [f.kind for f in report.findings]


def beginnings(k):
    """Elements past a multiple of 16 bytes at which a C can begin."""
    return range(1, VECTOR // np.dtype(numbers.STORAGE[k.out_dtype]).itemsize)


@pytest.mark.parametrize("name", list(catalog))
def test_c_may_begin_at_every_offset_of_its_type(name, monkeypatch):
    k = catalog[name]
    pairs = hopper.stores_pairs(geometry(k, *SHAPES.get(name, SHAPE)))
    for offset in beginnings(k):
        if pairs and offset % 2:  # there the host gives it another C (below)
            continue
        assert run(k, offset, monkeypatch) == (0, []), offset


PAIRS = [name for name in catalog if hopper.stores_pairs(geometry(catalog[name], 64, 64, 64))]


@pytest.mark.parametrize("name", PAIRS)
def test_a_kernel_that_stores_pairs_needs_the_copy(name, monkeypatch):
    assert "misaligned" in run(catalog[name], 1, monkeypatch)[1]


@pytest.mark.parametrize(("address", "copies"), [(4096, 0), (4098, 1), (4100, 0)])
def test_the_host_copies_a_c_between_two_pairs(address, copies, monkeypatch):
    """Four kernels store pairs: on a GPU such a C would be a fault that loses the context."""
    assert PAIRS == ["hopper_1", "hopper_2", "hopper_3", "hopper_4"]

    class Device:
        def __init__(self, at):
            self.data = SimpleNamespace(ptr=at)

    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(empty_like=lambda x: Device(8192)))
    monkeypatch.setattr(hopper, "build_descriptor", lambda matrix, rows: "a map")
    monkeypatch.setattr(hopper, "rows_aligned", lambda matrix: True)
    C = Device(address)
    ready = hopper.prepare(
        geometry(catalog["hopper_1"], 64, 64, 64), Device(0), Device(0), C, shared_room=False
    )
    there = ready.arguments[hopper.parameters(catalog["hopper_1"]).index("C")]
    assert len(ready.after) == copies and (there is C) == (copies == 0)
    assert not copies or ready.after[0] == (C, there)
    odd = hopper.prepare(
        geometry(catalog["hopper_1"], 64, 63, 64), Device(0), Device(0), C, shared_room=False
    )
    assert odd.after == ()  # an odd row forbids pairs anyway
