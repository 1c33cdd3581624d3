"""Records of an H100 in data/validation, written by tools that stand on tools/beside.py."""

import json
from pathlib import Path
from typing import Any


def record(file: Path) -> dict[str, Any]:
    """What an H100 said."""
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def stamp(file: Path) -> str:
    """A sentence: where and when it was recorded."""
    kept = record(file)
    of = kept["recorded"]
    return (
        f"Recorded {of['date']} on one {kept['gpu']['name']}, driver {of['driver']}, cuBLAS "
        f"{of['cublas']}, commit {of['commit']}."
    )
