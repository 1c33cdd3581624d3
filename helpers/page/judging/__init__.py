"""What is the case with a reader's own kernel: facts, no words. `helpers.page.workbench` says them.

`judge` takes a text in place of a rung's file: does it compile, is it right and clean on awkward
shapes, what does it ask of memory beside the book's kernel, how fast is it in turn with that and
cuBLAS. `try_program` takes any kernel of any source with any arrays. Both run on the GPU where
there is one, and in the emulator first: it names lines and threads, and keeps what would stop a GPU
away from it.
"""

from helpers.page.judging.outcomes import Case, Judged, Tried
from helpers.page.judging.programs import launch_on_gpu, try_program
from helpers.page.judging.texts import judge
from helpers.page.judging.trying import roomy_arch, shapes, whole_tiles

__all__ = [
    "Case", "Judged", "Tried", "judge", "launch_on_gpu", "roomy_arch", "shapes", "try_program",
    "whole_tiles",
]  # fmt: skip
