#include <iostream>
#include <vector>
#include <cstdlib>
#include <cuda_runtime.h>

typedef unsigned char ubyte;

class World {
  public:
    World(int w, int h) : width(w), height(h), cells(w * h) {}
    int width, height;
    std::vector<ubyte> cells;
};

__global__ void step(const ubyte *now, ubyte *next, uint worldWidth, uint worldHeight) {
    uint worldSize = worldWidth * worldHeight;
    for (uint cellId = __mul24(blockIdx.x, blockDim.x) + threadIdx.x; cellId < worldSize; cellId += blockDim.x * gridDim.x) {
        uint x = cellId % worldWidth;
        uint yAbs = cellId - x;
        uint xLeft = (x + worldWidth - 1) % worldWidth;
        uint xRight = (x + 1) % worldWidth;
        uint yAbsUp = (yAbs + worldSize - worldWidth) % worldSize;
        uint yAbsDown = (yAbs + worldWidth) % worldSize;
        uint alive = now[xLeft + yAbsUp] + now[x + yAbsUp] + now[xRight + yAbsUp] + now[xLeft + yAbs] + now[xRight + yAbs]
            + now[xLeft + yAbsDown] + now[x + yAbsDown] + now[xRight + yAbsDown];
        next[x + yAbs] = alive == 3 || (alive == 2 && now[x + yAbs]) ? 1 : 0;
    }
}

void print(const World &w) {
    for (int y = 0; y < w.height; ++y, std::cout << "\n")
        for (int x = 0; x < w.width; ++x) std::cout << (w.cells[y * w.width + x] ? '#' : '.');
}
