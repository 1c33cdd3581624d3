#include <cuda_runtime.h>
#include <math.h>
#include <stdlib.h>

typedef float real;
typedef struct { real x, y, z, m; } Body;

#define SOFTENING 1e-9f

__global__ void bodyForce(Body *p, real *fx, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    real Fx = 0.0f;
    for (int j = 0; j < n; j++) {
        real dx = p[j].x - p[i].x, dy = p[j].y - p[i].y, dz = p[j].z - p[i].z;
        real distSqr = dx * dx + dy * dy + dz * dz + SOFTENING;
        real invDist = rsqrtf(distSqr);
        Fx += dx * invDist * invDist * invDist;
    }
    fx[i] = Fx;
}

void randomizeBodies(real *data, int n) {
    for (int i = 0; i < n; i++) data[i] = 2.0f * (rand() / (real)RAND_MAX) - 1.0f;
}

int main(const int argc, const char **argv) {
    Body *buf = (Body *)malloc(4 * sizeof(Body));
    bodyForce<<<1, 32>>>(buf, 0, 4);
    free(buf);
}
