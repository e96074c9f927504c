"""Session handles: a tensor stays in the session from one step to another."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, InternalError, InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.ops.state.session_handles import TensorHandle
from aioexec.resources.session_state import SessionState

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


async def kept(session: ax.Session, value: Any, name: str | None = None) -> str:
    """The text of a new handle, which stays valid."""
    fetched = await session.run(ax.get_session_handle(ax.constant(value), name=name))
    return fetched.get_raw_handle() if isinstance(fetched, TensorHandle) else fetched.item().decode()


@pytest.mark.behaviour(62)
async def test_a_tensor_is_kept_read_by_its_handle_and_deleted():
    async with ax.Session() as session:
        handle = await kept(session, [1.0, 2.0], "kept")
        holder, tensor = ax.get_session_tensor(handle, ax.float32)
        place, delete = ax.delete_session_tensor(handle)

        assert handle == f"kept;0;{DEVICE}"
        assert (await session.run(tensor * 2, {holder: handle})).tolist() == [2, 4]
        await session.run(delete, {place: handle})

        with pytest.raises(InvalidArgumentError, match="is not in the session store"):
            await session.run(tensor, {holder: handle})
        with pytest.raises(InvalidArgumentError, match="Failed to delete a tensor with handle"):
            await session.run(delete, {place: handle})


async def test_one_placeholder_serves_all_handles_of_a_device():
    async with ax.Session() as session:
        handles = [await kept(session, float(k)) for k in range(3)]
        holder, tensor = ax.get_session_tensor(handles[0], ax.float32)

        assert len(set(handles)) == 3
        assert [await session.run(tensor, {holder: handle}) for handle in handles] == [0, 1, 2]


async def test_what_is_kept_changes_with_nothing():
    variable = ax.Variable([1.0])
    async with ax.Session() as session:
        await session.run(ax.global_variables_initializer())
        fetched = await session.run(ax.get_session_handle(variable.value()))
        handle = fetched.handle if isinstance(fetched, TensorHandle) else fetched.item().decode()
        await session.run(ax.assign(variable, [2.0]))
        holder, tensor = ax.get_session_tensor(handle, ax.float32)

        first = await session.run(tensor, {holder: handle})
        first[:] = 3

        assert await session.run(tensor, {holder: handle}) == [1]


async def test_a_session_knows_only_its_own_handles():
    async with ax.Session() as session, ax.Session() as other:
        handle = await kept(session, 1.0)
        holder, tensor = ax.get_session_tensor(handle, ax.float32)

        with pytest.raises(InvalidArgumentError, match="is not in the session store"):
            await other.run(tensor, {holder: handle})


async def test_a_kept_tensor_is_of_its_dtype():
    async with ax.Session() as session:
        handle = await kept(session, 1)
        holder, tensor = ax.get_session_tensor(handle, ax.float32)

        with pytest.raises(InternalError, match="int32 does not match declared output type float32"):
            await session.run(tensor, {holder: handle})


async def test_the_second_version_makes_a_handle_as_well():
    async with ax.Session() as session:
        handle = apply_op("GetSessionHandleV2", ax.constant(1.0))

        assert handle.dtype is ax.resource
        await session.run(handle.op)


@pytest.mark.parametrize("data", [3, np.float32(3), "text"])
def test_only_tensors_are_kept(data: Any):
    with pytest.raises(GraphTypeError, match="`data` must be of type Tensor"):
        ax.get_session_handle(data)


def test_nodes_are_placed_where_the_tensor_is():
    handle = f"node;0;{DEVICE}"

    holder, tensor = ax.get_session_tensor(handle, ax.float32, name="read")
    place, delete = ax.delete_session_tensor(handle, name="gone")

    assert [holder.op.type, tensor.op.type, delete.type] == [
        "Placeholder",
        "GetSessionTensor",
        "DeleteSessionTensor",
    ]
    assert (tensor.name, delete.name) == ("read:0", "gone")
    assert {part.device for part in (holder, tensor, place, delete)} == {DEVICE}


# TensorHandle


async def test_a_tensor_handle_reads_and_deletes_its_tensor_with_one_node_for_all(graph: ax.Graph):
    async with ax.Session() as session:
        handles = [TensorHandle(await kept(session, float(k)), ax.float32, session) for k in range(2)]
        assert [await handle.eval() for handle in handles] == [0, 1]
        nodes = graph.version

        assert await handles[0].eval() == 0
        assert graph.version == nodes
        await handles[0].delete()

        with pytest.raises(InvalidArgumentError, match="is not in the session store"):
            await handles[0].eval()
        assert await handles[1].eval() == 1


def test_a_tensor_is_forgotten_with_its_last_handle():
    state = SessionState()
    first, second = (state.keep(np.zeros(2), "node", DEVICE) for _ in range(2))
    handle = TensorHandle(first, ax.float32, None, state.discard)
    raw = TensorHandle(second, ax.float32, None, state.discard).get_raw_handle()
    gc.collect()

    assert len(state) == 2
    assert str(handle) == handle.handle == first
    assert repr(handle) == f"TensorHandle({first!r}, float32)"
    del handle
    gc.collect()

    assert state.find(raw).tolist() == [0, 0]
    assert len(state) == 1
