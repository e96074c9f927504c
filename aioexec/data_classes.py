"""Dataclasses that are created in a fifth of the standard library's time: `import aioexec` creates more than a hundred.

The standard decorator generates and compiles up to six methods of a class: 0.7 ms for a frozen class, a quarter of the import.
Here only `__init__` is compiled; the other methods are shared functions, or closures over the names of the fields. A class with
slots is completed at its first use, since a program uses a third of the classes. Type checkers see the standard decorator, and
`dataclasses.fields`, `replace` and `asdict` work on these classes. Only the options in use are supported.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, NoReturn

Methods = dict[str, Callable[..., Any]]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, eq=True, frozen=False, slots=False):
        """Return the class with the methods for its fields, as `dataclasses.dataclass` does."""
        if cls is None:
            return lambda cls: _made(cls, eq, frozen, slots)
        return _made(cls, eq, frozen, slots)


def _made(cls: type, eq: bool, frozen: bool, slots: bool) -> type:
    if cls.__doc__ is None:
        cls.__doc__ = (
            cls.__name__
        )  # otherwise the standard decorator computes a signature, which takes as long as all the rest
    own = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
    made = _with_slots(cls, own) if slots else cls
    if eq and not frozen and own.get("__hash__") is None:
        made.__hash__ = None  # type: ignore[assignment]  # equality of mutable objects may change
    shared = {"__repr__": _repr} | (_FROZEN if frozen else {}) | (_PICKLED if frozen and slots else {})
    written = ["__init__", *["__eq__"] * eq, *["__hash__"] * (eq and frozen)]

    def complete() -> None:
        standard = type(made)(made.__name__, made.__bases__, dict(own)) if slots else made
        dataclasses.dataclass(init=False, repr=False, eq=False)(standard)
        for name in _METADATA:
            setattr(made, name, getattr(standard, name))
        methods = {"__init__": _initial(made, frozen), **_comparing(made)}
        _add(made, own, {name: methods[name] for name in written})

    _add(made, own, shared)
    if slots:
        _add(made, own, {name: _Deferred(made, name, complete) for name in (*written, *_METADATA)})
    else:
        complete()
    return made


def _with_slots(cls: type, own: dict[str, Any]) -> type:
    """A copy of the class with a slot for each field; class attributes of defaults would conflict with slots."""
    inherited = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
    names = [name for name, kind in cls.__annotations__.items() if not _NO_FIELD.search(str(kind))]
    slots = tuple(name for name in names if name not in inherited)
    rest = {name: value for name, value in own.items() if name not in names}
    rest |= {"__slots__": slots, "__qualname__": cls.__qualname__}
    return type(cls)(cls.__name__, cls.__bases__, rest)


def _add(cls: type, own: dict[str, Any], attributes: Mapping[str, Any]) -> None:
    """Set the attributes that the class does not define itself."""
    for name, value in attributes.items():
        if own.get(name) is None:
            setattr(cls, name, value)


class _Deferred:
    """A placeholder for an attribute of an unused class: its first access completes the class."""

    __slots__ = ("_cls", "_complete", "_name")

    def __init__(self, cls: type, name: str, complete: Callable[[], None]):
        self._cls = cls
        self._name = name
        self._complete = complete

    def __get__(self, instance: object, owner: type) -> Any:
        self._complete()  # idempotent, as two threads may do this at once
        value = vars(self._cls)[self._name]
        return value.__get__(instance, owner) if callable(value) else value


def _initial(cls: type, frozen: bool) -> Callable[..., None]:
    """`__init__`; its globals contain defaults and factories. Fields with `init=False` are set by other code."""
    names: dict[str, Any] = {"_put": object.__setattr__, "_absent": MISSING}
    positional: list[str] = ["self"]
    by_name: list[str] = []
    lines: list[str] = []
    for field in fields(cls):
        if field.init:
            name = value = parameter = field.name
            if field.default is not MISSING:
                names[f"_default_{name}"] = field.default
                parameter = f"{name}=_default_{name}"
            elif field.default_factory is not MISSING:
                names[f"_make_{name}"] = field.default_factory
                parameter, value = f"{name}=_absent", f"_make_{name}() if {name} is _absent else {name}"
            (by_name if field.kw_only else positional).append(parameter)
            lines.append(f"_put(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*positional, *["*"][: len(by_name)], *by_name])
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines or ["pass"]), names)
    made: Callable[..., None] = names["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _comparing(cls: type) -> Methods:
    """Equality and hash of the tuple of fields."""
    names = [field.name for field in fields(cls) if field.compare]
    values: Callable[[Any], Any] = attrgetter(*names) if len(names) > 1 else _tuple_getter(names)

    def equal(self: object, other: object) -> bool:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return {"__eq__": equal, "__hash__": lambda self: hash(values(self))}


def _tuple_getter(names: list[str]) -> Callable[[Any], Any]:
    """A function to the tuple of at most one field, for which `attrgetter` returns no tuple."""
    return lambda record: tuple(getattr(record, name) for name in names)


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in fields(self) if field.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


_NO_FIELD = re.compile("ClassVar|KW_ONLY")
_METADATA = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")
_FROZEN: Methods = {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
_PICKLED: Methods = {"__getstate__": _state, "__setstate__": _restore}
