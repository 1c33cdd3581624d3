"""The probe of L2 in the emulator: every way brings the bytes that it asks for."""

import numpy as np
import pytest

from nogpu import emulator
from nogpu.text import read_source
from tools.recorder.sections import l2 as l2_section

BLOCKS = 4


def run(way, sharing, skew, chunks, source=None):
    """What each block of a launch has seen."""
    words = np.random.default_rng(3).integers(1 << 32, size=BLOCKS * l2_section.PART // 4)
    words = words.astype(np.uint32)
    clocks, seen = np.zeros(BLOCKS, np.int64), np.zeros(BLOCKS, np.uint32)
    data = words.view(np.uint8) if way.entry == "l2_bulk" else words
    if way.entry == "l2_boxes":
        matrix = words.view(np.uint16).reshape(-1, l2_section.COLUMNS)
        data = emulator.TensorMap(matrix, (64, 64), 128, shape=matrix.shape)
    report = emulator.launch(
        source or read_source(l2_section.SOURCE), way.entry, BLOCKS, way.threads,
        [data, sharing, skew, chunks, clocks, seen], arch="sm_90a",
        defines={"CLUSTER": str(way.cluster)},
        shared_bytes=l2_section.RING if way.entry != "l2_loads" else 0,
    )  # fmt: skip
    assert not report.findings, report.findings
    return seen, l2_section.expected(words, way, sharing, skew, chunks)


@pytest.mark.parametrize("way", l2_section.WAYS, ids=lambda way: way.name)
@pytest.mark.parametrize(("sharing", "skew"), [(2, 0), (4, 3)])
def test_every_block_takes_in_what_it_asks_for(way, sharing, skew):
    seen, wanted = run(way, sharing, skew, 16)
    assert seen.tolist() == wanted.tolist()


def test_a_stream_that_goes_on_elsewhere_is_seen():
    source = read_source(l2_section.SOURCE).replace("at + 1 == length", "at + 2 == length")
    seen, wanted = run(l2_section.WAYS[0], 4, 0, 16, source)
    assert seen.tolist() != wanted.tolist()


def test_groups_are_even_and_of_whole_clusters():
    assert l2_section.groups(132) == [1, 2, 3, 4, 6, 11, 12, 22, 33, 44, 66, 132]
    assert l2_section.groups(132, 2) == [2, 4, 6, 12, 22, 44, 66, 132]
    assert l2_section.groups(40)[-1] == 40
