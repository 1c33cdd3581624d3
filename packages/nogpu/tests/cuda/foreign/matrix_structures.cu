struct View { int rows; int cols; int pitch; float* data; };
__device__ float at(const View v, int r, int c) {
    return r < v.rows && c < v.cols ? v.data[r * v.pitch + c] : 0.0f;
}
__device__ View part(View v, int r, int c, int edge) {
    View p;
    p.rows = min(edge, v.rows - r); p.cols = min(edge, v.cols - c);
    p.pitch = v.pitch; p.data = v.data + r * v.pitch + c;
    return p;
}
__global__ void mm(View a, View b, View c) {
    __shared__ float as[8][8], bs[8][8];
    const int x = threadIdx.x, y = threadIdx.y;
    View out = part(c, blockIdx.y * 8, blockIdx.x * 8, 8);
    float sum = 0;
    for (int k = 0; k < a.cols; k += 8) {
        as[y][x] = at(part(a, blockIdx.y * 8, k, 8), y, x);
        bs[y][x] = at(part(b, k, blockIdx.x * 8, 8), y, x);
        __syncthreads();
        for (int i = 0; i < 8; ++i) sum += as[y][i] * bs[i][x];
        __syncthreads();
    }
    if (y < out.rows && x < out.cols) out.data[y * out.pitch + x] = sum;
}
