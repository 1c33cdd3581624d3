"""A course: its secret, from which variants and cases are drawn, and the tables that a teacher
fills in.
"""

import hmac
import json
import os
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nogpu.disk import replace_file
from nogpu.errors import ConfigError, DataError
from tilelabs.labs.rubrics import Lab, Variant

FILE = "course.toml"
MISSING = ("empty", "zero")
TABLES = {
    "roster.csv": "id,name\n",
    "overrides.csv": "student,lab,part,points,reason\n",
    "groups.csv": "student,group,lab\n",
    "fixes.csv": "student,lab,old,new,reason\n",
}
"""Tables that `new` makes, empty but for their heads."""


@dataclass(frozen=True)
class Course:
    """name: of the course. secret: 32 bytes, which no student sees. variants: by a lab's number,
    where the teacher chooses in place of the draw. folder: where its files lie. tag: of the book
    that students fetch (a branch or a tag); "": the book's own branch. missing: what who handed
    nothing in gets, "empty" cells or "zero" points.
    """

    name: str
    secret: bytes = field(repr=False)
    folder: Path
    variants: dict[str, str] = field(default_factory=dict)
    tag: str = ""
    missing: str = "empty"

    def variant(self, lab: Lab) -> Variant:
        """The variant of a lab for this course.

        Raises DataError where the chosen one does not exist.
        """
        chosen = self.variants.get(lab.number)
        if chosen is None:
            drawn = hmac.digest(self.secret, f"variant of lab {lab.number}".encode(), "sha256")
            return lab.variants[int.from_bytes(drawn[:8], "big") % len(lab.variants)]
        for one in lab.variants:
            if one.name == chosen:
                return one
        known = ", ".join(v.name for v in lab.variants)
        raise DataError(
            f"{self.folder / FILE}: lab {lab.number} has no variant {chosen!r}; it has {known}"
        )


def new(folder: Path, name: str = "", variants: Mapping[str, str] | None = None) -> Course:
    """Make a course: course.toml with a fresh secret, and empty tables, readable by their owner
    alone and out of git.

    variants: by a lab's number, those that are not drawn.
    Raises ConfigError where there is one already: its secret has drawn what students work on.
    """
    if (folder / FILE).exists():
        raise ConfigError(
            f"{folder / FILE} is there already: choose another folder, or use this course"
        )
    folder.mkdir(parents=True, exist_ok=True)
    secret = secrets.token_hex(32)
    text = (
        "# Keep this file to yourself: who has the secret knows what submissions are tried on.\n"
        f"name = {json.dumps(name or folder.resolve().name)}\n"
        f'secret = "{secret}"\n'
        '# tag = "v1"  # of the book that students fetch, so that it stays as it is during the '
        "course\n"
        '# missing = "zero"  # of who handed nothing in, in place of "empty"\n\n'
        "[variants]\n"
        '# 2 = "B transposed"  # in place of the variant that is drawn\n'
        + "".join(f"{n} = {json.dumps(variant)}\n" for n, variant in (variants or {}).items())
    )
    opened = os.open(folder / FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(opened, "w", encoding="utf-8") as file:
        file.write(text)
    for table, head in {**TABLES, ".gitignore": "*\n"}.items():
        if not (folder / table).exists():
            replace_file(folder / table, head, 0o600)
    return read(folder)


def read(folder: Path) -> Course:
    """The course of a folder. Raises DataError where there is none, or its file is damaged."""
    path = folder / FILE
    if not path.is_file():
        raise DataError(
            f"{folder} has no {FILE}: make one by python -m helpers course new {folder}"
        )
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        secret = bytes.fromhex(data["secret"])
        variants = {str(n): str(v) for n, v in data.get("variants", {}).items()}
        if {"due", "late"} & data.keys():
            raise ValueError("late days are left to the platform: drop [due] and [late]")
        tag, missing = (str(data.get(n, other)) for n, other in (("tag", ""), ("missing", "empty")))
        if missing not in MISSING:
            raise ValueError(f"missing is {missing!r}, and may be {' or '.join(MISSING)}")
        made = Course(str(data["name"]), secret, folder, variants, tag, missing)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged: {error}") from None
    if len(secret) < 16:
        raise DataError(f"{path} has a secret of {len(secret)} bytes, which can be guessed")
    return made
