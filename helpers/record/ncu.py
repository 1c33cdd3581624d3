"""The counters that a record holds: our names, and those by which Nsight Compute knows them."""

from collections.abc import Mapping

from helpers.record.entries import WAITS
from nogpu.metrics import COUNTED

METRICS: Mapping[str, str] = {
    **COUNTED,
    "instructions": "smsp__inst_executed.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "occupancy_percent": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
"""Our name of a counter: ncu's.

Instructions are warp instructions; occupancy is the achieved one.
"""
OPTIONAL: Mapping[str, str] = {
    "ffma_thread_instructions": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "l1_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
    "l1_hit_percent": "l1tex__t_sector_hit_rate.pct",
    "l2_hit_percent": "lts__t_sector_hit_rate.pct",
    "l2_bytes": "lts__t_bytes.sum",
    "l1_fetched_bytes": "l1tex__m_xbar2l1tex_read_bytes.sum",
    "l1_sent_bytes": "l1tex__m_l1tex2xbar_write_bytes.sum",
}
"""Counters that some GPUs or versions of ncu lack: the run is repeated without them if ncu refuses.
"""
ISSUE: Mapping[str, str] = {
    "issue_percent": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "warps": "smsp__warps_active.avg.per_cycle_active",
}
"""Clocks in which a scheduler issues (percent), and the warps that it holds, while its SM works."""
STALLS: Mapping[str, str] = {
    **{name: f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio" for name in WAITS},
    "eligible": "smsp__warps_eligible.avg.per_cycle_active",
    "tensor_percent": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "fma_percent": "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active",
    "shared_percent": "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_elapsed",
}
"""Warps that wait for each reason, in clocks that issue; warps that could issue; how busy (percent)
the Tensor Cores are, the FMA pipe (of what it could issue), and the path of L1 and shared memory.
"""
NAMES: Mapping[str, str] = {**METRICS, **OPTIONAL, **ISSUE, **STALLS}
"""Our name of every counter that is asked for: ncu's."""


def named(columns: Mapping[str, str]) -> str:
    """The columns of a table by ncu's names, as one sentence.

    columns: a column's words -> a formula of our names in braces, such as "{shared_load_wavefronts}
    + {shared_store_wavefronts}"."""
    return (
        "; ".join(f"{words}: {formula.format_map(NAMES)}" for words, formula in columns.items())
        + "."
    )
