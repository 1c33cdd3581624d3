"""Numbers that a cell keeps under a name for the text of the page."""

import re
import string
from ast import literal_eval
from importlib.util import find_spec
from typing import Any

from helpers.notebook.pieces import Markdown, python_value
from helpers.page.glue_values import Leaf, leaves
from nogpu.errors import ConfigError, UnknownNameError, near_matches

_glued: dict[str, Any] = {}


def _in_ipython() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return get_ipython() is not None


NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
"""A name that the text may show: `gain`, or a leaf of something, `pair.block_1d.4096.gflops`."""
MOST = 1000
"""Leaves of one object: each is stored in the page."""
STORED = "application/papermill.record/"
"""Prefix of the form of an output that MyST-NB stores in place of showing it."""
_NOTHING = object()


def glue(name: str = "", value: Any = _NOTHING, /, **values: Any) -> None:
    """Keep values under names for the text of the page; nothing is displayed.

    glue("gain", 1.7) and glue(gain=1.7, share=91.0) keep numbers and words under their names. Of
    anything else every leaf is kept under a dotted name, by `leaves`: glue(pair=m) for a
    Measurement gives {glue:text}`pair.block_1d.4096.gflops:.0f`. In the book build MyST-NB stores
    them for {glue:text}; an exported notebook shows the same text by `say`. Raises ConfigError on a
    bad name or value.
    """
    objects = {name: value, **values} if value is not _NOTHING or name else values
    if not objects or any(one is _NOTHING for one in objects.values()):
        raise ConfigError("glue() takes a name and its value, or glue(name=value, ...)")
    glued_now: dict[str, Leaf] = {}
    for start, one in objects.items():
        if not NAME.fullmatch(start):
            raise ConfigError(
                f"name={start!r}: name a glued value like a Python variable, or "
                "`pair.naive.4096.ms`"
            )
        glued_now |= _leaf_or_leaves(start, one)
    _glued.update(glued_now)
    if _in_ipython() and find_spec("myst_nb"):  # on Colab say() reads the dictionary
        for leaf, one in glued_now.items():
            _store(leaf, one)


def _store(name: str, value: Leaf) -> None:
    """What myst_nb.glue(name, value, display=False) does, without asking IPython for each form that
    a number could be shown in: that took ten times as long, and a measurement has hundreds of
    leaves."""
    from IPython.display import display

    display(  # type: ignore[no-untyped-call]
        {f"{STORED}text/plain": repr(value)},
        raw=True,
        metadata={"scrapbook": {"name": name, "mime_prefix": STORED}},
    )


def _leaf_or_leaves(name: str, value: Any) -> dict[str, Leaf]:
    value = python_value(value)
    if isinstance(value, (bool, int, float, str)):
        return {name: value}
    parts = {f"{name}.{path}": leaf for path, leaf in leaves(value).items()}
    if not parts:
        raise ConfigError(
            f"glue({name!r}) got a {type(value).__name__}; give a number or words, or what has "
            "such leaves: a mapping, a dataclass, a Measurement, a Trace or Resources"
        )
    if len(parts) > MOST:
        raise ConfigError(
            f"glue({name!r}) would store {len(parts)} values and {MOST} are the most: glue the "
            "part that the text shows"
        )
    return parts


def glued(name: str) -> Any:
    """The value that was glued under a name. Raises UnknownNameError if none was."""
    if name not in _glued:
        raise UnknownNameError(
            f"the text shows {name!r}, which no cell has glued. "
            f"{near_matches(name, _glued) if _glued else ''} Run the cells above first."
        )
    return _glued[name]


def format_glued(value: Any, spec: str) -> str:
    """A glued value as {glue:text}`name:spec` writes it; an empty spec means as text.

    MyST-NB keeps the repr of the value, reads it back as a literal and converts it by the last
    letter of the spec: text for s, an integer for b c d o x X, a float for e f g n %.
    """
    text = repr(value)
    try:
        value = literal_eval(text)
    except (SyntaxError, ValueError):
        value = text
    spec = spec or "s"
    if spec[-1] == "s":
        value = str(value)
    elif spec[-1] in "bcdoxX":
        value = int(value)
    elif spec[-1] in "eEfFgGn%":
        value = float(value)
    return format(value, spec)


def say(template: str) -> Markdown:
    """A paragraph with glued values in it: {name:.1f} is {glue:text}`name:.1f` of the chapter.

    A literal brace is doubled. Raises UnknownNameError if nothing was glued under a name, and
    ConfigError if a format does not fit its value.
    """
    out = []
    for words, name, spec, conversion in string.Formatter().parse(template.strip("\n")):
        out.append(words)
        if name is None:
            continue
        if conversion:
            raise ConfigError(f"{{{name}!{conversion}}}: give a format after a colon instead")
        value = glued(name)
        try:
            out.append(format_glued(value, spec or ""))
        except (ValueError, TypeError) as error:
            raise ConfigError(
                f"{{{name}:{spec}}} does not fit the value {value!r}: {error}"
            ) from None
    return Markdown("".join(out))
