// One tile of 16 lanes for each element of C.
extern "C" __global__ void group_dot(const float* A, const float* B, float* C, int M, int N, int K) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int element = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (element >= M * N) return;
    int m = element / N, n = element % N;
    float sum = 0;
    for (int k = tile.thread_rank(); k < K; k += tile.size()) sum += A[m * K + k] * B[k * N + n];
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) C[element] = sum;
}
