"""Stack: values of a loop saved for its gradient, last in, first out."""

from __future__ import annotations

from dataclasses import field

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.resources.tensor_list import Array, kept


@dataclass(slots=True, eq=False)
class Stack:
    """The state of a Stack op.

    Constant: name, dtype, limit (maximum number of values; unbounded if negative). Changing: values, closed.
    """

    name: str
    dtype: DType
    limit: int = -1
    values: list[Array] = field(default_factory=list)
    closed: bool = False

    def push(self, value: Array) -> None:
        """Push a value.

        Raises:
            InvalidArgumentError: the stack is full or closed.
        """
        self._check_open()
        if 0 <= self.limit <= len(self.values):
            raise InvalidArgumentError(f"Stack[{self.name}] overflowed its max_size ({self.limit})")
        self.values.append(kept(value))

    def pop(self) -> Array:
        """Pop the last value.

        Raises:
            InvalidArgumentError: the stack is empty or closed.
        """
        self._check_open()
        if not self.values:
            raise InvalidArgumentError(f"Stack[{self.name}] is empty when calling Pop()")
        return self.values.pop()

    def close(self) -> None:
        """Close the stack and drop its values."""
        self.closed = True
        self.values.clear()

    def _check_open(self) -> None:
        if self.closed:
            raise InvalidArgumentError(f"Stack[{self.name}] has already been closed")
