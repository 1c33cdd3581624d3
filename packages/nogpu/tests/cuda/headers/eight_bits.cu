// One warp for 16 x 8 elements of C: both formats of 8-bit floats in one product.
extern "C" __global__ void eight_bits(const float* A, const float* B, float* C, int M, int N, int K) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4, m0 = blockIdx.y * 16, n0 = blockIdx.x * 8;
    auto a_bits = [&](int m, int k) -> unsigned {
        float v = m < M && k < K ? A[m * K + k] : 0.f;
        return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3);
    };
    auto b_bits = [&](int k, int n) -> unsigned {
        float v = k < K && n < N ? B[k * N + n] : 0.f;
        return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2);
    };
    float c[4] = {};
    for (int k0 = 0; k0 < K; k0 += 32) {
        unsigned a[4] = {}, b[2] = {};
        for (int i = 0; i < 4; ++i)
            for (int e = 0; e < 4; ++e)
                a[i] |= a_bits(m0 + g + 8 * (i % 2), k0 + 4 * t + e + 16 * (i / 2)) << 8 * e;
        for (int i = 0; i < 2; ++i)
            for (int e = 0; e < 4; ++e) b[i] |= b_bits(k0 + 4 * t + e + 16 * i, n0 + g) << 8 * e;
        asm volatile(
            "mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {%0, %1, %2, %3}, "
            "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    for (int i = 0; i < 4; ++i) {
        int m = m0 + g + 8 * (i / 2), n = n0 + 2 * t + i % 2;
        if (m < M && n < N) C[m * N + n] = c[i];
    }
}
