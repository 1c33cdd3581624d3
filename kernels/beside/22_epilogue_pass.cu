// The epilogue as a launch of its own: what 22_epilogue.cu does to its sums, done
// to a product that lies in memory, rounded already.
//
// C and R are M x N of bfloat16, bias has N elements; rows of all three are as long
// as chunks of 8 elements (16 bytes). C is read and written in place.
// Block: 256 threads, a chunk each. Grid: enough of them.
#include "common/elements.cuh"
#include "common/epilogue.cuh"

constexpr int THREADS = 256;
using T = __nv_bfloat16;

extern "C" __global__ void __launch_bounds__(THREADS)
    epilogue_pass(uint4* C, const uint4* R, const uint4* bias, int M, int chunks)
{
    const size_t at = static_cast<size_t>(blockIdx.x) * THREADS + threadIdx.x;
    if (at >= static_cast<size_t>(M) * chunks) {
        return;
    }
    // Global to registers.
    uint4 c = C[at];
    const uint4 r = RESIDUAL ? R[at] : uint4();
    const uint4 b = BIAS ? bias[at % chunks] : uint4();
    unsigned* const pairs = &c.x;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        float two[2];
        #pragma unroll
        for (int e = 0; e < 2; ++e) {
            float x = unpacked(pairs[i], e, T());
            if (RESIDUAL) {
                x += unpacked((&r.x)[i], e, T());
            }
            two[e] = finished(x, unpacked((&b.x)[i], e, T()));
        }
        const __nv_bfloat162 pair = __floats2bfloat162_rn(two[0], two[1]);
        pairs[i] = reinterpret_cast<const unsigned&>(pair);
    }
    C[at] = c;  // registers to global
}
