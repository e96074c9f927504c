"""Registered types that sessions fetch and feed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.sessions.conversions import (
    deregister_session_run_conversion_functions,
    register_session_run_conversion_functions,
)
from tests.tiers import feed, graph, op, session_on


class Squared:
    """Stands for the square of a tensor."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class FetchOnly(Squared):
    pass


@pytest.fixture
def squared() -> Iterator[None]:
    register_session_run_conversion_functions(
        Squared,
        fetch_function=lambda squared: ([squared.tensor], lambda values: values[0] ** 2),
        feed_function=lambda squared, value: [(squared.tensor, np.sqrt(value))],
        feed_function_for_partial_run=lambda squared: [squared.tensor],
    )
    yield
    deregister_session_run_conversion_functions(Squared)


async def test_a_registered_type_is_fetched_and_fed(squared: None):
    with graph() as g:
        x = feed([], name="x")
        y = op("Neg", x)

    async with session_on(g, "off") as session:
        for value in (9.0, 16.0):
            result = await session.run({"y": [Squared(y)], "x": x}, {Squared(x): value})
            assert result == {"y": [value], "x": value**0.5}
        assert await session.make_callable(Squared(y), [Squared(x)])(9.0) == 9


async def test_a_registered_type_goes_through_partial_runs(squared: None):
    with graph() as g:
        x = feed([], name="x")
        y = op("Neg", x)

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([Squared(y)], [Squared(x)])
        assert await session.partial_run(handle, [Squared(y)], {Squared(x): 9.0}) == [9]


async def test_a_type_is_registered_once(squared: None):
    for kind in (Squared, IndexedSlices, object):
        with pytest.raises(GraphValueError, match="already been registered"):
            register_session_run_conversion_functions(kind, lambda element: ([], lambda values: None))


async def test_a_type_may_differ_from_the_one_it_is_derived_from(squared: None):
    with graph() as g:
        y = op("Neg", feed([], name="x"))
    register_session_run_conversion_functions(
        FetchOnly, lambda each: ([each.tensor], lambda values: values[0])
    )
    try:
        async with session_on(g, "off") as session:
            assert await session.run([Squared(y), FetchOnly(y)], {"x:0": 3.0}) == [9, -3]
    finally:
        deregister_session_run_conversion_functions(FetchOnly)


async def test_a_type_without_feed_functions_is_not_fed():
    with graph() as g:
        x = feed([], name="x")
        y = op("Neg", x)
    register_session_run_conversion_functions(
        FetchOnly, lambda each: ([each.tensor], lambda values: values[0])
    )
    try:
        async with session_on(g, "off") as session:
            assert await session.run(FetchOnly(y), {x: 1.0}) == -1
            with pytest.raises(GraphTypeError, match="no feed function"):
                await session.run(y, {FetchOnly(x): 1.0})
            with pytest.raises(GraphTypeError, match="in parts"):
                await session.partial_run_setup(y, [FetchOnly(x)])
    finally:
        deregister_session_run_conversion_functions(FetchOnly)
