// Matrices with their shapes.
extern "C" __global__ void with_shapes(const float* A, const float* B, float* C, int M, int N, int K) {
    using matrix = cuda::std::mdspan<float, cuda::std::dextents<int, 2>>;
    using constant = cuda::std::mdspan<const float, cuda::std::dextents<int, 2>>;
    using tile = cuda::std::mdspan<float, cuda::std::extents<int, 16, 16>>;
    constant a(A, M, K), b(B, K, N);
    matrix c(C, M, N);
    __shared__ float a_data[256], b_data[256];
    tile a_tile(a_data), b_tile(b_data);
    int i = threadIdx.y, j = threadIdx.x, m = blockIdx.y * 16 + i, n = blockIdx.x * 16 + j;
    float sum = 0;
    for (int k0 = 0; k0 < a.extent(1); k0 += 16) {
        a_tile(i, j) = m < a.extent(0) && k0 + j < a.extent(1) ? a(m, k0 + j) : 0.f;
        b_tile(i, j) = k0 + i < b.extent(0) && n < b.extent(1) ? b(k0 + i, n) : 0.f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum += a_tile(i, k) * b_tile(k, j);
        __syncthreads();
    }
    if (m < c.extent(0) && n < c.extent(1)) c(m, n) = sum;
}
