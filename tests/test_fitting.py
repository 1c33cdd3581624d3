"""A GPU with only a driver: which compiler fits it, what is missing, and what is said of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from helpers import __main__ as cli
from helpers.ladder import fitting, launch, usage
from helpers.ladder.rungs import lay_out
from helpers.record import measure, sources
from helpers.record.gpu import Session
from nogpu import device, toolchain
from nogpu.errors import DataError, ToolchainError
from tests.test_measure import H200

T4 = replace(H200, name="Tesla T4", arch="sm_75", driver_cuda="13.4")


def pretend_cupy(patch, **parts):
    """A CuPy with these parts of cupy.cuda; without cuBLAS as where nobody installed the library."""
    cupy, cuda = ModuleType("cupy"), ModuleType("cupy.cuda")
    vars(cuda).update(parts)
    vars(cupy)["cuda"] = cuda
    patch.setitem(sys.modules, "cupy", cupy)
    patch.setitem(sys.modules, "cupy.cuda", cuda)


@pytest.fixture
def driver_only(monkeypatch):
    """A T4, a driver for CUDA 13, CuPy, no toolkit and no cuBLAS."""
    monkeypatch.setattr(device, "current", lambda: T4)
    monkeypatch.setattr(device, "driver_cuda", lambda: (13, 0))
    monkeypatch.setattr(device, "driver_sees_gpus", lambda: 1)
    for name in [name for name in sys.modules if name.split(".")[0] in ("cupy", "cupyx")]:
        monkeypatch.delitem(sys.modules, name)
    pretend_cupy(monkeypatch)
    sources._session.cache_clear()
    yield monkeypatch
    sources._session.cache_clear()


# --- which NVRTC ----------------------------------------------------------------------------------


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("driver", "chosen"), [((12, 4), 12), ((13, 0), 13), ((14, 1), 13), ((11, 8), 0), (None, 0)]
)
def test_the_newest_compiler_that_the_driver_takes(driver, chosen, tmp_path, monkeypatch):
    """Of two installed ones; which CUDA they are of, their names say. 0: the driver has no say."""
    real = Path(toolchain.nvrtc().path)
    for major in (12, 13):
        (tmp_path / f"{major}").mkdir()
        (tmp_path / f"{major}" / f"libnvrtc.so.{major}").symlink_to(real)
    monkeypatch.setattr(toolchain, "_candidates", lambda: [tmp_path / "13", tmp_path / "12"])
    monkeypatch.setattr(device, "driver_cuda", lambda: driver)
    _, path, why = toolchain._open_nvrtc()
    if chosen:
        assert path == tmp_path / f"{chosen}" / f"libnvrtc.so.{chosen}"
        assert "CUDA {}.{}".format(*driver or ()) in why
    else:
        assert tmp_path not in path.parents and why == ""
    assert ("passed over" in why) == (chosen == 12)


def test_headers_are_those_of_the_compilers_own_cuda(tmp_path, monkeypatch):
    monkeypatch.delenv("CUDA_HOME", raising=False)
    for part in ("cu13/include", "cuda_runtime/include"):
        (tmp_path / "nvidia" / part).mkdir(parents=True)
        (tmp_path / "nvidia" / part / "cuda_fp16.h").write_text("")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    library = tmp_path / "somewhere" / "lib" / "libnvrtc.so"
    for major, here, elsewhere in ((12, "cuda_runtime", "cu13"), (13, "cu13", "cuda_runtime")):
        found = toolchain._include_folders(library, major)
        assert found[0] == str(tmp_path / "nvidia" / here / "include")
        assert str(tmp_path / "nvidia" / elsewhere / "include") not in found


@pytest.mark.nvrtc
def test_a_launch_refuses_code_that_the_driver_would_refuse(driver_only):
    major = toolchain.nvrtc().version[0]
    loaded: list[bytes] = []

    class Module:
        def get_function(self, name):
            return name

    module = Module()
    driver_only.setattr(launch, "_module", lambda cubin: loaded.append(cubin) or module)
    p = lay_out("naive", 64, 64, 64)
    driver_only.setattr(device, "driver_cuda", lambda: (major - 1, 4))
    refused = rf"CUDA {major}.*CUDA {major - 1}\.4.*Install"
    with pytest.raises(ToolchainError, match=refused) as caught:
        launch.cuda_function(p)
    assert f"requirements/cuda{12 if major < 14 else 13}.txt" in str(caught.value)
    assert loaded == []
    driver_only.setattr(device, "driver_cuda", lambda: (major, 0))
    assert launch.cuda_function(p) == "naive" and loaded


# --- cuBLAS ---------------------------------------------------------------------------------------


def test_without_cublas_times_are_replayed_and_the_label_says_why(driver_only):
    with pytest.raises(ToolchainError, match=r"cuBLAS was not found.*requirements/cuda13\.txt"):
        Session()
    m = measure("tiled_32", 1024)
    assert not m.live and m.gpu == "NVIDIA H200"
    assert "not measured on this Tesla T4: cuBLAS was not found" in m.label
    with pytest.raises(DataError, match="cuBLAS was not found"):
        measure("tiled_32", 1021)
    assert "not found" not in measure("tiled_32", 1024, gpu="h200").label


def test_with_cublas_a_session_goes_on(driver_only):
    """The wrong twin: as above, with the library; what stops it now is the pretended CuPy."""
    pretend_cupy(driver_only, cublas=SimpleNamespace())
    assert fitting.has_cublas()
    with pytest.raises(AttributeError, match="Stream"):
        Session()


# --- what is said ---------------------------------------------------------------------------------


def list_misfits():
    return "\n".join(fitting.misfits())


def test_nothing_is_said_where_all_fits(driver_only):
    nvrtc = SimpleNamespace(getVersion=lambda: (13, 0))
    pretend_cupy(driver_only, cublas=SimpleNamespace(), nvrtc=nvrtc)
    driver_only.setattr(fitting, "cupy_packages", lambda: {"cupy-cuda13x": "14.2.0"})
    driver_only.setattr(toolchain, "has_tool", lambda name: True)
    driver_only.setattr(toolchain, "available", lambda: True)
    driver_only.setattr(fitting, "refuse_unfit_compiler", lambda: None)
    assert fitting.misfits() == []
    driver_only.setattr(device, "current", lambda: replace(T4, arch="sm_90"))
    driver_only.setattr(fitting, "version", lambda package: None)
    assert "cuda-bindings" in list_misfits()
    driver_only.setattr(fitting, "version", lambda package: "13.0.3")
    assert fitting.misfits() == []


def test_each_part_that_does_not_fit_is_a_sentence(driver_only):
    both = {"cupy-cuda13x": "14.2.0", "cupy-cuda12x": "14.2.0"}
    driver_only.setattr(fitting, "cupy_packages", lambda: both)
    assert "pip uninstall cupy-cuda13x cupy-cuda12x" in list_misfits()
    driver_only.setattr(fitting, "cupy_packages", dict)

    pretend_cupy(driver_only, nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)))
    assert "that CuPy itself uses" not in list_misfits()
    driver_only.setattr(device, "driver_cuda", lambda: (12, 4))
    assert "that CuPy itself uses" in list_misfits()

    driver_only.setattr(device, "driver_cuda", lambda: (11, 8))
    assert "525 or newer" in list_misfits() and "CUDA 11.8" in list_misfits()

    driver_only.setattr(device, "driver_cuda", lambda: (12, 4))
    driver_only.setattr(device, "current", lambda: None)
    driver_only.setitem(sys.modules, "cupy", None)  # importing it raises ImportError
    assert "the driver sees a GPU, and CuPy" in list_misfits()
    assert "requirements/cuda12.txt" in list_misfits()
    driver_only.setattr(device, "driver_sees_gpus", lambda: 0)
    assert "sees a GPU" not in list_misfits()

    driver_only.setattr(toolchain, "has_tool", lambda name: False)
    driver_only.setattr(toolchain, "uses_clang", lambda: False)
    assert "nvdisasm was not found" in list_misfits()
    driver_only.setattr(toolchain, "available", lambda: False)
    assert "no compiler for CUDA" in list_misfits() and "ziglang" in list_misfits()
    for sentence in fitting.misfits():
        assert "\n" not in sentence and "pip" in sentence


def test_info_says_driver_compiler_and_cublas(driver_only, capsys):
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    parts = ("Tesla T4", "driver:    for CUDA 13.0", "cuBLAS:    not found", "does not fit: cuBLAS")
    for part in parts:
        assert part in out
    driver_only.setattr(device, "current", lambda: None)
    driver_only.setattr(device, "driver_cuda", lambda: None)
    assert cli.main(["info"]) == 0
    out = capsys.readouterr().out
    assert "no NVIDIA driver answers" in out and "cuBLAS:" not in out


def test_the_driver_is_asked_through_its_own_library(monkeypatch):
    def answers(number):
        def function(where):
            where._obj.value = number
            return 0

        return function

    functions = {"cuDriverGetVersion": answers(12040), "cuDeviceGetCount": answers(2)}
    library = SimpleNamespace(cuInit=lambda flags: 0, **functions)
    ask, count = device.driver_cuda.__wrapped__, device.driver_sees_gpus.__wrapped__
    monkeypatch.setattr(device, "_driver_library", lambda: library)
    assert (ask(), count()) == ((12, 4), 2)
    monkeypatch.setattr(device, "_driver_library", lambda: None)
    assert (ask(), count()) == (None, 0)


# --- nvdisasm -------------------------------------------------------------------------------------


@pytest.mark.nvrtc
def test_without_nvdisasm_the_pages_machine_code_is_the_stored_one(monkeypatch):
    here = usage.instruction_mix("tiled_32", "sm_90")
    monkeypatch.setattr(toolchain, "_find_tool", lambda name: None)
    monkeypatch.setattr(toolchain, "_STORED", {})
    toolchain.sass.cache_clear()
    stored = usage.instruction_mix("tiled_32", "sm_90")
    assert stored["FFMA"] == here["FFMA"] > 0
    with pytest.raises(ToolchainError, match="nvidia-cuda-nvdisasm"):
        usage.instruction_mix("tiled_32", "sm_90", TILE=24)
    toolchain.sass.cache_clear()
