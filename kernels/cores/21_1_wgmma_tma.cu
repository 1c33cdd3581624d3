// The core of 21_1_wgmma_tma.cu: one thread copies, four warps multiply.
// Whole tiles only: M is a multiple of 128, N of 128, K of 64.
#include "common/wgmma.cuh"

using T = __nv_bfloat16;

extern "C" __global__ void
wgmma_tma_core(const __grid_constant__ TensorMap A_map,
               const __grid_constant__ TensorMap B_map, T* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = BOX;
    extern __shared__ unsigned char shared[];
    T* A_tile = reinterpret_cast<T*>(swizzle_aligned(shared));
    T* B_tile = A_tile + BM * BK;
    __shared__ Barrier landed;  // the tiles of this step are complete
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    if (threadIdx.x == 0) {
        barrier_init(&landed, 1);
        barrier_init_fence();
    }
    __syncthreads();

    float sum[BM / MMA_M][BN / 2];
    unsigned parity = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared: one thread announces the bytes and asks for the boxes.
        if (threadIdx.x == 0) {
            barrier_arrive_expect(&landed, (BM + BN) * BK * sizeof(T));
            for (int m = 0; m < BM; m += BOX)
                tma_load(A_tile + m * BK, &A_map, &landed, m0 + m, k0);
            for (int n = 0; n < BN; n += BOX)
                tma_load(B_tile + n * BK, &B_map, &landed, k0, n0 + n);
        }
        barrier_wait(&landed, parity);
        parity ^= 1;

        // Shared to registers, through the Tensor Cores.
        wgmma_boxes(sum, A_tile, B_tile, k0 > 0);
        wgmma_finish(sum);  // the products are complete
        __syncthreads();    // for all four warps: the tiles may be overwritten
    }
    for (int i = 0; i < BM / MMA_M; ++i)  // registers to global
        wgmma_store(C, M, N, m0 + i * MMA_M, n0, sum[i]);
}
