"""Scaffold: attributes it makes, finds in collections, and copies from another."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import aioexec as ax

train = ax.train
COLLECTIONS = {
    "init_op": ax.GraphKeys.INIT_OP,
    "ready_op": ax.GraphKeys.READY_OP,
    "ready_for_local_init_op": ax.GraphKeys.READY_FOR_LOCAL_INIT_OP,
    "local_init_op": ax.GraphKeys.LOCAL_INIT_OP,
    "summary_op": ax.GraphKeys.SUMMARY_OP,
    "saver": ax.GraphKeys.SAVERS,
}


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


def test_defaults_are_made_and_put_into_collections(graph):
    ax.Variable(1, name="v")
    ax.summary.scalar("s", ax.constant(1.0))

    scaffold = train.Scaffold().finalize()

    for field, collection in COLLECTIONS.items():
        assert graph.get_collection(collection) == [getattr(scaffold, field)], field
    assert (scaffold.init_fn, scaffold.init_feed_dict, scaffold.local_init_feed_dict) == (None, None, None)
    assert isinstance(scaffold.saver, train.Saver)
    assert graph.finalized


def test_nothing_to_summarise_is_no_summary(graph):
    scaffold = train.Scaffold().finalize()

    assert scaffold.summary_op is None
    assert graph.get_collection(ax.GraphKeys.SUMMARY_OP) == []


async def test_the_defaults_do_what_they_say(graph):
    v = ax.Variable(3, name="v")
    local = ax.Variable(4, name="local", collections=[ax.GraphKeys.LOCAL_VARIABLES])
    table = ax.lookup.StaticHashTable(ax.lookup.KeyValueTensorInitializer(["a"], [7]), -1)
    found = table.lookup(ax.constant(["a", "b"]))
    scaffold = train.Scaffold().finalize()

    async with ax.Session() as session:
        assert list(await session.run(scaffold.ready_op)) == [b"v", b"local"]
        assert list(await session.run(scaffold.ready_for_local_init_op)) == [b"v"]
        await session.run(scaffold.init_op)
        assert list(await session.run(scaffold.ready_for_local_init_op)) == []
        await session.run(scaffold.local_init_op)
        assert list(await session.run(scaffold.ready_op)) == []
        assert await session.run([v, local]) == [3, 4]
        assert list(await session.run(found)) == [7, -1]


def test_what_is_given_is_kept(graph):
    ops: dict[str, Any] = {field: ax.no_op(name=field) for field in COLLECTIONS if field != "saver"}
    saver = train.Saver(allow_empty=True)

    scaffold = train.Scaffold(saver=saver, **ops).finalize()

    assert {field: getattr(scaffold, field) for field in ops} == ops
    assert scaffold.saver is saver
    assert [graph.get_collection(collection) for collection in COLLECTIONS.values()] == [[]] * 6


@pytest.mark.parametrize("field", COLLECTIONS)
def test_what_a_collection_holds_is_found_unless_it_is_several(graph, field):
    found = [train.Saver(allow_empty=True) if field == "saver" else ax.no_op() for _ in range(2)]
    graph.add_to_collection(COLLECTIONS[field], found[0])
    finalized = train.Scaffold().finalize()

    assert getattr(finalized, field) is found[0]

    graph._unsafe_unfinalize()
    graph.add_to_collection(COLLECTIONS[field], found[1])
    with pytest.raises(
        RuntimeError, match=f"More than one item in the collection .*tf.Scaffold\\({field}=item to use"
    ):
        train.Scaffold().finalize()


def test_get_or_default_makes_what_is_not_there(graph):
    made = ax.no_op()

    assert train.Scaffold.get_or_default("argument", "key", lambda: made) is made
    assert train.Scaffold.get_or_default("argument", "key", ax.no_op) is made
    assert train.Scaffold.get_or_default("argument", "other", lambda: None) is None
    assert graph.get_collection("other") == []


def test_a_scaffold_is_copied_where_nothing_is_given():
    first, second = ax.no_op(), ax.no_op()
    feeds = {ax.placeholder(ax.int32): 1}
    called = []
    original = train.Scaffold(
        init_op=first,
        init_feed_dict=feeds,
        local_init_op=first,
        local_init_feed_dict=feeds,
        init_fn=lambda scaffold, session: called.append((scaffold, session)),
    )

    copy = train.Scaffold(local_init_op=second, copy_from_scaffold=original)

    assert (copy.init_op, copy.local_init_op) == (first, second)
    assert (copy.init_feed_dict, copy.local_init_feed_dict) == (feeds, feeds)
    assert copy.init_fn is not None
    session = ax.Session()
    copy.init_fn(session)
    assert called == [(copy, session)]
    with pytest.raises(TypeError, match="copy_from_scaffold is not a Scaffold instance"):
        train.Scaffold(copy_from_scaffold=first)  # type: ignore[arg-type]


async def test_an_init_function_is_called_with_scaffold_and_session():
    v = ax.Variable(1, name="v")
    counted = ax.assign_add(v, 10)
    seen = []

    async def init_fn(scaffold, session):
        seen.append(scaffold)
        await session.run(counted)

    scaffold = train.Scaffold(init_fn=init_fn)
    async with train.SingularMonitoredSession(scaffold=scaffold) as session:
        assert await session.run(v) == 11
    assert seen == [scaffold]


def test_finalizing_twice_changes_nothing(graph):
    scaffold = train.Scaffold().finalize()
    nodes = len(graph.get_operations())

    assert scaffold.finalize() is scaffold
    assert len(graph.get_operations()) == nodes


async def test_a_session_creator_finalizes_off_the_event_loop(graph):
    class Threaded(train.Scaffold):
        def finalize(self):
            self.thread = threading.get_ident()
            return super().finalize()

    ax.Variable(1, name="v")
    scaffold = Threaded()
    session = await train.ChiefSessionCreator(scaffold).create_session()
    await session.close()

    assert scaffold.thread != threading.get_ident()
    assert graph.finalized
