// kernels/06_tiled.cu in OpenCL C, step for step, for Oclgrind: python -m tests.bench_engines.
//
// A is M x K, B is K x N, C is M x N, all row-major. Work-group: TILE x TILE work-items.

#define TILE 16

__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void tiled(__global const float* A, __global const float* B, __global float* C, int M, int N, int K)
{
    __local float A_tile[TILE][TILE];
    __local float B_tile[TILE][TILE];

    const int tx = get_local_id(0);
    const int ty = get_local_id(1);
    const int row = get_group_id(1) * TILE + ty;
    const int col = get_group_id(0) * TILE + tx;

    __global const float* A_src = A + (size_t)row * K + tx;
    __global const float* B_src = B + (size_t)ty * N + col;

    const int a_end = row < M ? K - tx : 0;
    const int b_end = col < N ? K - ty : 0;

    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        A_tile[ty][tx] = k0 < a_end ? *A_src : 0.0f;
        B_tile[ty][tx] = k0 < b_end ? *B_src : 0.0f;
        barrier(CLK_LOCAL_MEM_FENCE);

        for (int k = 0; k < TILE; ++k) {
            sum += A_tile[ty][k] * B_tile[k][tx];
        }
        barrier(CLK_LOCAL_MEM_FENCE);

        A_src += TILE;
        B_src += (size_t)TILE * N;
    }

    if (row < M && col < N) {
        C[(size_t)row * N + col] = sum;
    }
}
