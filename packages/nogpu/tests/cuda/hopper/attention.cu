extern "C" __global__ void __launch_bounds__(128)
k(const __grid_constant__ Map Q, const __grid_constant__ Map K, const __grid_constant__ Map V,
  const __grid_constant__ Map O, int keys)
{
    __shared__ __align__(1024) unsigned char q[64 * 32], key[16 * 32], v[16 * 32], o[64 * 32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) {
        bar_init(&bar, 1);
        bars_ready();
        bar_tx(&bar, sizeof q);
        tma2(q, &Q, &bar, 0, 0);
    }
    __syncthreads();
    bar_wait(&bar, 0);
    float sum[8] = {}, most[2] = {-1e30f, -1e30f}, total[2] = {};
    for (int j = 0, phase = 1; j < keys; j += 16, phase ^= 1) {
        if (threadIdx.x == 0) {
            bar_tx(&bar, sizeof key + sizeof v);
            tma2(key, &K, &bar, 0, j);
            tma2(v, &V, &bar, 0, j);
        }
        bar_wait(&bar, phase);
        float s[8];
        mma_begin();
        mma_qk(s, tile_at(q, 16, 256, 3), tile_at(key, 16, 256, 3), 0);
        mma_end();
        for (int h = 0; h < 2; ++h) {
            float top = most[h];
            for (int i = 0; i < 8; ++i) if (i / 2 % 2 == h) top = fmaxf(top, s[i]);
            for (int x = 1; x < 4; x *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, x));
            const float shrink = __expf(most[h] - top);
            total[h] *= shrink;
            for (int i = 0; i < 8; ++i) if (i / 2 % 2 == h) {
                sum[i] *= shrink;
                s[i] = __expf(s[i] - top);
                total[h] += s[i];
            }
            most[h] = top;
        }
        unsigned p[4];
        for (int i = 0; i < 4; ++i) {
            const __half2 two = __floats2half2_rn(s[2 * i], s[2 * i + 1]);
            p[i] = *reinterpret_cast<const unsigned*>(&two);
        }
        mma_begin();
        mma_pv(sum, p, tile_at(v, 512, 256, 3), 1);
        mma_end();
        __syncthreads();
    }
    for (int h = 0; h < 2; ++h)
        for (int x = 1; x < 4; x *= 2) total[h] += __shfl_xor_sync(~0u, total[h], x);
    unsigned r[4];
    for (int i = 0; i < 4; ++i) {
        const __half2 two = __floats2half2_rn(sum[2 * i] / total[i % 2], sum[2 * i + 1] / total[i % 2]);
        r[i] = *reinterpret_cast<const unsigned*>(&two);
    }
    const int lane = threadIdx.x % 32;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
        :: "r"(SMEM(o) + (threadIdx.x / 32 * 16 + lane % 16) * 32 + lane / 16 * 16),
           "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
            :: "l"(&O), "r"(SMEM(o)), "r"(0), "r"(0) : "memory");
        asm volatile("cp.async.bulk.commit_group;");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
