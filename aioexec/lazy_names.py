"""Names that are imported at first use: most programs use few ops, and importing the modules of all takes long.

The public names of a module are declared by imports under TYPE_CHECKING; `name_tables` has the same data at run time. The
module's `__getattr__` imports a name and stores it, so later uses cost nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def public_names(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module whose public names are in the table."""
    sources = _sources(module)
    namespace = vars(sys.modules[module])

    def find(name: str) -> Any:
        if name == "__all__":
            return sorted(sources)
        if name not in sources:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        source, attribute = sources[name]
        value = getattr(import_module(source), attribute) if attribute else import_module(source)
        namespace[name] = value
        return value

    return find, lambda: sorted({*namespace, *sources})


def _sources(module: str) -> dict[str, tuple[str, str]]:
    """For each public name its source: (module, attribute), or (module, "") for a module."""
    sources = {}
    for source, names in import_module(f"aioexec.name_tables.{module.replace('.', '_')}").SOURCES.items():
        for word in names.split():
            name, renamed, attribute = word.partition("=")
            sources[name] = (source, attribute if renamed else name)
    return sources


def deferred(module: str, name: str) -> Callable[..., Any]:
    """A function that is imported when it is first called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call
