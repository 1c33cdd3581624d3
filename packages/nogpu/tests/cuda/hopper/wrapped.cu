extern "C" __global__ void __launch_bounds__(128)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C)
{
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ __align__(1024) unsigned char a[64 * 32], b[16 * 32];
    #pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ Barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        ptx::fence_proxy_async(ptx::space_shared);
    }
    __syncthreads();
    Barrier::arrival_token token;
    if (threadIdx.x == 0) {
        u64* const native = cuda::device::barrier_native_handle(bar);
        const int zero[2] = {0, 0};
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, a, &A, zero, native);
        ptx::cp_async_bulk_tensor(ptx::space_cluster, ptx::space_global, b, &B, zero, native);
        token = cuda::device::barrier_arrive_tx(bar, 1, sizeof a + sizeof b);
    } else {
        token = bar.arrive();
    }
    bar.wait(cuda::std::move(token));
    float d[8] = {};
    mma_begin();
    mma_16(d, tile_at(a, 16, 256, 3), tile_at(b, 16, 256, 3), 1);
    mma_end();
    for (int j = 0; j < 8; ++j) C[sum_row(j) * 16 + sum_col(j)] = d[j];
}
