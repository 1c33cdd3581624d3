"""Which functions the generated code may call: the names that `ptx` emits and what they stand for.

`ptx` knows names only. A translated program is linked when it is about to run: its marshalled
Python is executed beside the functions listed here, NumPy's types, and the constants that it names.
"""

from __future__ import annotations

import marshal
from types import CodeType
from typing import Any

import numpy as np

from nogpu.emulator.machine import (
    access,
    arena,
    arith,
    asynchronous,
    atomics,
    bulk,
    calls,
    cluster_barriers,
    clusters,
    launch_control,
    mbarrier,
    ports,
    products,
    sync,
    tcgen05,
    tensor,
    tensor_memory,
    warp,
    warpgroup,
)
from nogpu.emulator.ptx.emit import constant_of_name
from nogpu.emulator.ptx.program import Program, block_name
from nogpu.emulator.ptx.sites import line_of_name

_FUNCTIONS = (
    # memory
    access.entry_param, access.load_param, access.store_param,
    access.load, access.store, access.is_space, access.unset_shown, access.local_unset,
    access.local_kept, atomics.atomic,
    asynchronous.copy_async, asynchronous.commit_group, asynchronous.wait_group,
    # mbarriers, calls
    mbarrier.init_barrier, mbarrier.end_barrier, mbarrier.arrive, mbarrier.async_arrive,
    mbarrier.pending_count, mbarrier.expect_bytes, mbarrier.arrive_expecting, mbarrier.complete_tx,
    bulk.load_box, bulk.store_box, bulk.load_row, bulk.store_row, bulk.pass_row,
    bulk.commit_bulk, bulk.wait_bulk, bulk.init_fence, bulk.proxy_fence,
    arena.device_malloc, arena.device_free, calls.call_function, calls.call_pointed,
    calls.print_formatted, calls.assert_failed, calls.trapped,
    # clusters
    clusters.map_rank, clusters.rank_of, clusters.of_the_first, cluster_barriers.cluster_arrive,
    # order, warps and matrices
    sync.fence, warp.sync_lanes, warp.whole_warps, warp.shuffle, warp.vote, warp.match_lanes,
    warp.elect_lane, warp.reduce_lanes,
    tensor.mma, tensor.wmma_load, tensor.wmma_store, tensor.load_matrix,
    tensor.store_matrix, tensor.transpose_matrix,
    warpgroup.whole_warpgroups, warpgroup.wgmma, products.wgmma_fence, products.wgmma_commit,
    products.wgmma_wait, products.sums_read, products.sums_written,
    tensor_memory.tensor_alloc, tensor_memory.tensor_dealloc, tensor_memory.relinquish,
    tensor_memory.tensor_load, tensor_memory.tensor_store, tensor_memory.tensor_wait,
    tensor_memory.loading_used, tensor_memory.tensor_fence, tcgen05.tensor_mma,
    tcgen05.tensor_commit, tcgen05.tensor_copy, tcgen05.tensor_shift, launch_control.try_cancel,
    launch_control.cancelled, launch_control.first_block,
    # integers
    arith.select, arith.div_int, arith.rem_int, arith.mulhi,
    arith.shift_left, arith.shift_right, arith.funnel, arith.extract, arith.insert,
    arith.clamped, arith.popcount, arith.leading_zeros, arith.find_leading,
    arith.reverse_bits, arith.permute, arith.logic3, arith.dot_bytes, arith.dot_halves,
    arith.sad, arith.saturate_int, arith.add_carry, arith.add_carry_in, arith.sub_borrow,
    arith.sub_borrow_in, arith.join16, arith.join32, arith.join_bytes, arith.pack16,
    arith.unpack16,
    # floats
    arith.fma16, arith.fma32, arith.fma32_exact, arith.fma32_mode, arith.fma64,
    arith.fma64_mode, arith.add32, arith.add64_mode, arith.mul32_mode, arith.mul64_mode,
    arith.div32, arith.div32_mode, arith.div64_mode, arith.sqrt64_mode, arith.directed,
    arith.in32, arith.flush, arith.flush_bf16, arith.saturate, arith.xor_signed,
    arith.fmin, arith.fmax, arith.minimum, arith.maximum,
    arith.reciprocal_root, arith.test_property, arith.half2, arith.bf16_value,
    arith.bf16_bits, arith.tf32_bits, arith.fp8_pair, arith.fp8_halves,
    arith.round_integral, arith.float_to_int, arith.int_to_f32, arith.int_to_f64,
    arith.int_to_odd, arith.f64_to_f16,
)  # fmt: skip

LINKED: dict[str, Any] = {
    "np": np,
    **{function.__name__: function for function in _FUNCTIONS},
    "mul": np.multiply,
    **{name: getattr(np, name) for name in ("absolute", "copysign", "isnan")},
    **{kind: np.dtype(kind) for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")},
    **{kind: np.dtype(kind) for kind in ("f2", "f4", "f8")},
}
"""What the generated code finds by name, beside its constants."""


_WEIGHT = 3  # bytes of a linked program for each of its marshalled Python, as tracemalloc counts


def give_functions(program: Program) -> Program:
    """Give every block of a translated program its function."""
    program.weight = _WEIGHT * sum(len(f.code) for f in program.functions.values())
    for function in program.functions.values():
        code = marshal.loads(function.code)
        names = {**LINKED, **ports.FUNCTIONS} if program.scalar else dict(LINKED)
        blocks = [one for one in code.co_consts if isinstance(one, CodeType)]
        for name in {name for block in blocks for name in block.co_names}:
            if (constant := constant_of_name(name)) is not None:
                names[name] = constant
            elif (line := line_of_name(name)) is not None:
                names[name] = line
        exec(code, names)
        for block in function.blocks.values():
            block.run = names[block_name(block.number)]
        function.code = b""
    return program
