"""The counters of Nsight Compute that the emulator counts, too, by the names that it gives them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

COUNTED: Mapping[str, str] = MappingProxyType(
    {
        "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
        "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        "shared_load_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "shared_store_conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
        "shared_load_instructions": "smsp__inst_executed_op_shared_ld.sum",
        "shared_store_instructions": "smsp__inst_executed_op_shared_st.sum",
    }
)
"""Our name of a counter: ncu's. Of warps: requests, 32-byte sectors, wavefronts, conflicts."""
