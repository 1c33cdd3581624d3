// Blackwell, step 1: one thread multiplies, and the sums lie in tensor memory.
//
// A block computes a 128 x BN tile of C. For each BK steps of k one thread asks the
// copy engine for the tiles of A and B, waits for their bytes, issues the products,
// and lets them arrive at a barrier when they are complete. At the end each warp
// loads its 32 rows of sums from tensor memory and stores them.
// New since 21_1_wgmma_tma.cu: tcgen05 in place of wgmma. No thread holds a sum
// while the products run, one thread issues what 128 issued together, and the
// tile's columns are allocated and freed.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// Block: 128 threads. Grid: cdiv(N, BN) x cdiv(M, 128).
#include "common/tcgen05.cuh"

#ifndef ELEMENT
#define ELEMENT __nv_bfloat16  // or half
#endif
#ifndef BN
#define BN 128  // columns of C a block
#endif

using T = ELEMENT;

constexpr int BM = TILE_LANES;
constexpr int BK = BOX;  // steps of k between barriers: one box
constexpr int TILE_BYTES = (BM + BN) * BK * sizeof(T);

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(BN == 64 || BN == 128 || BN == 256, "whole boxes, a power of two");

extern "C" __global__ void __launch_bounds__(WARPGROUP)
    tensor_memory(const __grid_constant__ TensorMap A_map,
                  const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                  int K)
{
    extern __shared__ unsigned char shared[];
    T* A_tile = reinterpret_cast<T*>(swizzle_aligned(shared));
    T* B_tile = A_tile + BM * BK;
    __shared__ Barrier landed;    // the tiles of this step are complete
    __shared__ Barrier complete;  // the products of this step are
    __shared__ unsigned columns;  // where the sums lie in tensor memory

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;

    if (warp == 0) {
        tensor_alloc<BN>(&columns);
    }
    if (threadIdx.x == 0) {
        barrier_init(&landed, 1);
        barrier_init(&complete, 1);
        barrier_init_fence();
    }
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    const unsigned sums = columns;

    if (threadIdx.x == 0) {
        unsigned parity = 0;
        for (int k0 = 0; k0 < K; k0 += BK) {
            // Global to shared: announce the bytes and ask for the boxes.
            barrier_arrive_expect(&landed, TILE_BYTES);
            for (int m = 0; m < BM; m += BOX) {
                tma_load(A_tile + m * BK, &A_map, &landed, m0 + m, k0);
            }
            for (int n = 0; n < BN; n += BOX) {
                tma_load(B_tile + n * BK, &B_map, &landed, k0, n0 + n);
            }
            barrier_wait(&landed, parity);

            // Shared to tensor memory, through the Tensor Cores. The first product
            // overwrites the sums.
            for (int k = 0; k < BK; k += MMA_K) {
                tensor_mma(sums, describe_a(A_tile + k),
                           describe_b(B_tile + k * BOX), instruction<T>(BM, BN),
                           k0 + k > 0);
            }
            tensor_commit(&complete);
            // The products have read the tiles: they may be overwritten.
            barrier_wait(&complete, parity);
            parity ^= 1;
        }
    }
    // One thread knows that the sums are complete; here all learn it.
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();

    // Tensor memory to registers to global.
    for (int n = 0; n < BN; n += 32) {
        float sum[32];
        tensor_load(sum, sums + n);
        tensor_load_wait();
        store_sums(C, M, N, m0 + threadIdx.x, n0 + n, sum);
    }
    tensor_fence_before();
    __syncthreads();
    if (warp == 0) {
        tensor_free<BN>(sums);
    }
}
