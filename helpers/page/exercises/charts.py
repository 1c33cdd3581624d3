"""Checks of a chart or a table: what it shows, and what it says of itself; never its pixels.

A chart is an Axes of Matplotlib, a table a frame of pandas or a list of dicts. Each is known by
what it can do, so that neither library is imported here."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.page.exercises.answers import _near, _number
from helpers.page.exercises.results import Check

Points = Mapping[float, float]
"""Values by where they stand: on the x axis of a chart, in the first column of a table."""


@dataclass(frozen=True)
class Axis:
    """What an axis of a chart, or a column of a table, shows.

    name: with its unit, as a hint gives it: "stride (floats)". says: what its label must say, in
    small letters; "time|ms" is either. log: whether the axis is to be logarithmic.
    """

    name: str
    says: tuple[str, ...]
    log: bool = False

    def lacks(self, label: str) -> list[str]:
        """What a label leaves out."""
        text = label.casefold()
        return [words for words in self.says if not any(word in text for word in words.split("|"))]


def check_chart(
    answer: Any, x: Axis, y: Axis, series: Mapping[str, Points], *, tolerance: float = 0.01,
    hint: str = "",
) -> Iterator[Check]:  # fmt: skip
    """Whether an Axes shows these series as lines, bars or dots, and says what its axes are.

    series: values by name; a legend must tell several apart. Points beyond these, and lines
    without a label beside those with one, are the reader's own. hint: where a value is wrong.
    """
    inside = getattr(answer, "axes", None)  # of a figure a list
    axes = inside[0] if isinstance(inside, list) and len(inside) == 1 else answer
    if not hasattr(axes, "get_xlabel"):
        how = (
            "The call that draws returns it: `ax = frame.plot(...)`, or `fig, ax = plt.subplots()`."
        )
        kind = type(answer).__name__
        yield Check(False, "the answer is a chart", kind, "an Axes of Matplotlib", how)
        return
    for letter, axis in (("x", x), ("y", y)):
        label, scale = (getattr(axes, f"get_{letter}{what}")() for what in ("label", "scale"))
        yield Check(
            not axis.lacks(label),
            f"the {letter} axis says what it shows, with its unit",
            got=repr(label) if label else "no label",
            hint=f'Write `ax.set_{letter}label("{axis.name}")`, in your own words.',
        )
        if axis.log:
            how = (
                f'Write `ax.set_{letter}scale("log")`: each step multiplies, and none is squeezed.'
            )
            what = f"the {letter} axis is logarithmic"
            yield Check("log" in scale, what, got=f"a {scale} one", hint=how)
    drawn = _drawn(axes)
    if len(drawn) > 1:
        how = "Give each a `label=` and write `ax.legend()`."
        yield Check(_legend(axes) is not None, "a legend says which is which", hint=how)
    names = _names(axes, drawn)
    for name, wanted in series.items():
        matching = sorted((n for n in names if _plain(name) in _plain(n)), key=len)
        if not matching and not (len(drawn) == len(series) == 1):
            found = ", ".join(n for n in names if n) or ("no name" if drawn else "nothing drawn")
            how = f'Draw it, and give it the name: `ax.plot(..., label="{name}")`.'
            yield Check(False, f"{name} is in the chart", got=found, hint=how)
            continue
        artist = drawn[names.index(matching[0]) if matching else 0]
        yield _values(name, _points(axes, artist), wanted, x.name, tolerance, hint)


def check_table(
    answer: Any, key: Axis, columns: Mapping[Axis, Points], *, tolerance: float = 0.01,
    hint: str = "",
) -> Iterator[Check]:  # fmt: skip
    """Whether a frame, or a list of dicts, has these columns, by the key in a column or the index.

    Rows and columns beyond these are the reader's own. hint: where a value is wrong.
    """
    table = answer.reset_index() if hasattr(answer, "reset_index") else answer
    rows = table.to_dict("records") if hasattr(table, "to_dict") else table
    if not (isinstance(rows, list) and rows and all(isinstance(row, Mapping) for row in rows)):
        how = "Make it of rows: `pd.DataFrame([{...}, {...}])`."
        kind = type(answer).__name__
        yield Check(False, "the answer is a table", kind, "a DataFrame of pandas", how)
        return
    heads = {str(head): head for row in rows for head in row}

    def head(axis: Axis) -> Check:
        found = [name for name in heads if not axis.lacks(name)]
        how = f"Call it so that one can read it alone, with its unit, as in `{axis.name}`."
        what = f"a column for {axis.name}"
        return Check(bool(found), what, got=", ".join(found[:1] or heads), hint=how)

    yield (keyed := head(key))
    for axis, wanted in columns.items():
        yield (column := head(axis))
        if keyed.ok and column.ok:
            pairs = ((row.get(heads[c.got]) for c in (keyed, column)) for row in rows)
            points = {at: v for at, v in (map(_number, pair) for pair in pairs) if at is not None}
            yield _values(axis.name, points, wanted, key.name, tolerance, hint)


def _values(
    name: str, got: Mapping[float, float | None], wanted: Points, key: str, tolerance: float,
    hint: str,
) -> Check:  # fmt: skip
    """Whether every wanted value is there; else the first missing or wrong, not its value."""
    found = {at: next((v for x, v in got.items() if _near(x, at, 1e-6)), None) for at in wanted}
    if missing := [at for at, value in found.items() if value is None]:
        what = f"{name} at {key} = {', '.join(f'{at:g}' for at in missing)}"
        return Check(False, what, got="no value", hint="Add what is missing.")
    wrong = [at for at, v in found.items() if v is not None and not _near(v, wanted[at], tolerance)]
    if not wrong:
        return Check(True, f"{name}: {len(wanted)} values are right")
    factors = [(found[at] or 0) / wanted[at] for at in wanted if wanted[at]]
    if len(factors) > 2 and factors[0] and all(_near(f, factors[0], tolerance) for f in factors):
        hint = f"Each is {factors[0]:.4g} times what it should be: look at the unit."
    where = f"{name} at {key} = {wrong[0]:g}"
    more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
    return Check(False, f"{where}{more}", got=f"{found[wrong[0]]:g}", hint=hint)


# -- reading an Axes -------------------------------------------------------------------------------


def _drawn(axes: Any) -> list[Any]:
    """Lines, upright bars and dots; those without a label only where none has one."""
    upright = [c for c in axes.containers if getattr(c, "orientation", "") == "vertical"]
    dots = [c for c in axes.collections if hasattr(c, "get_offsets") and len(c.get_offsets())]
    every = [*axes.lines, *upright, *dots]
    return [a for a in every if not str(a.get_label()).startswith("_")] or every


def _legend(axes: Any) -> Any:
    return axes.get_legend() or next(iter(axes.figure.legends), None)


def _names(axes: Any, drawn: Sequence[Any]) -> list[str]:
    """What the legend calls each, by its colour; their own labels where there is no legend, or
    colours do not tell them apart."""
    legend, colours = _legend(axes), [_colour(artist) for artist in drawn]
    if legend is None or len(set(colours)) < len(colours):
        return [str(artist.get_label()) for artist in drawn]
    texts = [text.get_text() for text in legend.get_texts()]
    labels = dict(zip(map(_colour, legend.legend_handles), texts, strict=False))
    return [labels.get(colour, "") for colour in colours]


def _colour(artist: Any) -> Any:
    one = artist.patches[0] if getattr(artist, "patches", None) else artist
    colour = one.get_color() if hasattr(one, "get_color") else one.get_facecolor()
    return colour if isinstance(colour, str) else tuple(np.ravel(colour)[:4])


def _plain(name: str) -> str:
    return name.casefold().replace("_", " ")


def _points(axes: Any, artist: Any) -> dict[float, float]:
    """Values by x; where ticks are categories, 0, 1, 2 and so on, the number that one names."""
    if hasattr(artist, "patches"):
        pairs = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in artist.patches]
    elif hasattr(artist, "get_offsets"):
        pairs = [*artist.get_offsets()]
    else:
        pairs = [*zip(*artist.get_data(orig=False), strict=True)]
    named = _categories(axes)
    at = ((named.get(round(x), x), y) for x, y in pairs if np.isfinite([x, y]).all())
    return {float(x): float(y) for x, y in at}


def _categories(axes: Any) -> dict[float, float]:
    """The numbers that categories name, by their place, 0, 1, 2 and so on; empty where x is a
    number."""
    formatter, ticks = axes.xaxis.get_major_formatter(), axes.xaxis.get_majorticklocs()
    if type(formatter).__name__ == "ScalarFormatter":
        return {}
    texts = (text.replace(",", "") for text in formatter.format_ticks(ticks))
    pairs = zip(ticks, texts, strict=True)
    named = {at: float(text) for at, text in pairs if re.fullmatch(r"\d+(\.\d*)?", text)}
    return named if [*named] == [*range(len(named))] else {}
