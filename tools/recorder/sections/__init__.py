"""The sections of a record, a module to a kind of measurement.

A section is the class of its entries, in helpers.record.entries, and one file here: what a record
lacks of it (a generator of `steps.Step`), and the tuple SECTIONS, which makes it known to the
campaign and the command line. Nothing else lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from tools.recorder.steps import Section

_FOUND = [import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__)]
ALL: Mapping[str, Section] = {
    section.title: section
    for section in sorted(
        (s for module in _FOUND for s in getattr(module, "SECTIONS", ())), key=lambda s: s.rank
    )
}
"""Every section by its title, in the order in which a campaign takes them."""
OPTIONS: Mapping[str, Section] = {name: s for name, s in ALL.items() if s.option}
"""Those that `record` measures where they are asked for."""
