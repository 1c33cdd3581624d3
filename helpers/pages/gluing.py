"""Numbers that a cell keeps under a name for the text of the page."""

from __future__ import annotations

import re
import string
from ast import literal_eval
from typing import Any

from helpers.errors import ConfigError, UnknownNameError, near_matches
from helpers.pages.pieces import Markdown, python_value

_glued: dict[str, Any] = {}


def _in_ipython() -> bool:
    try:
        from IPython.core.getipython import get_ipython
    except ImportError:
        return False
    return get_ipython() is not None


def glue(name: str, value: Any) -> None:
    """Keep a value under a name for the text of the page; nothing is displayed.

    In the book build MyST-NB stores it for {glue:text}`name:.1f`; an exported notebook shows the
    same text by `say`. value: a number or words. Raises ConfigError on a bad name or value.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ConfigError(f"{name=}: name a glued value like a Python variable")
    kept = python_value(value)
    if not isinstance(kept, (bool, int, float, str)):
        raise ConfigError(f"glue({name!r}) got a {type(value).__name__}; give a number or words")
    _glued[name] = kept
    if not _in_ipython():
        return
    try:
        from myst_nb import glue as store
    except ImportError:  # Colab: say() reads the dictionary
        return
    store(name, kept, display=False)


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
