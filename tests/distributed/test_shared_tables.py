"""Tables of a server: its sessions share those of equal names, as they share variables."""

from __future__ import annotations

import pytest

import aioexec as ax
from aioexec.graph.apply import apply_no_output_op, apply_op

pytestmark = pytest.mark.network


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


async def test_sessions_of_a_server_share_a_table_by_its_name(serve):
    (server,) = serve("worker").values()
    keys = ax.placeholder(ax.int64, [None])
    handles = [
        apply_op(
            "MutableHashTableV2", key_dtype=ax.int64, value_dtype=ax.float32, shared_name=name, name=node
        )
        for name, node in (("mine", "one"), ("mine", "two"), ("other", "three"))
    ]
    put = apply_no_output_op("LookupTableInsertV2", handles[0], keys, ax.cast(keys, ax.float32) * 2.0)
    found = [apply_op("LookupTableFindV2", handle, keys, -1.0) for handle in handles]

    async with ax.Session(server.target) as first, ax.Session(server.target) as second:
        await first.run(put, {keys: [1, 2]})
        values = await second.run(found, {keys: [2, 3]})
    async with ax.Session(server.target) as third:
        kept = await third.run(found[1], {keys: [1]})

    assert [each.tolist() for each in values] == [[4, -1], [4, -1], [-1, -1]]
    assert kept.tolist() == [2]


async def test_sessions_with_state_of_their_own_share_no_tables(serve):
    (server,) = serve("worker").values()
    handle = apply_op("MutableHashTableV2", key_dtype=ax.int64, value_dtype=ax.int64, shared_name="mine")
    key = ax.constant([1], ax.int64)
    put = apply_no_output_op("LookupTableInsertV2", handle, key, key)
    size = apply_op("LookupTableSizeV2", handle)
    config = ax.ConfigProto(isolate_session_state=True)

    async with (
        ax.Session(server.target, config=config) as first,
        ax.Session(server.target, config=config) as second,
    ):
        await first.run(put)
        assert await first.run(size) == 1
        assert await second.run(size) == 0
