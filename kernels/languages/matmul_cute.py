"""C = A B in CuTe DSL: one block a tile of C; a warp asks TMA, a warpgroup multiplies.

A is M x K, B is K x N, C is M x N, row-major, of bfloat16; sums are FP32. Any shape whose rows of
A and B are whole multiples of 16 bytes. CuTe writes B as N x K, so it is handed over transposed.
"""

import cutlass
from cutlass import cute, memory, pipeline, tensor_utils
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.utils import hopper_helpers as hopper

BM, BN, BK, STAGES = 128, 128, 64, 3
BF16, MAJOR = cutlass.BFloat16, tensor_utils.LayoutEnum


@cute.kernel
def matmul_kernel(a_atom: cute.CopyAtom, A: cute.Tensor, b_atom: cute.CopyAtom, B: cute.Tensor,
                  C: cute.Tensor, mma: cute.TiledMma, a_layout: cute.ComposedLayout,
                  b_layout: cute.ComposedLayout):  # fmt: skip
    thread, _, _ = cute.arch.thread_idx()
    col, row, _ = cute.arch.block_idx()
    smem = memory.SmemAllocator()
    barriers = smem.allocate_array(cutlass.Int64, 2 * STAGES)
    a_tile = smem.allocate_tensor(BF16, a_layout.outer, 1024, swizzle=a_layout.inner)
    b_tile = smem.allocate_tensor(BF16, b_layout.outer, 1024, swizzle=b_layout.inner)
    ring = pipeline.PipelineTmaAsync.create(
        num_stages=STAGES, barrier_storage=barriers, tx_count=(BM + BN) * BK * 2,
        producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
        consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, 4),
    )  # fmt: skip

    a_all = cute.local_tile(A, (BM, BK), (row, None))
    b_all = cute.local_tile(B, (BN, BK), (col, None))
    one = cute.make_layout(1)
    a_to, a_from = cpasync.tma_partition(
        a_atom, 0, one, cute.group_modes(a_tile, 0, 2), cute.group_modes(a_all, 0, 2)
    )
    b_to, b_from = cpasync.tma_partition(
        b_atom, 0, one, cute.group_modes(b_tile, 0, 2), cute.group_modes(b_all, 0, 2)
    )
    steps = cute.size(a_all, mode=[2])

    if thread >= 128:  # the producer warp
        full = pipeline.make_pipeline_state(pipeline.PipelineUserType.Producer, STAGES)
        for k in cutlass.range(steps):
            ring.producer_acquire(full)
            to = ring.producer_get_barrier(full)
            cute.copy(a_atom, a_from[None, k], a_to[None, full.index], tma_bar_ptr=to)
            cute.copy(b_atom, b_from[None, k], b_to[None, full.index], tma_bar_ptr=to)
            ring.producer_commit(full)
            full.advance()
    else:  # the warpgroup that multiplies
        mine = mma.get_slice(thread)
        a_frag = mma.make_fragment_A(mine.partition_A(a_tile))
        b_frag = mma.make_fragment_B(mine.partition_B(b_tile))
        c_mine = mine.partition_C(cute.local_tile(C, (BM, BN), (row, col)))
        places = cute.local_tile(cute.make_identity_tensor(C.shape), (BM, BN), (row, col))
        at = mine.partition_C(places)
        total = cute.make_rmem_tensor(c_mine.shape, cutlass.Float32)
        total.fill(0.0)
        mma.set(warpgroup.Field.ACCUMULATE, True)
        landed = pipeline.make_pipeline_state(pipeline.PipelineUserType.Consumer, STAGES)
        for _ in cutlass.range(steps):
            ring.consumer_wait(landed)
            warpgroup.fence()
            for i in cutlass.range_constexpr(BK // 16):
                part = (None, None, i, landed.index)
                cute.gemm(mma, total, a_frag[part], b_frag[part], total)
            warpgroup.commit_group()
            warpgroup.wait_group(0)
            ring.consumer_release(landed)
            landed.advance()
        for i in cutlass.range_constexpr(cute.size(total)):
            if cute.elem_less(at[i], C.shape):
                c_mine[i] = total[i].to(BF16)


@cute.jit
def matmul(A: cute.Tensor, B: cute.Tensor, C: cute.Tensor):
    """Launch it: what describes the boxes to TMA is made here, on the host."""
    k_major, mn_major = cute.nvgpu.OperandMajorMode.K, cute.nvgpu.OperandMajorMode.MN
    mma = hopper.make_trivial_tiled_mma(
        BF16, BF16, k_major, mn_major, cutlass.Float32, (1, 1, 1), (64, BN)
    )
    tile = (BM, BN, BK)
    a_layout = hopper.make_smem_layout_a(MAJOR.ROW_MAJOR, tile, BF16, STAGES)
    b_layout = hopper.make_smem_layout_b(MAJOR.COL_MAJOR, tile, BF16, STAGES)
    load = cpasync.CopyBulkTensorTileG2SOp()
    a_atom, A_map = cpasync.make_tiled_tma_atom(
        load, A, cute.slice_(a_layout, (None, None, 0)), (BM, BK)
    )
    b_atom, B_map = cpasync.make_tiled_tma_atom(
        load, B, cute.slice_(b_layout, (None, None, 0)), (BN, BK)
    )
    grid = (cute.ceil_div(C.shape[1], BN), cute.ceil_div(C.shape[0], BM), 1)
    matmul_kernel(a_atom, A_map, b_atom, B_map, C, mma, a_layout, b_layout).launch(
        grid=grid, block=(160, 1, 1)
    )


def built():
    """PTX for an H100, and what a launch has to know; without a GPU."""
    M, N, K = cute.sym_int(), cute.sym_int(divisibility=8), cute.sym_int(divisibility=8)

    def matrix(*shape, by=(1, 0)):
        return cute.runtime.make_fake_compact_tensor(BF16, shape, stride_order=by, assumed_align=16)

    done = cute.compile(matmul, matrix(M, K), matrix(N, K, by=(0, 1)), matrix(M, N))
    return {
        "version": cutlass.__version__,
        "ptx": done.__ptx__,
        "block": 160,
        "shared": 1024 + STAGES * (BM + BN) * BK * 2,
        "args": ["A_map", ["M", "K"], "B_map", ["N", "K"], ["C", "M", "N", "N64"], ["byte"]],
    }
