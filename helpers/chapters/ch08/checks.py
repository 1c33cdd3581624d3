"""Checks for the exercises of chapter 08, 1D register blocking."""

from collections.abc import Iterator

from helpers.ladder.kernel import broken_rules
from helpers.ladder.rungs import catalog
from helpers.page.exercises import Check, KernelTask, checked_report, exercise, from_tiles, number

number(
    "08.1",
    "Multiply-adds per wavefront with a column of 16: A at half a wavefront, B at one",
    1 / (1 / 2 + 1 / 16),
    tolerance=0.015,
    what="multiply-adds per wavefront",
    mistakes={
        1.6: "that is TM = 8",
        3.2: "only the reads of B halve",
        16 / 17: "a value of A costs half a wavefront",
        1 / 2 + 1 / 16: "that is wavefronts for each multiply-add",
        2: "that leaves out B: a value of B still costs a wavefront, shared by 16",
        16: "that leaves out A: each multiply-add needs a value of A of its own",
    },
    hint="Half a wavefront for A and a sixteenth of one for B, for one multiply-add.",
)


@exercise("08.2", kind="kernel")
def column(answer: object) -> Iterator[Check]:
    """Four elements of a column a thread, 16 rows apart, in 16x16 threads."""
    grid, edge = ("cdiv(N, 16)", "cdiv(M, 64)", "1"), 64
    task = KernelTask("column", block=(16, 16), grid=grid, require=("__shared__",))
    report = yield from checked_report(answer, task, (edge, edge, edge))
    if report is None:
        return
    yield from from_tiles(
        report, edge**3 / 32, 1.25, "(4 + 1) / 4",
        reads="Walk through K once, and use each value of B_tile for all four sums.",
        loads="Read A and B from global memory once, into the tiles.",
    )  # fmt: skip


@exercise("08.3", kind="choice")
def tile(answer: object) -> Iterator[Check]:
    """A legal tile of block_1d with columns of 16 and 256 threads."""
    names = ("BM", "BN", "BK", "TM")
    if not isinstance(answer, dict) or set(answer) != set(names):
        yield Check(False, "a dictionary of BM, BN, BK and TM", got=repr(answer))
        return
    sizes = {name: answer[name] for name in names}
    whole = all(type(value) is int and value > 0 for value in sizes.values())
    yield Check(whole, "four whole numbers", got=repr(answer))
    if not whole:
        return
    yield Check(sizes["TM"] == 16, "a column of 16", got=str(sizes["TM"]))
    count = sizes["BM"] * sizes["BN"] / sizes["TM"]
    yield Check(count == 256, "256 threads", got=f"{count:g}", hint="That number is BM * BN / TM.")
    broken = broken_rules(catalog["block_1d"], **sizes)
    copied = f"BM * BK = {sizes['BM'] * sizes['BK']}, BK * BN = {sizes['BK'] * sizes['BN']}"
    got = f"{copied}, threads {count:g}" if broken else ""
    hint = f"The rule: {broken[0].reason}." if broken else ""
    yield Check(not broken, "legal", got=got, hint=hint)
