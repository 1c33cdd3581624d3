"""A table in a comment of a student's source: tiles, and what each of them costs.

    /* table
       BM, BN, BK, TM, TN, threads, reads
       64, 64, 16,  8,  8,      64,  0.25
    */

It is judged by the formulas of the lab's rubric, row by row, for whatever tiles a student chose: it
is text, and nothing of it runs.
"""

import math
from collections.abc import Mapping, Sequence

from helpers.ladder.kernel import value_of
from tilelabs.labs.rubrics import Rubric

Row = Mapping[str, float]
NEAR = 0.02
"""How far a value may be off, relative: two digits are enough."""
MOST_ROWS = 20


def fault(
    part: Rubric, text: str, constants: Sequence[tuple[str, int, int]], own: Mapping[str, int]
) -> str:
    """What is missing in a table or wrong in it, and where to look; "" for a right one.

    part: with the names and formulas of the columns, and how many rows are asked for. text: of the
    comment (`judging.marking.Marked.table`); "" for none. constants: names with the least and the
    most that each may be, as the lab has them. own: the constants that the kernel itself has; they
    must be those of the first row.
    """
    names = [name for name, _, _ in constants]
    lines = [cells for line in text.splitlines() if (cells := _cells(line))]
    if not lines:
        return (
            "no table is found: begin a comment of your source with `/* table`, a line of names, "
            f"{', '.join([*names, *part.table])}, and a row for each tile"
        )
    head, *rows = lines
    if lacking := [name for name in [*names, *part.table] if name not in head]:
        return f"the first line of the table names the columns, and lacks {', '.join(lacking)}"
    tiles: list[tuple[float, ...]] = []
    for n, cells in enumerate(rows[:MOST_ROWS], 1):
        row, wrong = _row(dict(zip(head, cells, strict=False)), [*names, *part.table])
        wrong = wrong or _illegal(part, row, constants)
        if n == 1 and not wrong and any(row[name] != own.get(name) for name in names):
            kernels = ", ".join(f"{name} = {own.get(name, '?')}" for name in names)
            wrong = f"the first tile is this kernel's, which has {kernels}"
        if wrong or (wrong := _wrong(part, row, names)):
            return f"row {n}: {wrong}"
        tiles.append(tuple(row[name] for name in names))
    if len(set(tiles)) < part.rows:
        return f"{len(set(tiles))} different tiles, and {part.rows} are asked for: add a row"
    return ""


def _cells(line: str) -> list[str]:
    """Between commas, or bars; none of a line without either, such as Markdown's under a head."""
    cells = [cell.strip() for cell in line.strip(" |*\t").replace("|", ",").split(",")]
    return cells if len(cells) > 1 and any(c.strip("-: ") for c in cells) else []


def _row(cells: Mapping[str, str], names: Sequence[str]) -> tuple[dict[str, float], str]:
    """The numbers of a row by column, or which is none."""
    row: dict[str, float] = {}
    for name in names:
        try:
            row[name] = float(cells.get(name, ""))
        except ValueError:
            return {}, f"{name} is {cells.get(name) or 'empty'!r}: write a plain number"
    odd = [name for name, value in row.items() if not math.isfinite(value)]
    return row, f"{odd[0]} is no finite number" if odd else ""


def _illegal(part: Rubric, row: Row, constants: Sequence[tuple[str, int, int]]) -> str:
    """Why no kernel has such a tile."""
    for name, least, most in constants:
        if row[name] not in range(least, most + 1):
            return f"{name} is {row[name]:g}, and may be {least} to {most}"
    sizes = {name: int(row[name]) for name, _, _ in constants}
    return "" if value_of(part.rule, sizes) else f"a tile has {part.rule}"


def _wrong(part: Rubric, row: Row, names: Sequence[str]) -> str:
    """The first column that is off, and where to look; not what should stand there."""
    known: dict[str, float] = {name: int(row[name]) for name in names}
    for name, formula in part.table.items():
        known[name] = value_of(formula, known)
        if not math.isclose(row[name], known[name], rel_tol=NEAR, abs_tol=1e-9):
            return f"{name} is {row[name]:g}, which this tile does not give. {part.looks[name]}"
    return ""
