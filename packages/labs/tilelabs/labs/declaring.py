"""What a notebook, and a submission, say of themselves: which lab they are for, in which form.

It stands in the notebook's metadata, and beside it in lab2.json, so that a check and a hand-in in
that folder mean the same lab, whoever asks: a cell, another one after a restart, or a terminal.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nogpu.disk import replace_file
from nogpu.errors import ConfigError, DataError

KEY = "tile_by_tile"
"""Under which it stands in a notebook's metadata."""


@dataclass(frozen=True)
class Declaration:
    """lab: its number. version: of the lab. variant: by name. tag: of the book, "" where none is
    asked for. commit: of the book that made it, "" in what is handed out.
    """

    lab: str
    version: int
    variant: str
    tag: str = ""
    commit: str = ""

    def metadata(self) -> dict[str, Any]:
        """A notebook's metadata, with a kernel of Python."""
        return {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            KEY: {name: value for name, value in asdict(self).items() if value or name != "commit"},
        }


def write(folder: Path, what: Declaration) -> None:
    """Keep it in a folder. Raises ConfigError for a folder that cannot be written."""
    data = {name: value for name, value in asdict(what).items() if name != "commit"}
    try:
        replace_file(folder / f"lab{what.lab}.json", json.dumps(data) + "\n")
    except OSError as error:
        raise ConfigError(
            f"this folder cannot be written ({error.strerror}), and your kernel is kept in it: "
            "open the notebook in another one"
        ) from None


def read(folder: Path, number: str | int) -> Declaration | None:
    """What a folder's lab2.json says; None where there is none.

    Raises DataError for a damaged one.
    """
    path = folder / f"lab{number}.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        made = Declaration(**data)
        if [type(v) for v in asdict(made).values()] != [str, int, str, str, str]:
            raise TypeError("a value of another kind")
        return made
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{path.name} is damaged ({error}): run the first cell of the lab's notebook again, "
            "or delete it"
        ) from None
