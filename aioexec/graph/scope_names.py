"""Adds a scope to a name or removes it: names of nodes, tensors, control inputs ("^a") and colocation groups ("loc:@a")."""

from __future__ import annotations

import re
from typing import Any, Final

_MARKED: Final = re.compile(r"(\^|loc:@|)(.*)", re.DOTALL)


def strip_name_scope(name: Any, export_scope: str | None) -> Any:
    """A name without the scope as its prefix; unchanged if it is not in that scope, or is not a string."""
    text = _text(name) if export_scope else None
    if text is None or export_scope is None:
        return name
    mark, rest = _parts(text)
    scope = export_scope.removesuffix("/")
    if not rest.startswith(f"{scope}/"):
        return mark + rest
    return mark + rest.removeprefix(scope).lstrip("/")


def prepend_name_scope(name: Any, import_scope: str | None) -> Any:
    """A name with the scope as its prefix; unchanged if there is no scope, or it is not a string."""
    text = _text(name) if import_scope else None
    if text is None or import_scope is None:
        return name
    mark, rest = _parts(text)
    return f"{mark}{import_scope.removesuffix('/')}/{rest}"


def is_in_scope(name: str, scope: str | None) -> bool:
    """Whether a name is the scope's or is in the scope; without a scope always true."""
    if not scope:
        return True
    scope = scope.removesuffix("/")
    rest = _parts(name)[1].split(":")[0]
    return rest == scope or rest.startswith(f"{scope}/")


def _text(name: Any) -> str | None:
    if not isinstance(name, bytes):
        return name if isinstance(name, str) else None
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _parts(name: str) -> tuple[str, str]:
    """The mark of a control input or colocation group ("^", "loc:@"), and the rest of the name."""
    match = _MARKED.fullmatch(name)
    assert match is not None
    return match[1], match[2]
