"""Argument scopes: defaults for the keyword arguments of decorated functions, within a `with` block.

A scope maps the key of a function to keyword arguments. Scopes are never changed: each block has a new one, which belongs to
the running context, a task or a thread, as other scopes of a graph do.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final

from aioexec.errors import GraphTypeError, GraphValueError

Scope = Mapping[str, Mapping[str, Any]]
"""From the keys of functions to their keyword arguments."""

_KEY: Final = "_key_op"
"""The attribute of a decorated function with its key."""

_KEYWORDS: Final = "_scoped_arguments"
"""The attribute of a decorated function with the names of its arguments that have defaults."""

_OUTSIDE: Final[Scope] = MappingProxyType({})
_current: ContextVar[Scope] = ContextVar("arg_scope", default=_OUTSIDE)


def current_arg_scope() -> Scope:
    """Return the current scope, to be entered again by `arg_scope(scope)`."""
    return _current.get()


def arg_scope_func_key(op: Any) -> str:
    """Return the key of a function in a scope."""
    return str(getattr(op, _KEY, str(op)))


def has_arg_scope(func: Any) -> bool:
    """Return whether a function is decorated by `add_arg_scope`."""
    return hasattr(func, _KEY)


def arg_scoped_arguments(func: Any) -> tuple[str, ...]:
    """Return the names of the arguments of a decorated function that a scope can set."""
    return tuple(getattr(func, _KEYWORDS))


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function: keyword arguments that a call does not have are those of the current scope."""

    @functools.wraps(func)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        given = _current.get().get(key)
        return func(*args, **kwargs) if given is None else func(*args, **{**given, **kwargs})

    key = f"{func.__module__}.{func.__qualname__} at {id(scoped):#x}"
    setattr(scoped, _KEY, key)
    setattr(scoped, _KEYWORDS, _with_defaults(func))
    return scoped


def _with_defaults(func: Callable[..., Any]) -> tuple[str, ...]:
    code, defaults = func.__code__, func.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return names[len(names) - len(defaults) :]


@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """Set keyword arguments for calls of decorated functions within the block; calls may override them.

    Args:
        list_ops_or_scope: a list or tuple of decorated functions; or a scope that an earlier block had, without `kwargs`, which
            then holds in place of the current one.

    Raises:
        GraphTypeError: the argument is neither a list or tuple nor a scope.
        GraphValueError: a function is not decorated, or a scope came with `kwargs`.
    """
    token = _current.set(_entered(list_ops_or_scope, kwargs))
    try:
        yield _current.get()
    finally:
        _current.reset(token)


def _entered(list_ops_or_scope: Any, kwargs: dict[str, Any]) -> Scope:
    """The scope of a block."""
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise GraphValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty."
            )
        return dict(list_ops_or_scope)
    if not isinstance(list_ops_or_scope, list | tuple):
        raise GraphTypeError(
            "list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict), "
            f"got {list_ops_or_scope!r}"
        )
    scope = dict(_current.get())
    for op in list_ops_or_scope:
        if not has_arg_scope(op):
            raise GraphValueError(f"{op!r} is not decorated with @add_arg_scope")
        key = arg_scope_func_key(op)
        scope[key] = {**scope.get(key, {}), **kwargs}
    return scope
