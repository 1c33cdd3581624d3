// What L2 delivers: every block takes in the same amount from a buffer that lies
// in L2, in one of three ways, and says how many clocks that took.
//
// The blocks, one an SM, form groups of `sharing` neighbours. A group has a region
// of its own, `sharing` times PART bytes, and each of its blocks takes in `chunks`
// chunks of it, in order and round and round. Block r of a group begins r * skew
// chunks further on: with skew 0 all of a group ask for the same bytes at about
// the same time. seen: for each block, the exclusive or of all 32-bit words that
// its loads brought, or that its last copied chunk holds.
#if __CUDA_ARCH__ >= 900
#include "common/cluster.cuh"
#include "common/tma.cuh"
#endif

constexpr int CHUNK = 32 * 1024;       // bytes that are asked for at a time
constexpr int PART = 128 * 1024;       // bytes of the buffer for each block
constexpr int PER_PART = PART / CHUNK;
constexpr int THREADS = 1024;

// Where a block's walk through its group's region begins, and how it goes on.
struct Stream {
    int first, at, length;

    // together: neighbours that take in every chunk at once, as one.
    __device__ __forceinline__ Stream(int sharing, int skew, int together)
        : first(blockIdx.x / sharing * sharing * PER_PART),
          length(sharing * PER_PART)
    {
        at = blockIdx.x % sharing / together * skew % length;
    }

    // The number of the next chunk in the whole buffer.
    __device__ __forceinline__ int next() {
        const int chunk = first + at;
        at = at + 1 == length ? 0 : at + 1;
        return chunk;
    }
};

// Loads of 16 bytes by all threads, past L1: eight of a thread under way.
extern "C" __global__ void __launch_bounds__(THREADS)
l2_loads(const uint4* data, int sharing, int skew, int chunks, long long* clocks,
         unsigned* seen)
{
    constexpr int LOADS = CHUNK / (THREADS * 16), AHEAD = 4;
    Stream stream(sharing, skew, 1);
    uint4 kept[AHEAD][LOADS];
    unsigned all = 0;
    __syncthreads();
    const long long began = clock64();
    for (int done = 0; done < chunks; done += AHEAD) {
        #pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            const uint4* from = data + size_t(stream.next()) * (CHUNK / 16);
            #pragma unroll
            for (int j = 0; j < LOADS; ++j) {
                kept[i][j] = __ldcg(from + j * THREADS + threadIdx.x);
            }
        }
        #pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            #pragma unroll
            for (int j = 0; j < LOADS; ++j) {
                const uint4 v = kept[i][j];
                all ^= v.x ^ v.y ^ v.z ^ v.w;
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        clocks[blockIdx.x] = clock64() - began;
    }
    atomicXor(&seen[blockIdx.x], all);
}

#if __CUDA_ARCH__ >= 900
#ifndef CLUSTER
#define CLUSTER 1  // neighbouring blocks that share each chunk by multicast
#endif
constexpr int STAGES = 3;    // chunks under way for each of the two askers
constexpr int ASKERS = 2;    // warps that ask, in turn
constexpr int BOXES = CHUNK / BOX_BYTES;
constexpr int BOXES_ACROSS = 16;  // boxes side by side in the matrix of l2_boxes

// Bulk copies of a chunk each: bytes in a row.
struct Bulk {
    const unsigned char* data;

    __device__ __forceinline__ void ask(unsigned char* to, Barrier* full, int chunk,
                                        int) const
    {
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%0], [%1], %2, [%3];" ::"r"(to_shared(to)),
            "l"(data + size_t(chunk) * CHUNK), "r"(CHUNK), "r"(to_shared(full))
            : "memory");
    }
};

// Boxes of a matrix, of which each block of a cluster asks for its part for all.
struct Boxes {
    const TensorMap* map;

    __device__ __forceinline__ void ask(unsigned char* to, Barrier* full, int chunk,
                                        int rank) const
    {
        constexpr unsigned short everyone = (1 << CLUSTER) - 1;
        #pragma unroll
        for (int i = 0; i < BOXES / CLUSTER; ++i) {
            const int of_chunk = rank * (BOXES / CLUSTER) + i;
            const int box = chunk * BOXES + of_chunk;
            tma_load_shared<CLUSTER>(to + of_chunk * BOX_BYTES, map, full,
                                     box / BOXES_ACROSS * BOX,
                                     box % BOXES_ACROSS * BOX, everyone);
        }
    }
};

template <typename Source>
__device__ __forceinline__ void by_copies(const Source& source, int sharing,
                                          int skew, int chunks, long long* clocks,
                                          unsigned* seen)
{
    extern __shared__ unsigned char shared[];
    __shared__ Barrier full[ASKERS][STAGES], empty[ASKERS][STAGES];
    unsigned char* const ring = swizzle_aligned(shared);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int rank = CLUSTER == 1 ? 0 : cluster_rank();
    if (threadIdx.x == 0) {
        for (int i = 0; i < ASKERS * STAGES; ++i) {
            barrier_init(&full[0][i], 1);
            barrier_init(&empty[0][i], CLUSTER);
        }
        barrier_init_fence();
    }
    cluster_sync();
    const long long began = clock64();
    if (lane == 0) {
        // Asks for chunks warp, warp + ASKERS, ...; waits STAGES behind.
        Stream stream(sharing, skew, CLUSTER);
        RingPlace<STAGES> asked, got;
        const int mine = chunks / ASKERS;
        for (int i = 0; i < mine + STAGES; ++i) {
            if (i >= STAGES) {
                barrier_wait(&full[warp][got.stage], got.parity);
                for (int block = 0; block < CLUSTER; ++block) {
                    if (CLUSTER == 1) {
                        barrier_arrive(&empty[warp][got.stage]);
                    } else {
                        barrier_arrive_remote(&empty[warp][got.stage], block);
                    }
                }
                got.advance();
            }
            if (i < mine) {
                int chunk = stream.next();
                for (int other = 1; other < ASKERS; ++other) {
                    const int next = stream.next();
                    chunk = warp == other ? next : chunk;
                }
                barrier_wait(&empty[warp][asked.stage], asked.parity ^ 1);
                Barrier* const barrier = &full[warp][asked.stage];
                barrier_arrive_expect(barrier, CHUNK);
                source.ask(ring + (warp * STAGES + asked.stage) * CHUNK, barrier,
                           chunk, rank);
                asked.advance();
            }
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        clocks[blockIdx.x] = clock64() - began;
    }
    // The last chunk of the last asker.
    const int last = (ASKERS - 1) * STAGES + (chunks / ASKERS - 1) % STAGES;
    const unsigned* words = reinterpret_cast<const unsigned*>(ring + last * CHUNK);
    unsigned all = 0;
    for (int i = threadIdx.x; i < CHUNK / 4; i += ASKERS * 32) {
        all ^= words[i];
    }
    atomicXor(&seen[blockIdx.x], all);
    cluster_sync();
}

#if CLUSTER == 1
extern "C" __global__ void __launch_bounds__(ASKERS * 32)
l2_bulk(const unsigned char* data, int sharing, int skew, int chunks,
        long long* clocks, unsigned* seen)
{
    by_copies(Bulk{data}, sharing, skew, chunks, clocks, seen);
}
#endif

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
    __launch_bounds__(ASKERS * 32)
l2_boxes(const __grid_constant__ TensorMap map, int sharing, int skew, int chunks,
         long long* clocks, unsigned* seen)
{
    by_copies(Boxes{&map}, sharing, skew, chunks, clocks, seen);
}
#endif
