"""The fixture `cuda` for pytest: runs a kernel, and fails the test with what was found, in words.

pytest loads this by its entry point; nothing else imports it, and nogpu does without pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from nogpu.emulator import Report


@pytest.fixture
def cuda() -> Callable[..., Report]:
    """Run a kernel with no GPU: `cuda(source_or_path, kernel, grid, block, *args, expect={...})`.

    Fails the test with the findings. The arguments: `nogpu.pytest_plugin.run`.
    """
    return run


def run(
    source: str | Path, kernel: str, grid: int | Sequence[int], block: int | Sequence[int],
    *args: Any, expect: Mapping[str, Any] | None = None, arch: str = "", both: bool = False,
    **options: Any,
) -> Report:  # fmt: skip
    """Run a kernel as `nogpu.launch` does; arrays in `args` are changed in place.

    source: text, or the path of a .cu file (a Path, or a str that ends in .cu or .cuh). expect:
    what arrays hold afterwards, by names of parameters. arch: default sm_80, or sm_90a where the
    text needs it. both: if nothing is found, run once more from the same arrays with warps in a
    random order. options: further ones of `launch`.

    Fails the test for findings, and for what does not compile or cannot run.
    """
    # Here, since every run of pytest loads this module, whether its tests launch or not.
    from nogpu.command.sources import Source, read
    from nogpu.emulator import launch
    from nogpu.errors import CompileError, TileError

    __tracebackhide__ = True
    code, problem = Source("kernel.cu", str(source), ()), ""
    try:
        if isinstance(source, Path) or source.endswith((".cu", ".cuh")):
            code = read(Path(source))
        options = {"arch": arch or code.arch(), "expect": expect, "name": code.name} | options
        args_2, options_2 = deepcopy((args, options)) if both else ((), {})
        report = launch(code.text, kernel, grid, block, args, **options)
        if both and report.ok:
            other = options_2 | {"schedule": "permuted"}
            report_2 = launch(code.text, kernel, grid, block, args_2, **other)
            report = report if report_2.ok else report_2
    except CompileError as error:
        problem = error.log or str(error)
    except TileError as error:
        problem = f"{kernel}: {error}"
    if problem:  # out here, so that pytest shows the words alone
        pytest.fail(code.say(problem), pytrace=False)
    if report.findings:
        order = f", warps in {report.schedule} order" if both else ""
        lines = [str(code.placed(finding)) for finding in report.findings]
        head = f"{kernel}: {len(lines)} finding(s){order}"
        pytest.fail("\n".join([head, *lines]), pytrace=False)
    return report
