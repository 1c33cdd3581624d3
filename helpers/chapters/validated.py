"""Records in data/validation that tools wrote on a GPU."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def record(file: Path) -> Row:
    """What such a file holds."""
    found: Row = json.loads(file.read_text(encoding="utf-8"))
    return found


def by_kernel(rows: Iterable[Row], *case: str) -> dict[tuple[Any, ...], dict[str, Row]]:
    """Rows of a record by contender, for each case: what rows have alike in these columns."""
    found: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in case), {})[row["kernel"]] = row
    return found


def stamp(file: Path, chapter: str = "") -> str:
    """A sentence: where and when it was recorded, or what of it belongs to a chapter."""
    kept = record(file)
    of = kept.get("later", {}).get(chapter, kept["recorded"])
    return (
        f"Recorded {of['date']} on one {kept['gpu']['name']}, driver {of['driver']}, cuBLAS "
        f"{of['cublas']}, commit {of['commit']}."
    )
