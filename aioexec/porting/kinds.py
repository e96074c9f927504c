"""What an expression of a program may be, as far as a port has to know."""

from __future__ import annotations

from typing import Any

from aioexec.data_classes import dataclass
from aioexec.porting.scopes import Class, Module, Unit


@dataclass(frozen=True, slots=True)
class Api:
    """A public name of aioexec, by its dotted path: a module, class or function."""

    path: str


@dataclass(frozen=True, slots=True)
class ApiInstance:
    """An instance of a class of aioexec."""

    owner: type


@dataclass(frozen=True, slots=True)
class ApiMethod:
    """A method of an instance."""

    owner: type
    name: str


@dataclass(frozen=True, slots=True)
class ApiValue:
    """A result of aioexec of unknown class: a tensor, an operation or the like."""


@dataclass(frozen=True, slots=True)
class External:
    """A module of another library, what it has, or a builtin, by its dotted path."""

    path: str


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that has nothing to do with a session: a number, a string, an array."""


@dataclass(frozen=True, slots=True)
class OwnModule:
    """A file of the program."""

    module: Module


@dataclass(frozen=True, slots=True)
class OwnClass:
    """A class of the program."""

    made: Class


@dataclass(frozen=True, slots=True)
class OwnInstance:
    """An instance of a class of the program."""

    made: Class


@dataclass(frozen=True, slots=True)
class OwnFunction:
    """A function, lambda or method of the program; `bound`: its first argument is given."""

    unit: Unit
    bound: bool = False


@dataclass(frozen=True, slots=True)
class GeneratorOf:
    """The result of a call of a generator function of the program."""

    unit: Unit


@dataclass(frozen=True, slots=True)
class ThreadOf:
    """A thread that runs a function of the program."""

    unit: Unit


@dataclass(frozen=True, slots=True)
class SequenceOf:
    """A list, set, dictionary or the like; its elements, or values, are of this kind."""

    element: Any


@dataclass(frozen=True, slots=True)
class TupleOf:
    """A tuple with the kinds of each element."""

    elements: tuple[frozenset[Any], ...]


Kind = (
    Api | ApiInstance | ApiMethod | ApiValue | External | Plain | OwnModule | OwnClass | OwnInstance
    | OwnFunction | GeneratorOf | ThreadOf | SequenceOf | TupleOf
)  # fmt: skip
Kinds = frozenset[Kind]
NONE: Kinds = frozenset()
PLAIN: Kinds = frozenset([Plain()])

_DEEPEST = 3


def depth(kind: Kind) -> int:
    """The levels of nesting of sequences and tuples."""
    if isinstance(kind, SequenceOf):
        return 1 + depth(kind.element)
    if isinstance(kind, TupleOf):
        return 1 + max((depth(each) for element in kind.elements for each in element), default=0)
    return 0


def sequences(elements: Kinds) -> Kinds:
    """Sequences of elements of these kinds."""
    return frozenset(SequenceOf(each) for each in elements if depth(each) < _DEEPEST)


def tuple_of(*elements: Kinds) -> Kinds:
    made = TupleOf(elements)
    return frozenset([made]) if depth(made) <= _DEEPEST else NONE
