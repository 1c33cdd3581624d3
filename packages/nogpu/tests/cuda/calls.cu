typedef float (*Op)(float, float);
__device__ __noinline__ float sum(float a, float b) { return a + b; }
__device__ __noinline__ float product(float a, float b) { return a * b; }
__device__ __noinline__ float scaled(float a, float b) {
    float parts[4];
    for (int i = 0; i < 4; ++i) parts[(i + (int)b) % 4] = a * i;
    return parts[3] + b;
}
__device__ Op table[3] = {sum, product, scaled};
struct Shape {
    __device__ virtual float area(float x) const { return x; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape { __device__ __noinline__ float area(float x) const override { return x * x; } };
struct Frame : Shape {
    float edge;
    __device__ Frame(float e) : edge(e) {}
    __device__ __noinline__ float area(float x) const override { return twice(x) - edge; }
    __device__ virtual __noinline__ float twice(float x) const { return 2 * x; }
};
__device__ __noinline__ float measured(const Shape* s, float x) { return s->area(x); }

extern "C" __global__ void by_table(const float* x, float* y, int n) {
    int t = threadIdx.x;
    y[t] = table[t % n](x[t], 3.f);
}
extern "C" __global__ void chosen(const float* x, float* y, int n) {
    Op op = n > 2 ? sum : product;
    y[threadIdx.x] = op(x[threadIdx.x], 3.f);
}
extern "C" __global__ void by_object(const float* x, float* y, int n) {
    Square square;
    Frame frame(7.f);
    Shape plain;
    const Shape* all[3] = {&square, &frame, &plain};
    y[threadIdx.x] = measured(all[threadIdx.x % n], x[threadIdx.x]);
}
extern "C" __global__ void own_blocks(const float* x, float* y, int n) {
    float* p = (float*)malloc(4 * sizeof(float));
    for (int i = 0; i < n; ++i) p[i] = x[threadIdx.x] + i;
    y[threadIdx.x] = p[0] + p[n - 1];
    free(p);
}
extern "C" __global__ void one_block(const float* x, float* y, int n) {
    __shared__ float* tile;
    if (threadIdx.x == 0) tile = new float[256];
    __syncthreads();
    if (n != 1) tile[threadIdx.x] = x[threadIdx.x];
    if (n != 2) __syncthreads();
    y[threadIdx.x] = tile[threadIdx.x ^ 37];
    __syncthreads();
    if (threadIdx.x == 0) delete[] tile;
    __syncthreads();
    if (n == 3) y[threadIdx.x] = tile[threadIdx.x];
    if (n == 4 && threadIdx.x == 0) delete[] tile;
    if (n == 5 && threadIdx.x == 0) free((char*)y);
}
extern "C" __global__ void too_much(const float* x, float* y, int n) {
    float* p = (float*)malloc(n);
    y[threadIdx.x] = p != nullptr;
}
extern "C" __global__ void again_and_again(const float* x, float* y, int n) {
    float kept = 0;
    for (int i = 0; i < n; ++i) {
        float* p = new float[64];
        p[i % 64] = x[threadIdx.x];
        kept += p[i % 64];
        delete[] p;
    }
    y[threadIdx.x] = kept;
}
