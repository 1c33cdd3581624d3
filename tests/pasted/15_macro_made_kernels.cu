#include <stdio.h>
#include <string.h>
#define DEFINE_SCALE(T, NAME)                                     \
  extern "C" __global__ void NAME(T* data, T factor, int n) {      \
    int i = blockIdx.x * blockDim.x + threadIdx.x;                 \
    if (i < n) data[i] *= factor;                                  \
  }

DEFINE_SCALE(float, scale_float)
DEFINE_SCALE(double, scale_double)

int main(int c, char** v) { if (c > 1 && !strcmp(v[1], "-d")) printf("double\n"); }
