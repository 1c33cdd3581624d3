"""The numbers that the five documents print, as they print them and as they must be read."""

import csv
from functools import cache

from helpers.ladder.kernel import ROOT
from nogpu.errors import DataError

PATH = ROOT / "data" / "published.csv"
COLUMNS = (
    "document", "section", "kind", "gpu", "kernel", "rung", "m", "n", "k", "block", "metric",
    "value", "unit", "printed", "printed_unit", "note",
)  # fmt: skip
KINDS = ("measured", "derived", "specified", "claimed")
"""measured: timed or counted there; derived: computed there from measured numbers; specified: a
property of the GPU or of the program; claimed: said in the text with no measurement beside it."""

Row = dict[str, str | int | float | None]


@cache
def _rows() -> tuple[Row, ...]:
    with PATH.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise DataError(
                f"{PATH} has columns {reader.fieldnames}, not {list(COLUMNS)}. "
                "Restore it from version control"
            )
        rows = []
        for line, raw in enumerate(reader, start=2):
            try:
                sizes = {n: int(raw[n]) if raw[n] else None for n in ("m", "n", "k")}
                row: Row = {**raw, "value": float(raw["value"]), **sizes}
            except (TypeError, ValueError) as fault:
                raise DataError(f"{PATH}, line {line}: {fault}. Restore it") from fault
            rows.append(row)
    return tuple(rows)


def published(**wanted: str | int) -> list[Row]:
    """Rows of data/published.csv whose columns have these values, such as document="L".

    value is a number in `unit` as it must be read (times in ms); printed and printed_unit are what
    the document says; note says where the two cannot agree, and why. rung is the catalog's name of
    the nearest kernel, gpu a key of device.GPUS, "cpu", or "unnamed_14sm" for document S, which
    does not name its GPU. m, n, k are None where a number has no size.
    """
    unknown = [name for name in wanted if name not in COLUMNS]
    if unknown:
        raise DataError(f"published.csv has no column {unknown[0]!r}; it has {', '.join(COLUMNS)}")
    return [dict(row) for row in _rows() if all(row[n] == v for n, v in wanted.items())]
