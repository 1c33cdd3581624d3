"""The catalog: rules as data, launch geometry, and errors that name the rule."""

import math
import re
from dataclasses import replace

import pytest

from helpers.ladder.kernel import ROOT, broken_rules, geometry
from helpers.ladder.rungs import catalog, cores
from nogpu.errors import ConfigError, ShapeError, UnknownKernelError


def test_entry_stands_in_its_file():
    for name, kernel in catalog.items():
        assert kernel.path.is_file(), name
        assert re.search(rf"\b{kernel.entry}\s*\(", kernel.source), f"{name}: no entry point"
        assert 'extern "C" __global__' in kernel.source, name


def test_defaults_in_the_file_are_the_catalogs():
    """A tile size lives in the catalog; the file's own default must not drift from it."""
    for name, kernel in catalog.items():
        same_file = [k for k in catalog.values() if k.file == kernel.file]
        for param in kernel.params.keys() - set(kernel.passed):
            found = re.search(rf"#ifndef {param}\s*\n\s*#define {param} (\d+)", kernel.source)
            assert found, f"{name}: {kernel.file} has no default for {param}"
            assert int(found[1]) in {k.params[param] for k in same_file if param in k.params}, name


def test_a_tile_that_cannot_run_is_not_named_as_its_own_remedy():
    """Of a default of the catalog no defaults are offered; of a caller's tile they are."""
    with pytest.raises(ConfigError, match=r"leave them out for the defaults \(TILE=32\)"):
        geometry(catalog["tiled_32"], 64, 64, 64, TILE=64)
    wrong = replace(catalog["tiled_32"], params={"TILE": 64})
    with pytest.raises(ConfigError, match=r"these are the catalog's own\.$"):
        geometry(wrong, 64, 64, 64)


def test_rules_hold_for_the_defaults_and_have_reasons():
    for name, kernel in catalog.items():
        assert not broken_rules(kernel), name
        assert all(r.reason and not r.reason.endswith(".") for r in kernel.rules), name


@pytest.mark.parametrize("shape", [(1, 1, 1), (127, 129, 65), (4096, 4096, 4096)])
def test_the_grid_covers_c(shape):
    M, N, K = shape
    laid_out = 0
    for name, kernel in catalog.items():
        if broken_rules(kernel, M, N, K):
            continue
        p = geometry(kernel, M, N, K)
        laid_out += 1
        persistent = kernel.host == "tma"
        assert persistent or math.prod(p.grid) * math.prod(p.tile) >= M * N, name
        assert p.threads <= 1024, name
    assert laid_out > len(catalog) / 2


def test_a_core_is_looked_for_where_it_stands():
    assert cores["tiled_32_core"].core_of == "tiled_32"
    with pytest.raises(UnknownKernelError, match=r"'tiled_32_core' in the catalog; .* in `cores`"):
        catalog["tiled_32_core"]
    for known in (catalog, cores):
        with pytest.raises(UnknownKernelError, match=r"called 'tiled_33'[.]"):
            known["tiled_33"]
    with pytest.raises(UnknownKernelError, match=r"called 'no_such_core'[.]"):
        cores["no_such_core"]


REFUSED = [
    (lambda: catalog["tiled32"], UnknownKernelError, ["tiled_32"]),
    (lambda: geometry(catalog["tiled_32"], 64, 64, 64, TILE=33), ConfigError,
     ["TILE=33", "1024", "defaults"]),
    *((lambda bad=bad: geometry(catalog["tiled_32"], 64, 64, 64, TILE=bad), ConfigError,
       ["whole number"]) for bad in (0, -1, 2.5, True)),
    (lambda: geometry(catalog["tiled_32"], 64, 64, 64, TIEL=8), ConfigError, ["TILE=32"]),
    *((lambda shape=shape: geometry(catalog["naive"], *shape), ShapeError, []) for shape in
      ((0, 1, 1), (1, -1, 1), (1, 1, 0))),
    (lambda: geometry(catalog["tiled_8"], 65536 * 8, 8, 8), ConfigError, ["65535"]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "words"), REFUSED)
def test_what_breaks_a_rule_is_refused_with_the_rule(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words)


def test_each_kernel_file_is_in_the_catalog():
    listed = {k.file for k in catalog.values()}
    on_disk = {p.name for p in (ROOT / "kernels").glob("*.cu")}
    assert on_disk == listed
