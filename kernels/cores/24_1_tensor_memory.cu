// The core of 24_1_tensor_memory.cu: one thread copies and multiplies, the sums lie
// in tensor memory.
// Whole tiles only: M is a multiple of 128, N of 128, K of 64.
#include "common/tcgen05.cuh"

using T = __nv_bfloat16;

extern "C" __global__ void
tensor_memory_core(const __grid_constant__ TensorMap A_map,
                   const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                   int K)
{
    constexpr int BM = 128, BN = 128, BK = BOX;
    extern __shared__ unsigned char shared[];
    T* A_tile = reinterpret_cast<T*>(swizzle_aligned(shared));
    T* B_tile = A_tile + BM * BK;
    __shared__ Barrier landed, complete;  // the tiles, and their products
    __shared__ unsigned columns;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    if (threadIdx.x < 32)
        tensor_alloc<BN>(&columns);
    if (threadIdx.x == 0) {
        barrier_init(&landed, 1);
        barrier_init(&complete, 1);
        barrier_init_fence();
    }
    __syncthreads();

    const unsigned sums = columns;
    for (int k0 = 0, parity = 0; !threadIdx.x && k0 < K; k0 += BK, parity ^= 1) {
        // Global to shared.
        barrier_arrive_expect(&landed, (BM + BN) * BK * sizeof(T));
        for (int m = 0; m < BM; m += BOX)
            tma_load(A_tile + m * BK, &A_map, &landed, m0 + m, k0);
        for (int n = 0; n < BN; n += BOX)
            tma_load(B_tile + n * BK, &B_map, &landed, k0, n0 + n);
        barrier_wait(&landed, parity);

        // Shared to tensor memory, through the Tensor Cores.
        for (int k = 0; k < BK; k += MMA_K)
            tensor_mma(sums, describe_a(A_tile + k), describe_b(B_tile + k * BOX),
                       instruction<T>(BM, BN), k0 + k);
        tensor_commit(&complete);         // they arrive here when they are complete
        barrier_wait(&complete, parity);  // and have read the tiles
    }
    __syncthreads();  // one thread knows that the sums are complete; here all do
    tensor_fence_after();
    for (int n = 0; n < BN; n += 32) {  // tensor memory to registers to global
        float sum[32];
        tensor_load(sum, sums + n);
        tensor_load_wait();
        store_sums(C, M, N, m0 + threadIdx.x, n0 + n, sum);
    }
    tensor_fence_before();
    __syncthreads();  // everyone has loaded
    if (threadIdx.x < 32)
        tensor_free<BN>(sums);
}
