"""Time the kernels that no chapter explains, on the GPU at hand: what a reader's predictions are
beside.

    python -m tools.unseen_on_a_gpu [--out data/validation/unseen_GPU.json]

Each runs on random operands; its result is compared with float64 before it is timed, and what is
wrong is not recorded. Beside each time stands the bound of the cost model on that card.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from helpers.page.exercises import unseen
from helpers.record import protocol
from helpers.record.gpu import Session
from nogpu import toolchain
from tools import beside
from tools.recorder import campaign

KERNELS = (
    *unseen.AFTER_LATENCY, *unseen.AFTER_PATCHES, *unseen.AFTER_LANES, *unseen.AT_THE_SUMMIT,
)  # fmt: skip


def softmax(x: Any) -> Any:
    """Of each row, in float64."""
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


RIGHT: Mapping[str, Callable[..., Any]] = {
    "transposed_a": lambda A, B: A.T @ B,
    "transposed_b": lambda A, B: A @ B.T,
    "softmax": softmax,
    "column_sums": lambda x: x.sum(axis=0),
    "wide_copy": lambda x: x,
    "turned_tile": lambda x: x.T,
    "matrix_vector": lambda A, x: A @ x,
    "every_other": lambda x: x[::2] + x[1::2],
}
"""What each computes, from float64 operands; the others are plain products."""


def timed(session: Session, kernel: unseen.Unseen, gpu: str) -> dict[str, Any]:
    """Its time and its bound in ms. Raises ImplausibleError if the result is wrong."""
    cupy = session.cupy
    rng = np.random.default_rng(0)
    given = kernel.arrays()
    arrays: list[Any] = [a for a in given if isinstance(a, np.ndarray)]
    *operands, out = arrays
    operands = [np.asarray(rng.standard_normal(a.shape), np.float32) for a in operands]
    there = iter([*(cupy.asarray(a) for a in operands), cupy.full(out.shape, np.nan, np.float32)])
    on_gpu = [next(there) if isinstance(a, np.ndarray) else np.int32(a) for a in given]
    result = next(a for a, g in zip(reversed(on_gpu), reversed(given), strict=True) if g is out)
    code = toolchain.compile(kernel.source, name=kernel.file, arch=session.gpu.arch).cubin
    module = cupy.cuda.function.Module()
    module.load(code)
    function = module.get_function(kernel.name)

    def start() -> None:
        with session.stream:
            function(kernel.grid, kernel.block, tuple(on_gpu))

    start()
    session.stream.synchronize()
    right = RIGHT.get(kernel.name, lambda A, B: A @ B)(*(a.astype(np.float64) for a in operands))
    apart = float(np.abs(cupy.asnumpy(result) - right).max() / np.abs(right).max())
    if not apart < 1e-4:
        raise protocol.ImplausibleError(
            f"{kernel.name} is wrong by {apart:.1e} of its largest value"
        )
    done = protocol.interleaved(session.bench({kernel.name: start}), [kernel.name])
    took = protocol.spread(done.ms[kernel.name])
    bound = unseen.facts(kernel, gpu).ms
    print(f"{kernel.name:16s} {took.median:8.4f} ms, bound {bound:8.4f}", flush=True)
    row = {"kernel": kernel.name, "file": kernel.file, **protocol.fields(took)}
    return {**row, "bound_ms": bound}


def main(given: Sequence[str] | None = None) -> int:
    """The command line. Status 2 where no GPU answers, or a result is wrong."""

    def times(session: Session, _: Any) -> dict[str, Any]:
        gpu = campaign.gpu_key(session.gpu, None)
        return {"rows": [timed(session, kernel, gpu) for kernel in KERNELS]}

    return beside.main("unseen", __doc__, given, times=times)


if __name__ == "__main__":
    sys.exit(main())
