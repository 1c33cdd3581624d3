// The core of 24_2_roles.cu: one thread copies, one multiplies, four warps store; a
// ring lies between.
// Whole tiles only: M is a multiple of 128, N of 256, K of 64.
#include "common/tcgen05.cuh"

using T = __nv_bfloat16;

extern "C" __global__ void
tensor_roles_core(const __grid_constant__ TensorMap A_map,
                  const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                  int K)
{
    constexpr int BM = 128, BN = 256, BK = BOX, STAGES = 4;
    struct Stage {
        T A_tile[BM * BK];
        T B_tile[BK * BN];
    };
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES], empty[STAGES];  // landed; may be filled again
    __shared__ Barrier complete;                     // all products of the tile
    __shared__ unsigned columns;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, warp = threadIdx.x / 32;
    if (warp == 0)
        tensor_alloc<BN>(&columns);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(&full[s], 1);   // who copies, and the bytes it announces
            barrier_init(&empty[s], 1);  // the products that read it
        }
        barrier_init(&complete, 1);
        barrier_init_fence();
    }
    __syncthreads();
    const unsigned sums = columns;
    RingPlace<STAGES> at;

    if (threadIdx.x == 128) {  // of warp 4: global to shared
        for (int k0 = 0; k0 < K; k0 += BK, at.advance()) {
            barrier_wait(&empty[at.stage], at.parity ^ 1);  // at once in round one
            Stage& stage = ring[at.stage];
            barrier_arrive_expect(&full[at.stage], sizeof(Stage));
            for (int m = 0; m < BM; m += BOX)
                tma_load(stage.A_tile + m * BK, &A_map, &full[at.stage], m0 + m,
                         k0);
            for (int n = 0; n < BN; n += BOX)
                tma_load(stage.B_tile + n * BK, &B_map, &full[at.stage], k0,
                         n0 + n);
        }
    } else if (threadIdx.x == 160) {  // of warp 5: shared to tensor memory
        for (int k0 = 0; k0 < K; k0 += BK, at.advance()) {
            barrier_wait(&full[at.stage], at.parity);
            tensor_fence_after();
            Stage& stage = ring[at.stage];
            for (int k = 0; k < BK; k += MMA_K)
                tensor_mma(sums, describe_a(stage.A_tile + k),
                           describe_b(stage.B_tile + k * BOX),
                           instruction<T>(BM, BN), k0 + k);
            tensor_commit(&empty[at.stage]);  // arrives when they have read it
        }
        tensor_commit(&complete);
    } else if (warp < 4) {  // tensor memory to registers to global
        barrier_wait(&complete, 0);
        tensor_fence_after();
        for (int n = 0; n < BN; n += 32) {
            float sum[32];
            tensor_load(sum, sums + n);
            tensor_load_wait();
            store_sums(C, M, N, m0 + threadIdx.x, n0 + n, sum);
        }
        tensor_fence_before();
    }
    __syncthreads();
    if (warp == 0)
        tensor_free<BN>(sums);
}
