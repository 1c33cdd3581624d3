#include <iostream>
using std::cout;
#define ROWS 6
#define RUN(kernel, ...) kernel<<<1, 32>>>(__VA_ARGS__)
struct Pair { float x[2]; };
struct Params { char tag; double scale; Pair shift; int n = 32; const float* add; };
__constant__ float weights[4];
__device__ int calls;
__device__ int log_[4] = {7, 7, 7, 7};
__global__ void count() { if (threadIdx.x == 0) log_[calls++] = 1; }
__global__ void use(Params p, float* out) {
    int i = threadIdx.x;
    if (i < p.n) out[i] = weights[i % 4] * (float)p.scale + p.shift.x[1] + log_[i % 4] + p.add[i];
}
__global__ void rows(const char* data, size_t pitch, float* out) {
    if (threadIdx.x < ROWS) out[threadIdx.x] = ((const float*)(data + threadIdx.x * pitch))[0];
}
template <typename T> class Buffer final {
    T* p_ = nullptr;
    size_t n_;
public:
    explicit Buffer(size_t n) : n_(n) { cudaMalloc(&p_, n_ * sizeof(T)); }
    ~Buffer() { cudaFree(p_); }
    T* get() const { return p_; }
    void clear() { cudaMemset(p_, 0, n_ * sizeof(T)); }
    void run(const Params& p) { RUN(use, p, p_); }
};
int main() {
    float w[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(weights, w, sizeof(w));
    int sms;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    cudaDeviceProp prop;
    cudaGetDeviceProperties(&prop, 0);
    Buffer<float> out(32), add(32);
    add.clear();
    count<<<1, 32>>>();
    count << <1, 64 >> > ();
    Params p;
    p.tag = 'x'; p.scale = 2; p.shift = {{5, 9}}; p.add = add.get();
    out.run(p);
    float *image, *first; size_t pitch;
    cudaMallocPitch((void**)&image, &pitch, 10 * sizeof(float), ROWS);
    cudaMalloc(&first, ROWS * sizeof(float));
    cudaMemcpy2D(image, pitch, w, 16, 16, 1, cudaMemcpyHostToDevice);
    rows<<<sms / prop.multiProcessorCount, prop.warpSize>>>((char*)image, pitch, first);
    cout << "done";
}
