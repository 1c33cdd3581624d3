"""A kernel whose threads part at a branch by block, warp or lane, and what its warps then issue."""

import numpy as np

from nogpu import emulator

BRANCH = """
extern "C" __global__ void branch(float* x, int steps)
{
    const int t = threadIdx.x;
    float v = x[t];
    if (WHO % 2 == 0) {
        for (int i = 0; i < steps; ++i) v = v * 0.5f + 1.0f;
    } else {
        for (int i = 0; i < steps; ++i) v = v * 0.25f - 1.0f;
    }
    x[t] = v;
}
"""
WHO = {"all": "0", "warp": "(t / 32)", "lane": "t"}
"""What parts the threads, as the macro WHO of the kernel."""


def instructions(who: str) -> int:
    """Instructions that four warps issue in a hundred steps. who: an expression of the thread t."""
    report = emulator.launch(
        BRANCH, "branch", (1, 1, 1), (128, 1, 1), [np.ones(128, np.float32), 100],
        defines={"WHO": who},
    )  # fmt: skip
    return sum(report.instructions.values())


def issued() -> dict[str, float]:
    """How many times as many instructions as with no branch, if warps or lanes part."""
    alone = instructions(WHO["all"])
    return {f"by_{name}": instructions(WHO[name]) / alone for name in ("warp", "lane")}
