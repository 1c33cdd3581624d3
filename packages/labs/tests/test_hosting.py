"""A host function, followed call by call: what it copies, orders and leaves behind. No compiler."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nogpu.errors import EmulationError
from tilelabs.judging import hosting

KERNEL = """extern "C" __global__ void step(float* x, int n)
{
    if (threadIdx.x < n) x[threadIdx.x] += 1;
}
extern "C" __global__ void pair(float* x, float* y, int n)
{
    x[0] += 1;
    y[n] += 1;
}
"""
PLAIN = """
float* d;
cudaMalloc(&d, n * sizeof(float));
cudaMemcpy(d, x, n * sizeof(float), cudaMemcpyHostToDevice);
step<<<1, 32>>>(d, n);
cudaMemcpy(x, d, n * sizeof(float), cudaMemcpyDeviceToHost);
cudaFree(d);
"""
STREAMS = """
cudaStream_t s, t;
cudaStreamCreate(&s);
cudaStreamCreate(&t);
float* d;
float* e;
cudaMalloc(&d, n * sizeof(float));
cudaMalloc(&e, n * sizeof(float));
cudaMemcpyAsync(d, x, n / 2 * sizeof(float), cudaMemcpyHostToDevice, s);
cudaMemcpyAsync(e, x + n / 2, n / 2 * sizeof(float), cudaMemcpyHostToDevice, t);
step<<<1, 32, 0, s>>>(d, n / 2);
step<<<1, 32, 0, t>>>(e, n / 2);
cudaMemcpyAsync(x, d, n / 2 * sizeof(float), cudaMemcpyDeviceToHost, s);
cudaMemcpyAsync(x + n / 2, e, n / 2 * sizeof(float), cudaMemcpyDeviceToHost, t);
cudaStreamSynchronize(s);
cudaStreamSynchronize(t);
cudaFreeAsync(d, s);
cudaFreeAsync(e, s);
cudaStreamDestroy(s);
cudaStreamDestroy(t);
"""


def followed(body):
    """x = 0, 1, 2, 3 afterwards; of what was found the kind, the line's text ("" for none) and the
    words; what was counted."""
    x = np.arange(4, dtype=np.float32)

    def launch(entry, grid, block, args, shared):
        if block[0] > 1024:
            raise EmulationError("a block has 1024 threads at most")
        if entry == "pair":
            args[0][0] += 1
            args[1][args[2]] += 1
        else:
            args[0][: args[1]] += 1

    source = f"{KERNEL}void lab(float* x, int n)\n{{{body}}}\n"
    _, found, counts = hosting.run(source, "lab", {"x": x, "n": 4}, launch)
    lines = ["", *map(str.strip, source.splitlines())]
    return x.tolist(), [(kind, lines[line], words) for kind, line, words in found], counts


@pytest.mark.parametrize(("body", "streams"), [(PLAIN, 0), (STREAMS, 2), ("\n" * 90 + STREAMS, 2)])
def test_what_is_sound_is_followed_to_its_end_and_counted(body, streams):
    counts = {"copied": 2 * 4 * 4, "leaked": 0, "streams": streams}
    assert followed(body) == ([1, 2, 3, 4], [], counts)


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("cudaStreamSynchronize(t);", "", ("unsynchronised", "lab returns while")),
        ("cudaStreamSynchronize(s);", "", ("unsynchronised", "lab returns while")),
        ("cudaStreamDestroy(t);", "cudaStreamDestroy(t);" * 2, ("invalid-free", "cudaStreamDestroy is given")),
        ("cudaFreeAsync(e, s);", "cudaFree(e);" * 2, ("invalid-free", "cudaFree is given")),
        ("cudaFreeAsync(e, s);", "cudaFree(e); cudaFancy(e);", ("not-followed", "cudaFancy is no")),
        ("x, d, n / 2", "x, d, 2 * n", ("out-of-bounds", "cudaMemcpyAsync reads bytes")),
        ("(d, x, n / 2 * sizeof(float), cudaMemcpyHostToDevice", "(d, x, n / 2 * sizeof(float), cudaMemcpyDeviceToHost", ("wrong-direction", "cudaMemcpyAsync is told")),
        ("(e, n / 2);", "(d, n / 2);", ("race", "step touches d")),
        ("cudaStreamCreate(&t);", "cudaStreamCreate();", ("not-followed", "cudaStreamCreate is called")),
    ],
)  # fmt: skip
def test_what_is_not_is_found(old, new, found):
    assert STREAMS.count(old) == 1
    findings = followed(STREAMS.replace(old, new))[1]
    assert found in [(kind, " ".join(words.split()[:3])) for kind, _, words in findings]


@pytest.mark.parametrize(
    ("gone", "left"), [("cudaFreeAsync(e, s);", 1), ("cudaStreamDestroy(s);", 1)]
)
def test_what_is_kept_is_counted(gone, left):
    assert followed(STREAMS.replace(gone, ""))[2]["leaked"] == left


TWO = """
cudaStream_t s, t;
cudaStreamCreate(&s);
cudaStreamCreateWithFlags(&t, 1);
float* d;
float* e;
cudaMalloc(&d, 17);
cudaMalloc(&e, 16);
cudaMemset(d, 0, 17);
{}
cudaDeviceSynchronize();
"""
IN, OUT = ", cudaMemcpyHostToDevice", ", cudaMemcpyDeviceToHost"
ON = {
    "in": f"cudaMemcpyAsync(d, x, 8{IN}, {{}});", "rest in": f"cudaMemcpyAsync(d + 2, x + 2, 8{IN}, {{}});",
    "two in": f"cudaMemcpyAsync(d + 1, x + 1, 8{IN}, {{}});", "other in": f"cudaMemcpyAsync(e, x, 8{IN}, {{}});",
    "byte in": f"cudaMemcpyAsync(d, x, 1{IN}, {{}});", "three in": f"cudaMemcpyAsync(d, x, 3{IN}, {{}});",
    "out": f"cudaMemcpyAsync(x, d, 8{OUT}, {{}});", "rest out": f"cudaMemcpyAsync(x + 2, d + 2, 8{OUT}, {{}});",
    "byte out": f"cudaMemcpyAsync(x, d, 1{OUT}, {{}});",
    "byte of e": f"cudaMemcpyAsync(x + 2, d, 1{OUT}, {{}});",
    "set": "cudaMemsetAsync(d, 0, 8, {});", "rest set": "cudaMemsetAsync(d + 2, 0, 8, {});",
    "set byte": "cudaMemsetAsync(d, 0, 1, {});",
    "step": "step<<<1, 32, 0, {}>>>(d, 2);", "rest step": "step<<<1, 32, 0, {}>>>(d + 2, 2);",
    "step here": "step<<<1, 32>>>(d, 2);", "set here": "cudaMemset(d, 0, 8);",
    "step without": "step<<<1, 32, 0>>>(d, 2);", "zero": "cudaMemset(d, 0, 16);",
    "wait": "cudaDeviceSynchronize();", "wait for s": "cudaStreamSynchronize(s);",
    "wait for t": "cudaStreamSynchronize(t);", "copy": f"cudaMemcpy(e, x, 4{IN});",
    "pair": "cudaMemset(e, 0, 16);\npair<<<1, 32, 0, {}>>>(d, e, 2);",
    "in alone": f"cudaMemcpyAsync(d, x, 8{IN});", "second out": f"cudaMemcpyAsync(x + 1, d + 1, 4{OUT}, {{}});",
    "third out": f"cudaMemcpyAsync(x + 2, d + 2, 1{OUT}, {{}});",
    "third": f"cudaMemcpyAsync(x + 2, d + 2, 4{OUT}, {{}});",
    "last": "cudaMemsetAsync((char*)d + 7, 0, 1, {});",
    "free": "cudaFree(e);", "free later": "cudaFreeAsync(e, t);", "on the host": "memcpy(x, x, 4);",
}  # fmt: skip


def calls_of(work):
    """Calls by name and stream: "in/s wait out/t"."""
    pairs = (one.partition("/") for one in work.split())
    return [ON[call.replace("_", " ")].format(stream) for call, _, stream in pairs]


@pytest.mark.parametrize(
    ("work", "races"),
    [
        ("in/s out/t", 2), ("in/s out/s", 0), ("in/s rest_out/t", 0),
        ("rest_in/s out/t", 0), ("two_in/s out/t", 2), ("two_in/s rest_out/t", 2),
        ("in/s other_in/t", 0), ("out/s in/t", 2), ("in/s in/t", 1),
        ("byte_in/s byte_of_e/t", 1), ("byte_out/s byte_in/t", 2),
        ("set/s out/t", 1), ("out/s set/t", 1), ("set/s rest_out/t", 0),
        ("rest_set/s out/t", 0), ("set_byte/s byte_of_e/t", 1), ("byte_of_e/s set_byte/t", 1),
        ("step/s out/t", 1), ("step/s rest_out/t", 0), ("out/s step/t", 1),
        ("rest_step/s out/t", 0), ("rest_step/s rest_out/t", 1), ("step/s step/t", 1),
        ("zero step/s three_in/t", 1), ("zero step/s byte_of_e/t", 0),
        ("step_here out/t", 0), ("step_without out/t", 0), ("set_here out/t", 0),
        ("in/0 out/t", 0), ("set/0 out/t", 0), ("in/s out/0", 0),
        ("in/s wait out/t", 0), ("in/s wait_for_s out/t", 0), ("in/s wait_for_t out/t", 2),
        ("in/s copy out/t", 0), ("in/s free out/t", 0), ("in/s free_later out/t", 2),
        ("in/s on_the_host out/t", 2), ("in_alone out/t", 0),
        ("step/s second_out/t", 1), ("step/s last/t", 1), ("step/s third_out/t", 0),
        ("pair/s third/t", 1), ("pair/s three_in/t", 1), ("pair/s byte_in/t", 0),
    ],
)  # fmt: skip
def test_two_streams_race_where_both_touch_and_one_writes(work, races):
    """To the byte: what lies side by side is sound, and so is what the default stream orders."""
    calls = calls_of(work)
    found = followed(TWO.format("\n".join(calls)))[1]
    assert [kind for kind, *_ in found] == ["race"] * races, found
    alone = "step" in calls[-1] or sum(calls[-1].split("(")[0] in call for call in calls) == 1
    assert all(line == (calls[-1] if alone else "") for _, line, _ in found), found


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("out/s", "unsynchronised"), ("out/s wait_for_s", ""), ("out/s wait_for_t", "unsynchronised"),
        ("out/s wait", ""), ("out/0 wait_for_s", ""), ("out/s copy", ""), ("out/s free", ""),
        ("out/s free_later", "unsynchronised"), ("out/s on_the_host", "unsynchronised"),
        ("set/s", ""), ("step/s", ""),
    ],
)  # fmt: skip
def test_a_function_returns_when_the_hosts_copies_are_there(body, found):
    text = TWO.replace("cudaDeviceSynchronize();", "").format("\n".join(calls_of(body)))
    assert [kind for kind, *_ in followed(text)[1]] == [found] * bool(found)


HERE = "float* d;\ncudaMalloc(&d, 16);\n{}\n"


@pytest.mark.parametrize(
    ("body", "kind", "line", "words"),
    [
        ("cudaMemset(d - 1, 0, 8);", "out-of-bounds", "cudaMemset(d - 1, 0, 8);", "bytes -4 to 4 of"),
        ("cudaMemset(d + 3, 0, 8);", "out-of-bounds", "cudaMemset(d + 3, 0, 8);", "bytes 12 to 20 of"),
        ("cudaMemset(d, 0, 4 * n);", "", "", ""),
        ("cudaFree(d);\ncudaMemset(d, 0, 4);", "out-of-bounds", "cudaMemset(d, 0, 4);", "or was freed"),
        ("cudaMemset(d, 0, rand());", "not-followed", "cudaMemset(d, 0, rand());", "not known here"),
        ("cudaFree(d);\nstep<<<1, 32>>>(d, n);", "out-of-bounds", "step<<<1, 32>>>(d, n);", "or was freed"),
        ("step<<<1, 32>>>(x, n);", "out-of-bounds", "step<<<1, 32>>>(x, n);", "x, which is memory of the host"),
        ("step<<<1, rand()>>>(d, n);", "not-followed", "step<<<1, rand()>>>(d, n);", "launched with what is not known"),
        ("float* e;\ncudaMalloc(&e, 0);", "not-followed", "", "asks for what is not known, for none or too much: 0 bytes"),
        ("float* e;\ncudaMalloc(&e, 1);", "", "", ""),
        ("float* e;\ncudaMalloc(&e, 1 << 27);", "", "", ""),
        ("float* e;\ncudaMalloc(&e, 268435441);", "not-followed", "", "268,435,441 bytes"),
        ("cudaFree(nullptr);", "", "", ""),
        ("cudaFreeAsync(nullptr, 0);", "", "", ""),
        (f"cudaMemcpy(d + 3, x, 8{IN});", "out-of-bounds", f"cudaMemcpy(d + 3, x, 8{IN});", "writes bytes 12 to 20 of d"),
        (f"cudaMemcpy(d, x + 3, 8{IN});", "out-of-bounds", f"cudaMemcpy(d, x + 3, 8{IN});", "reads bytes 12 to 20 of x"),
        ("cudaMemset((char*)d - 1, 0, 1);", "out-of-bounds", "cudaMemset((char*)d - 1, 0, 1);", "bytes -1 to 0 of"),
        ("step<<<1, 2048>>>(d, n);", "refused-launch", "step<<<1, 2048>>>(d, n);", "is refused: a block has 1024"),
        ("void* args[] = {&x, &n};\ncudaLaunchKernel((void*)step, 1, 32, args, 0, 0);", "out-of-bounds", "cudaLaunchKernel((void*)step, 1, 32, args, 0, 0);", "memory of the host"),
        ("cudaFree(d + 1);", "invalid-free", "cudaFree(d + 1);", "is given what was not asked for"),
        ("cudaFree(x);", "invalid-free", "cudaFree(x);", "is given what was not asked for"),
        ("cudaStreamCreate(0);", "invalid-free", "cudaStreamCreate(0);", "is given what is no stream"),
        ("cudaStreamDestroy(7);", "invalid-free", "cudaStreamDestroy(7);", "is given what is no stream"),
        (f"cudaMemcpy(d, d, 8{IN});", "wrong-direction", f"cudaMemcpy(d, d, 8{IN});", "told cudaMemcpyHostToDevice from d to d"),
        ("cudaMemcpy(d, x, 8, cudaMemcpyDefault);", "", "", ""),
        ("memcpy(d, x, 8);", "wrong-direction", "memcpy(d, x, 8);", "x"),
        ("size_t spare, all;\ncudaGetMemInfo(&spare, &all);", "", "", ""),
        ("cudaFancy(d);", "not-followed", "cudaFancy(d);", "is no function that is known here"),
        ("cudaGetLastError();", "", "", ""),
        ("other<<<1, 1>>>(d);", "not-followed", "", "lab ends there: other is launched"),
    ],
)  # fmt: skip
def test_a_finding_names_its_line_and_what_is_wrong(body, kind, line, words):
    found = followed(HERE.format(body))[1]
    assert [one[0] for one in found] == [kind] * bool(kind), found
    assert all(one[1] == line and words in one[2] for one in found), found


@pytest.mark.parametrize(
    ("body", "left"),
    [
        ("for (int i = 0; i < 3; ++i) step<<<1, 32>>>(d, n);", [3, 4, 5, 6]),  # each turn runs
        ("step<<<1, 32, 0>>>(d, n);", [1, 2, 3, 4]),
        ("if (cudaMemset(d, 0, 8) == cudaSuccess) cudaMemset(d, 0, 16);", [0] * 4),
        ("int* i = (int*)d;\ncudaMemset(i, 0, 16);\nstep<<<1, 32>>>(i, 1);", [2.0**-149, 0, 0, 0]),
        ("cudaMemset(d, 257, 8);", np.frombuffer(b"\1" * 8, np.float32).tolist() + [2, 3]),
        ("cudaMemset(d + 1, 0, 4);\ncudaMemset(d + 3, 0, 4);", [0, 0, 2, 0]),
        (f"cudaMemcpy(d + 1, x, 8{IN});", [0, 0, 1, 3]),
        (
            "float* e;\ncudaMalloc(&e, 8);\ncudaMemcpy(d, e, 8, cudaMemcpyDeviceToDevice);",
            [None, None, 2, 3],
        ),
    ],
)
def test_what_is_done_is_done_to_the_bytes(body, left):
    """Of memory that nobody set no element is a number; copies within the device do not count."""
    text = HERE.format(f"cudaMemcpy(d, x, 16{IN});\n{body}\ncudaMemcpy(x, d, 16{OUT});")
    x, found, counts = followed(text)
    assert not found and [None if math.isnan(v) else v for v in x] == left
    assert counts["copied"] == 32 + 8 * ("+ 1, x" in body)


@pytest.mark.parametrize(("mine", "others", "streams"), [(4, 28, 1), (7, 53, 0)])
def test_a_stream_counts_that_copied_an_eighth(mine, others, streams):
    """Both ends of what it copied, of all that was copied, and only with a launch of its own."""
    calls = [f"cudaMemcpyAsync(d, x, {mine}{IN}, s);", "step<<<1, 32, 0, s>>>(d, 1);"]
    while others > 0:
        calls.append(f"cudaMemcpy(e, x, {min(16, others)}{IN});")
        others -= 16
    for gone in ("", "step<<<1, 32, 0, s>>>(d, 1);"):
        counts = followed(TWO.format("\n".join(calls).replace(gone or "?", "")))[2]
        assert counts["streams"] == (0 if gone else streams)


def test_arrays_have_room_for_all_that_fits(monkeypatch):
    monkeypatch.setattr(hosting, "MOST_BYTES", 32)
    for size, gone, kinds in ((16, "", []), (17, "", ["not-followed"]), (17, "cudaFree(d);", [])):
        body = HERE.format(f"float* e;\n{gone}\ncudaMalloc(&e, {size});")
        assert [kind for kind, *_ in followed(body)[1]] == kinds
