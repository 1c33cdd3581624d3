#if defined(SMALL)
#define N 10
#else
#define N (1 << 10)
#endif
#define DIV(a, b) (((a) + (b) - 1) / (b))
namespace lab { template <int T, typename U> __global__ void tile(U* x, int n) {} }
template <class T> T* device(size_t count) {
    T* p = nullptr;
    cudaMalloc(&p, count * sizeof(T));
    cudaMemset(p, 0, count * sizeof(T));
    return p;
}
struct Pair { double a; char b; };
void launch(int which, double* x, int n) {
    switch (which) {
        case 0: { lab::tile<16><<<dim3(DIV(n, 16), 2), dim3{16, 16}, sizeof(Pair) * 4>>>(x, n); break; }
        case 1: lab::tile<32, double><<<DIV(n, 32), 32>>>(x + 8, n); break;
        default: exit(1);
    }
}
int main() {
    double* x = device<double>(N);
    int n = N;
    auto half = [&](int m) { return m / 2; };
    for (int which : {0, 1}) launch(which, x, half(n));
    int s = 1;
    while (s < n) s *= 2;
    lab::tile<8, double><<<s, 8>>>(x, s == n ? n : -1);
}
