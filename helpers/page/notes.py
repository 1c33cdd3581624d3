"""What a page says of its records: where numbers come from, tuned tiles, stalls, evidence."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from helpers.ladder.kernel import Kernel
from helpers.notebook.pieces import Html, Markdown
from helpers.page.tables import table
from helpers.record import DEFAULT_GPU, load, ncu, stalls, tuned
from helpers.record.agree import on_tensor_cores
from helpers.record.measurement import provenance_of
from helpers.wording import folded_source
from nogpu.errors import DataError, UnknownNameError, near_matches


def provenance(*measurements: Any) -> Html:
    """Where the numbers come from, in one small sentence for each measurement: live or replayed.

    For numbers that stand in no chart and no table: those say it themselves.
    """
    if not measurements:
        raise DataError("provenance() takes what measure(...) returned")
    text = provenance_of(*measurements)
    return Html(folded_source(text), text)


def tuned_note(kernel: Kernel | str, size: int = 4096, gpu: str = DEFAULT_GPU) -> Markdown | None:
    """A sentence on the confirmed best tile of a kernel on a GPU; None where none is recorded.

    As the last line of a cell it shows the sentence or nothing, so the text around it must not need
    it.
    """
    best = tuned(kernel, size, gpu)
    if best is None:
        return None
    changed = ", ".join(f"{n} = {v}" for n, v in best["params"].items() if best["default"][n] != v)
    name = load(gpu).gpu["name"]
    timed = f"Of {best['tiles']} tiles timed on the {name} at {size}"
    share = ""
    if best["cublas_ratio"] is not None:
        share = f"; it reaches {100 * best['cublas_ratio']:.1f} % of cuBLAS"
    if best["gain"] is None:
        return Markdown(f"{timed}, none is faster than the one used here.")
    return Markdown(
        f"{timed}, the best has {changed}: {best['gain']:.2f} times as fast as the one used "
        f"here{share}."
    )


BUSY: Mapping[str, str] = {
    "busy (%): schedulers, issuing": "issue_percent",
    "busy (%): data pipe of L1 and shared memory": "shared_percent",
    "busy (%): FMA pipe": "fma_percent",
    "busy (%): Tensor Cores": "tensor_percent",
}
"""Units whose busy clocks the record has, by the words of a table.

Of the Tensor Cores only those of kernels that use them are shown: ncu's counter reads up to one
percent where no such instruction runs.
"""

REASONS: Mapping[str, tuple[str, ...]] = {
    "it issues": ("issues",),
    "data from global memory or L1": ("long_scoreboard",),
    "data from shared memory": ("short_scoreboard",),
    "a full queue of memory instructions": ("mio_throttle", "lg_throttle"),
    "a barrier": ("barrier", "membar"),
    "a busy arithmetic unit": ("math_pipe_throttle",),
    "the result before it, a few clocks": ("wait",),
    "Tensor Cores (wgmma)": ("gmma",),
    "the dispatcher, which holds it back": ("dispatch_stall",),
    "its turn: another warp issues": ("not_selected",),
}
"""Words for ncu's reasons, with the reasons that they stand for; the others are "other reasons"."""
STALLED = ncu.NAMES["barrier"].replace("barrier", "REASON")
FORMULAS: Mapping[str, str] = {
    **{words: f"{{{name}}}" for words, name in BUSY.items()},
    "warps a scheduler": "{warps}",
    **{words: ", ".join(named) for words, named in REASONS.items() if words != "it issues"},
}
"""Rows of `stall_note` by what ncu was asked for; of reasons, what stands for REASON in
`STALLED`."""


def stall_note(kernels: Sequence[str]) -> Html | None:
    """A table of what the warps of some kernels wait for on a GPU; None where none is recorded.

    As the last line of a cell it shows the table or nothing, so the text around it must not need
    it.
    """
    recorded = stalls(kernels)
    if not recorded:
        return None
    rows = []
    for row in recorded:
        waits = {
            words: sum(row["waits"].get(r, 0.0) for r in named) for words, named in REASONS.items()
        }
        unused = () if on_tensor_cores(row["kernel"]) else ("tensor_percent",)
        busy = {words: None if n in unused else row.get(n) for words, n in BUSY.items()}
        rows.append(
            {"kernel": row["kernel"], **busy,
             "warps a scheduler": row["warps"], **waits,
             "other reasons": sum(row["waits"].values()) - sum(waits.values())}
        )  # fmt: skip
    most = {name: max((row[name] or 0.0) for row in rows) for name in rows[0] if name != "kernel"}
    order = [name for name in rows[0] if name == "kernel" or most[name] >= 0.5]
    record, size = load(DEFAULT_GPU), recorded[0]["m"]
    return table(
        rows,
        columns=order,
        turned=True,
        caption=(
            f"At {size}: how busy units of the SM are, then what a warp does, in percent of its"
            " time: it issues, or waits for the thing named. Read by ncu; a warp that waits costs"
            " nothing while another one issues."
        ),
        formats=dict.fromkeys(order[1:], ".1f"),
        note=record.label([e for e in record.data["stalls"] if e["kernel"] in kernels]),
        folded=ncu.named({w: f for w, f in FORMULAS.items() if w in order})
        + f" A reason is {STALLED}, as percent of a warp's time.",
    )


def evidence(of: str, otherwise: str = "") -> Html | Markdown | None:
    """The table of a record in data/validation, or, where there is none, a sentence, or nothing.

    of: "sanitizer", "shapes", "mutants" or "hopper mutants" (see helpers.record.evidence).
    otherwise: the sentence.
    """
    from helpers.record import evidence as records

    tables: dict[str, Callable[[], records.Table | None]] = {
        "sanitizer": records.sanitizer_table,
        "shapes": records.shapes_table,
        "mutants": records.mutants_table,
        "hopper mutants": partial(records.mutants_table, hopper=True),
    }
    if of not in tables:
        raise UnknownNameError(f"there is no evidence {of!r}. {near_matches(of, tables)}")
    record = tables[of]()
    if record is None:
        return Markdown(otherwise) if otherwise else None
    return table(**vars(record))
