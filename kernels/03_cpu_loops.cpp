// The triple loop on a CPU, in three orders of the same three loops.
//
// All three add the same M * N * K products. They differ in which index moves in the
// innermost loop, and so in how far apart in memory its accesses are:
//   ijk  k moves: A along a row, B down a column (N floats apart), one element of C
//   ikj  j moves: B along a row, C along a row, one element of A
//   jki  i moves: A down a column (K floats apart), C down a column (N apart), one
//        element of B
//
// A is M x K, B is K x N, C is M x N, all row-major. C is overwritten.

#include <cstddef>

using std::size_t;

extern "C" void matmul_ijk(const float* A, const float* B, float* C,
                           int M, int N, int K)
{
    for (int i = 0; i < M; ++i) {
        for (int j = 0; j < N; ++j) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) {
                sum += A[size_t(i) * K + k] * B[size_t(k) * N + j];
            }
            C[size_t(i) * N + j] = sum;
        }
    }
}

static void clear(float* C, int M, int N)
{
    for (size_t e = 0; e < size_t(M) * N; ++e) {
        C[e] = 0.0f;
    }
}

extern "C" void matmul_ikj(const float* A, const float* B, float* C,
                           int M, int N, int K)
{
    clear(C, M, N);  // the sums grow in C itself, so they start from zero
    for (int i = 0; i < M; ++i) {
        for (int k = 0; k < K; ++k) {
            const float a = A[size_t(i) * K + k];
            for (int j = 0; j < N; ++j) {
                C[size_t(i) * N + j] += a * B[size_t(k) * N + j];
            }
        }
    }
}

extern "C" void matmul_jki(const float* A, const float* B, float* C,
                           int M, int N, int K)
{
    clear(C, M, N);
    for (int j = 0; j < N; ++j) {
        for (int k = 0; k < K; ++k) {
            const float b = B[size_t(k) * N + j];
            for (int i = 0; i < M; ++i) {
                C[size_t(i) * N + j] += A[size_t(i) * K + k] * b;
            }
        }
    }
}
