"""Thread block clusters in the emulator: places, distributed shared memory, barriers, races."""

from __future__ import annotations

import numpy as np
import pytest

from nogpu import emulator
from nogpu.errors import ConfigError, EmulationError
from tests.test_emulator_link import line

HEAD = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
KERNEL = 'extern "C" __global__ void k'


def kernel(text):
    """A kernel from its parameters on."""
    return KERNEL + text


def grouped(body, more=""):
    """A kernel of a body below the header of the groups. more: its parameters after `out`.

    own: a thread's place in `out`; t: its number in the block.
    """
    return f"""{HEAD}{KERNEL}(int* out{more}) {{
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank(), ranks = cluster.num_blocks(), t = threadIdx.x;
    int* own = out + blockIdx.x * blockDim.x + t;
    {body}
}}
"""


def run(source, grid, block, *args, **options):
    return emulator.launch(source, "k", grid, block, [*args], arch="sm_90", **options)


def kinds(report):
    return {f.kind for f in report.findings}


def made(source, grid, block, *args, cluster=2, **options):
    """What a kernel writes into its first argument, one element a thread, and its report."""
    out = np.zeros((grid, block), np.int32)
    return out, run(source, grid, block, out, *args, cluster=cluster, **options)


def right(source, want, *args, **options):
    """Nothing is found, and each of the blocks wrote what is wanted, one element a thread."""
    out, report = made(source, *np.shape(want), *args, **options)
    assert report.ok, report.findings
    np.testing.assert_array_equal(out, want)


ONE_OR_ALL = pytest.mark.parametrize("lanes", [1, 1 << 16])
ORDERS = pytest.mark.parametrize("schedule", ["ascending", "permuted"])


PAIR = np.array([100, 0])[:, None] + (np.arange(64) ^ 1)
"""What two blocks of 64 read of each other: 100 times the rank and the thread, neighbours turned.
"""


# -- who is where --------------------------------------------------------------------------------

OF = ("cluster_cta", "cluster", "cluster_ncta", "ncluster")
REGISTERS = [
    *(f"{of}id.{axis}" for of in OF for axis in "xyz"),
    "cluster_ctarank",
    "cluster_nctarank",
]
READ = "".join(
    f'asm volatile("mov.u32 %0, %%{name};" : "=r"(v[{i}]));' for i, name in enumerate(REGISTERS)
)
PLACES = kernel("""(int* out) {
    unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned v[15];
    READ
    asm volatile("{.reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p;}"
                 : "=r"(v[14]));
    for (int i = 0; i < 15; ++i) out[b * 15 + i] = v[i];
}
""").replace("READ", READ)


def places(grid, size, explicit):
    rows = []
    for z, y, x in np.ndindex(*grid[::-1]):
        at = (x, y, z)
        inside = [i % c for i, c in zip(at, size, strict=True)]
        rank = (inside[2] * size[1] + inside[1]) * size[0] + inside[0]
        which = (i // c for i, c in zip(at, size, strict=True))
        clusters = (g // c for g, c in zip(grid, size, strict=True))
        rows.append([*inside, *which, *size, *clusters, rank, int(np.prod(size)), int(explicit)])
    return np.array(rows, np.int32)


@pytest.mark.parametrize(
    ("grid", "size"),
    [
        ((6, 1, 1), (2, 1, 1)),
        ((4, 6, 1), (2, 3, 1)),
        ((4, 4, 6), (2, 2, 2)),
        ((3, 4, 2), (1, 4, 2)),
        ((3, 2, 2), (1, 1, 1)),
        ((3, 1, 1), None),
    ],
)
@pytest.mark.parametrize("lanes", [1, 100, 1 << 16])
def test_ranks_and_ids_in_each_dimension(grid, size, lanes):
    want = places(grid, size or (1, 1, 1), size is not None)  # else each block is a cluster
    out = np.zeros_like(want)
    run(PLACES, grid, 1, out, cluster=size, lanes=lanes)
    np.testing.assert_array_equal(out, want)


def test_the_kernel_says_its_cluster_itself():
    source = PLACES.replace("void k", "void __cluster_dims__(2, 1, 1) k")
    want = places((4, 1, 1), (2, 1, 1), True)
    out = np.zeros_like(want)
    run(source, 4, 1, out)
    np.testing.assert_array_equal(out, want)
    run(source, 4, 1, out, cluster=2)
    with pytest.raises(ConfigError, match=r"cluster=\(4, 1, 1\).*\(2, 1, 1\)"):
        run(source, 4, 1, out, cluster=4)


def test_clusters_that_no_gpu_runs():
    out = np.zeros((20, 15), np.int32)
    with pytest.raises(ConfigError, match="no multiple of the cluster"):
        run(PLACES, 5, 1, out, cluster=2)
    with pytest.raises(ConfigError, match="16 blocks; 8 is the most"):
        run(PLACES, 16, 1, out, cluster=16)
    with pytest.raises(ConfigError, match="clusters come with sm_90"):
        plain = KERNEL + "(int* out) { out[0] = 1; }"
        emulator.launch(plain, "k", 4, 1, [out], arch="sm_80", cluster=2)
    with pytest.raises(ConfigError, match="whole numbers"):
        run(PLACES, 4, 1, out, cluster="two")


@pytest.mark.parametrize(
    ("grid", "size", "block"),
    [((8, 1, 1), (2, 1, 1), (5, 0, 0)), ((4, 6, 4), (2, 2, 2), (3, 5, 3))],
)
def test_a_sampled_block_brings_its_cluster(grid, size, block):
    out = np.full((int(np.prod(grid)), 15), -1, np.int32)
    report = run(PLACES, grid, 1, out, cluster=size, sample_blocks=[block])
    first = [at - at % c for at, c in zip(block, size, strict=True)]
    own = tuple(slice(at, at + c) for at, c in zip(first[::-1], size[::-1], strict=True))
    ran = np.zeros(grid[::-1], bool)
    ran[own] = True
    assert (out[:, 0] >= 0).tolist() == ran.reshape(-1).tolist()
    assert report.blocks_run == int(np.prod(size))


# -- distributed shared memory -------------------------------------------------------------------

SUM = grouped(
    """
    __shared__ int total;
    if (t == 0) total = 0;
    cluster.sync();
    int i = blockIdx.x * blockDim.x + t;
    int* first = cluster.map_shared_rank(&total, 0);
    if (i < n) atomicAdd(first, a[i]);
    cluster.sync();
    *own = *first;
    LAST
""",
    ", const int* a, int n",
)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("lanes", [1, 300, 1 << 16])
@ORDERS
def test_a_cluster_adds_up_in_the_memory_of_its_first_block(size, lanes, schedule):
    n, a = 16 * 70 - 3, np.arange(16 * 70, dtype=np.int32)
    sums = np.where(a < n, a, 0).reshape(16 // size, -1).sum(axis=1)
    want = np.repeat(sums, size * 70).reshape(16, 70)
    options = {"cluster": size, "lanes": lanes, "schedule": schedule}
    right(SUM.replace("LAST", "cluster.sync();"), want, a, n, **options)


def test_a_block_must_not_end_while_its_peers_read_it():
    out, report = made(SUM.replace("LAST", ""), 4, 32, np.ones(128, np.int32), 128)
    assert [(f.kind, f.line) for f in report.findings] == [("race", 15)]
    assert "may have ended" in report.findings[0].message
    np.testing.assert_array_equal(out, 64)


@pytest.mark.parametrize("before", ["total = 0;", "atomicAdd(first, a[i]);"])
def test_a_missing_cluster_barrier_is_a_race(before):
    sound = SUM.replace("LAST", "cluster.sync();")
    assert sound.count(f"{before}\n    cluster.sync();") == 1
    broken = sound.replace(f"{before}\n    cluster.sync();", f"{before}\n    __syncthreads();")
    _, report = made(broken, 4, 32, np.ones(128, np.int32), 128)
    assert "race" in kinds(report)
    assert "of the block of rank" in str(report.findings[0])
    assert "cluster.sync()" in str(report.findings[0])


SHIFT = kernel("""(unsigned* out, int step) {
    __shared__ WORD a[LENGTH];
    unsigned rank, ranks;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(ranks));
    unsigned own = (unsigned)__cvta_generic_to_shared(a + threadIdx.x), there, whose;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"((rank + step) % ranks));
    asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(whose) : "r"(there));
    STORE(there, rank * 100 + threadIdx.x);
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[2 * i + 1] = whose;
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    out[2 * i] = a[threadIdx.x];
}
""")
STORE = 'asm volatile("st.shared::cluster.{} [%0], %1;" :: "r"(at), "{}"(({})(v)) : "memory")'
STORES = {
    "unsigned": STORE.format("u32", "r", "unsigned"),
    "unsigned short": STORE.format("u16", "h", "unsigned short"),
    "unsigned long long": STORE.format("u64", "l", "unsigned long long"),
}


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("step", [0, 1, 3])
def test_stores_to_a_peer_of_each_width(kind, step):
    source = f"#define STORE(at, v) {STORES[kind]}\n" + SHIFT
    out = np.zeros((8, 40, 2), np.uint32)
    report = run(source, 8, 40, out, step, cluster=4, defines={"WORD": kind, "LENGTH": 40})
    assert report.ok, report.findings
    rank = np.arange(8)[:, None] % 4
    np.testing.assert_array_equal(out[..., 1], np.repeat((rank + step) % 4, 40, axis=1))
    np.testing.assert_array_equal(out[..., 0], (rank - step) % 4 * 100 + np.arange(40))


def test_addresses_of_a_peer_are_checked():
    source = f"#define STORE(at, v) {STORES['unsigned']}\n" + SHIFT

    def launch(changed, length):
        out, defines = np.zeros((2, 40, 2), np.uint32), {"WORD": "unsigned", "LENGTH": length}
        return run(changed, 2, 40, out, 1, cluster=2, defines=defines)

    past = launch(source, 38)
    assert "out-of-bounds" in kinds(past) and "past its end" in str(past.findings)
    between = source.replace('"r"(there), "r"', '"r"(there + 2), "r"')
    crooked = launch(between.replace("STORE(there,", "STORE(there + 2,"), 42)
    assert "misaligned" in kinds(crooked)
    nobody = launch(source.replace("(rank + step) % ranks", "rank + 7"), 40)
    assert "block of rank 7: its cluster has 2 block(s)" in str(nobody.findings)


def test_what_a_peer_has_not_written_is_uninitialised():
    source = grouped("""
    __shared__ int a[32];
    if (rank == WHO) a[t] = 5;
    cluster.sync();
    int v = 0;
    if (rank == 0) v = cluster.map_shared_rank(a, 1)[t];
    cluster.sync();
    *own = v;
""")
    right(source, [[5] * 32, [0] * 32], defines={"WHO": 1})
    assert kinds(made(source, 2, 32, defines={"WHO": 0})[1]) == {"uninitialised"}


def test_blocks_that_never_meet_are_a_cluster_too():
    """By the address alone: nothing else in this kernel says so."""
    source = grouped("""
    __shared__ int a[32];
    a[t] = t;
    __syncthreads();
    *own = cluster.map_shared_rank(a, rank ^ 1)[t];
""")
    findings = made(source, 2, 32)[1].findings
    assert [f.kind for f in findings] == ["race", "race"]
    assert "which may have ended by then" in findings[1].message


def test_one_load_for_own_and_remote_lanes():
    source = grouped(
        """
    __shared__ int a[64];
    a[t] = 1000 * rank + t;
    cluster.sync();
    // Lane by lane the own block, a peer, and global memory, by one generic pointer.
    const int* from = t % 3 == 2 ? g : cluster.map_shared_rank(a, (rank + t) % 3);
    int i = blockIdx.x * 64 + t;
    *own = from[t];
    cluster.sync();
    old[i] = atomicExch(cluster.map_shared_rank(a, (rank + 1) % 3) + t, 7);
    cluster.sync();
""",
        ", const int* g, int* old",
    )
    old, g = np.zeros((3, 64), np.int32), np.arange(64, dtype=np.int32) - 500
    t, rank = np.arange(64), np.arange(3)[:, None]
    right(source, np.where(t % 3 == 2, g, (rank + t) % 3 * 1000 + t), g, old, cluster=3)
    np.testing.assert_array_equal(old, (rank + 1) % 3 * 1000 + t)


def test_whose_memory_a_pointer_means():
    source = grouped("""
    __shared__ int a[4];
    a[0] = 1;
    int* peer = cluster.map_shared_rank(a, 1 - rank);
    int* again = cluster.map_shared_rank(peer, rank);
    out[blockIdx.x * 6] = __isShared(a) + 2 * __isClusterShared(a);
    out[blockIdx.x * 6 + 1] = __isShared(peer) + 2 * __isClusterShared(peer);
    out[blockIdx.x * 6 + 2] = cluster.query_shared_rank(peer);
    out[blockIdx.x * 6 + 3] = cluster.query_shared_rank(a);
    out[blockIdx.x * 6 + 4] = again == a;
    out[blockIdx.x * 6 + 5] = __isGlobal(peer) + 2 * __isShared(out) + 4 * __isClusterShared(out);
""")
    out = np.zeros((2, 6), np.int32)
    assert run(source, 2, 1, out, cluster=2).ok
    np.testing.assert_array_equal(out, [[3, 2, 1, 0, 1, 0], [3, 2, 0, 1, 1, 0]])


# -- barriers ------------------------------------------------------------------------------------

HAND = (
    '#include "common/cluster.cuh"\n'
    + KERNEL
    + """(int* out) {
    __shared__ Barrier full;
    __shared__ int a[64];
    if (threadIdx.x == 0) {
        barrier_init(&full, 2);
        barrier_init_fence();
    }
    cluster_sync();
    int rank = cluster_rank();
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"(to_shared(a + threadIdx.x)), "r"(rank ^ 1));
    asm volatile("st.shared::cluster.u32 [%0], %1;" :: "r"(there), "r"(rank * 100 + threadIdx.x ^ 1) : "memory");
    asm volatile("fence.acq_rel.cluster;" ::: "memory");
    MEET
    ClusterPlace<1, 2> place;
    place.arrive_at_peers(&full, threadIdx.x);
    WAIT
    out[blockIdx.x * 64 + threadIdx.x] = a[threadIdx.x];
    cluster_sync();
}
"""
)
WAITS = {"MEET": "__syncthreads();", "WAIT": "barrier_wait(&full, 0);"}


@ONE_OR_ALL
@ORDERS
def test_arrivals_at_the_mbarriers_of_peers(lanes, schedule):
    right(HAND, np.tile(PAIR, (3, 1)), lanes=lanes, schedule=schedule, defines=WAITS)


def test_who_does_not_wait_for_the_mbarrier_races():
    for cut in WAITS:
        assert kinds(made(HAND, 2, 64, defines=WAITS | {cut: ""})[1]) == {"race"}, cut


ROUND = """
    {   // once more round: each block hands its peer a slot back
        ClusterPlace<1, 2> place;
        place.arrive_at_peers(&full, threadIdx.x);
        AGAIN
    }
}
"""


ALONE = """
    int* own = out + blockIdx.x * 64 + threadIdx.x;
    if (threadIdx.x != 40) {
        *own += 1;
        return;
    }
    unsigned done;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 1; selp.u32 %0, 1, 0, p;}"
                 : "=r"(done) : "r"(to_shared(&full)) : "memory");
    *own = done;
"""


@ONE_OR_ALL
@ORDERS
def test_a_block_may_end_when_it_has_waited_for_what_its_peers_did_last(lanes, schedule):
    """By an mbarrier, which the blocks of a cluster need not meet for; an arrival is a use, too."""
    ends = HAND.rstrip().removesuffix("}").rstrip().removesuffix("cluster_sync();")
    how = {"lanes": lanes, "schedule": schedule}

    def after(last, **more):
        out, report = made(ends + last, 2, 64, defines=WAITS | more, **how)
        return out, [(f.kind, f.message) for f in report.findings]

    assert after("}")[1] == []
    assert after(ROUND, AGAIN="barrier_wait(&full, 1);")[1] == []
    # One thread that waits is enough: the block does not end before it.
    assert after(ROUND, AGAIN="if (threadIdx.x == 40) barrier_wait(&full, 1);")[1] == []
    # Nor does its warp hear of it: the others are at work meanwhile.
    out, quiet = after(ROUND, AGAIN=" ".join(ALONE.split()))
    assert quiet == [] and out[:, 40].tolist() == [1, 1]
    assert after(ROUND, AGAIN="cluster_sync();")[1] == []
    _, ((kind, message),) = after(ROUND, AGAIN="")
    assert kind == "race" and "may have ended by then" in message
    assert "arrives at an mbarrier in shared memory of block" in message


def test_an_mbarrier_that_nobody_of_the_peers_completes():
    arrive = "place.arrive_at_peers(&full, threadIdx.x);"
    lone = HAND.replace(arrive, f"if (rank == 0) {arrive}")
    _, report = made(lone, 2, 64, defines=WAITS)
    assert "divergent-barrier" in kinds(report)
    assert "1 of its 2 arrivals are missing" in str(report.findings)


SPLIT = grouped(
    """
    __shared__ int a[64];
    BEFORE
    __cluster_barrier_arrive();
    BETWEEN
    __cluster_barrier_wait();
    int v = cluster.map_shared_rank(a, (rank + 1) % ranks)[t ^ 1];
    g[blockIdx.x * 64 + t] = v;
    cluster.sync();
    *own = g[(blockIdx.x ^ 1) * 64 + t];
""",
    ", int* g",
)
WRITE = "a[threadIdx.x] = rank * 100 + threadIdx.x;"


@ORDERS
def test_what_comes_before_the_arrival_is_known_after_the_wait(schedule):
    g, want = np.zeros((4, 64), np.int32), np.tile(PAIR, (2, 1))
    early = {"BEFORE": WRITE, "BETWEEN": ""}
    right(SPLIT, want[[1, 0, 3, 2]], g, schedule=schedule, defines=early)
    np.testing.assert_array_equal(g, want)


@pytest.mark.parametrize("late", [True, False])
def test_what_comes_after_the_arrival_or_of_another_cluster_is_not(late):
    """Of global memory, too, the barrier orders what the blocks of a cluster do, alone."""
    beyond = SPLIT.replace("g[(blockIdx.x ^ 1) * 64", "g[(blockIdx.x ^ 2) * 64")
    where = {"BEFORE": "", "BETWEEN": WRITE} if late else {"BEFORE": WRITE, "BETWEEN": ""}
    g = np.zeros((4, 64), np.int32)
    _, report = made(SPLIT if late else beyond, 4, 64, g, defines=where)
    assert kinds(report) == {"race"}


COUNTED = grouped("""
    __shared__ int a[32], b[32];
    int lane = t & 31;
    if (t < 32) {
        a[lane] = rank * 100 + lane;
        FIRST
        b[lane] = 7;
    } else {
        SECOND
        *own = READ[lane ^ 1];
    }
    cluster.sync();
""")
ARRIVE = 'asm volatile("bar.arrive 1, 64;" ::: "memory");'
WAIT = 'asm volatile("bar.sync 1, 64;" ::: "memory");'


@ONE_OR_ALL
@ORDERS
def test_who_is_counted_at_a_named_barrier_hands_on_to_its_own_block(schedule, lanes):
    """bar.arrive in a cluster: blocks share the barrier's number, not the barrier."""

    def found(**cuts):
        defines = {"FIRST": ARRIVE, "SECOND": WAIT, "READ": "a"} | cuts
        out, report = made(COUNTED, 4, 64, schedule=schedule, lanes=lanes, defines=defines)
        if not cuts:
            np.testing.assert_array_equal(out[:, 32:], np.tile(PAIR[::-1, :32], (2, 1)))
        return kinds(report)

    assert not found()
    # What comes after the arrival is not handed on, nor what a peer's warp did before its own.
    assert found(READ="b") >= {"race"}
    assert found(READ="cluster.map_shared_rank(a, rank ^ 1)") >= {"race"}
    # Two that are counted open nothing for one who does not come there.
    assert found(SECOND="") >= {"race"}


def test_threads_that_have_left_count_as_arrived():
    source = grouped("""
    if (rank == 1 && t >= 32) return;
    cluster.sync();
    *own = 1;
""")
    right(source, np.arange(128).reshape(2, 64) < 96)


MISUSE = {
    "waits at the barrier of its cluster, where 64 of 128": (
        "if (threadIdx.x < 32) { ARRIVE; WAIT; } else { __syncthreads(); }"
    ),
    "arrives at the barrier of its cluster again": "ARRIVE; ARRIVE; WAIT;",
    "has not arrived there": "WAIT;",
}


@pytest.mark.parametrize("says", MISUSE)
def test_a_cluster_barrier_that_never_opens_or_is_misused(says):
    code = MISUSE[says]
    source = KERNEL + "(int* out) {\n" + code + "\nout[blockIdx.x * 64 + threadIdx.x] = 1;\n}"
    code = source.replace("ARRIVE", "__cluster_barrier_arrive()")
    out, report = made(code.replace("WAIT", "__cluster_barrier_wait()"), 2, 64)
    assert kinds(report) == {"divergent-barrier"}
    assert any(says in f.message for f in report.findings), report.findings
    assert out.all()


def test_a_relaxed_arrival_opens_the_barrier():
    source = KERNEL + "(int* out) {\nARRIVE; __cluster_barrier_wait();\nout[blockIdx.x] = 1;\n}"
    right(source.replace("ARRIVE", "__cluster_barrier_arrive_relaxed()"), np.ones((4, 1)))
    assert not made(source.replace("ARRIVE", ""), 4, 1)[1].ok


def test_blocks_of_a_cluster_go_round_a_loop_together():
    source = grouped(
        """
    __shared__ int a[2][32];
    int now = 0;
    a[0][t] = blockIdx.x;
    for (int i = 0; i < rounds; ++i) {
        cluster.sync();
        int v = cluster.map_shared_rank(&a[0][0], (rank + 1) % ranks)[now * 32 + t];
        now ^= 1;
        a[now][t] = v + 1;
    }
    cluster.sync();
    *own = a[now][t];
""",
        ", int rounds",
    )
    block = np.arange(8)[:, None] + np.zeros(32, int)
    right(source, block // 4 * 4 + (block % 4 + 5) % 4 + 5, 5, cluster=4)
    one_buffer = source.replace("now ^= 1;", "")  # who is fast overwrites what others still read
    assert "race" in kinds(made(one_buffer, 8, 32, 5, cluster=4)[1])


def test_findings_name_blocks_by_their_place_in_the_grid():
    """Clusters of 2 by 1 by 2 blocks, of which one in the middle has faults."""
    source = grouped("""
    __shared__ int a[64];
    bool here = blockIdx.x > 1 && blockIdx.y == 1 && blockIdx.z > 1;
    a[t] = 0;
    cluster.sync();
    if (here && rank == 1 && t == 33) cluster.map_shared_rank(a, 2)[17] = 1;
    if (here && rank == 3 && t == 9) out[8] = cluster.map_shared_rank(a, 2)[17];
    cluster.sync();
    if (here && rank == 1 && t == 33) out[5] = a[3];
    if (here && rank == 3 && t == 9) out[9] = out[5];
    cluster.sync();
    if (here && rank == 3 && t > 19) out[10 + t] = cluster.map_shared_rank(a, 1)[t];
""")
    report = run(source, (4, 2, 4), 40, np.zeros(64, np.int32), cluster=(2, 1, 2))
    met = ((9, 0, 0), (33, 0, 0))
    found = {(f.array, f.index, f.threads, f.block, f.count): f.message for f in report.findings}
    first = (2, 1, 2)
    texts = {
        ("a", "a[17]", met, first, 1): ("9, 0, 0) of the block of rank 3", "33, 0, 0) of the block of rank 1"),
        ("out", "out[5]", met, first, 1): ("9, 0, 0) of block (3, 1, 3)", "33, 0, 0) of block (3, 1, 2)"),
        ("shared", "", ((20, 0, 0),), (3, 1, 3), 20): ("memory of block (3, 1, 2), which may",),
    }  # fmt: skip
    assert found.keys() == texts.keys(), report
    for fact, words in texts.items():
        assert all(text in found[fact] for text in words), found[fact]


# -- flags ---------------------------------------------------------------------------------------

FLAG = grouped("""
    __shared__ int a[1], flag[1];
    if (t == 0) flag[0] = 0;
    cluster.sync();
    if (t == 0 && rank == 0) {
        unsigned f = (unsigned)__cvta_generic_to_shared(flag), there;
        cluster.map_shared_rank(a, 1)[0] = 5;
        asm volatile("mapa.shared::cluster.u32 %0, %1, 1;" : "=r"(there) : "r"(f));
        asm volatile("st.SET.cluster.shared::cluster.u32 [%0], 1;" :: "r"(there) : "memory");
    }
    if (t == 0 && rank == 1) {
        unsigned f = (unsigned)__cvta_generic_to_shared(flag), v;
        do {
            asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];" : "=r"(v) : "r"(f) : "memory");
        } while (v == 0);
        *own = a[0];
    }
    cluster.sync();
""")


@ONE_OR_ALL
def test_a_flag_in_the_memory_of_a_peer_hands_on_what_was_stored(lanes):
    want = np.zeros((6, 64))
    want[1::2, 0] = 5
    right(FLAG.replace("SET", "release"), want, lanes=lanes)
    assert kinds(made(FLAG.replace("SET", "relaxed"), 6, 64)[1]) == {"race"}


@ONE_OR_ALL
def test_a_block_may_end_when_a_flag_says_that_its_peer_is_done(lanes):
    sets = FLAG.replace("SET", "release")
    ends = sets.rstrip().removesuffix("}").rstrip().removesuffix("cluster.sync();") + "}"
    assert made(ends, 2, 64, lanes=lanes)[1].ok
    again = "cluster.map_shared_rank(a, 1)[1] = 6;"
    late = ends.replace('"memory");\n    }', f'"memory");\n        {again}\n    }}', 1)
    assert late != ends
    _, report = made(late.replace("a[1], flag", "a[2], flag"), 2, 64)
    assert [f.kind for f in report.findings] == ["race"]
    assert "writes shared memory of block (1, 0, 0), which may have ended" in str(report.findings)


def test_flags_in_global_memory_order_blocks_of_other_clusters_too():
    source = kernel("""(int* data, volatile int* flag, int* out) {
    if (threadIdx.x == 0 && blockIdx.x == 1) {
        data[0] = 7;
        FENCE
        flag[0] = 1;
    }
    if (threadIdx.x == 0 && blockIdx.x == 2) {
        while (flag[0] == 0) {}
        __threadfence();
        out[0] = data[0];
    }
    __cluster_barrier_arrive();
    __cluster_barrier_wait();
    if (blockIdx.x == 3 && threadIdx.x == 0) out[1] = data[0];
}
""")
    for fence, found in (("__threadfence();", set()), ("", {"race"})):
        data, flag, out = (np.zeros(2, np.int32) for _ in range(3))
        report = run(source, 4, 32, data, flag, out, cluster=2, defines={"FENCE": fence})
        assert kinds(report) == found and (found or out.tolist() == [7, 7])


def test_atomics_on_one_place_count_each_thread_of_the_cluster_once():
    source = grouped("""
    __shared__ unsigned long long count;
    if (t == 0) count = 0;
    cluster.sync();
    unsigned long long old = atomicAdd(cluster.map_shared_rank(&count, 1), 1ull);
    *own = old;
    cluster.sync();
""")
    out, report = made(source, 4, 70)
    assert report.ok, report.findings
    for pair in out.reshape(2, -1):
        assert sorted(pair.tolist()) == list(range(140))


def test_requests_to_peers_are_counted():
    source = grouped("""
    __shared__ int a[64];
    a[t] = t;
    cluster.sync();
    *own = cluster.map_shared_rank(a, rank ^ 1)[t];
    cluster.sync();
""")
    _, report = made(source, 4, 64)
    (row,) = (a for a in report.accesses if a.line == 11 and a.space == "shared")
    assert (row.requests, row.wavefronts, row.bytes, row.array) == (8, 8, 1024, "a")


# -- what is refused -----------------------------------------------------------------------------


def test_what_no_block_may_do_to_another():
    code = (
        "(int* out) { __shared__ long long b; unsigned s = (unsigned)__cvta_generic_to_shared(&b);"
        ' asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%0], 1, [%0];"'
        ' :: "r"(s)); }'
    )
    with pytest.raises((EmulationError, ConfigError), match="async"):
        made(kernel(code), 2, 32)


@pytest.mark.parametrize(
    "at", ["mbarrier.init.{}.b64 [a], 32", "mbarrier.test_wait.parity.{}.b64 p, [a], b"]
)
def test_mbarriers_of_a_peer_can_only_be_arrived_at(at):
    """As ptxas, which clang does not ask."""
    line(at.format("shared::cta"))
    with pytest.raises(EmulationError, match="own shared memory alone"):
        line(at.format("shared::cluster"))
