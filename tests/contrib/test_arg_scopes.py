"""Argument scopes: defaults of decorated functions within a block, nested, reused and in tasks."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError

framework = ax.contrib.framework


@framework.add_arg_scope
def first(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


@framework.add_arg_scope
def second(x: Any, a: int = 1, b: int = 2) -> Any:
    return x, a, b


def test_calls_in_a_block_have_its_arguments():
    with framework.arg_scope([first, second], a=5):
        assert first(0) == ((0,), {"a": 5})
        assert second(0) == (0, 5, 2)
        assert second(0, a=7) == (0, 7, 2)
    assert second(0) == (0, 1, 2)


def test_inner_blocks_add_to_outer_ones():
    with framework.arg_scope([first], a=1, b=None), framework.arg_scope([first], b=2, c=3):
        assert first() == ((), {"a": 1, "b": 2, "c": 3})


def test_a_scope_is_entered_again():
    with framework.arg_scope([first], a=1), framework.arg_scope([second], b=4) as scope:
        pass
    with framework.arg_scope([second], a=9), framework.arg_scope(scope) as again:
        assert first() == ((), {"a": 1})
        assert second(0) == (0, 1, 4)
        assert framework.current_arg_scope() == again == scope
    assert framework.current_arg_scope() == {}


def test_an_error_ends_the_block():
    with pytest.raises(KeyError), framework.arg_scope([first], a=1):
        raise KeyError

    assert first() == ((), {})


def test_functions_of_one_name_have_arguments_of_their_own():
    def made() -> Any:
        @framework.add_arg_scope
        def twin(a: int = 0) -> int:
            return a

        return twin

    one, other = made(), made()
    with framework.arg_scope([one], a=3):
        assert (one(), other()) == (3, 0)


def test_a_decorated_function_tells_its_arguments():
    assert framework.has_arg_scope(second)
    assert not framework.has_arg_scope(made_of_nothing)
    assert framework.arg_scoped_arguments(second) == ("a", "b")
    assert second.__name__ == "second"


def made_of_nothing() -> None:
    """Not decorated."""


def test_what_cannot_be_a_scope_is_refused():
    with pytest.raises(GraphValueError, match="not decorated"), framework.arg_scope([made_of_nothing], a=1):
        pass
    with pytest.raises(GraphTypeError, match="list/tuple or reused scope"), framework.arg_scope(first, a=1):
        pass
    with pytest.raises(GraphValueError, match="kwargs must be empty"), framework.arg_scope({}, a=1):
        pass


async def test_tasks_have_scopes_of_their_own():
    entered, left = asyncio.Event(), asyncio.Event()

    async def inside() -> None:
        with framework.arg_scope([second], a=5):
            entered.set()
            await left.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(inside())
        await entered.wait()
        assert second(0) == (0, 1, 2)
        left.set()


def test_partial_functions_of_a_decorated_one_obey_it():
    with framework.arg_scope([second], a=5):
        assert functools.partial(second, b=3)(0) == (0, 5, 3)
