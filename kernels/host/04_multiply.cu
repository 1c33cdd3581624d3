// A whole program around one kernel: allocate, copy in, launch, copy out, check,
// free.
//
//   nvcc -O3 -arch=sm_75 -Ikernels kernels/host/04_multiply.cu -o multiply
//   ./multiply 1000 700 500
//
// -arch names the GPU's compute capability: sm_75 is a T4. The kernel is the file
// that the book shows, tests and times; another of the same signature can take its
// place, with its own block and grid.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "04_naive.cu"

// Every call of the runtime returns an error code. Look at each one.
#define CHECK(call)                                                           \
    do {                                                                      \
        const cudaError_t error = (call);                                     \
        if (error != cudaSuccess) {                                           \
            const char* why = cudaGetErrorString(error);                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, why);     \
            std::exit(1);                                                     \
        }                                                                     \
    } while (0)

static int cdiv(int a, int b) { return (a + b - 1) / b; }

int main(int argc, char** argv)
{
    const int M = argc > 1 ? std::atoi(argv[1]) : 1000;
    const int N = argc > 2 ? std::atoi(argv[2]) : 700;
    const int K = argc > 3 ? std::atoi(argv[3]) : 500;
    if (M < 1 || N < 1 || K < 1) {
        std::fprintf(stderr, "usage: multiply M N K, each at least 1\n");
        return 2;
    }

    std::vector<float> A(size_t(M) * K), B(size_t(K) * N), C(size_t(M) * N);
    for (float& a : A) a = std::rand() / float(RAND_MAX) - 0.5f;
    for (float& b : B) b = std::rand() / float(RAND_MAX) - 0.5f;

    // Memory of the GPU. These pointers mean nothing to the CPU.
    float *A_gpu, *B_gpu, *C_gpu;
    CHECK(cudaMalloc(&A_gpu, A.size() * sizeof(float)));
    CHECK(cudaMalloc(&B_gpu, B.size() * sizeof(float)));
    CHECK(cudaMalloc(&C_gpu, C.size() * sizeof(float)));
    CHECK(cudaMemcpy(A_gpu, A.data(), A.size() * sizeof(float),
                     cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(B_gpu, B.data(), B.size() * sizeof(float),
                     cudaMemcpyHostToDevice));

    const dim3 block(BX, BY);
    const dim3 grid(cdiv(M, BX), cdiv(N, BY));  // x counts rows of C in this kernel

    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    float best = INFINITY;
    for (int run = 0; run < 5; ++run) {  // the first run pays for loading the code
        CHECK(cudaEventRecord(start));
        naive<<<grid, block>>>(A_gpu, B_gpu, C_gpu, M, N, K);
        CHECK(cudaGetLastError());  // what was wrong with the launch
        CHECK(cudaEventRecord(stop));
        CHECK(cudaEventSynchronize(stop));  // and what went wrong while it ran
        float ms;
        CHECK(cudaEventElapsedTime(&ms, start, stop));
        best = std::fmin(best, ms);
    }
    CHECK(cudaMemcpy(C.data(), C_gpu, C.size() * sizeof(float),
                     cudaMemcpyDeviceToHost));

    // Compare some elements with sums in double. Each may be off by a rounding a
    // step.
    int wrong = 0;
    for (int test = 0; test < 1000; ++test) {
        const int i = std::rand() % M, j = std::rand() % N;
        double sum = 0, size = 0;
        for (int k = 0; k < K; ++k) {
            const double term = double(A[size_t(i) * K + k]) * B[size_t(k) * N + j];
            sum += term;
            size += std::fabs(term);
        }
        const double off = std::fabs(C[size_t(i) * N + j] - sum);
        wrong += !(off <= 6e-8 * (K + 1) * size + 1e-30);  // NaN is wrong, too
    }
    std::printf("%d x %d x %d: %.3f ms, %.0f GFLOP/s, %d of 1000 elements wrong\n",
                M, N, K, best, 2.0 * M * N * K / best / 1e6, wrong);

    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(stop));
    CHECK(cudaFree(A_gpu));
    CHECK(cudaFree(B_gpu));
    CHECK(cudaFree(C_gpu));
    return wrong != 0;
}
