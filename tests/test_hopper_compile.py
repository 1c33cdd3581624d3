"""The Hopper kernels without a Hopper: they compile, the host side is right; some on the device."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.ladder import hopper, launch, numbers, usage
from helpers.ladder.kernel import defines, geometry
from helpers.ladder.rungs import catalog
from nogpu import device, toolchain
from nogpu.errors import CompileError, ConfigError

HOPPER = [name for name, kernel in catalog.items() if kernel.host == "tma"]
ARCH = "sm_90a"


def unspilled(kernel, params, arch=ARCH, **macros):
    """A kernel compiled, with these of its sizes; nothing is spilled, no product serialized."""
    given = {**defines(kernel, {**kernel.params, **params}), **macros}
    made = toolchain.compile(kernel.source, name=kernel.file, arch=arch, defines=given)
    used = made.kernels[kernel.entry]
    assert used.spill_stores == used.spill_loads == used.stack == 0, used
    # C7508, C7510: ptxas ignores setmaxnreg, or waits after every wgmma
    assert "serialized" not in made.log and "C75" not in made.log, made.log
    return made


# -- what the compiler makes of them ---------------------------------------------------------------


@pytest.mark.parametrize("name", HOPPER)
def test_compiles_to_the_instructions_that_are_meant(name):
    sass = toolchain.sass(unspilled(catalog[name], {}).cubin)
    resources = usage.resources(name, ARCH)  # raises if a block asks for too much shared memory
    assert resources.occupancy.blocks >= 1, resources
    assert ("HMMA" if name == "mma_tma" else "HGMMA") in sass and "UTMALDG" in sass
    assert "LDG" not in sass.replace("UTMALDG", "") or "hopper_6" in name, "no thread loads A or B"
    assert ("MULTICAST" in sass) == (catalog[name].params.get("CLUSTER_M", 1) > 1)
    assert ("UTMASTG" in sass) == ("C_map" in hopper.parameters(catalog[name]))


def test_a_plain_sm_90_target_refuses_wgmma():
    with pytest.raises(CompileError):
        toolchain.compile(catalog["hopper_1"].source, arch="sm_90")


# -- the host side, on stand-ins for CuPy arrays ---------------------------------------------------


def matrix(rows, cols, row_bytes=None, address=1 << 20):
    strides = (cols * 2 if row_bytes is None else row_bytes, 2)
    return SimpleNamespace(
        shape=(rows, cols), strides=strides, data=SimpleNamespace(ptr=address), dtype=np.uint16
    )


@pytest.mark.parametrize(
    ("given", "takes"),
    [
        (matrix(5, 8), True),
        (matrix(5, 7), False),
        (matrix(5, 7, row_bytes=16), True),
        (matrix(5, 8, row_bytes=18), False),
        (matrix(5, 8, address=(1 << 20) + 2), False),
        (matrix(1, 1), False),
        (matrix(5, 16, row_bytes=16), False),
    ],
)
def test_rows_must_start_at_16_bytes(given, takes):
    assert hopper.rows_aligned(given) is takes
    if not takes:
        with pytest.raises(ConfigError, match="aligned_like"):
            hopper.build_descriptor(given, 64)


def test_launch_passes_what_the_kernel_declares(monkeypatch):
    monkeypatch.setattr(hopper, "build_descriptor", lambda m, rows: (m.shape, rows))
    seen: dict[str, Any] = {}

    def function(grid, block, arguments, shared_mem):
        seen.update(grid=grid, block=block, arguments=arguments, shared=shared_mem)

    A, B, C = matrix(256, 64), matrix(64, 512), matrix(256, 512)
    p = geometry(catalog["hopper_5"], 256, 512, 64)
    hopper.launch(p, function, A, B, C)
    maps = (((256, 64), 64), ((64, 512), 64), ((256, 512), 16))
    assert seen["arguments"] == (*maps, np.int32(256), np.int32(512), np.int32(64))
    assert (seen["grid"], seen["block"], seen["shared"]) == (p.grid, p.block, p.shared_bytes)

    hopper.launch(geometry(catalog["hopper_2"], 256, 512, 64), function, A, B, C)
    assert seen["arguments"][2] is C


def test_the_grid_gives_equal_shares():
    """No more blocks than SMs, whole clusters, and no block has two tiles more than another."""
    for name in ("hopper_3", "hopper_4", "hopper_5", "hopper_6"):
        kernel = catalog[name]
        cluster = kernel.params.get("CLUSTER_M", 1) * kernel.params.get("CLUSTER_N", 1)
        for edge in (1, 500, 2048, 4096, 8192, 10000):
            p = geometry(kernel, edge, edge, edge)
            assert p.grid[0] % cluster == 0 and 1 <= p.grid[0] <= kernel.params["SMS"], (name, edge)


# -- on the device ---------------------------------------------------------------------------------


def needs_a_hopper():
    gpu = device.current()
    if gpu is None or gpu.arch != "sm_90":
        pytest.skip("no Hopper GPU here: this test did not run")


@pytest.mark.gpu
@pytest.mark.parametrize("name", HOPPER)
def test_right_on_a_hopper(name):
    needs_a_hopper()
    for M, N, K in [
        (1, 1, 1), (3, 5, 7), (129, 257, 65), (255, 513, 127), (64, 64, 1000), (1000, 2056, 1096),
        (4096, 4352, 64), (4095, 4097, 513),
    ]:  # fmt: skip
        A, B = numbers.operands(name, M, N, K, seed=M + N + K)
        C = launch.matmul(name, A, B, backend="cuda")
        assert numbers.wrong_elements(name, A, B, C) == 0, (M, N, K)


@pytest.mark.gpu
@pytest.mark.parametrize("at", range(128, 1024, 128))
def test_tiles_may_begin_in_any_row_of_the_swizzles_pattern(at):
    """What nogpu/tests/test_foreign_hopper.py takes for right: on an H200 all seven gave what tiles
    at 1,024 bytes give (2026-11-28)."""
    needs_a_hopper()
    k, aligned = catalog["hopper_1"], "swizzle_aligned(shared)"
    text = k.source.replace(aligned, f"{aligned} + {at}")
    moved = replace(k.with_source(text), shared=f"{k.shared} + 1024")
    assert text != k.source
    A, B = numbers.operands(k, 256, 256, 192)
    want, C = (launch.matmul(each, A, B, backend="cuda") for each in (k, moved))
    assert np.array_equal(want, C)
