"""Fetches of any nesting are returned in the same nesting; errors name the fetch."""

from __future__ import annotations

import collections
import dataclasses
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, UnknownFetchError
from aioexec.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from aioexec.sessions.fetches import FetchMapper, structure_key
from tests.tiers import Tier, constant, feed, graph, op, session_on


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    loss: Any
    parts: Any


@dataclasses.dataclass
class Checked:
    """A dataclass that would not accept a tensor where it holds a number, and has a field of its own making."""

    value: Any
    made: Any = dataclasses.field(init=False, default=None)

    def __post_init__(self) -> None:
        self.made = self.value


async def test_every_nesting_comes_back_as_it_was(tier: Tier):
    with graph() as g:
        a, b = constant(1.0), op("Add", constant([1.0, 2.0]), constant(1.0))
        nothing = op("NoOp")
        fetches = {
            "list": [a, [b], []],
            "tuple": (a, (b, a), ()),
            "dict": {"x": a, 7: {"y": b}},
            "ordered": collections.OrderedDict([("z", a), ("a", b)]),
            "named": Pair(a, [b]),
            "frozen": Frozen(loss=a, parts=(a, b)),
            "name": a.name,
            "operation": nothing,
            "operation by name": nothing.name,
            "twice": [a, a, a.name],
        }

    async with tier.session(g) as session:
        for _ in range(2):
            result = await session.run(fetches)

            assert list(result) == list(fetches)
            assert result["list"][0] == 1
            np.testing.assert_array_equal(result["list"][1][0], [2, 3])
            assert result["list"][2] == []
            assert type(result["tuple"]) is tuple
            assert result["tuple"][1][1] == 1
            assert result["dict"][7]["y"].tolist() == [2, 3]
            assert type(result["ordered"]) is collections.OrderedDict
            assert list(result["ordered"]) == ["z", "a"]
            assert isinstance(result["named"], Pair)
            assert result["named"].second[0].tolist() == [2, 3]
            assert isinstance(result["frozen"], Frozen)
            assert result["frozen"].parts[1].tolist() == [2, 3]
            assert result["name"] == 1
            assert result["operation"] is None
            assert result["operation by name"] is None
            assert [float(value) for value in result["twice"]] == [1, 1, 1]
        assert isinstance(fetches["frozen"].loss, type(a)), "what was asked with is not changed"


async def test_mappings_and_dataclasses_with_constructors_of_their_own():
    with graph() as g:
        a = constant(3.0)
    groups = collections.defaultdict(list, x=a)
    checked = Checked(a)

    async with session_on(g, "off") as session:
        by_default = await session.run(groups)
        proxy = await session.run(MappingProxyType({"x": a}))
        filled = await session.run(checked)

    assert type(by_default) is collections.defaultdict
    assert by_default.default_factory is list
    assert by_default["x"] == 3
    assert proxy["x"] == 3
    assert (filled.value, filled.made) == (3, 3)
    assert checked.value is a


async def test_nothing_asked_gives_nothing():
    with graph() as g:
        constant(1.0)

    async with session_on(g, "off") as session:
        assert await session.run([]) == []
        assert await session.run({}) == {}
        assert await session.run(()) == ()


async def test_indexed_slices_are_fetched_in_their_parts(tier: Tier):
    with graph() as g:
        values, indices = feed([None, 2]), constant([1, 3], "int64")
        whole = IndexedSlices(values, indices, constant([5, 2], "int64"))
        loose = IndexedSlices(values, indices)
    array = np.ones((2, 2), np.float32)

    async with tier.session(g) as session:
        first, second = await session.run([whole, loose], {values: array})
        again = await session.run(
            whole, {whole: IndexedSlicesValue(array, np.array([0, 0]), np.array([9, 2]))}
        )

    assert isinstance(first, IndexedSlicesValue)
    assert first.values is array
    assert first.indices.tolist() == [1, 3]
    assert first.dense_shape.tolist() == [5, 2]
    assert second.dense_shape is None
    assert again.dense_shape.tolist() == [9, 2]


async def test_lists_that_change_between_runs_are_looked_at_again():
    with graph() as g:
        a, b = constant(1.0), constant(2.0)
    fetches = [a]

    async with session_on(g, "off") as session:
        assert await session.run(fetches) == [1]
        fetches.append(b)
        assert await session.run(fetches) == [1, 2]
        fetches[0] = b
        assert await session.run(fetches) == [2, 2]


def test_structures_that_differ_have_different_keys():
    with graph():
        a, b = constant(1.0), constant(2.0)
    structures = [
        a,
        b,
        [a],
        (a,),
        [a, b],
        [b, a],
        [[a], b],
        [a, [b]],
        {"x": a},
        {"y": a},
        {"x": [a]},
        Pair(a, b),
        a.op,
        a.name,
    ]

    keys = [structure_key(structure) for structure in structures]

    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert structure_key([a, (b,)]) == structure_key([a, (b,)])


def test_what_becomes_a_fetch_has_a_key_of_its_own_and_is_planned_once():
    with ax.Graph().as_default():
        variables = [ax.Variable(1.0), ax.Variable(1.0)]
        sparse = ax.sparse_placeholder(ax.float32)

    keys = [structure_key(fetch) for fetch in (*variables, sparse, [sparse])]

    assert None not in keys
    assert len(set(keys)) == len(keys)
    assert keys[0] == structure_key(variables[0])


def test_what_is_no_fetch_has_no_key():
    assert structure_key(object()) is None


@pytest.mark.parametrize(
    ("fetch", "kind", "message"),
    [
        (None, GraphTypeError, "None has invalid type NoneType"),
        (3, GraphTypeError, "3 has invalid type int"),
        ({1, 2}, GraphTypeError, "invalid type set"),
        ([[None]], GraphTypeError, "None has invalid type"),
        (np.zeros(2), GraphTypeError, "invalid type ndarray"),
        (Frozen, GraphTypeError, "invalid type type"),
        ("nope", UnknownFetchError, "'nope' cannot be interpreted as a Tensor.*no node"),
        ("nope:0", UnknownFetchError, "'nope:0' cannot be interpreted as a Tensor"),
        ("here:1", UnknownFetchError, "node 'here' has 1 outputs"),
        ("here:x", GraphValueError, "'here:x'"),
        ("here:-1", GraphValueError, "'here:-1'"),
        ("", UnknownFetchError, "''"),
    ],
)
async def test_what_cannot_be_fetched_is_refused_and_the_session_goes_on(
    fetch: Any, kind: type, message: str
):
    with graph() as g:
        here = op("Add", constant(1.0), constant(2.0), name="here")

    async with session_on(g, "off") as session:
        with pytest.raises(kind, match=message):
            await session.run(fetch)
        with pytest.raises(kind, match=message):
            await session.run({"good": here, "bad": fetch})
        assert await session.run("here:0") == 3


async def test_a_tensor_of_another_graph_is_refused():
    with graph():
        foreign = constant(1.0)
    with graph() as g:
        ours = constant(2.0)

    async with session_on(g, "off") as session:
        for fetch in (foreign, foreign.op):
            with pytest.raises(
                GraphValueError, match=r"cannot be interpreted as a Tensor.*not an element of this graph"
            ):
                await session.run(fetch)
        with pytest.raises(
            GraphTypeError, match=r"Cannot interpret feed_dict key.*not an element of this graph"
        ):
            await session.run(ours, {foreign: 1.0})
        assert await session.run(ours) == 2


async def test_what_is_marked_as_not_fetchable_is_refused():
    with graph() as g:
        a = constant(1.0)
        g.prevent_fetching(a.op)

    async with session_on(g, "off") as session:
        with pytest.raises(GraphValueError, match="not fetchable"):
            await session.run(a)


def test_each_tensor_and_target_is_asked_for_once():
    with graph() as g:
        a, b = constant(1.0), constant(2.0)
        mapper = FetchMapper(g, [a, {"x": b, "y": [a, a.op]}, b.op, a.name])

    assert mapper.tensors == (a, b)
    assert mapper.targets == (a.op, b.op)
    assert mapper.build([1, 2]) == [1, {"x": 2, "y": [1, None]}, None, 1]


@pytest.mark.behaviour(18)
async def test_a_fed_scalar_comes_back_as_the_array_that_was_fed():
    with graph() as g:
        x = feed([])
        y = op("Identity", x)
    array = np.array(2, np.float32)

    async with session_on(g, "off") as session:
        fed, computed = await session.run([x, y], {x: array})

    assert fed is array
    assert type(computed) is np.float32
