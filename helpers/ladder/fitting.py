"""What this machine lacks to run and time kernels, and what does not fit its driver: sentences."""

import shutil
from typing import Any

from nogpu import device, toolchain
from nogpu.errors import ToolchainError

CUPY = ("cupy-cuda13x", "cupy-cuda12x", "cupy")
"""Packages that are CuPy; only one of them may be installed."""
OLDEST_DRIVER = {12: 525, 13: 580}
"""The oldest driver that takes the machine code of a CUDA major version.

Source: CUDA Compatibility, minor version compatibility.
"""


def requirements() -> str:
    """The file of the wheels that fit this machine's driver, relative to the repository."""
    driver = device.driver_cuda()
    if driver is None:
        return "requirements.txt"
    return f"requirements/cuda{13 if driver[0] >= 13 else 12}.txt"


def how_to_install() -> str:
    """A sentence: what to install so that packages fit this machine's driver."""
    if device.driver_cuda() is None:
        return (
            "Install what fits the driver: pip install -r requirements/cuda13.txt for one of 580 "
            "or newer, requirements/cuda12.txt for an older one"
        )
    return f"Install what fits: pip install -r {requirements()}"


def version(package: str) -> str | None:
    """The version of an installed package, or None."""
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def cupy_packages() -> dict[str, str]:
    """The CuPy packages that are installed, with their versions."""
    return {name: installed for name in CUPY if (installed := version(name))}


def cublas() -> Any:
    """CuPy's cuBLAS. Raises ToolchainError, with what to install, where the library is missing."""
    try:
        from cupy.cuda import cublas as library
    except ImportError as fault:
        raise ToolchainError(
            "cuBLAS was not found, and every time here is taken beside cuBLAS and every result "
            f"checked by it; a GPU's driver does not bring it. {how_to_install()}"
        ) from fault
    return library


def has_cublas() -> bool:
    """Whether CuPy finds cuBLAS."""
    try:
        cublas()
    except ToolchainError:
        return False
    return True


def _newer(major: int, driver: tuple[int, int], what: str) -> str:
    """A sentence where a compiler's machine code is of a later CUDA than the driver takes."""
    if major <= driver[0]:
        return ""
    needs = OLDEST_DRIVER.get(major)
    update = f", or update the driver to {needs} or newer" if needs else ""
    return (
        f"{what} makes machine code of CUDA {major}, and this driver is for CUDA "
        f"{driver[0]}.{driver[1]}: a driver takes code of its own major version and of older ones. "
        f"{how_to_install()}{update}"
    )


def refuse_unfit_compiler() -> None:
    """Raise ToolchainError where the compiler makes nothing that this GPU and driver take."""
    if toolchain.uses_clang():
        raise ToolchainError(
            f"{toolchain.compiler()} compiles here, and it makes no machine code, so nothing that a"
            " GPU runs: "
            f'use backend="emulator", or NVIDIA\'s compiler. {how_to_install()}'
        )
    driver = device.driver_cuda()
    if driver is None:
        return
    if fault := _newer(toolchain.nvrtc().version[0], driver, toolchain.compiler()):
        raise ToolchainError(fault)


def _cupy_faults(driver: tuple[int, int]) -> list[str]:
    """Why CuPy does not use the GPUs that the driver sees, or how its own compiler does not fit."""
    packages = cupy_packages()
    if len(packages) > 1:
        extra = " ".join(packages)
        return [f"{' and '.join(packages)} are installed side by side, and only one may be: "
                f"pip uninstall {extra}. {how_to_install()}"]  # fmt: skip
    if device.current() is None:
        if not device.driver_sees_gpus():
            return []
        try:
            import cupy

            cupy.cuda.runtime.getDeviceProperties(0)
            why = "it does not answer"
        except Exception as fault:  # not installed, not loadable, or refused by the driver
            why = " ".join(str(fault).split())[:160]
        return [f"the driver sees a GPU, and CuPy, which launches kernels, cannot use it ({why}). "
                f"{how_to_install()}"]  # fmt: skip
    try:
        from cupy.cuda import nvrtc

        major = int(nvrtc.getVersion()[0])
    except Exception:  # CuPy finds no NVRTC: cupy.RawKernel says so itself
        return []
    misfit = _newer(major, driver, "the NVRTC that CuPy itself uses (cupy.RawKernel, cupy.square)")
    return (
        [f"{misfit}. An NVRTC of a later CUDA has to go: pip uninstall nvidia-cuda-nvrtc"]
        if misfit
        else []
    )


def misfits() -> list[str]:
    """What does not fit or is missing here, a sentence each: what, the rule, what to do."""
    faults = []
    driver, live = device.driver_cuda(), device.current()
    if driver is not None and driver[0] < toolchain.OLDEST_MAJOR:
        faults.append(
            f"this driver is for CUDA {driver[0]}.{driver[1]}, and CuPy and the compiler need one "
            f"for CUDA {toolchain.OLDEST_MAJOR} or later: update the driver to "
            f"{OLDEST_DRIVER[toolchain.OLDEST_MAJOR]} or newer"
        )
    elif driver is not None:
        faults += _cupy_faults(driver)
    compiles = toolchain.available()
    unfit = [refuse_unfit_compiler] if compiles and (live or not toolchain.uses_clang()) else []
    for check in (*unfit, *([cublas] if live else [])):
        try:
            check()
        except ToolchainError as fault:
            faults.append(str(fault))
    if live is not None and toolchain.arch_number(live.arch) == 90:
        if not any(version(name) for name in ("cuda-bindings", "cuda-python")):
            faults.append(
                "the kernels of chapter 20 need cuda-bindings for their tensor maps. "
                f"{how_to_install()}"
            )
    if not compiles:
        what = "no kernel of your own" if toolchain.stored() and live is None else "no kernel"
        faults.append(f"no compiler for CUDA was found, so {what} can run. {compiler_hint()}")
    elif not toolchain.uses_clang() and not toolchain.has_tool("nvdisasm"):
        faults.append(
            "nvdisasm was not found: the pages show machine code (SASS) as it was stored, and that "
            "of other code cannot be shown. It comes with: pip install nvidia-cuda-nvdisasm"
        )
    return faults


def compiler_hint() -> str:
    """What to install where there is no compiler: the shortest that works on this system."""
    import sys

    clang = 'pip install "ziglang>=0.16,<0.18" brings clang, whose code the emulator runs'
    if sys.platform == "darwin":
        return f"Install one: {clang}"
    if shutil.which("pip") is None and version("pip") is None:
        return f"Install one, with the installer of this environment: {clang}"
    return f"Install one: pip install -r {requirements()} brings NVIDIA's; {clang}"
