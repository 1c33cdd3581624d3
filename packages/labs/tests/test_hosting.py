"""A host function, followed call by call: what it copies, orders and leaves behind. No compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilelabs.judging import hosting

KERNEL = """extern "C" __global__ void step(float* x, int n)
{
    if (threadIdx.x < n) x[threadIdx.x] += 1;
}
"""
PLAIN = """
float* d;
cudaMalloc(&d, n * sizeof(float));
cudaMemcpy(d, x, n * sizeof(float), cudaMemcpyHostToDevice);
step<<<1, 32>>>(d, n);
cudaMemcpy(x, d, n * sizeof(float), cudaMemcpyDeviceToHost);
cudaFree(d);
"""
STREAMS = """
cudaStream_t s, t;
cudaStreamCreate(&s);
cudaStreamCreate(&t);
float* d;
float* e;
cudaMalloc(&d, n * sizeof(float));
cudaMalloc(&e, n * sizeof(float));
cudaMemcpyAsync(d, x, n / 2 * sizeof(float), cudaMemcpyHostToDevice, s);
cudaMemcpyAsync(e, x + n / 2, n / 2 * sizeof(float), cudaMemcpyHostToDevice, t);
step<<<1, 32, 0, s>>>(d, n / 2);
step<<<1, 32, 0, t>>>(e, n / 2);
cudaMemcpyAsync(x, d, n / 2 * sizeof(float), cudaMemcpyDeviceToHost, s);
cudaMemcpyAsync(x + n / 2, e, n / 2 * sizeof(float), cudaMemcpyDeviceToHost, t);
cudaStreamSynchronize(s);
cudaStreamSynchronize(t);
cudaFreeAsync(d, s);
cudaFreeAsync(e, s);
cudaStreamDestroy(s);
cudaStreamDestroy(t);
"""


def did(body: str) -> tuple[list[float], list[tuple[str, str]], dict[str, int]]:
    """x = 0, 1, 2, 3 afterwards; kind and first two words of what was found; what was counted."""
    x = np.arange(4, dtype=np.float32)

    def launch(entry: str, grid: Any, block: Any, args: Any, shared: Any) -> Any:
        args[0][: args[1]] += 1

    source = f"{KERNEL}void lab(float* x, int n)\n{{{body}}}\n"
    _, found, counts = hosting.run(source, "lab", {"x": x, "n": 4}, launch)
    return x.tolist(), [(kind, " ".join(words.split()[:3])) for kind, _, words in found], counts


@pytest.mark.parametrize(("body", "streams"), [(PLAIN, 0), (STREAMS, 2)])
def test_what_is_sound_is_followed_to_its_end_and_counted(body: str, streams: int) -> None:
    counts = {"copied": 2 * 4 * 4, "leaked": 0, "streams": streams}
    assert did(body) == ([1, 2, 3, 4], [], counts)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("cudaStreamSynchronize(t);", "", ("unsynchronised", "lab returns while")),
        ("cudaStreamSynchronize(s);", "", ("unsynchronised", "lab returns while")),
        ("cudaStreamDestroy(t);", "cudaStreamDestroy(t);" * 2, ("invalid-free", "cudaStreamDestroy is given")),
        ("cudaFreeAsync(e, s);", "cudaFree(e);" * 2, ("invalid-free", "cudaFree is given")),
        ("cudaFreeAsync(e, s);", "cudaFree(e); cudaFancy(e);", ("not-followed", "cudaFancy is no")),
        ("x, d, n / 2", "x, d, 2 * n", ("out-of-bounds", "cudaMemcpyAsync reads bytes")),
        ("(d, x, n / 2 * sizeof(float), cudaMemcpyHostToDevice", "(d, x, n / 2 * sizeof(float), cudaMemcpyDeviceToHost", ("wrong-direction", "cudaMemcpyAsync is told")),
        ("(e, n / 2);", "(d, n / 2);", ("race", "step touches d")),
        ("cudaStreamCreate(&t);", "cudaStreamCreate();", ("not-followed", "cudaStreamCreate is called")),
    ],
)  # fmt: skip
def test_what_is_not_is_found(old: str, new: str, found: tuple[str, str]) -> None:
    assert STREAMS.count(old) == 1
    assert found in did(STREAMS.replace(old, new))[1]


@pytest.mark.parametrize(
    ("gone", "left"), [("cudaFreeAsync(e, s);", 1), ("cudaStreamDestroy(s);", 1)]
)
def test_what_is_kept_is_counted(gone: str, left: int) -> None:
    assert did(STREAMS.replace(gone, ""))[2]["leaked"] == left
