#include <cuda.h>
#include <cuda_bf16.h>
typedef __nv_bfloat16 bf16;
namespace one {
template <int R, int C> __host__ static CUtensorMap encode(bf16* p, int rows, int columns) {
    CUtensorMap map;
    uint64_t sizes[3] = {64, (uint64_t)rows, (uint64_t)columns / 64};
    uint64_t strides[3] = {sizeof(bf16), sizeof(bf16) * columns, 64 * sizeof(bf16)};
    uint32_t box[3] = {64, R, C / 64}, step[3] = {1, 1, 1};
    CUresult r = cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3, p, sizes, strides + 1,
        box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    assert(r == CUDA_SUCCESS);
    return map;
}
__global__ void copy(const __grid_constant__ CUtensorMap map, unsigned short* out) {
    __shared__ alignas(128) unsigned short tile[ROWS * 128];
    __shared__ alignas(8) uint64_t bar;
    unsigned b = __cvta_generic_to_shared(&bar), t = __cvta_generic_to_shared(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(b));
        asm volatile("fence.proxy.async;" ::: "memory");
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(b), "r"(ROWS * 256));
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [%0], [%1, {%3, %3, %3}], [%2];" :: "r"(t), "l"(&map), "r"(b), "r"(0) : "memory");
    }
    __syncthreads();
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;"
        " @!p bra W; }" :: "r"(b) : "memory");
    for (int i = threadIdx.x; i < ROWS * 128; i += blockDim.x) out[i] = tile[i];
}
void run(bf16* p, unsigned short* out) { CUtensorMap m = encode<ROWS, 128>(p, 32, 128); copy<<<1, 64>>>(m, out); }
}  // namespace one
using one::run;
int main() {
    bf16* p; unsigned short* out;
    cudaMalloc(&p, 32 * 128 * sizeof(bf16));
    cudaMemcpy(p, host, 32 * 128 * sizeof(bf16), cudaMemcpyHostToDevice);
    cudaMalloc(&out, ROWS * 128 * 2);
    run(p, out);
}
