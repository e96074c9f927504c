"""What of aioexec has to be awaited, read off aioexec itself: its coroutine functions and asynchronous context managers."""

from __future__ import annotations

import inspect
import re
import sys
import typing
from collections.abc import Iterator
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any

MISSING: Any = object()
"""The result of a look-up of a name that aioexec does not have."""

_EVALUATED = {"eval", "run", "load"}
"""Methods of tensors, operations and variables that return an awaitable without being coroutine functions."""

_WRAPPERS = re.compile(
    r"\b(?:AbstractContextManager|AsyncIterator|AsyncGenerator|Iterator|Generator|Awaitable|Coroutine|Optional)\[([\w.]+)"
)
_SEQUENCE = re.compile(r"\b(?:list|List|Sequence|Iterable|Set)\[([\w.]+)")


class Use(Enum):
    """What a call or attribute needs in a coroutine."""

    PLAIN = "plain"
    AWAIT = "await"
    ITERATE = "async for"
    ENTER = "async with"


@cache
def lookup(path: str) -> Any:
    """The object of a dotted path that begins with `aioexec`; MISSING if there is none."""
    found: Any = import_module("aioexec")
    done = "aioexec"
    for name in path.split(".")[1:]:
        done = f"{done}.{name}"
        value = getattr(found, name, MISSING)
        if value is MISSING:
            try:
                value = import_module(done)
            except ImportError:
                return MISSING
        found = value
    return found


def is_class(value: Any) -> bool:
    return isinstance(value, type)


def use_of_call(function: Any) -> Use:
    """What a call of a function, class or method of aioexec needs."""
    function = getattr(function, "__func__", function)
    if is_class(function):
        return Use.AWAIT if hasattr(function, "__await__") else Use.PLAIN
    if inspect.iscoroutinefunction(function):
        return Use.AWAIT
    if inspect.isasyncgenfunction(function):
        return Use.ITERATE
    if inspect.isasyncgenfunction(getattr(function, "__wrapped__", None)):
        return Use.ENTER
    returned = result_class(function)
    return Use.AWAIT if returned is not None and hasattr(returned, "__await__") else Use.PLAIN


def method_of(owner: type, name: str) -> Any:
    """A member of a class, unbound; MISSING if there is none."""
    return inspect.getattr_static(owner, name, MISSING)


def use_of_method(owner: type, name: str) -> Use:
    """What a call of a method on an instance needs."""
    if name in _EVALUATED and is_evaluated(owner):
        return Use.AWAIT
    member = method_of(owner, name)
    return Use.PLAIN if member is MISSING else use_of_call(member)


def is_evaluated(owner: type) -> bool:
    """Whether instances have `eval` or `run` as tensors and operations do: plain methods that return an awaitable."""
    return any(
        name in _EVALUATED and inspect.isfunction(member) and not inspect.iscoroutinefunction(member)
        for name, member in inspect.getmembers_static(owner)
    )


def is_entered(owner: type) -> bool:
    """Whether instances are entered by `async with`."""
    return hasattr(owner, "__aenter__")


def is_iterated(owner: type) -> bool:
    """Whether instances are iterated by `async for`."""
    return hasattr(owner, "__aiter__") and not hasattr(owner, "__iter__")


def result_class(function: Any) -> type | None:
    """The class of a function's results by its annotation, without what holds one: iterators, context managers."""
    function = getattr(function, "fget", None) or getattr(function, "__func__", function)
    function = getattr(function, "__wrapped__", function)
    text = getattr(function, "__annotations__", {}).get("return")
    return None if text is None else _class_named(str(getattr(text, "__name__", text)), function)


def parameter_classes(owner: type, name: str) -> list[type | None]:
    """The classes of the parameters of a method by their annotations, the first one's included."""
    member = getattr(method_of(owner, name), "__func__", method_of(owner, name))
    if not inspect.isfunction(member):
        return []
    names = member.__code__.co_varnames[: member.__code__.co_argcount]
    texts = [str(member.__annotations__.get(each, "")) for each in names]
    return [_class_named(text, member) if text else None for text in texts]


def element_class(function: Any) -> type | None:
    """The class of the elements of a function's results, if they are lists or the like."""
    text = str(getattr(function, "__annotations__", {}).get("return"))
    found = _SEQUENCE.search(text)
    return None if found is None else _class_named(found.group(1), function)


def _class_named(text: str, function: Any) -> type | None:
    wrapped = _WRAPPERS.search(text)
    name = (wrapped.group(1) if wrapped else text.split("|")[0]).strip().strip("'\"")
    if not re.fullmatch(r"[\w.]+", name) or name in ("Any", "None", "Self"):
        return None
    module = sys.modules.get(getattr(function, "__module__", ""), None)
    for space in (vars(module) if module else {}, vars(typing)):
        if isinstance(space.get(name), type):
            return typing.cast(type, space[name])
    return _public_class(name)


@cache
def _public_class(name: str) -> type | None:
    """The class of a public name, for annotations whose imports are not there at run time."""
    for place in ("aioexec", "aioexec.train", "aioexec.graph.node", "aioexec.ops.state.variable"):
        found = lookup(f"{place}.{name}")
        if is_class(found):
            return typing.cast(type, found)
    return None


def modules_of(path: str) -> Iterator[str]:
    """A dotted path and those of its parents, the longest first."""
    while path:
        yield path
        path = path.rpartition(".")[0]
