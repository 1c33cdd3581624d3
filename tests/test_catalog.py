"""The catalog: rules as data, launch geometry, and errors that name the rule."""

import re

import pytest

from helpers.ladder.kernel import ROOT, Rule, broken_rules, cdiv, geometry
from helpers.ladder.rungs import catalog, cores
from nogpu.errors import ConfigError, ShapeError, UnknownKernelError


@pytest.mark.parametrize("name", list(catalog))
def test_entry_stands_in_its_file(name):
    kernel = catalog[name]
    assert kernel.path.is_file()
    assert re.search(rf"\b{kernel.entry}\s*\(", kernel.source), "the entry point is in the file"
    assert 'extern "C" __global__' in kernel.source


@pytest.mark.parametrize("name", list(catalog))
def test_defaults_in_the_file_are_the_catalogs(name):
    """A tile size lives in the catalog; the file's own default must not drift from it."""
    kernel = catalog[name]
    compiled_in = [param for param in kernel.params if param not in kernel.passed]
    for param in compiled_in:
        found = re.search(rf"#ifndef {param}\s*\n\s*#define {param} (\d+)", kernel.source)
        assert found, f"{kernel.file} has a default for {param}"
    same_file = [k for k in catalog.values() if k.file == kernel.file]
    for param in compiled_in:
        value = int(re.search(rf"#define {param} (\d+)", kernel.source)[1])
        assert value in {k.params[param] for k in same_file if param in k.params}


@pytest.mark.parametrize("name", list(catalog))
def test_rules_hold_for_the_defaults_and_can_fail(name):
    kernel = catalog[name]
    assert not broken_rules(kernel)
    for rule in kernel.rules:
        assert rule.reason and not rule.reason.endswith(".")


@pytest.mark.parametrize("name", list(catalog))
@pytest.mark.parametrize("shape", [(1, 1, 1), (127, 129, 65), (4096, 4096, 4096)])
def test_the_grid_covers_c(name, shape):
    kernel = catalog[name]
    M, N, K = shape
    if broken_rules(kernel, M, N, K):
        pytest.skip("the catalog refuses this shape with a rule")
    p = geometry(kernel, M, N, K)
    rows, cols = p.tile
    blocks = p.grid[0] * p.grid[1] * p.grid[2]
    persistent = kernel.host == "tma"
    assert persistent or blocks * rows * cols >= M * N
    assert p.threads <= 1024


def test_a_core_is_looked_for_where_it_stands() -> None:
    assert cores["tiled_32_core"].core_of == "tiled_32"
    with pytest.raises(UnknownKernelError, match=r"'tiled_32_core' in the catalog; .* in `cores`"):
        catalog["tiled_32_core"]
    for known in (catalog, cores):
        with pytest.raises(UnknownKernelError, match=r"called 'tiled_33'[.]"):
            known["tiled_33"]
    with pytest.raises(UnknownKernelError, match=r"called 'no_such_core'[.]"):
        cores["no_such_core"]


def test_unknown_kernel_has_near_matches():
    with pytest.raises(UnknownKernelError, match="tiled_32"):
        catalog["tiled32"]


def test_broken_rule_names_rule_reason_and_remedy():
    with pytest.raises(ConfigError) as caught:
        geometry(catalog["tiled_32"], 64, 64, 64, TILE=33)
    text = str(caught.value)
    assert "TILE=33" in text and "1024" in text and "defaults" in text


@pytest.mark.parametrize("bad", [0, -1, 2.5, True])
def test_a_tile_size_is_a_positive_whole_number(bad):
    with pytest.raises(ConfigError, match="whole number"):
        geometry(catalog["tiled_32"], 64, 64, 64, TILE=bad)


def test_unknown_parameter_names_the_known_ones():
    with pytest.raises(ConfigError, match="TILE=32"):
        geometry(catalog["tiled_32"], 64, 64, 64, TIEL=8)


@pytest.mark.parametrize("shape", [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_empty_matrices_are_refused(shape):
    with pytest.raises(ShapeError):
        geometry(catalog["naive"], *shape)


def test_a_grid_beyond_the_hardware_is_refused():
    with pytest.raises(ConfigError, match="65535"):
        geometry(catalog["tiled_8"], 65536 * 8, 8, 8)


def test_cdiv_and_rules():
    assert [cdiv(n, 8) for n in (1, 7, 8, 9)] == [1, 1, 1, 2]
    rule = Rule("BM % TM == 0", "whole thread tiles")
    assert rule.holds({"BM": 8, "TM": 4}) and not rule.holds({"BM": 9, "TM": 4})


def test_each_kernel_file_is_in_the_catalog():
    listed = {k.file for k in catalog.values()}
    on_disk = {p.name for p in (ROOT / "kernels").glob("*.cu")}
    assert on_disk == listed
