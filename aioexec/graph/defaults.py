"""The default graph and the default session: stacks in context variables, one for each task and thread."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

from aioexec.errors import GraphValueError

Item = TypeVar("Item")


class DefaultStack(Generic[Item]):
    """A stack in a context variable: a task inherits the stack of its creator, and its changes are visible to itself only."""

    def __init__(self, name: str) -> None:
        self._items: ContextVar[tuple[Item, ...]] = ContextVar(name, default=())

    def top(self) -> Item | None:
        """Return the innermost item; None if the stack is empty."""
        items = self._items.get()
        return items[-1] if items else None

    @property
    def depth(self) -> int:
        """The number of items on the stack."""
        return len(self._items.get())

    def push(self, item: Item) -> None:
        """Make `item` the innermost."""
        self._items.set((*self._items.get(), item))

    def pop(self, item: Item) -> None:
        """Remove `item`, which must be the top of the stack.

        Raises:
            GraphValueError: the contexts were left in another order than they were entered.
        """
        items = self._items.get()
        if not items or items[-1] is not item:
            raise GraphValueError(
                f"nesting violated for the stack of default objects: {item!r} is not the innermost"
            )
        self._items.set(items[:-1])

    def discard(self, item: Item) -> None:
        """Remove the innermost `item` wherever it is in the stack, if it is there."""
        items = self._items.get()
        places = [place for place, each in enumerate(items) if each is item]
        if places:
            self._items.set(items[: places[-1]] + items[places[-1] + 1 :])

    @contextlib.contextmanager
    def get_controller(self, item: Item) -> Iterator[Item]:
        """Return a context manager in which `item` is the innermost.

        Raises:
            GraphValueError: at its exit, if the contexts were left in another order than they were entered.
        """
        self.push(item)
        try:
            yield item
        finally:
            self.pop(item)


default_graphs: DefaultStack[Any] = DefaultStack("aioexec_default_graph")
default_sessions: DefaultStack[Any] = DefaultStack("aioexec_default_session")


def get_default_session() -> Any:
    """The innermost default session of this context, or None."""
    return default_sessions.top()
