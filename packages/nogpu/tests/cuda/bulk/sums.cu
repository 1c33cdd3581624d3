struct alignas(128) Map { char bytes[128]; };
using Number = TYPE;
extern "C" __global__ void k(const __grid_constant__ Map map, Number* rows, Number* y, int row, int col)
{
    __shared__ __align__(1024) Number box[8 * 64], line[64];
    const int t = threadIdx.x;
    for (int i = t; i < 8 * 64; i += 64) box[i] = Number(blockIdx.x + i % 50);
    line[t] = Number(blockIdx.x + t);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.OP.tile.bulk_group [%0, {%2, %3}], [%1];"
            :: "l"(&map), "r"((unsigned)__cvta_generic_to_shared(box)), "r"(col), "r"(row) : "memory");
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.WITH [%0], [%1], %2;"
            :: "l"(rows), "r"((unsigned)__cvta_generic_to_shared(line)), "r"((int)sizeof line) : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    LATER
}
