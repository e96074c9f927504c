"""Tensors kept in a session: fetched as handles, fed as handles, deleted with them."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import ConfigProto
from aioexec.graph.sparse_tensor import SparseTensor, SparseTensorValue, sparse_placeholder
from aioexec.ops.state.session_handles import (
    TensorHandle,
    delete_session_tensor,
    get_session_handle,
    get_session_tensor,
)
from aioexec.resources.session_state import session_state
from aioexec.sessions.session import Session
from tests.tiers import Tier, constant, feed, graph, op, runtime, session_on


@pytest.mark.behaviour(62)
async def test_a_tensor_stays_in_the_session_is_read_by_its_handle_and_deleted(tier: Tier):
    with graph() as g:
        x = feed([2], name="x")
        kept = get_session_handle(op("Mul", x, x))

    async with tier.session(g) as session:
        handle = await session.run({"h": [kept]}, {x: [2, 3]})
        handle = handle["h"][0]
        with g.as_default():
            holder, value = get_session_tensor(handle, "float32")
            negated = op("Neg", value)
            forgotten, delete = delete_session_tensor(handle)

        assert isinstance(handle, TensorHandle)
        np.testing.assert_array_equal(await handle.eval(), [4, 9])
        np.testing.assert_array_equal(await session.run(negated, {holder: handle.handle}), [-4, -9])
        await session.run(delete, {forgotten: handle.handle})
        with pytest.raises(InvalidArgumentError, match="not in the session store"):
            await session.run(negated, {holder: handle.handle})


@pytest.mark.behaviour(62)
async def test_a_handle_is_fed_in_place_of_any_tensor(tier: Tier):
    with graph() as g:
        a = feed([2], name="a")
        b = op("Mul", a, a)
        c = op("Add", b, a)
        kept = get_session_handle(b)

    async with tier.session(g) as session:
        handle = await session.run(kept, {a: [2, 3]})
        for _ in range(4):
            np.testing.assert_array_equal(await session.run(c, {b: handle, a: [10, 10]}), [14, 19])
            np.testing.assert_array_equal(await session.run(b, {a: handle}), [16, 81])
        await handle.delete()
        with pytest.raises(InvalidArgumentError, match="not in the session store"):
            await session.run(b, {a: handle})


async def test_a_tensor_without_a_handle_is_deleted():
    with graph() as g:
        kept = get_session_handle(constant(1.0))

    async with session_on(g, "off") as session:
        state = session_state(runtime(session).client_device.resources)
        first, second = await session.run(kept), await session.run(kept)
        raw = second.get_raw_handle()
        assert len(state) == 2
        del first, second
        gc.collect()

        assert len(state) == 1
        assert state.find(raw) == 1


async def test_a_handle_names_the_device_that_keeps_the_tensor():
    config = ConfigProto(device_count={"CPU": 2})
    config.aioexec.jit = "off"
    with graph() as g, g.device("/device:CPU:1"):
        x = feed([], name="x")
        kept = get_session_handle(op("Neg", x))
        negated = op("Neg", x)

    async with Session(graph=g, config=config) as session:
        handle = await session.run(kept, {x: 5})
        assert handle.handle.endswith("/device:CPU:1")
        assert await handle.eval() == -5
        assert await session.run(negated, {x: handle}) == 5


# Sparse tensors


def parts(value: Any) -> list[Any]:
    return [np.asarray(part).tolist() for part in value]


async def test_sparse_tensors_are_fetched_and_fed_as_one_value(tier: Tier):
    with graph() as g:
        sparse = sparse_placeholder("float32", [3, 4])
        doubled = SparseTensor(sparse.indices, op("Add", sparse.values, sparse.values), sparse.dense_shape)
    given = SparseTensorValue(
        np.array([[0, 1], [2, 3]], np.int64), np.array([1, 2], np.float32), np.array([3, 4], np.int64)
    )

    async with tier.session(g) as session:
        for value in (given, tuple(given), given):
            result = await session.run([doubled, doubled.values], {sparse: value})
            assert isinstance(result[0], SparseTensorValue)
            assert parts(result[0]) == [[[0, 1], [2, 3]], [2, 4], [3, 4]]
            assert result[1].tolist() == [2, 4]
        called = await session.make_callable(doubled, [sparse])(given)
        assert parts(called) == parts(result[0])


async def test_sparse_tensors_go_through_partial_runs():
    with graph() as g:
        sparse = sparse_placeholder("float32")
        doubled = SparseTensor(sparse.indices, op("Add", sparse.values, sparse.values), sparse.dense_shape)
    given = SparseTensorValue(np.array([[1]], np.int64), np.array([4], np.float32), np.array([3], np.int64))

    async with session_on(g, "off") as session:
        handle = await session.partial_run_setup([doubled.values], [sparse])
        assert (await session.partial_run(handle, doubled.values, {sparse: given})).tolist() == [8]
