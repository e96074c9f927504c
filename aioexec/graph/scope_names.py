"""The name scopes of a graph, and functions that add a scope to a name or remove it.

Names are those of nodes, tensors, control inputs ("^a") and colocation groups ("loc:@a").
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aioexec.errors import GraphTypeError, GraphValueError

GRADIENT_NAME: Final = "_gradient_op_type"
"""The attribute that names the gradient rule of a node."""

OP_NAME: Final = re.compile(r"^[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*$")
_SCOPE_NAME: Final = re.compile(r"^[A-Za-z0-9_.\\/>-]*$")
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


class NameScopes:
    """The scopes of a graph that set names: those of new nodes, of the container of their state, and of their gradient rules.

    `_names_in_use`: the names of nodes and scopes in lower case, with a count of their uses. `_name_stack`: the current scope.
    """

    def __init__(self) -> None:
        self._names_in_use: dict[str, int] = {}
        self._name_stack = ""
        self._container = ""
        self._gradient_names: Mapping[str, str] = {}

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """`name` under the current scope, with _1, _2, … appended when it is taken."""
        full = f"{self._name_stack}/{name}" if self._name_stack else name
        key = full.lower()
        count = self._names_in_use.get(key, 0)
        if mark_as_used:
            self._names_in_use[key] = count + 1
        if count == 0:
            return full
        candidate = key
        while candidate in self._names_in_use:
            candidate, count = f"{key}_{count}", count + 1
        if mark_as_used:
            self._names_in_use[candidate] = 1
        return f"{full}_{count - 1}"

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Put new nodes under `name`; a trailing "/" reopens a scope, None or "" leaves all scopes."""
        allowed, place = (_SCOPE_NAME, "") if self._name_stack else (OP_NAME, "root ")
        if name and not allowed.match(name):
            raise GraphValueError(f"{name!r} is not a valid {place}scope name")
        old = self._name_stack
        if not name:
            self._name_stack = ""
        elif name.endswith("/"):
            self._name_stack = name[:-1]
        else:
            self._name_stack = self.unique_name(name)
        try:
            yield f"{self._name_stack}/" if self._name_stack else ""
        finally:
            self._name_stack = old

    def get_name_scope(self) -> str:
        return self._name_stack

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Set the resource container of new stateful nodes."""
        old, self._container = self._container, container_name
        try:
            yield container_name
        finally:
            self._container = old

    @property
    def default_container(self) -> str:
        return self._container

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: Mapping[str, str]) -> Iterator[None]:
        """Within the block, new nodes of these ops use the gradient rules registered under the names given here."""
        if not all(isinstance(item, str) for pair in op_type_map.items() for item in pair):
            raise GraphTypeError(f"op_type_map must map op types to names of gradients, got {op_type_map!r}")
        before = self._gradient_names
        self._gradient_names = {**before, **op_type_map}
        try:
            yield
        finally:
            self._gradient_names = before
