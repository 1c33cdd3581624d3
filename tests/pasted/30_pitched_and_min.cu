#include <algorithm>
#include <cuda_runtime.h>
#include <fstream>
#include <sstream>

__device__ static inline int clampi(int v, int lo, int hi) { return std::min(std::max(v, lo), hi); }

__global__ void blur(const uint8_t* src, size_t pitch, uint8_t* dst, int w, int h) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    int sum = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++) sum += src[clampi(y + dy, 0, h - 1) * pitch + clampi(x + dx, 0, w - 1)];
    dst[y * w + x] = static_cast<uint8_t>(sum / 9);
}

bool readPgm(const char* name, int& w, int& h) {
    std::ifstream in(name, std::ios::binary);
    std::string magic;
    return static_cast<bool>(in >> magic >> w >> h);
}
