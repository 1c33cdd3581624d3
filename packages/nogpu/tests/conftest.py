"""The tests' kernels may include the headers of the book that this package lies in."""

from pathlib import Path

from nogpu import project

KERNELS = Path(__file__).resolve().parents[3] / "kernels"
if KERNELS not in project.include_folders:
    project.include_folders.append(KERNELS)
