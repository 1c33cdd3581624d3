"""Notebooks as Colab runs them: its versions of packages, an empty folder, a clone by the first
cell.

`python -m tools.colab [NAME ...]` runs all notebooks, or those that begin with a name, from top to
bottom in a kernel of that environment, and prints the seconds of each. Nothing of this project is
installed there; the repository's address leads to a copy of the working tree, through git's own
`insteadOf`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.ladder.kernel import ROOT
from helpers.notebook.addresses import Repository, repository
from tools import environments

VERSIONS = {
    "numpy": "2.1.3", "pandas": "2.2.3", "matplotlib": "3.10.0", "ipython": "7.34.0",
    "ipykernel": "6.17.1", "ipywidgets": "7.7.1", "traitlets": "5.7.1",
}  # fmt: skip
"""What Colab's runtimes hold.

Source: github.com/googlecolab/backend-info at a724079 (2026-08-19).
"""
BESIDE = ("jupyter-client>=7.4,<8", "PyYAML>=6")
"""Others that it has and that a kernel or a page imports."""
COMPILER = {
    "nvidia-cuda-nvrtc-cu12": "12.8.93",
    "nvidia-cuda-runtime-cu12": "12.8.90",
    "nvidia-cuda-nvcc-cu12": "12.8.93",  # crt
    "nvidia-cuda-cccl-cu12": "12.8.90",
}
"""Its NVRTC and headers, as wheels. Source: apt-list-gpu.txt of the same repository at 0f0755b."""


def environment() -> Path:
    """The Python of an environment with Colab's versions. Raises NoEnvironmentError."""
    wanted = [*(f"{name}=={version}" for name, version in VERSIONS.items()), *BESIDE]
    return environments.environment("colab", wanted)


def with_compiler() -> Path:
    """The Python of an environment with Colab's NumPy and NVRTC, and nothing else.

    Raises NoEnvironmentError.
    """
    wanted = {"numpy": VERSIONS["numpy"], **COMPILER}
    return environments.environment("colab-nvrtc", [f"{n}=={v}" for n, v in wanted.items()])


def remote(folder: Path) -> Path:
    """A repository with what the working tree holds now, on the branch that _config.yml names."""
    where = repository()
    made = folder / f"{where.name}.git"
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT,
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, made / name)
    return committed(made, where.branch)


def committed(folder: Path, branch: str) -> Path:
    """The folder, now a repository with all that it holds in one commit on this branch."""
    begin = ["init", "--quiet", "--initial-branch", branch]
    identity = ["-c", "user.name=tile-by-tile", "-c", "user.email=none@localhost"]
    commit = [*identity, "commit", "--quiet", "--message", "The working tree"]
    for command in (begin, ["add", "--all"], commit):
        subprocess.run(["git", *command], cwd=folder, check=True)
    return folder


@dataclass(frozen=True)
class Ran:
    """A notebook after a run: wall seconds, its outputs in place, and where its clone lies."""

    seconds: float
    notebook: Any
    clone: Path

    @property
    def errors(self) -> list[str]:
        """What failed: name, message, and the first line of the cell."""
        return [
            f"{output['ename']}: {output['evalue'][:300]} in {cell.source.splitlines()[0]!r}"
            for cell in self.notebook.cells
            for output in cell.get("outputs", ())
            if output["output_type"] == "error"
        ]

    def printed(self, stream: str = "stdout") -> str:
        """All that the cells printed."""
        outputs = (output for cell in self.notebook.cells for output in cell.get("outputs", ()))
        return "".join(output["text"] for output in outputs if output.get("name") == stream)


def run(python: Path, source: Path, stem: str, folder: Path, *more: str) -> Ran:
    """Run a notebook of the repository `source` from an empty folder. more: code cells after its
    own.

    A kernel that dies is started once more: one of this age may lose its ports to another that
    starts.
    """
    from nbclient.exceptions import DeadKernelError

    try:
        return _run(python, source, stem, folder / "first", more)
    except DeadKernelError:
        return _run(python, source, stem, folder / "again", more)


def _run(python: Path, source: Path, stem: str, folder: Path, more: Sequence[str]) -> Ran:
    import nbclient
    import nbformat
    from jupyter_client.kernelspec import KernelSpecManager
    from jupyter_client.manager import AsyncKernelManager

    where, folder = repository(source), folder.resolve()
    content, spec = folder / "content", folder / "kernels" / "colab"
    content.mkdir(parents=True)
    spec.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    facts = {"argv": argv, "display_name": "Colab", "language": "python"}
    (spec / "kernel.json").write_text(json.dumps(facts))
    notebook = nbformat.read(source / "book" / f"{stem}.ipynb", as_version=4)
    notebook.cells += [nbformat.v4.new_code_cell(code) for code in more]
    manager = AsyncKernelManager(
        kernel_name="colab", kernel_spec_manager=KernelSpecManager(kernel_dirs=[str(spec.parent)])
    )
    client = nbclient.NotebookClient(
        notebook, km=manager, timeout=600, allow_errors=True,
        resources={"metadata": {"path": str(content)}},
    )  # fmt: skip
    began = time.perf_counter()
    home = python.parent.parent.parent / "home"
    client.execute(env=variables(python, source, where, home), cleanup_kc=True)
    return Ran(time.perf_counter() - began, notebook, content / where.name)


def variables(python: Path, source: Path, where: Repository, home: Path) -> dict[str, str]:
    """The kernel's environment: this one without what would lead it here, and Colab's mark. home:
    made if need be."""
    away = ("PYTHON", "TILE_", "JUPYTER", "IPYTHON", "MPL", "VIRTUAL_ENV", "GIT_")
    own = {name: text for name, text in os.environ.items() if not name.startswith(away)}
    home.mkdir(exist_ok=True)
    return {
        **own,
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / ".cache"),
        "PATH": f"{python.parent}:/usr/bin:/bin",
        "COLAB_RELEASE_TAG": "release-pretended",
        "PYTHONWARNINGS": "",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{source.resolve().as_uri()}.insteadOf",
        "GIT_CONFIG_VALUE_0": where.url,
    }


def main(names: list[str]) -> int:
    """Run notebooks and print a line of each; the number of those that failed."""
    python, failed = environment(), 0
    with tempfile.TemporaryDirectory() as scratch:
        source = remote(Path(scratch))
        for path in sorted((source / "book").glob("*.ipynb")):
            if names and not path.stem.startswith(tuple(names)):
                continue
            ran = run(python, source, path.stem, Path(scratch) / path.stem)
            faults = [*ran.errors, *ran.printed("stderr").splitlines()[:5]]
            failed += bool(faults)
            print(f"{path.stem:28} {ran.seconds:6.1f} s  {'; '.join(faults) or 'ok'}", flush=True)
            shutil.rmtree(Path(scratch) / path.stem)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
