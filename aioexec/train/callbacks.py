"""Calls of user functions, plain or `async def`: hooks, listeners, init functions, step functions, session creators."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import TypeVar

Value = TypeVar("Value")


async def settle(value: Value | Awaitable[Value]) -> Value:
    """The result of a callback, awaited if it is awaitable."""
    if inspect.isawaitable(value):
        return await value
    return value
