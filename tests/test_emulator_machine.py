"""The machine inside: ends of basic blocks, and where threads go from there."""

import numpy as np
import pytest

from helpers import emulator
from helpers.emulator.launching import run
from helpers.emulator.ptx import ends
from helpers.errors import EmulationError

BRANCHING = """
extern "C" __global__ void k(int *out) {
    int t = threadIdx.x;
    if (t < 40) __syncthreads();
    out[t] = t;
}"""


def branching(name: str) -> str:
    """The kernel under another name, so that its program is nobody else's."""
    return BRANCHING.replace("void k(", f"void {name}(")


def test_threads_go_where_a_block_ends():
    out = np.full(64, -1, np.int32)
    emulator.launch(branching("sound"), "sound", 1, 64, [out])
    assert (out == np.arange(64)).all()


@pytest.mark.parametrize("kind", [ends.Branch, ends.Barrier, ends.Exit])
def test_a_block_that_ends_in_nothing_known_stops_the_launch(kind):
    name = f"broken_{kind.__name__}"
    program, _ = run._program(branching(name), name, "sm_75", (), "kernel.cu")
    blocks = [b for b in program.blocks if isinstance(b.end, kind)]
    assert blocks
    for block in blocks:
        block.end = "nowhere"
    with pytest.raises(EmulationError, match=r"AssertionError.*nowhere"):
        emulator.launch(branching(name), name, 1, 64, [np.zeros(64, np.int32)])


def test_every_end_says_what_may_follow():
    assert ends.Branch(3, 5).followers == (3, 5)
    assert ends.Table((1, 2, 1)).followers == (1, 2, 1)
    assert ends.Exit().followers == () and ends.Exit(4).followers == (4,)
    assert {kind(7).followers for kind in (ends.Jump, ends.Barrier, ends.Poll, ends.Gate)} == {(7,)}
