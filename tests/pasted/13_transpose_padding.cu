#include <chrono>
#include <cuda_runtime.h>
#include <iostream>
#include <random>

constexpr int TILE_DIM = 32;
constexpr int BLOCK_ROWS = 8;

__global__ void transposeNoBankConflicts(float *odata, const float *idata, int width, int height) {
  __shared__ float tile[TILE_DIM][TILE_DIM + 1];
  int x = blockIdx.x * TILE_DIM + threadIdx.x;
  int y = blockIdx.y * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < width && y + j < height) tile[threadIdx.y + j][threadIdx.x] = idata[(y + j) * width + x];
  __syncthreads();
  x = blockIdx.y * TILE_DIM + threadIdx.x;
  y = blockIdx.x * TILE_DIM + threadIdx.y;
  for (int j = 0; j < TILE_DIM; j += BLOCK_ROWS)
    if (x < height && y + j < width) odata[(y + j) * height + x] = tile[threadIdx.x][threadIdx.y + j];
}

template <class F> double seconds(F &&f) {
  auto a = std::chrono::high_resolution_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::high_resolution_clock::now() - a).count();
}

int main() {
  std::mt19937 gen(1);
  std::uniform_real_distribution<float> dist(0, 1);
  std::cout << seconds([&] { transposeNoBankConflicts<<<dim3(1, 1), dim3(32, 8)>>>(nullptr, nullptr, 32, 32); }) << '\n';
}
