"""A notebook that nobody trusts, read in a process of its own: its cells as text.

Ninety kilobytes of a zip can hold millions of lists, so what parses a notebook has limits of its
own, and what comes back is short.
"""

import json
from typing import Any

from nogpu.errors import SourceError
from tilelabs import apart

MOST_BYTES = 20_000_000
"""Of a notebook: it carries outputs."""
_NONE = (
    "it is no notebook that can be read: save it anew in Jupyter or Colab, and hand in that file"
)

Cell = tuple[str, str, str]
"""Its type, its id ("" for none), its text."""


def read(raw: bytes, key: str) -> tuple[list[Cell], dict[str, str]]:
    """The cells of a notebook, in order, and what its metadata says under a key, by name.

    Locked where the machine can. Raises SourceError for what is no notebook, or one that is too
    large.
    """
    if len(raw) > MOST_BYTES:
        raise SourceError(
            f"it is larger than {MOST_BYTES // 10**6} MB: clear the outputs of the notebook"
        )
    try:
        job = {"text": raw.decode("utf-8-sig"), "key": key}
    except UnicodeDecodeError:
        raise SourceError(_NONE) from None
    locked = () if apart.landlock() else None
    done = apart.run("tilelabs.judging.notebooks:parsed", job, readable=locked)
    if done.ended:
        raise SourceError(f"its notebook cannot be read: {done.fault}. Clear its outputs")
    if done.fault:
        raise SourceError(_NONE)
    return [tuple(cell) for cell in done.value["cells"]], done.value["said"]


def parsed(job: dict[str, str]) -> dict[str, Any]:
    """What `read` asks of job["text"], in the process of its own."""
    data: Any = json.loads(job["text"])
    cells = [[c["cell_type"], str(c.get("id", "")), "".join(c["source"])] for c in data["cells"]]
    about = data.get("metadata")
    names = about.get(job["key"]) if isinstance(about, dict) else None
    items = names.items() if isinstance(names, dict) else ()  # nobody loses points for odd metadata
    return {"cells": cells, "said": {n: str(v) for n, v in items if isinstance(v, str | int)}}
