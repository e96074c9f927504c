"""Feeds: by tensor or name, of values that convert safely; errors name the feed."""

from __future__ import annotations

import re
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError, UnknownFeedError
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.sessions.feeds import FeedConverter
from tests.tiers import Tier, constant, feed, graph, op, read, resource, session_on


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        ("float32", 1.5, np.float32(1.5)),
        ("float32", [1, 2.5], np.array([1, 2.5], np.float32)),
        ("float32", np.float64(0.5), np.float32(0.5)),
        ("float32", np.arange(3), np.arange(3, dtype=np.float32)),
        ("float32", [np.float32(1), 2], np.array([1, 2], np.float32)),
        ("float32", ((1, 2), (3, 4)), np.array([[1, 2], [3, 4]], np.float32)),
        ("float32", True, np.float32(1)),
        ("float64", np.float32(0.25), np.float64(0.25)),
        ("int32", np.int64(7), np.int32(7)),
        ("int32", [2**31 - 1], np.array([2**31 - 1], np.int32)),
        ("int64", 2**40, np.int64(2**40)),
        ("uint8", [255, 0], np.array([255, 0], np.uint8)),
        ("bool", [True, False], np.array([True, False])),
        ("bool", np.array([0, 1]), np.array([False, True])),
        ("int32", np.array([2.0, -3.0]), np.array([2, -3], np.int32)),
        ("int64", 7.0, np.int64(7)),
        ("float32", np.array([1 + 0j]), np.array([1], np.float32)),
        ("bfloat16", [1.0, 2.0], np.array([1, 2], ml_dtypes.bfloat16)),
        ("float16", 0.5, np.float16(0.5)),
        ("complex64", 1 + 2j, np.complex64(1 + 2j)),
        ("complex128", [1j, 2.0], np.array([1j, 2.0])),
        ("string", "text", b"text"),
        ("string", ["a", b"bc"], np.array([b"a", b"bc"], object)),
        ("string", np.array([["a", "bc"]]), np.array([[b"a", b"bc"]], object)),
        ("float32", [], np.zeros(0, np.float32)),
        ("float32", [[], []], np.zeros((2, 0), np.float32)),
    ],
)
async def test_what_converts_safely_is_fed_on_every_tier(tier: Tier, dtype: str, value: Any, expected: Any):
    with graph() as g:
        x = feed(None, dtype)
        same = op("Identity", x)
        reshaped = op("Reshape", x, np.array([-1], np.int32))

    async with tier.session(g) as session:
        for key in (x, x.name, x):
            result, flat, fed = await session.run([same, reshaped, x], {key: value})
            assert type(result) is type(expected)
            assert np.asarray(result).dtype == np.asarray(expected).dtype
            assert np.shape(result) == np.shape(expected)
            np.testing.assert_array_equal(result, expected)
            np.testing.assert_array_equal(flat, np.reshape(expected, -1))
            np.testing.assert_array_equal(fed, expected)


@pytest.mark.parametrize(
    ("dtype", "shape", "value", "kind", "message"),
    [
        ("int32", None, 1.5, GraphTypeError, "'x:0'.*int32.*1.5"),
        ("int32", None, 2**31, GraphValueError, "'x:0'"),
        ("uint8", None, -1, GraphValueError, "'x:0'"),
        ("int32", None, np.array([0, 0.5]), GraphTypeError, "'x:0'.*int32.*float64"),
        ("int32", None, np.array([np.nan]), GraphTypeError, "'x:0'.*int32.*float64"),
        ("int32", None, 2.0**40, GraphTypeError, "'x:0'.*int32"),
        ("float32", None, np.array([1 + 1j]), GraphTypeError, "'x:0'.*float32.*complex128"),
        ("float32", None, 1j, GraphTypeError, "'x:0'"),
        ("float32", None, "text", GraphTypeError, "'x:0'"),
        ("bool", None, 2, GraphTypeError, "'x:0'"),
        ("string", None, 1.0, GraphTypeError, "'x:0'"),
        ("string", None, np.array([1, None], object), GraphTypeError, "'x:0'"),
        ("float32", None, None, GraphValueError, "'x:0'.*None"),
        ("float32", None, [[1], [1, 2]], GraphValueError, "'x:0'"),
        ("float32", None, object(), GraphTypeError, "'x:0'"),
        ("float32", (2,), np.zeros(3, np.float32), GraphValueError, r"shape \(3,\).*'x:0'.*shape \(2,\)"),
        ("float32", (None, 2), np.zeros((1, 3), np.float32), GraphValueError, r"\(1, 3\).*\(\?, 2\)"),
        ("float32", (), [1.0], GraphValueError, r"\(1,\).*\(\)"),
        ("float32", (2, 2), 1.0, GraphValueError, r"\(\).*\(2, 2\)"),
    ],
)
async def test_what_does_not_fit_is_refused_and_the_session_goes_on(
    dtype: str, shape: Any, value: Any, kind: type, message: str
):
    with graph() as g:
        x = feed(shape, dtype, name="x")
        y = op("Identity", x)
        c = constant(1.0)

    async with session_on(g, "eager") as session:
        for _ in range(2):
            with pytest.raises(kind, match=message) as raised:
                await session.run(y, {x: value})
            assert isinstance(raised.value, InvalidArgumentError)
        assert await session.run(c) == 1


async def test_a_fitting_feed_before_does_not_let_an_unfitting_one_pass():
    with graph() as g:
        x = feed([2], name="x")
        y = op("Mul", x, x)

    async with session_on(g, "eager") as session:
        for _ in range(3):
            await session.run(y, {x: np.ones(2, np.float32)})
        with pytest.raises(GraphValueError, match="Cannot feed value of shape"):
            await session.run(y, {x: np.ones(3, np.float32)})
        with pytest.raises(GraphTypeError, match="Cannot feed 'x:0'"):
            await session.run(y, {x: np.full(2, 1j, np.complex64)})


async def test_keys_that_mean_no_tensor_are_refused():
    with graph() as g:
        x = feed([], name="x")
        y = op("Identity", x)

    async with session_on(g, "off") as session:
        for key, kind, message in [
            ("nope:0", UnknownFeedError, "feed_dict key 'nope:0'"),
            ("x:1", UnknownFeedError, "feed_dict key 'x:1'"),
            ("x", GraphTypeError, "feed_dict key 'x'.*<op_name>:<index>"),
            (x.op, GraphTypeError, "feed_dict key.*Operation"),
            (5, GraphTypeError, "feed_dict key 5"),
            (None, GraphTypeError, "feed_dict key None"),
        ]:
            with pytest.raises(kind, match=message):
                await session.run(y, {key: 1.0})
        with pytest.raises(GraphValueError, match="fed more than once"):
            await session.run(y, {x: 1.0, "x:0": 2.0})
        wrong: Any
        for wrong in ([1], "x:0", 5, [(x, 1.0)]):
            with pytest.raises(GraphTypeError, match="feed_dict must be a mapping"):
                await session.run(y, wrong)
        assert await session.run(y, {x: 4.0}) == 4


async def test_tensors_and_slices_are_no_values():
    with graph() as g:
        x = feed(None, name="x")
        y = op("Identity", x)
        slices = IndexedSlices(x, constant([1], "int64"))

    async with session_on(g, "off") as session:
        with pytest.raises(GraphTypeError, match=r"cannot be a Tensor.*'x:0'"):
            await session.run(y, {x: y})
        with pytest.raises(GraphTypeError, match="cannot be a IndexedSlices"):
            await session.run(y, {x: slices})
        for wrong in (3.0, [1.0], None):
            with pytest.raises(GraphTypeError, match="expected IndexedSlicesValue or 2 arrays"):
                await session.run(y, {slices: wrong})


async def test_what_is_marked_as_not_feedable_is_refused():
    with graph() as g:
        x = feed([])
        g.prevent_feeding(x)

    async with session_on(g, "off") as session:
        with pytest.raises(GraphValueError, match="may not be fed"):
            await session.run(x, {x: 1.0})


async def test_an_unfed_placeholder_is_named(tier: Tier):
    with graph() as g:
        x, z = feed([None, 2], name="pixels"), feed([], name="z")
        y = op("Mul", x, z)

    async with tier.session(g) as session:
        with pytest.raises(
            InvalidArgumentError,
            match=r"You must feed a value for placeholder tensor 'pixels' with dtype float",
        ) as raised:
            await session.run(y, {z: 1.0})
        assert re.search(r"created at \w+\.py:\d+", str(raised.value))
        assert raised.value.node_def is None or raised.value.node_def.name == "pixels"
        assert await session.run(z, {z: 2.0}) == 2


async def test_an_array_subclass_is_fed_as_what_it_holds(tier: Tier):
    with graph() as g:
        x = feed(None)
        y = op("Mul", x, x)

    class Reversed(np.ndarray):
        def __mul__(self, other: Any) -> Any:
            raise AssertionError("a kernel got the subclass")

    async with tier.session(g) as session:
        for _ in range(2):
            result, fed = await session.run(
                [y, op("Identity", x)], {x: np.arange(4, dtype=np.float32).view(Reversed)}
            )

            assert type(result) is type(fed) is np.ndarray
            np.testing.assert_array_equal(result, [0, 1, 4, 9])


async def test_the_same_object_fed_twice_reaches_both(tier: Tier):
    with graph() as g:
        x, y = feed([3]), feed([3])
        z = op("Sub", op("Mul", x, constant(3.0)), y)
    array = np.arange(3, dtype=np.float32)

    async with tier.session(g) as session:
        for feeds in ({x: array, y: array}, {y: array, x: array}):
            np.testing.assert_array_equal(await session.run(z, feeds), 2 * array)


async def test_keys_may_be_tuples_nested_as_their_values():
    with graph() as g:
        x, y = feed([]), feed([])
        z = op("Sub", x, y)

    async with session_on(g, "off") as session:
        for feeds in ({(x, y): (5.0, 3.0)}, {(x, (y,)): [5.0, (3.0,)]}, {(x,): (5.0,), y: 3.0}):
            assert await session.run(z, feeds) == 2
        refused: tuple[tuple[dict[Any, Any], str], ...] = (
            ({(x, y): (1.0, 2.0, 3.0)}, "expected 2 values in the same nesting"),
            ({(x, y): np.ones(2)}, "expected 2 values in the same nesting"),
            ({(x, y): (1.0, 2.0), x: 1.0}, "fed more than once"),
        )
        for wrong, problem in refused:
            with pytest.raises(GraphValueError, match=problem):
                await session.run(z, wrong)


async def test_a_feed_that_is_not_needed_is_accepted():
    with graph() as g:
        x, y = feed([]), constant(2.0)

    async with session_on(g, "eager") as session:
        assert await session.run(y, {x: 1.0}) == 2


async def test_a_fed_placeholder_that_something_waits_for_is_not_run(tier: Tier):
    with graph() as g:
        x = feed([], name="x")
        with g.control_dependencies([x]):
            y = op("Add", constant(1.0), constant(2.0))

    async with tier.session(g) as session:
        assert await session.run(y, {x: 1.0}) == 3
        with pytest.raises(InvalidArgumentError, match=r"You must feed"):
            await session.run(y)


async def test_a_default_is_used_unless_something_is_fed(tier: Tier):
    with graph() as g:
        x = op("PlaceholderWithDefault", constant([1.0, 2.0]), shape=(None,))
        y = op("Mul", x, constant(2.0))

    async with tier.session(g) as session:
        np.testing.assert_array_equal(await session.run(y), [2, 4])
        np.testing.assert_array_equal(await session.run(y, {x: [5.0]}), [10])


@pytest.mark.parametrize(
    "value",
    [
        np.arange(30_000.0),
        list(range(30_000)),
        [[float(k) for k in range(300)] for _ in range(100)],
        [np.zeros(300, np.float32)] * 100,
    ],
    ids=["cast", "list", "nested list", "list of arrays"],
)
async def test_what_takes_long_to_convert_is_converted_off_the_loop(
    monkeypatch: pytest.MonkeyPatch, value: Any
):
    converted_in: list[str] = []
    convert = FeedConverter.convert

    def noted(self: FeedConverter, value: Any) -> Any:
        converted_in.append(threading.current_thread().name)
        return convert(self, value)

    monkeypatch.setattr(FeedConverter, "convert", noted)
    with graph() as g:
        x = feed(None, name="x")
        y = op("Neg", x)

    async with session_on(g, "off") as session:
        np.testing.assert_array_equal(await session.run(y, {x: value}), -np.asarray(value, np.float32))
        assert converted_in[0].startswith("aioexec-worker")
        with pytest.raises(GraphTypeError, match="Cannot feed 'x:0'"):
            await session.run(y, {x: ["text"] * 30_000})
        await session.run(y, {x: np.zeros(30_000, np.float32)})
        assert converted_in[-1] == threading.current_thread().name


@pytest.mark.behaviour(28)
async def test_a_resource_is_fetched_and_fed_to_where_its_handle_is_wanted(tier: Tier):
    with graph() as g:
        v = resource([], name="v")
        handle = feed([], "resource")
        init = op("AssignVariableOp", v, constant(5.0))
        add, value = op("AssignAddVariableOp", handle, constant(1.0)), read(handle)

    async with tier.session(g) as session:
        await session.run(init)
        variable = await session.run(v)
        await session.run(add, {handle: variable})

        assert await session.run(value, {handle: variable}) == 6
        for wrong in (5.0, np.zeros(2), "v", None):
            with pytest.raises(GraphTypeError, match="expected a resource"):
                await session.run(value, {handle: wrong})
