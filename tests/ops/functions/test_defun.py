"""Python functions as functions of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.functions.call_functions import Gradient
from aioexec.ops.functions.defun import Defun, get_extra_args, get_extra_inputs, get_extra_vars
from tests.tiers import session_on


@pytest.fixture
def graph():
    with ax.Graph().as_default() as graph:
        yield graph


async def run(graph: Any, fetches: Any) -> Any:
    async with session_on(graph, "off") as session:
        await session.run(ax.global_variables_initializer())
        return await session.run(fetches)


async def test_a_function_is_called_like_one_of_python(graph):
    @Defun(ax.float32, ax.float32, func_name="weighted", out_names=["sum", "same"])
    def weighted(x, y):
        return 2.0 * x + y, x

    total, same = weighted(3.0, [1.0, 2.0], name="here")

    assert total.name == "here:0"
    assert weighted.name == total.op.type == "weighted"
    assert weighted.declared_input_types == [ax.float32, ax.float32]
    assert [arg.name for arg in weighted.definition.signature.output_arg] == ["sum", "same"]
    values = await run(graph, [total, same])
    np.testing.assert_array_equal(values[0], [7.0, 8.0])
    assert values[1] == 3.0


async def test_without_a_name_it_is_named_after_its_body(graph):
    def scaled(factor: float) -> Any:
        return Defun(ax.float32)(lambda x: x * factor)

    one, two, again = scaled(2.0), scaled(3.0), scaled(2.0)

    assert await run(graph, [one(1.0), two(1.0), again(1.0)]) == [2.0, 3.0, 2.0]
    assert one.name == again.name != two.name
    assert set(graph.functions) == {one.name, two.name}


async def test_it_is_made_at_its_first_use_and_once(graph):
    calls = []

    @Defun(ax.float32)
    def noted(x):
        calls.append(x)
        return x + 1.0

    assert not calls
    first, second = noted(1.0), noted(2.0)

    assert len(calls) == 1
    assert await run(graph, [first, second]) == [2.0, 3.0]


async def test_functions_call_functions_and_capture(graph):
    k = ax.constant([1.0, 2.0])

    @Defun(ax.float32)
    def inner(x):
        return x * k

    @Defun(ax.float32)
    def outer(x):
        return inner(x) + inner(1.0)

    called = outer(2.0)

    assert outer.captured_inputs == [k]
    assert called.dims == (2,)
    np.testing.assert_array_equal(await run(graph, called), [3.0, 6.0])


async def test_captured_values_may_be_copied(graph):
    k = ax.constant(3.0)

    @Defun(ax.float32, capture_by_value=True)
    def scaled(x):
        return x * k

    assert scaled.captured_inputs == []
    assert await run(graph, scaled(2.0)) == 6.0


async def test_variables_are_made_outside_and_handed_in(graph):
    seen = []

    @Defun(ax.float32)
    def layer(x):
        w = ax.get_variable("w", [], initializer=ax.constant_initializer(4.0), use_resource=True)
        y = x * w
        seen.extend([get_extra_vars(), get_extra_inputs(), get_extra_args()])
        return y

    with ax.variable_scope("scope"):
        called = layer(2.0)

    (w,) = ax.global_variables()
    assert w.graph is graph
    variables, inputs, args = seen
    assert variables == [w]
    assert inputs == layer.captured_inputs == [w.handle]
    assert [tensor.op.type for tensor in args] == ["_Arg"]
    assert layer.stateful_ops == [
        (op.name, op.type) for op in layer.graph.get_operations() if op.type == "ReadVariableOp"
    ]
    assert await run(graph, called) == 8.0


def test_outside_of_a_body_nothing_is_captured(graph):
    assert get_extra_args() == get_extra_inputs() == get_extra_vars() == []


async def test_without_types_there_is_a_function_for_each_combination_of_them(graph):
    @Defun()
    def added(x, y):
        return x + y

    whole, real = added(1, 2), added(1.0, 2.0)

    assert (whole.dtype, real.dtype) == (ax.int32, ax.float32)
    assert await run(graph, [whole, real]) == [3, 3.0]


async def test_a_function_of_nothing_and_one_that_returns_nothing(graph):
    @Defun()
    def constant():
        return ax.constant(5.0)

    @Defun(ax.float32)
    def checked(x):
        ax.Assert(x > 0.0, [x])

    op = checked(1.0)

    assert isinstance(op, ax.Operation)
    assert await run(graph, [constant(), op]) == [5.0, None]


async def test_a_function_may_bring_its_own_gradient(graph):
    @Defun(ax.float32, ax.float32)
    def minus(x, gradient):
        return -7.0 * gradient

    @Defun(ax.float32, grad_func=minus)
    def squared(x):
        return x * x

    @Defun(ax.float32, python_grad_func=lambda op, gradient: [100.0 * gradient])
    def doubled(x):
        return x * 2.0

    x = ax.constant(3.0)
    found = [*ax.gradients(squared(x), x), *ax.gradients(doubled(x), x), *Gradient([x, 1.0], squared)]

    assert squared.grad_func_name == minus.name
    assert await run(graph, found) == [-7.0, 100.0, -7.0]
    with pytest.raises(GraphValueError, match="has a gradient function already"):
        squared.set_grad_func(doubled)


async def test_gradients_go_through_calls_twice(graph):
    @Defun(ax.float32, ax.float32)
    def cubed(x, unused):
        return x * x * x

    x, y = ax.constant(2.0), ax.constant(1.0)
    (first, none) = ax.gradients(cubed(x, y), [x, y])
    (second,) = ax.gradients(first, x)

    assert await run(graph, [first, none, second]) == [12.0, 0.0, 12.0]


async def test_a_function_made_for_one_graph_may_be_called_in_another(graph):
    inner = Defun(ax.float32)(lambda x: x + 1.0)
    outer = Defun(ax.float32)(lambda x: inner(x) * 2.0)
    outer(1.0)

    with ax.Graph().as_default() as other:
        called = outer(3.0)

    assert await run(other, called) == 8.0


def with_default(x: Any, y: Any = 1.0) -> Any:
    return x


BAD: dict[str, tuple[Any, type[Exception], str]] = {
    "no function": (lambda: Defun(ax.float32)(None), GraphValueError, "must be a callable"),
    "too many types": (
        lambda: Defun(ax.float32, ax.float32)(lambda x: x),
        GraphValueError,
        r"in the range \[1, 1\], got 2",
    ),
    "defaults": (lambda: Defun(ax.float32)(with_default), GraphValueError, "argument defaults or keywords"),
    "other count": (
        lambda: Defun(ax.float32)(lambda x: x)(1.0, 2.0),
        GraphValueError,
        "arguments: 1, received: 2",
    ),
    "other type": (lambda: Defun(ax.float32)(lambda x: x)(ax.constant(1)), GraphTypeError, "float32"),
    "returns None": (
        lambda: Defun(ax.float32)(lambda x: [x, None])(1.0),
        GraphValueError,
        "can not return None",
    ),
    "returns a node": (
        lambda: Defun(ax.float32)(lambda x: ax.no_op())(1.0),
        GraphTypeError,
        "a function returns tensors",
    ),
    "names": (
        lambda: Defun(ax.float32, out_names=["a", "b"])(lambda x: x)(1.0),
        GraphValueError,
        "returns 1 values, which cannot be named",
    ),
}


@pytest.mark.parametrize("kind", list(BAD))
def test_what_is_no_function_is_refused(graph, kind):
    attempt, error, message = BAD[kind]

    with pytest.raises(error, match=message):
        attempt()
