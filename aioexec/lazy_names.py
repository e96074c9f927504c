"""Names that are imported when they are first used: most programs use few ops, and each op is a module's work to load.

What a module offers is declared by imports that only type checkers see; `name_table` says the same at run time. Names of one
module are found by its `__getattr__`, which keeps what it found, so the second use costs nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from aioexec.name_table import PUBLIC


def public_names(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a module whose public names are in the table."""
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
    """For each public name where it comes from: a module and its attribute, or a module itself and ""."""
    sources = {}
    for source, names in PUBLIC[module].items():
        for word in names.split():
            name, renamed, attribute = word.partition("=")
            sources[name] = (source, attribute if renamed else name)
    return sources


def deferred(module: str, name: str) -> Callable[..., Any]:
    """A function that is imported when it is called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call
