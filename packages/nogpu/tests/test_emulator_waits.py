"""Threads that wait in a loop: who gets on, what is a deadlock, and how far blocks run together."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_kernels import cuda, locate
from foreign_waits import KERNELS

from nogpu import emulator
from nogpu.emulator.launching import run
from nogpu.emulator.observe import clock

CHAIN = """
extern "C" __global__ void chain(volatile int* turn, int* seen, int step)
{
    if (threadIdx.x == 0) {
        int before = blockIdx.x - step;
        if (before >= 0 && before < gridDim.x) {
            while (turn[before] == 0) {
            }
        }
        seen[blockIdx.x] = clock();
        turn[blockIdx.x] = 1;
    }
}
"""


def chain(blocks, step, **options):
    """Each block waits for the one `step` below it; the report, and which of them got through."""
    turn, seen = np.zeros(blocks, np.int32), np.full(blocks, -1, np.int32)
    report = emulator.launch(CHAIN, "chain", blocks, 32, [turn, seen, step], **options)
    return report, turn


@pytest.mark.parametrize("schedule", run.SCHEDULES)
@pytest.mark.parametrize(("step", "lanes"), [(1, run.LANES), (1, 64), (1, 32), (-1, run.LANES)])
def test_a_block_may_wait_for_a_lower_one_or_a_higher_one_of_its_batch(step, lanes, schedule):
    report, turn = chain(20, step, lanes=lanes, schedule=schedule)
    assert report.ok, report
    assert turn.all()


def test_a_block_that_waits_for_one_not_started_is_told_so():
    report, turn = chain(20, -1, lanes=96)
    (found,) = report.findings
    assert found.kind == "deadlock"
    assert found.line == 7
    assert found.block == (0, 0, 0)
    assert "17 blocks of higher index have not been started" in found.message
    assert "runs 3 blocks of this kernel at a time" in found.message
    assert not turn.any()


def test_a_sample_of_blocks_that_waits_for_another_ends():
    report, _ = chain(20, 1, sample_blocks=[(3, 0, 0), (4, 0, 0)])
    (found,) = report.findings
    assert found.kind == "deadlock"
    assert "Only a sample of the blocks was run" in found.message
    report, turn = chain(20, 1, sample_blocks=[(0, 0, 0), (1, 0, 0)])
    assert report.ok
    assert turn.sum() == 2


def test_a_grid_barrier_takes_a_grid_that_the_gpu_holds():
    kernel = KERNELS["grid_barrier"]
    report, got, want = kernel.run(kernel.source, 9, 9, 9, grid=640)  # a T4: 40 SMs, 16 blocks each
    assert report.ok, report
    np.testing.assert_array_equal(got, want)
    report, got, want = kernel.run(kernel.source, 9, 9, 9, grid=641)
    (found,) = report.findings
    assert found.kind == "deadlock"
    assert "a Tesla T4 holds at most 640 blocks of this kernel at a time" in found.message
    assert (got != want).any()
    report, *_ = kernel.run(kernel.source, 9, 9, 9, grid=641, arch="sm_90")
    assert report.ok, report


def test_a_wait_with_a_limit_goes_on_when_it_has_run_out_and_one_that_only_counts_does_not():
    source = """
    extern "C" __global__ void k(volatile int* flag, int* tries)
    {
        int n = 0;
        while (*flag == 0 LIMIT) ++n;
        tries[threadIdx.x] = n;
    }
    """
    tries = np.zeros(32, np.int32)
    args = [np.zeros(1, np.int32), tries]
    assert emulator.launch(source.replace("LIMIT", "&& n < 500"), "k", 1, 32, args).ok
    assert (tries == 500).all()
    (found,) = emulator.launch(source.replace("LIMIT", ""), "k", 1, 32, args).findings
    assert (found.kind, found.line) == ("deadlock", 5)


def test_the_first_block_that_waits_is_named_and_all_threads_are_counted():
    source = """
    extern "C" __global__ void k(volatile int* flag)
    {
        if (blockIdx.x) {
            if (threadIdx.x % 32 > 1) while (*flag == 0) { }
            if (threadIdx.x % 32 == 1) __syncwarp();
            __syncthreads();
        }
    }
    """
    (found,) = emulator.launch(source, "k", 3, 64, [np.zeros(1, np.int32)]).findings
    assert (found.kind, found.line, found.block) == ("deadlock", 5, (1, 0, 0))
    first = "thread (2, 0, 0) of block (1, 0, 0) and 119 more in the loop at line 5; thread ("
    assert f"all threads that are left wait: {first}" in found.message
    assert "(1, 0, 0) of block (1, 0, 0) and 3 more for their warp at line 6" in found.message
    assert "(0, 0, 0) of block (1, 0, 0) and 3 more at the barrier of line 7" in found.message


def test_who_waits_is_said_where_the_steps_are_used_up():
    source = """
    extern "C" __global__ void k(volatile int* flag, volatile int* out)
    {
        if (threadIdx.x < 32) while (*flag == 0) { }
        for (int i = 0; i < 1 << 20; ++i) out[threadIdx.x] += i;
    }
    """
    arrays = [np.zeros(1, np.int32), np.zeros(64, np.int32)]
    (found,) = emulator.launch(source, "k", 1, 64, arrays, max_steps=5000).findings
    assert (found.kind, found.line) == ("step-budget", 5)
    assert found.message.endswith(
        "give a larger max_steps. Waiting: thread (0, 0, 0) of block (0, 0, 0) and 31 more in the"
        " loop at line 4"
    )


@pytest.mark.parametrize("schedule", run.SCHEDULES)
def test_lanes_do_not_run_ahead_of_one_that_polls_for_them(schedule):
    source = """
    extern "C" __global__ void k(volatile int* flag, const int* data, int* out)
    {
        if (blockIdx.x == 1) {
            if (threadIdx.x == 0) { ((int*)data)[0] = 42; __threadfence(); *flag = 1; }
            return;
        }
        if (threadIdx.x == 0) while (*flag == 0) { }
        SYNC
        __threadfence();
        out[threadIdx.x] = *(volatile const int*)data;
    }
    """
    for sync in ("__syncwarp();", "__shfl_sync(0xffffffff, 1, 0);", "__syncthreads();"):
        out = np.zeros(32, np.int32)
        arrays = [np.zeros(1, np.int32), np.zeros(1, np.int32), out]
        report = emulator.launch(
            source.replace("SYNC", sync), "k", 2, 32, arrays, schedule=schedule
        )
        assert report.ok, report
        assert (out == 42).all(), sync


def test_lanes_that_the_mask_does_not_name_are_not_waited_for():
    source = """
    extern "C" __global__ void k(volatile int* flag, int* out)
    {
        if (threadIdx.x < 16) {
            while (*flag == 0) { }
        } else {
            __syncwarp(0xffff0000);
            int sum = __reduce_add_sync(0xffff0000, 1);
            __threadfence();
            if (threadIdx.x == 16) *flag = sum;
        }
        __syncwarp();
        out[threadIdx.x] = *flag;
    }
    """
    out = np.zeros(32, np.int32)
    report = emulator.launch(source, "k", 1, 32, [np.zeros(1, np.int32), out], arch="sm_80")
    assert report.ok, report
    assert (out == 16).all()


LOCKED = """
__device__ __noinline__ void lock(int* m) { while (atomicCAS(m, 0, 1) != 0) { } __threadfence(); }
__device__ __noinline__ void unlock(int* m) { __threadfence(); atomicExch(m, 0); }
__device__ __noinline__ int swap(int t) { return __shfl_sync(0xffffffff, t, 31 - t % 32); }
extern "C" __global__ void k(int* m, volatile int* n, int* out)
{
    int t = threadIdx.x;
    lock(m);
    *n = *n + 1;
    unlock(m);
    out[t] = SWAP;
}
"""


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("swap", ["swap(t)", "__shfl_sync(0xffffffff, t, 31 - t % 32)"])
def test_lanes_come_together_again_after_a_lock_in_a_function(schedule, swap):
    count, out = np.zeros(1, np.int32), np.full(64, -1, np.int32)
    args = [np.zeros(1, np.int32), count, out]
    report = emulator.launch(LOCKED, "k", 1, 64, args, defines={"SWAP": swap}, schedule=schedule)
    assert report.ok and count == 64, report
    np.testing.assert_array_equal(out, np.arange(64).reshape(2, 32)[:, ::-1].ravel())
    twin = LOCKED.replace("    lock(m);\n", "")
    report = emulator.launch(twin, "k", 1, 64, args, defines={"SWAP": swap}, schedule=schedule)
    assert {f.kind for f in report.findings} == {"race"}


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_values_come_back_to_those_who_asked(schedule):
    """Threads leave a function one after the other, some through another return than others."""
    source = """
    __device__ __noinline__ double wait(volatile int* flag, int turn)
    {
        int held[8];
        for (int i = 0; i < 8; ++i) held[i] = turn * i;
        if (turn == 0) return -1;
        while (*flag < turn) { }
        return held[(*flag - turn) % 8] + 0.5 * turn;
    }
    extern "C" __global__ void k(volatile int* flag, double* out)
    {
        int t = threadIdx.x, mine[4];
        for (int i = 0; i < 4; ++i) mine[i] = 1000 * t + i;
        out[t] = wait(flag, t) + mine[(*flag + t) % 4];
        __threadfence();
        *flag = t + 1;
    }
    """
    out = np.zeros(64)
    report = emulator.launch(source, "k", 1, 64, [np.zeros(1, np.int32), out], schedule=schedule)
    t = np.arange(64)
    want = np.where(t == 0, -1, 0.5 * t) + 1000 * t + (2 * t % 4)
    np.testing.assert_array_equal(out, want)
    assert not {f.kind for f in report.findings} & {"deadlock", "out-of-bounds", "uninitialised"}


def test_results_alone_need_the_same_turns():
    for name in ("split_k_mutex", "producer_consumer", "grid_barrier"):
        kernel = KERNELS[name]
        report, got, want = kernel.run(kernel.source, *kernel.shape, analyse=False)
        assert report.ok, report
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("room", [None, 0])  # for what was released, until it is looked through
def test_many_blocks_queue_for_one_lock(room, monkeypatch):
    if room is not None:
        monkeypatch.setattr(clock, "_MAX_RELEASED", room)
    source = """
    __device__ int lock, most;
    extern "C" __global__ void k(int* total)
    {
        if (threadIdx.x == 0) {
            while (atomicExch(&lock, 1)) __nanosleep(100);
            __threadfence();
            *total += blockIdx.x;
            __threadfence();
            atomicExch(&lock, 0);
        }
    }
    """
    total = np.zeros(1, np.int32)
    report = emulator.launch(source, "k", 300, 32, [total])
    assert report.ok, report
    assert total[0] == 300 * 299 // 2


def test_what_a_plain_store_overwrites_has_released_nothing():
    source = """
    extern "C" __global__ void k(int* flag, int* data)
    {
        if (blockIdx.x == 0) {
            data[0] = 1;
            __threadfence();
            atomicExch(flag, 1);
            STORE
        } else {
            while (atomicAdd(flag, 0) != GOAL) { }
            __threadfence();
            data[0] += 1;
        }
    }
    """
    for store, goal, kinds in (
        ("", "1", set()),
        ("atomicExch(flag, 2);", "2", set()),
        ("*flag = 2;", "2", {"race"}),
    ):
        text = source.replace("STORE", store).replace("GOAL", goal)
        data = np.zeros(1, np.int32)
        report = emulator.launch(text, "k", 2, 1, [np.zeros(1, np.int32), data])
        assert {f.kind for f in report.findings} == kinds, report
        assert any(f.array == "data" for f in report.findings) == bool(kinds), report
        assert data[0] == 2


def test_the_acquire_and_release_forms_of_ptx_need_no_fence_beside_them():
    source = """
    __device__ __forceinline__ int update(int* at, int value) {
        int old;
        asm volatile("atom.global.FORM.gpu.add.s32 %0, [%1], %2;"
                     : "=r"(old) : "l"(at), "r"(value) : "memory");
        return old;
    }
    extern "C" __global__ void k(int* count, int* data, int* out)
    {
        data[blockIdx.x] += blockIdx.x;  // so that a cache may hold what was there before
        if (update(count, 1) == gridDim.x - 1) {
            int sum = 0;
            for (int i = 0; i < gridDim.x; ++i) sum += data[i];
            *out = sum;
        }
    }
    """
    for form in ("acq_rel", "relaxed", "acquire", "release"):
        out = np.zeros(1, np.int32)
        args = [np.zeros(1, np.int32), np.zeros(9, np.int32), out]
        report = emulator.launch(source.replace("FORM", form), "k", 9, 1, args)
        kinds = set() if form == "acq_rel" else {"race"}
        assert {f.kind for f in report.findings} == kinds, (form, report)
        assert out[0] == 36


@pytest.mark.parametrize("schedule", run.SCHEDULES)
@pytest.mark.parametrize("pause", ["", "__nanosleep(20);"])
def test_a_flag_in_shared_memory_that_is_read_before_the_loop_too(pause, schedule):
    source = """
    extern "C" __global__ void k(int* out)
    {
        __shared__ int data[32];
        __shared__ volatile int ready;
        if (threadIdx.x == 0) ready = 0;
        __syncthreads();
        if (threadIdx.x >= 32) {
            data[threadIdx.x - 32] = threadIdx.x;
            __threadfence_block();
            __syncwarp();
            if (threadIdx.x == 32) ready = 1;
        } else {
            int seen = ready;
            while (!seen) { PAUSE seen = ready; }
            out[threadIdx.x] = data[31 - threadIdx.x];
        }
    }
    """
    out = np.zeros(32, np.int32)
    text = source.replace("PAUSE", pause)
    report = emulator.launch(text, "k", 1, 64, [out], schedule=schedule)
    assert report.ok, report
    assert (out == 63 - np.arange(32)).all()
    for wrong in (
        text.replace("__threadfence_block();", ""),
        text.replace("            while (!seen)", "            if (0) while (!seen)"),
    ):
        report = emulator.launch(wrong, "k", 1, 64, [out], schedule=schedule)
        assert "race" in {f.kind for f in report.findings}, report


ELECT = cuda("waits/elect")


def test_an_election_waits_for_the_lanes_that_still_wait():
    out = np.full(64, -1, np.int32)
    report = emulator.launch(ELECT.replace("MASK", "0xffffffff"), "k", 1, 64, [out], arch="sm_90")
    assert report.ok, report
    assert np.flatnonzero(out).tolist() == [0, 32] and set(out[[0, 32]]) == {100}
    wrong = emulator.launch(ELECT.replace("MASK", "0xffff"), "k", 1, 64, [out], arch="sm_90")
    assert {f.kind for f in wrong.findings} == {"divergent-barrier"}


@pytest.mark.parametrize("schedule", run.SCHEDULES)
@pytest.mark.parametrize(
    ("fences", "kinds"),
    [
        ("__threadfence();", set()),
        ("__threadfence_block(); __threadfence();", set()),
        ("__threadfence_block(); __threadfence_block(); __threadfence_system();", set()),
        ("__threadfence_block();", {"race"}),
        ("", {"race"}),
    ],
)
def test_a_fence_of_the_block_does_not_use_up_what_another_block_released(fences, kinds, schedule):
    """What a flag of another block hands on waits for a fence of the device, however many come
    before.

    The data were loaded before they were written, so a cache may hold the old ones.
    """
    source = """
    extern "C" __global__ void k(volatile int* flag, int* data, int* out)
    {
        if (blockIdx.x == 0) {
            data[threadIdx.x] += 1;
            __syncthreads();
            if (threadIdx.x == 0) { __threadfence(); *flag = 1; }
        } else {
            if (threadIdx.x == 0) { while (*flag == 0) { } FENCES }
            __syncthreads();
            out[threadIdx.x] = data[threadIdx.x];
        }
    }
    """
    arrays = [np.zeros(1, np.int32), np.arange(64, dtype=np.int32), np.zeros(64, np.int32)]
    text = source.replace("FENCES", fences)
    report = emulator.launch(text, "k", 2, 64, arrays, schedule=schedule)
    assert {f.kind for f in report.findings} == kinds, report
    np.testing.assert_array_equal(arrays[2], np.arange(64) + 1)


# -- bar.arrive: counted, and on -------------------------------------------------------------------

ARRIVE = cuda("waits/arrive")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("threads", [64, 96])  # the whole block, or some of its warps
def test_who_waits_knows_what_those_did_that_were_counted(threads, schedule):
    """And not the other way round: who was counted may write again only where both have met."""
    put, meets = "s[lane] = lane;", 'asm volatile("bar.sync 2, 64;" ::: "memory");'
    for before, after, left_out in ((put, "", "none"), ("", put, "none"), (put, "", meets)):
        source = ARRIVE.replace("BEFORE", before).replace("AFTER", after).replace(left_out, "")
        out = np.zeros(3 * 32, np.float32)
        report = emulator.launch(source, "k", 3, threads, [out], schedule=schedule)
        sound = before and left_out != meets
        assert ("race" not in {f.kind for f in report.findings}) == bool(sound), report
        if sound:
            assert report.ok and (out.reshape(3, 32) == np.arange(32)[::-1]).all()


def test_who_waits_knows_what_each_of_those_did_that_were_counted():
    source = """
    extern "C" __global__ void k(int* out)
    {
        __shared__ int s[64];
        int t = threadIdx.x;
        if (t < 64) {
            BEFORE
            asm volatile("bar.arrive 1, 96;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 96;" ::: "memory");
            out[t - 64] = s[t - 64] + s[t - 32];
        }
    }
    """
    for before in (
        "s[t] = t;",
        "if (t < 32) s[t + 32] = s[t] = t;",
        "if (t >= 32) s[t - 32] = s[t] = t;",
    ):
        for schedule in run.SCHEDULES:
            text = source.replace("BEFORE", before)
            report = emulator.launch(text, "k", 1, 96, [np.zeros(32, np.int32)], schedule=schedule)
            assert report.ok, report


@pytest.mark.parametrize("fence", ["__threadfence();", ""])
def test_knowledge_comes_back_to_another_warp_of_the_block(fence):
    """By a flag to another block, and by another flag from there: no barrier of the block."""
    source = """
    extern "C" __global__ void k(volatile int* flag, int* data, int* out)
    {
        __shared__ int s[1];
        if (blockIdx.x == 0 && threadIdx.x == 0) {
            s[0] = data[0] += 7;
            __threadfence();
            flag[0] = 1;
        } else if (blockIdx.x == 1 && threadIdx.x == 0) {
            while (flag[0] == 0) { }
            FENCE
            flag[1] = 1;
        } else if (blockIdx.x == 0 && threadIdx.x == 32) {
            while (flag[1] == 0) { }
            __threadfence();
            out[0] = data[0] + s[0];
        }
    }
    """
    args = [np.zeros(2, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)]
    report = emulator.launch(source.replace("FENCE", fence), "k", 2, 64, args)
    assert len({f.array for f in report.findings}) == (0 if fence else 2), report
    assert args[2][0] == 14


@pytest.mark.parametrize("schedule", run.SCHEDULES)
@pytest.mark.parametrize(
    ("first", "seen", "second", "says"),
    [
        ("__threadfence();", "while (*flag == 0) { }", "__threadfence();", ""),
        ("", "while (*flag == 0) { }", "__threadfence();", "The first has made no __threadfence"),
        ("__threadfence();", "while (*flag == 0) { }", "", "no __threadfence() stands between"),
        ("__threadfence();", "", "__threadfence();", "The second has not seen"),
        ("__threadfence();", "while (*flag == 0) { }", "volatile int*", ""),  # which no cache holds
    ],
)
def test_a_race_of_two_blocks_says_which_half_is_missing(first, seen, second, says, schedule):
    """Of threads of the third warp of their blocks, in places that a cache may hold."""
    source = """
    extern "C" __global__ void k(volatile int* flag, int* data, int* out)
    {
        int t = threadIdx.x;
        if (blockIdx.x == 1) {
            data[t] += 1;
            __syncwarp();
            FIRST
            if (t == 70) *flag = 1;
        } else if (blockIdx.x == 3 && t == 69) {
            SEEN
            SECOND
            out[0] = data[70];
        }
    }
    """
    text = source.replace("FIRST", first).replace("SEEN", seen)
    if "*" in second:
        text, second = text.replace("data[70]", f"(({second})data)[70]"), ""
    text = text.replace("SECOND", second)
    args = [np.zeros(1, np.int32), np.zeros(96, np.int32), np.zeros(1, np.int32)]
    report = emulator.launch(text, "k", 4, 96, args, schedule=schedule)
    met = {(69, 0, 0), (70, 0, 0)}
    assert [(a, i, set(t), n) for a, i, t, _, n in locate(report)] == (
        [("data", "data[70]", met, 1)] if says else []
    ), report
    assert all(says in f.message for f in report.findings), report


@pytest.mark.parametrize("sets", ["atomicExch(&ready, 1)", "*(volatile int*)&ready = 1"])
@pytest.mark.parametrize("asks", ["atomicAdd(&ready, 0)", "*(volatile int*)&ready"])
def test_each_block_has_its_own_flag_in_shared_memory(sets, asks):
    """Set and asked by atomics or by volatile accesses: one place for both."""
    source = """
    extern "C" __global__ void k(int* out)
    {
        __shared__ int ready, data[32];
        int t = threadIdx.x;
        if (t == 0) ready = 0;
        __syncthreads();
        if (t >= 32) {
            data[t - 32] = t;
            FENCE
            __syncwarp();
            if (t == 32) SETS;
        } else {
            while (ASKS == 0) { }
            __threadfence_block();
            out[32 * blockIdx.x + t] = data[31 - t];
        }
    }
    """
    source = source.replace("SETS", sets).replace("ASKS", asks)
    for fence, kinds in (("__threadfence_block();", set()), ("", {"race"})):
        out = np.zeros(96, np.int32)
        report = emulator.launch(source.replace("FENCE", fence), "k", 3, 64, [out])
        assert {f.kind for f in report.findings} == kinds, report
        np.testing.assert_array_equal(out.reshape(3, 32), np.tile(63 - np.arange(32), (3, 1)))


@pytest.mark.parametrize("meets", ["", 'asm volatile("bar.sync 1, 64;" ::: "memory");'])
def test_what_one_warp_has_seen_of_another_block_goes_round(meets):
    """From warp to warp at a named barrier, if there is one, and to all at that of the block; so do
    fences, whoever sets the flag.
    """
    source = """
    extern "C" __global__ void k(volatile int* flag, int* data, int* out)
    {
        int t = threadIdx.x;
        if (blockIdx.x == 0) {
            data[t] += t;
            __syncthreads();
            if (t == 0) __threadfence();
            __syncthreads();
            if (t == SETS) *flag = 1;
            return;
        }
        if (t == 0) { while (*flag == 0) { } FENCE }
        __syncwarp();
        if (t < 64) { MEETS }
        __syncthreads();
        out[t] = data[95 - t];
    }
    """.replace("MEETS", meets)
    fenced, race = "__threadfence();", {"race"}
    for fence, sets, kinds in ((fenced, "0", set()), (fenced, "64", set()), ("", "64", race)):
        text = source.replace("FENCE", fence).replace("SETS", sets)
        args = [np.zeros(1, np.int32), np.zeros(96, np.int32), np.zeros(96, np.int32)]
        report = emulator.launch(text, "k", 2, 96, args)
        assert {f.kind for f in report.findings} == kinds, report
        np.testing.assert_array_equal(args[2], np.arange(96)[::-1])
