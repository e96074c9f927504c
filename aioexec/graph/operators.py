"""Python's operators on tensors and on objects that represent tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

Result = TypeVar("Result")


class OperatorTable(dict[str, Callable[..., Any]]):
    """The functions of the operators, by name ("add", "getitem", …).

    Attributes:
        load: returns the whole table at the first use of an operator; set by the wiring of the package.
    """

    load: Callable[[], Mapping[str, Callable[..., Any]]]

    def __missing__(self, name: str) -> Callable[..., Any]:
        table = self.load()
        self.update(table)
        return table[name]


OPERATORS = OperatorTable()


class Operators(Generic[Result]):
    """A mixin that defines the operators, which return a `Result`, the class Tensor; == and hash stay identity, as in 1.x."""

    __slots__ = ()
    __array_priority__ = 100

    def _operand(self) -> Any:
        """The tensor operand that the operators apply to."""
        return self

    def __getitem__(self, key: Any) -> Result:
        part: Result = OPERATORS["getitem"](self._operand(), key)
        return part

    if TYPE_CHECKING:  # defined by _attach below

        def __add__(self, other: Any) -> Result: ...
        def __radd__(self, other: Any) -> Result: ...
        def __sub__(self, other: Any) -> Result: ...
        def __rsub__(self, other: Any) -> Result: ...
        def __mul__(self, other: Any) -> Result: ...
        def __rmul__(self, other: Any) -> Result: ...
        def __truediv__(self, other: Any) -> Result: ...
        def __rtruediv__(self, other: Any) -> Result: ...
        def __floordiv__(self, other: Any) -> Result: ...
        def __rfloordiv__(self, other: Any) -> Result: ...
        def __mod__(self, other: Any) -> Result: ...
        def __rmod__(self, other: Any) -> Result: ...
        def __pow__(self, other: Any) -> Result: ...
        def __rpow__(self, other: Any) -> Result: ...
        def __matmul__(self, other: Any) -> Result: ...
        def __rmatmul__(self, other: Any) -> Result: ...
        def __and__(self, other: Any) -> Result: ...
        def __rand__(self, other: Any) -> Result: ...
        def __or__(self, other: Any) -> Result: ...
        def __ror__(self, other: Any) -> Result: ...
        def __xor__(self, other: Any) -> Result: ...
        def __rxor__(self, other: Any) -> Result: ...
        def __lt__(self, other: Any) -> Result: ...
        def __le__(self, other: Any) -> Result: ...
        def __gt__(self, other: Any) -> Result: ...
        def __ge__(self, other: Any) -> Result: ...
        def __neg__(self) -> Result: ...
        def __abs__(self) -> Result: ...
        def __invert__(self) -> Result: ...


_BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"]
_COMPARISONS = ["lt", "le", "gt", "ge"]
_UNARY = ["neg", "abs", "invert"]


def _attach() -> None:
    """Define each operator as a lookup at call time, since the table is filled after this module is imported."""

    def binary(name: str) -> Callable[[Operators[Any], Any], Any]:
        return lambda self, other: OPERATORS[name](self._operand(), other)

    def reflected(name: str) -> Callable[[Operators[Any], Any], Any]:
        return lambda self, other: OPERATORS[name](other, self._operand())

    def unary(name: str) -> Callable[[Operators[Any]], Any]:
        return lambda self: OPERATORS[name](self._operand())

    for name in _BINARY:
        setattr(Operators, f"__{name}__", binary(name))
        setattr(Operators, f"__r{name}__", reflected(name))
    for name in _COMPARISONS:
        setattr(Operators, f"__{name}__", binary(name))
    for name in _UNARY:
        setattr(Operators, f"__{name}__", unary(name))


if not TYPE_CHECKING:
    _attach()
