"""Python functions as nodes: their arguments, allowed results, errors, and threads."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import (
    AbortedError,
    CancelledError,
    GraphValueError,
    InternalError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)

LARGE = 40_000
"""Elements of a vector that is copied on a worker."""

request_id: contextvars.ContextVar[int] = contextvars.ContextVar("request_id", default=0)


@pytest.fixture(autouse=True)
def graph() -> Iterator[ax.Graph]:
    with ax.Graph().as_default() as made:
        yield made


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def awaited(function: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*arguments: Any) -> Any:
        await asyncio.sleep(0)
        return function(*arguments)

    return call


BOTH = pytest.mark.parametrize("kind", [plain, awaited])


class Verdict(BaseException):
    """Such as test frameworks raise."""


async def run(*arguments: Any, **options: Any) -> Any:
    async with ax.Session() as session:
        return await session.run(ax.py_func(*arguments, **options))


# Arguments and results


@BOTH
@pytest.mark.parametrize("size", [2, LARGE])
async def test_a_function_is_called_with_arrays_and_its_arrays_come_back(kind: Any, size: int):
    x = ax.constant(np.ones(size), ax.float32)

    doubled, total = await run(kind(lambda a, b: (a * b, a.sum())), [x, 2.0], [ax.float32, ax.float32])

    np.testing.assert_array_equal(doubled, np.full(size, 2, np.float32))
    assert total == size


@BOTH
async def test_scalars_go_in_as_scalars_and_strings_as_bytes(kind: Any):
    seen: list[Any] = []

    await run(kind(lambda *values: seen.extend(values)), [1.5, "a", ["b", "c"]], [])

    assert seen[:2] == [np.float32(1.5), b"a"]
    assert [type(value) for value in seen] == [np.float32, bytes, np.ndarray]
    assert seen[2].tolist() == [b"b", b"c"]


@BOTH
@pytest.mark.parametrize(
    ("returned", "dtype", "expected"),
    [
        (5, "int64", 5),
        (1.5, "float64", 1.5),
        (True, "bool", True),
        ("abc", "string", b"abc"),
        (np.array(["abc", "d"]), "string", [b"abc", b"d"]),
        (np.array([[1, 2]], np.float32), "float32", [[1, 2]]),
        ([np.int32(1)], "int32", 1),
    ],
)
async def test_what_is_returned_becomes_an_array(kind: Any, returned: Any, dtype: str, expected: Any):
    result = await run(kind(lambda: returned), [], ax.as_dtype(dtype))

    if dtype == "string" and isinstance(result, bytes):
        assert result == expected
    else:
        assert result.tolist() == expected
        assert result.dtype == ax.as_dtype(dtype).numpy


@BOTH
@pytest.mark.parametrize(
    ("returned", "types", "error", "message"),
    [
        ((1, 2), [ax.int64], InvalidArgumentError, "returns 2 values, but expects to see 1 values"),
        (None, [ax.int64], InvalidArgumentError, "returns 0 values, but expects to see 1 values"),
        (1, [], InvalidArgumentError, "returns 1 values, but expects to see 0 values"),
        (
            1.5,
            ax.float32,
            InvalidArgumentError,
            "0-th value returned by pyfunc_.* is float64, but expects float32",
        ),
        ("a", ax.float32, InvalidArgumentError, "is string, but expects float32"),
        (1.5, ax.string, InvalidArgumentError, "is float64, but expects string"),
        (object(), ax.float32, InternalError, "Unsupported object type object"),
    ],
)
async def test_what_was_not_declared_is_refused(
    kind: Any, returned: Any, types: Any, error: type[OpError], message: str
):
    with pytest.raises(error, match=message):
        await run(kind(lambda: returned), [], types)


@BOTH
async def test_a_function_may_keep_and_change_its_arguments_and_results(kind: Any):
    x = ax.placeholder(ax.float32, [2])
    kept: list[Any] = []

    def change(value: Any) -> Any:
        value += 1
        kept.append(value)
        return value

    y, fed = ax.py_func(kind(change), [x], ax.float32), np.zeros(2, np.float32)
    async with ax.Session() as session:
        result, same = await session.run([y, x + 0], {x: fed})
        kept[0][:] = 9

    assert (result.tolist(), same.tolist(), fed.tolist()) == ([1, 1], [0, 0], [0, 0])


# Failing


@BOTH
@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (ValueError("boom"), InvalidArgumentError),
        (TypeError("boom"), InvalidArgumentError),
        (StopIteration("boom"), OutOfRangeError),
        (NotImplementedError("boom"), UnimplementedError),
        (MemoryError("boom"), ResourceExhaustedError),
        (RuntimeError("boom"), UnknownError),
        (KeyError("boom"), UnknownError),
        (Verdict("boom"), UnknownError),
    ],
)
async def test_what_a_function_raises_becomes_the_canonical_error_and_stays_its_cause(
    kind: Any, raised: BaseException, expected: type[OpError]
):
    def fail() -> None:
        raise raised

    with pytest.raises(OpError, match="boom") as caught:
        await run(kind(fail), [], ax.float32)

    assert type(caught.value) is expected
    causes = []
    cause: BaseException | None = caught.value
    while cause is not None:
        cause = cause.__cause__
        causes.append(cause)
    assert raised in causes


@BOTH
async def test_an_error_of_ours_keeps_its_class(kind: Any):
    def fail() -> None:
        raise AbortedError("try again")

    with pytest.raises(AbortedError, match="try again"):
        await run(kind(fail), [], ax.float32)


async def test_a_plain_function_that_asks_for_the_end_of_its_thread_only_fails_its_step():
    def leave() -> None:
        raise SystemExit(3)

    async with ax.Session() as session:
        for _ in range(3):
            with pytest.raises(UnknownError, match="SystemExit: 3"):
                await session.run(ax.py_func(leave, [], ax.int64))


def test_only_what_can_be_called_is_a_function():
    with pytest.raises(GraphValueError, match="Expected func to be callable, got 3"):
        ax.py_func(3, [], ax.float32)


async def test_a_coroutine_that_is_cancelled_by_itself_fails_the_step():
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(CancelledError, match="was cancelled by itself"):
        await run(give_up, [], ax.float32)


# Where it runs


@BOTH
async def test_the_caller_s_context_variables_reach_the_function(kind: Any):
    request_id.set(7)

    assert await run(kind(lambda: request_id.get()), [], ax.int64) == 7


async def test_a_plain_function_blocks_a_worker_and_not_the_loop():
    entered, release = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def block() -> bool:
        loop.call_soon_threadsafe(entered.set)
        return release.wait(20)

    task = asyncio.create_task(run(block, [], ax.bool))
    await entered.wait()  # the loop runs while the function blocks
    release.set()

    assert await task


async def test_an_awaited_function_runs_in_the_session_s_loop_while_others_compute():
    arrived, proceed = asyncio.Event(), asyncio.Event()

    async def meet(value: Any) -> Any:
        arrived.set()
        await proceed.wait()
        return value

    async def release(value: Any) -> Any:
        await arrived.wait()
        proceed.set()
        return value

    x = ax.constant([1.0])
    first, second = ax.py_func(meet, [x], ax.float32), ax.py_func(release, [x * 2], ax.float32)
    async with ax.Session() as session:
        assert [value.tolist() for value in await session.run([first, second])] == [[1], [2]]


async def test_an_awaited_function_is_cancelled_with_its_step():
    entered, ended = asyncio.Event(), asyncio.Event()

    async def wait_forever() -> None:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with ax.Session() as session:
        task = asyncio.create_task(session.run(ax.py_func(wait_forever, [], [])))
        await entered.wait()

        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert ended.is_set()


class Service:
    async def __call__(self, value: Any) -> Any:
        return value + 1


@pytest.mark.parametrize(
    "function", [Service(), functools.partial(awaited(lambda a, b: a + b), np.float32(1))]
)
async def test_anything_that_is_awaited_when_called_is_an_awaited_function(function: Any):
    assert await run(function, [1.0], ax.float32) == 2


# Nodes


def test_nodes_are_named_and_typed_as_in_tensorflow():
    one = ax.py_func(lambda a: a, [[1.0]], ax.float32)
    two = ax.py_func(lambda a: (a, a), [1.0], [ax.float32, ax.int32], stateful=False, name="two")
    none = ax.py_func(lambda: None, [], [])

    assert (one.name, one.op.type, one.dims) == ("PyFunc:0", "PyFunc", None)
    assert [tensor.name for tensor in one.op.inputs] == ["PyFunc/input_0:0"]
    assert [(tensor.name, tensor.dtype) for tensor in two] == [("two:0", ax.float32), ("two:1", ax.int32)]
    assert two[0].op.type == "PyFuncStateless"
    assert isinstance(none, ax.Operation)


async def test_a_stateless_function_is_not_called_while_planning():
    calls: list[Any] = []

    def count(value: Any) -> Any:
        calls.append(value)
        return value

    assert await run(count, [1.0], ax.float32, stateful=False) == 1
    assert len(calls) == 1


async def test_a_function_lives_as_long_as_its_graph():
    def function() -> float:
        return 1.0

    known = weakref.ref(function)
    with ax.Graph().as_default() as other:
        node = ax.py_func(function, [], ax.float64)
        exported = other.as_graph_def()
    (imported,) = ax.import_graph_def(exported, return_elements=[node.name], name="") or [None]
    async with ax.Session() as session:
        assert await session.run(imported) == 1
        del function, node, other
        gc.collect()

        assert known() is None
        with pytest.raises(InvalidArgumentError, match=r"callback pyfunc_.* is not found"):
            await session.run(imported)
