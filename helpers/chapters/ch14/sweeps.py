"""What the recorded sweep of tiles says about one number of fp32_best at a time."""

from types import SimpleNamespace

from helpers.ladder.rungs import catalog
from helpers.record import DEFAULT_GPU, fingerprint, load

KERNEL, SIZE = "fp32_best", 4096
NAMES = ("STAGES", "GROUP_M")


def swept(gpu: str = DEFAULT_GPU, **tile: int) -> float | None:
    """Percent of cuBLAS at 4096 with a tile of fp32_best as its code stands now; None where nobody
    timed it."""
    params = {**catalog[KERNEL].params, **tile}
    entries = load(gpu).find(
        "sweep", kernel=KERNEL, source=fingerprint(KERNEL), m=SIZE, params=params
    )
    return 100 * float(entries[0]["cublas_ratio"]) if entries else None


def alone(gpu: str = DEFAULT_GPU) -> SimpleNamespace:
    """What the sweep says where one number of fp32_best's tile is changed and nothing else.

    rows: of the table, % of cuBLAS by parameter and value. known: whether all of it was timed with
    today's code. spread: between the best and the worst value of each parameter, where known.
    caption: of the table.
    """
    kernel = catalog[KERNEL]
    shares = {name: [swept(gpu, **{name: v}) for v in kernel.choices[name]] for name in NAMES}
    rows = [
        {"parameter": name, "set to": v, "of cuBLAS (%)": share}
        for name in NAMES
        for v, share in zip(kernel.choices[name], shares[name], strict=True)
    ]
    timed = {name: [v for v in values if v is not None] for name, values in shares.items()}
    known = timed == shares
    spread = {name: max(v) - min(v) for name, v in timed.items()} if known else {}
    own = ", ".join(f"{name} {kernel.params[name]}" for name in NAMES)
    caption = f"{KERNEL} at {SIZE} with one number changed; it has {own}."
    return SimpleNamespace(rows=rows, known=known, spread=spread, caption=caption)
