"""mbarriers, instruction by instruction: phases, tokens, and what they order."""

from __future__ import annotations

import numpy as np
import pytest
from foreign_kernels import cuda, locate

from nogpu import emulator
from nogpu.errors import EmulationError

HEAD = cuda("mbarriers/head")


def run(body, threads=128, n=4, arch="sm_80", blocks=1, head=HEAD, **options):
    """Report and y of a kernel body."""
    x = np.arange(128, dtype=np.int32) * 3
    y = np.full((blocks, 128), -1, np.int32)
    source = head + body + "\n}\n"
    settings = {"max_steps": 100_000, **options}
    report = emulator.launch(source, "k", blocks, threads, [x, y, n], arch=arch, **settings)
    return report, y[0] if blocks == 1 else y


def set_up(body):
    """A body that begins with two barriers for 128 threads."""
    return "if (t == 0) { init(&bar, 128); init(&other, 128); } __syncthreads();" + body


EXCHANGE = set_up("""
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        s[t] = x[t] + i;
        auto token = arrive(&bar);
        while (!over(&bar, token)) {}
        sum += s[(t + 37) % 128];
        token = arrive(&other);
        while (!over(&other, token)) {}
    }
    y[128 * blockIdx.x + t] = sum;
""")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("analyse", [True, False])
def test_phases_follow_each_other(schedule, analyse):
    for blocks, n in ((1, 4), (3, 4), (1, 11)):  # more phases than a token tells apart
        options = {"schedule": schedule, "analyse": analyse, "seed": 5}
        report, y = run(EXCHANGE, n=n, blocks=blocks, **options)
        assert report.ok, report
        want = np.roll(np.arange(128) * 3, -37) * n + n * (n - 1) // 2
        np.testing.assert_array_equal(y, np.broadcast_to(want, y.shape))


def test_one_barrier_is_enough_for_phases_in_turn():
    """A token is of one phase: who is late sees that it is over, though the next has begun."""
    body = """
        if (t == 0) init(&bar, 32);
        __syncthreads();
        if (t < 32) { for (int i = 0; i < n; ++i) { auto token = arrive(&bar); while (!over(&bar, token)) {} } }
        __syncthreads();
        y[t] = over_parity(&bar, 0) + 2 * over_parity(&bar, 1);
    """
    for n, want in ((1, 1), (2, 2), (3, 1)):
        report, y = run(body, n=n)
        assert report.ok, report
        assert (y == want).all()


def test_counts_tokens_and_threads_that_leave():
    body = """
        if (t == 0) init(&bar, 128);
        __syncthreads();
        unsigned long long token;
        if (t < 32) asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(token) : "r"(at(&bar)) : "memory");
        else if (t % 2 == 0) asm volatile("mbarrier.arrive.noComplete.shared.b64 %0, [%1], 2;" : "=l"(token) : "r"(at(&bar)) : "memory");
        int pending = -1;
        if (t < 32 || t % 2 == 0) asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(token));
        y[t] = pending;
        __syncthreads();
        if (t >= 32) { token = arrive(&bar); while (!over(&bar, token)) {} }  // 96 are left
    """
    report, y = run(body)
    assert report.ok, report
    assert sorted(y[:32]) == list(range(97, 129))
    assert sorted(y[32::2]) == list(range(2, 97, 2)) and (y[33::2] == -1).all()
    wrong, _ = run(body.replace("arrive_drop", "arrive"))  # the next phase then takes 128
    assert "divergent-barrier" in {f.kind for f in wrong.findings}


def test_a_barrier_that_is_not_set_up_or_set_up_wrongly():
    report, _ = run("arrive(&bar); y[t] = 0;")
    assert {f.kind for f in report.findings} == {"uninitialised"}
    for count, value in (("n - 4", 0), ("1 << 29", 1 << 29), ("-1", -1)):
        with pytest.raises(EmulationError, match=f"count of {value}: give 1 to 536870911"):
            run(f"if (t == 0) init(&bar, {count});")


def test_a_wait_that_is_told_no_asks_its_own_barrier_again():
    """Two scopes of inline assembly with one name of a label: a branch means its own scope's."""
    ask = """
        asm volatile("{.reg .pred p; AGAIN: mbarrier.test_wait.parity.shared.b64 p, [%0], 0; @!p bra AGAIN;}"
            :: "r"(at(&BAR)) : "memory");
    """
    body = f"""
        __shared__ unsigned long long third;
        if (t == 0) {{ init(&bar, 128); init(&other, 128); init(&third, 1); }}
        __syncthreads();
        arrive(&other);
        if (t == 64) arrive(&third);
        {ask.replace("BAR", "other")}
        y[t] = 1;
        if (t < 32) {{ {ask.replace("BAR", "bar")} y[t] = 2; }}
        {ask.replace("BAR", "third")}
        y[t] += 10;
    """
    report, y = run(body)
    assert [f.kind for f in report.findings] == ["divergent-barrier"], report
    assert "never completes: 128 of its 128" in report.findings[0].message
    assert list(y[:3]) == [12, 12, 12] and list(y[32:35]) == [11, 11, 11]


def test_bytes_that_nobody_copies():
    """expect_tx and complete_tx by hand: a phase waits for arrivals and bytes, in any order."""
    tx = """
        asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 48;" :: "r"(at(&bar)) : "memory");
        asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 32;" :: "r"(at(&bar)) : "memory");
    """
    last = (
        'asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], 16;" :: "r"(at(&bar))'
        ' : "memory");'
    )
    body = f"""
        if (t == 0) init(&bar, 128);
        __syncthreads();
        if (t == 0) {{ s[0] = 7; {tx} }}
        auto token = arrive(&bar);
        if (t == 0) {{ y[1] = over(&bar, token); LAST }}
        while (!over(&bar, token)) {{}}
        if (t == 64) y[0] = s[0];
    """
    report, y = run(body.replace("LAST", last), arch="sm_90")
    assert report.ok, report
    assert y[0] == 7
    report, _ = run(body.replace("LAST", ""), arch="sm_90")
    assert any("16 bytes that were announced have not come" in f.message for f in report.findings)


def test_who_asks_now_and_then_may_be_told_no_for_long():
    """A block that asks between its own barriers goes on, however often the answer is no."""
    body = """
        __shared__ int rounds;
        if (t == 0) { init(&bar, 1); rounds = 0; }
        __syncthreads();
        bool done = false;
        while (!done) {
            done = over_parity(&bar, 0);
            if (t == 0 && ++rounds == n) arrive(&bar);
            done = __syncthreads_and(done);
        }
        y[t] = rounds;
    """
    report, y = run(body, n=100)
    assert report.ok, report
    assert (y == 101).all()
    report, _ = run(body.replace("++rounds == n", "++rounds < 0"), n=100, max_steps=5000)
    assert {f.kind for f in report.findings} == {"step-budget"}


# -- more arrivals than a phase takes --------------------------------------------------------------

MANY = cuda("mbarriers/many")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize("n", [5, 7, 12, 31])
def test_arrivals_past_the_end_of_a_phase_belong_to_the_next(n, schedule):
    """32 lanes arrive in one instruction; an arrival past the end of a phase begins the next."""
    report, y = run(MANY, threads=32, n=n, schedule=schedule)
    assert report.ok, report
    lane = np.arange(32)
    np.testing.assert_array_equal(y[:32], n - lane % n)
    late = lane // n >= 32 // n - 1  # a token tells of its phase until the next but one is over
    np.testing.assert_array_equal(y[32:64][late], (lane // n < 32 // n)[late])
    last = lane // n == 32 // n
    np.testing.assert_array_equal(y[64:96][last], 1)
    np.testing.assert_array_equal(y[96:], 1)


def test_arrivals_that_count_for_several_go_on_into_the_next_phase():
    body = """
    if (t == 0) init(&bar, 10);
    __syncthreads();
    unsigned long long token;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
        : "=l"(token) : "r"(at(&bar)), "r"(t < 3 ? 5 : 2) : "memory");
    y[t] = over(&bar, token);
    """
    report, y = run(body, threads=5, arch="sm_90")
    assert report.ok, report
    np.testing.assert_array_equal(y[:5], [1, 1, 0, 0, 0])  # 5 and 5 of 10, then 5, 2 and 2


# -- lanes of a warp that wait one by one ----------------------------------------------------------

ONE_BY_ONE = """
    if (t == 0) { init(&bar, 32); init(&other, 32); }
    __syncthreads();
    if (t < 32) {
        s[t] = x[t];
        arrive(&bar);
        s[t + 32] = x[t + 32];
        arrive(&other);
    } else {
        if (t == 32) { while (!over_parity(&bar, 0)) {} }
        SECOND
        READ
    }
"""


def waiting_lanes(second, read, blocks=1):
    """The findings of two warps of which the second waits as told."""
    report, _ = run(
        ONE_BY_ONE.replace("SECOND", second).replace("READ", read), threads=64, blocks=blocks
    )
    return {f.kind for f in report.findings}


def test_what_one_lane_has_learned_it_still_knows_when_another_learns_more():
    second = "if (t == 33) { while (!over_parity(&other, 0)) {} }"
    assert not waiting_lanes(second, "if (t == 32) y[128 * blockIdx.x + t] = s[5];")
    assert not waiting_lanes(second, "if (t == 33) y[128 * blockIdx.x + t] = s[37];")
    assert waiting_lanes(second, "if (t == 34) y[128 * blockIdx.x + t] = s[5];") == {"race"}


def test_a_wait_of_a_whole_warp_hands_on_nothing_that_one_lane_had_learned_before():
    """In block 0 all lanes wait for what tells them nothing, in block 1 one lane of them does."""
    body = """
    if (t == 0) { init(&bar, 32); init(&other, 32); }
    __syncthreads();
    if (t < 32) {
        arrive(&other);
        s[t] = x[t];
        arrive(&bar);
    } else {
        if (t == 32) { while (!over_parity(&bar, 0)) {} }
        if (WHO) { while (!over_parity(&other, 0)) {} }
        if (t == READER && blockIdx.x == 0) y[t] = s[5];
    }
    """
    for who in ("blockIdx.x == 0 || t == 33", "true", "t == 33"):
        for reader, kinds in ((32, set()), (34, {"race"})):
            report, _ = run(
                body.replace("WHO", who).replace("READER", str(reader)), threads=64, blocks=2
            )
            assert {f.kind for f in report.findings} == kinds, (who, reader, report)


WHO = "s[t] = 0;" + set_up("""
    const int i = 37 + n - 4;  // no compiler knows which
    if (blockIdx.x == 1) { FIRST; SECOND; }
    __syncthreads();
    y[128 * blockIdx.x + t] = s[t];
""")


@pytest.mark.parametrize(
    ("first", "second", "threads", "says"),
    [
        ("if (t == 64) s[i] = 1", "if (t == 95) y[137] = s[i]", (95, 64), "__syncwarp()"),
        ("if (t == 95) y[137] = s[i]", "if (t == 64) s[i] = 1", (64, 95), "95, 0, 0) reads it"),
        ("if (t == 70) atomicAdd(s + i, 1)", "if (t == 5) s[i] = 1", (5, 70), "70, 0, 0) updates"),
        ("if (t == 70) s[i] = 1", "if (t == 5) atomicAdd(s + i, 1)", (5, 70), "at a barrier after"),
        ("if (t == 70 || t == 5) s[i] = t", "", (5, 70), "70, 0, 0) writes it"),
        ("if (t == 70 || t == 5) s[i] = 3", "", (), ""),
        ("if (t == 70 || t == 5) ((long long*)s)[i / 2] = t * (1ll << 32)", "", (5, 70), "writes it"),
        ("if (t == 70 || t == 5) ((long long*)s)[i / 2] = 3", "", (), ""),
    ],
)  # fmt: skip
def test_two_threads_that_meet_are_told_apart(first, second, threads, says):
    report, _ = run(WHO.replace("FIRST", first).replace("SECOND", second), blocks=2)
    who = tuple((t, 0, 0) for t in threads)
    where = ("s[36]", 2) if "long" in first else ("s[37]", 1)
    assert locate(report) == ([("s", where[0], who, (1, 0, 0), where[1])] if who else []), report
    assert says in str(report.findings)


# -- together with what else orders threads --------------------------------------------------------

COPY = set_up("""
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" :: "r"(at(&s[t])), "l"(x + t) : "memory");
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(&bar)) : "memory");
    while (!over_parity(&bar, 0)) {}
    y[t] = s[127 - t];
""")


MIXED = set_up("""
    __shared__ volatile int ready;
    if (t == 0) ready = 0;
    __syncthreads();
    if (t < 32) {
        s[t] = x[t];
        __syncwarp();
        __threadfence_block();  // given
        if (t == 0) ready = 1;
    } else if (t < 64) {
        while (!ready) {}
        __threadfence_block();
        __syncwarp();
        s[t] = s[t - 32] + 1;  // taken
    }
    auto token = arrive(&bar);
    while (!over(&bar, token)) {}
    y[t] = s[t % 64];  // all
""")


LANES = np.arange(128)
REVERSED = LANES[::-1] * 3
SOUND = {
    # a body, and y
    "phases by parity": (
        set_up("""
        for (int i = 0; i < n; ++i) {
            s[t] = x[t] + i;
            arrive(&bar);
            while (!over_parity(&bar, i & 1)) {}
            y[t] = s[t ^ 64];
            arrive(&other);
            while (!over_parity(&other, i & 1)) {}
        }
    """), (LANES ^ 64) * 3 + 3,
    ),
    "copies arrive": (COPY, REVERSED),
    "copies come on top of arrivals": (
        COPY.replace(".noinc", "").replace("while", "arrive(&bar); while"), REVERSED,
    ),
    # One lane asks for the others: they know after __syncwarp(), not before.
    "one lane of a warp waits": (
        set_up("""
        s[t] = x[t];
        arrive(&bar);
        if (t % 32 == 0) while (!over_parity(&bar, 0)) {}
        __syncwarp();
        y[t] = s[127 - t];
    """), REVERSED,
    ),
    "a named barrier beside": (
        set_up("""
        s[t] = x[t];
        if (t < 64) asm volatile("bar.sync 1, 64;" ::: "memory");
        int v = t < 64 ? s[63 - t] : 0;
        arrive(&bar);
        while (!over_parity(&bar, 0)) {}
        y[t] = s[127 - t] + v;
    """), REVERSED + np.maximum(63 - LANES, 0) * 3,
    ),
    "a named barrier and global memory": (
        """
        const int at = 1, all = 64;
        if (t % 64 < 32) {
            if (t < 64) y[t] = t;
            asm volatile("bar.sync %0, %1;" :: "r"(at), "r"(all) : "memory");
            if (t >= 64) y[t] = y[t - 64];
        }
        __syncthreads();  // so that the other warps are there
    """, np.where(LANES % 64 < 32, LANES % 64, -1),
    ),
    "phases and global memory": (
        set_up("""
        y[t] = x[t];
        auto token = arrive(&bar);
        while (!over(&bar, token)) {}
        s[t] = y[t ^ 64];
        arrive(&bar);
        while (!over_parity(&bar, 1)) {}
        y[t] = s[t];
    """), (LANES ^ 64) * 3,
    ),
    # The first two warps write: a phase of the others does not order them.
    "a phase of others": (
        """
        if (t == 0) { init(&bar, 64); init(&other, 64); } __syncthreads();
        unsigned long long token = 0;
        if (t < 64) { y[t] = t; token = arrive(&bar); while (!over(&bar, token)) {} }
        else if (t < 64) { token = arrive(&other); while (!over(&other, token)) {} }
        else { while (!over_parity(&bar, 0)) {} }
        if (t >= 64) y[t] = y[t - 64];
    """, LANES % 64,
    ),
    # One clock: what the second warp learnt by the flag, others learn from it by the mbarrier.
    "a flag": (MIXED, LANES % 32 * 3 + LANES // 32 % 2),
    "as many arrivals as the count": (
        """
        if (t == 0) init(&bar, 128);
        __syncthreads();
        s[t] = x[t];
        arrive(&bar);
        while (!over_parity(&bar, 0)) {}
        y[t] = s[127 - t];
    """, REVERSED,
    ),
    "one lane asks, and its warp waits for it": (
        set_up("""
        volatile int* flag = (volatile int*)&s[0];
        if (t == 0) *flag = 1;
        __syncthreads();
        while (*flag == 0) {}
        int got = t;
        if (t % 32 == 5) got = 100 + over_parity(&bar, 0);
        y[t] = __shfl_sync(0xffffffff, got, 5);
    """), np.full(128, 100),
    ),
}  # fmt: skip


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize(("body", "want"), SOUND.values(), ids=SOUND)
def test_what_is_in_order(body, want, schedule):
    for arch in ("sm_80", "sm_90"):  # whose instructions have other forms
        report, y = run(body, arch=arch, schedule=schedule)
        assert report.ok, report
        np.testing.assert_array_equal(y, want)


LEFT_OUT = [
    # what is changed, into what; all kinds of findings, and a line or words of one of them
    (EXCHANGE, "while (!over(&bar, token)) {}", "", {"race"}, "sum += s"),
    (EXCHANGE, "while (!over(&other, token)) {}", "", {"race"}, "s[t] ="),
    (EXCHANGE, "token = arrive(&other);", "if (t) token = arrive(&other);", {"divergent-barrier", "race"}, ""),
    (MIXED, "__threadfence_block();  // given", "", {"race"}, "// taken"),
    (MIXED, "while (!ready) {}", "", {"race"}, "// taken"),
    (MIXED, "while (!over(&bar, token)) {}", "", {"race"}, "// all"),
    ("phases by parity", "over_parity(&bar, i & 1)", "over_parity(&bar, ~i & 1)", {"divergent-barrier", "race"}, "y[t] = s"),
    ("copies arrive", "while (!over_parity(&bar, 0)) {}", "", {"race"}, "cp.async"),
    ("copies arrive", ".noinc", "", {"divergent-barrier", "race"}, "128 of its 128 arrivals are missing"),
    ("one lane of a warp waits", "__syncwarp();", "", {"race"}, "y[t] = s"),
    ("a named barrier beside", "t < 64 ? s[63 - t]", "t < 64 ? s[127 - t]", {"race"}, "int v"),
    ("a named barrier and global memory", "at = 1, all = 64", "at = 1 + t / 64, all = 32", {"race"}, "y[t - 64]"),
    ("phases and global memory", "while (!over_parity(&bar, 1)) {}", "", {"race"}, "y[t] = s"),
    ("a phase of others", "else if (t < 64)", "else if (t < 128)", {"race"}, "y[t - 64]"),
    ("as many arrivals as the count", "init(&bar, 128)", "init(&bar, 127)", {"race"}, "y[t] = s"),
    ("as many arrivals as the count", "init(&bar, 128)", "init(&bar, 100)", {"race"}, "y[t] = s"),
    ("one lane asks, and its warp waits for it", "got = 100 + over_parity(&bar, 0)",
     "while (!over_parity(&bar, 0)) {}", {"divergent-barrier"}, "128 of its 128 arrivals are missing"),
]  # fmt: skip


@pytest.mark.parametrize(("whole", "old", "new", "kinds", "says"), LEFT_OUT)
def test_what_is_left_out_is_found(whole, old, new, kinds, says):
    whole = SOUND[whole][0] if whole in SOUND else whole
    assert whole.count(old) == 1
    report, _ = run(whole.replace(old, new))
    assert {f.kind for f in report.findings} == kinds, report
    assert any(says in f.text + f.other_text + f.message for f in report.findings), report


RELAXED = set_up("""
    FIRST s[t] = x[t]; THEN
    ARRIVE
    while (!over_parity(&bar, 0)) {}
    y[t] = s[127 - t];
""")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
@pytest.mark.parametrize(
    ("first", "then", "order", "count", "kinds"),
    [
        ("", "", ".release.cta", 128, set()),
        ("", "", "", 128, set()),
        ("", "", ".relaxed.cta", 128, {"race"}),
        ("", "__threadfence_block();", ".relaxed.cta", 128, set()),
        ("", "__threadfence_block();", ".relaxed.cta", 127, {"race"}),
        ("__threadfence_block();", "", ".relaxed.cta", 128, {"race"}),
        ("", "__syncthreads();", ".relaxed.cta", 128, set()),
        ("", "if (t < 64) __threadfence();", ".relaxed.cta", 128, {"race"}),
    ],
)
def test_a_relaxed_arrival_hands_on_what_a_fence_before_it_has(
    first, then, order, count, kinds, schedule
):
    """Source: PTX ISA, mbarrier.arrive (.relaxed), and its Memory Consistency Model (release
    patterns)."""
    arrive = f'asm volatile("mbarrier.arrive{order}.shared::cta.b64 _, [%0];" :: "r"(at(&bar)) : "memory");'
    body = RELAXED.replace("FIRST", first).replace("THEN", then).replace("ARRIVE", arrive)
    body = body.replace("init(&bar, 128)", f"init(&bar, {count})")
    report, _ = run(body, arch="sm_90", schedule=schedule)
    assert {f.kind for f in report.findings} == kinds, report


ACROSS = set_up("""
    __shared__ volatile int go;
    if (t < 32 && blockIdx.x == 0) {
        y[t] = 7;
        __threadfence();
        __syncwarp();
        if (t == 0) atomicExch(y + 200, 1);
    }
    if (t < 32 && blockIdx.x == 1) {
        if (t == 0) { while (atomicAdd(y + 200, 0) == 0) {} }
        __syncwarp();
        __threadfence();
    }
    auto token = arrive(&bar);  // only the first warp has seen the flag
    while (!over(&bar, token)) {}
    if (t >= 64 && t < 96 && blockIdx.x == 1) y[128 + t] = y[t - 64];  // taken
""")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (ACROSS, ""),
        (
            ACROSS.replace("y[t] = 7;\n        __threadfence();", "y[t] = 7;"),
            "The first has made no",
        ),
        (ACROSS.replace("while (!over(&bar, token)) {}", ""), "The second has not seen"),
    ],
    ids=["whole", "no fence before the flag", "no wait for the phase"],
)
def test_what_a_flag_of_another_block_says_is_handed_on_by_an_mbarrier(body, says):
    body = body.replace("    __shared__ volatile int go;\n", "")
    report, y = run(body, blocks=2, uninitialised=())
    assert report.ok == (not says), report
    assert all(f.kind == "race" and says in f.message for f in report.findings), report
    if not says:
        assert (y.reshape(-1)[192:200] == 7).all()


# -- questions that no loop repeats for ever ------------------------------------------------------


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_a_question_asked_once_is_answered(schedule):
    yes, y = run(set_up("y[t] = over(&bar, arrive(&bar));"), schedule=schedule)
    assert yes.ok and (y == 1).all(), yes
    body = set_up("if (t < 64) y[t] = over(&bar, arrive(&bar)); __syncthreads(); arrive(&bar);")
    no, y = run(body, schedule=schedule)
    assert no.ok and (y == np.where(np.arange(128) < 64, 0, -1)).all(), no


def test_questions_that_are_counted_end_with_the_count():
    """Tries are given up as the program says; a loop without an end is a finding."""
    body = set_up("""
        if (t < 64) arrive(&bar);
        int tries = 0;
        while (tries < TRIES && !over_parity(&bar, 0)) ++tries;
        y[t] = tries;
    """)
    for tries in (1, 70, 500):
        report, y = run(body.replace("TRIES", str(tries)))
        assert report.ok and (y == tries).all(), report
    never, _ = run(body.replace("tries < TRIES && ", ""))
    assert [f.kind for f in never.findings] == ["divergent-barrier"]
    assert "64 of its 128 arrivals are missing" in never.findings[0].message


FLAG = set_up("""
    volatile int* flag = (volatile int*)&s[0];
    if (t == 0) *flag = 0;
    __syncthreads();
    if (t == 0) { ASK; *flag = 1; }
    else if (t == 32) while (*flag == 0) {}
    y[t] = 1;  // whatever was answered
""")


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_who_asks_once_does_not_hold_up_those_who_wait_for_a_flag(schedule):
    report, y = run(FLAG.replace("ASK", "s[1] = over_parity(&bar, 0)"), schedule=schedule)
    assert "deadlock" not in {f.kind for f in report.findings}, report
    assert (y == 1).all()
    stuck, _ = run(FLAG.replace("ASK", "while (!over_parity(&bar, 0)) {}"), schedule=schedule)
    (finding,) = [f for f in stuck.findings if f.kind == "deadlock"]
    assert "thread (32, 0, 0) of block (0, 0, 0) in the loop at line" in finding.message
    assert "thread (0, 0, 0) of block (0, 0, 0) for an mbarrier at line" in finding.message


@pytest.mark.parametrize("schedule", ["ascending", "permuted"])
def test_a_function_that_is_not_inlined_may_wait_for_a_phase(schedule):
    head = HEAD.replace(
        "__device__ bool over_parity",
        "__device__ __noinline__ void wait(unsigned long long* b, unsigned long long token) {\n"
        "    while (!over(b, token)) {}\n}\n__device__ bool over_parity",
    )
    body = set_up(
        "s[t] = x[t]; if (t % 3) wait(&bar, arrive(&bar)); else { ELSE } y[t] = s[127 - t];"
    )
    waits = "auto token = arrive(&bar); while (!over(&bar, token)) {}"
    report, y = run(body.replace("ELSE", waits), head=head, schedule=schedule)
    assert report.ok, report
    np.testing.assert_array_equal(y, REVERSED)
    wrong, _ = run(body.replace("ELSE", "arrive(&bar);"), head=head, schedule=schedule)
    assert "race" in {f.kind for f in wrong.findings}


def test_who_waits_for_ever_is_named_where_the_others_have_ended():
    body = set_up("if (t != 40) return; while (!over_parity(&other, 0)) {} y[t] = 1;")
    [finding] = run(body)[0].findings
    assert "thread (40, 0, 0)" in finding.message and "waits at other[0]" in finding.message
    # Each waits at the barrier of its own number: who has ended names another one.
    several = (
        "__shared__ unsigned long long bars[8]; if (t < 8) init(&bars[t], 1); __syncthreads();"
    )
    several += "if (t != 5) return; while (!over_parity(&bars[t + n], 0)) {} y[t] = 1;"
    [finding] = run(several, n=1)[0].findings
    assert "thread (5, 0, 0)" in finding.message and "1 of its 1 arrivals" in finding.message
