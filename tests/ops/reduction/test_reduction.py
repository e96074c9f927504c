"""Wrappers of reductions: names, arguments, and gradients where shapes or axes are known only at run time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.ops.reduction import arg_reduction, cumulative, reductions, statistics
from tests.ops.evaluate import evaluate
from tests.ops.sources import placeholder

X = np.linspace(-1.5, 2.0, 24).reshape(2, 3, 4)
UNKNOWN: list[Any] = [None, (None, None, None), (None, 3, 4), (None, 3, None)]


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


def test_all_axes_are_reduced_unless_some_are_given():
    x = placeholder("float64", (2, 3, 4))

    total = reductions.reduce_sum(x)

    assert total.dims == ()
    assert total.op.name == "Sum"
    assert total.op.inputs[1].op.name == "Const"
    assert evaluate(total, {x: X}) == pytest.approx(X.sum())


def test_the_axes_of_a_tensor_of_unknown_rank_are_found_at_run_time():
    x = placeholder("float64", None)

    total = reductions.reduce_max(x)

    assert total.dims == ()
    assert evaluate(total, {x: X}) == X.max()


def test_an_axis_becomes_a_constant_under_the_name_of_the_op(graph):
    mean = reductions.reduce_mean(placeholder("float64", (None, 3)), 1, keepdims=True, name="m")

    assert mean.op.name == "m"
    assert mean.op.inputs[1].op.name == "m/reduction_indices"
    assert mean.dims == (None, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"axis": 0, "reduction_indices": 0}, "Cannot specify both"),
        ({"axis": 0, "keepdims": True, "keep_dims": True}, "Cannot specify both"),
        ({"axis": 3}, "Invalid reduction dimension 3 for input with 3 dimensions"),
        ({"axis": [[0]]}, "at most 1"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: dict[str, Any], message: str):
    with pytest.raises(GraphValueError, match=message):
        reductions.reduce_sum(placeholder("float64", (2, 3, 4)), **arguments)


def test_deprecated_names_of_arguments_still_mean_the_same():
    x = placeholder("float64", (2, 3, 4))

    result = reductions.reduce_prod(x, reduction_indices=[0], keep_dims=True)

    np.testing.assert_allclose(evaluate(result, {x: X}), X.prod(0, keepdims=True))


def test_logical_reductions():
    x = placeholder("bool", (2, 2))
    value = np.array([[True, False], [True, True]])

    both = [
        reductions.reduce_all(x, 1),
        reductions.reduce_any(x, 0),
        reductions.reduce_min(placeholder("int32", ())),
    ]

    assert evaluate(both[0], {x: value}).tolist() == [False, True]
    assert evaluate(both[1], {x: value}).tolist() == [True, True]
    assert both[2].dims == ()


def slope(op_type: str, x: Tensor, axes: Any, **attrs: Any) -> tuple[Tensor, Tensor]:
    """A reduction, and its gradient for a gradient of 1, 2, 3, …."""
    from aioexec.graph.apply import apply_any_op

    y = apply_any_op(op_type, x, axes, **attrs)
    dy = placeholder("float64", None)
    return dy, y.op.row.gradient(y.op, dy)[0]


@pytest.mark.parametrize("dims", UNKNOWN)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("axes", [[0], [1], [0, 2], [-1, 0], [0, 1, 2]])
def test_gradients_of_tensors_whose_shape_is_not_known(dims: Any, keep: bool, axes: list[int]):
    x = placeholder("float64", dims)
    weights = np.arange(1.0, 1.0 + X.sum(tuple(axes)).size).reshape(X.sum(tuple(axes), keepdims=keep).shape)
    wide = np.broadcast_to(weights.reshape(X.sum(tuple(axes), keepdims=True).shape), X.shape)
    count = X.size / weights.size
    expected = {
        "Sum": wide,
        "Mean": wide / count,
        "Max": wide * (X.max(tuple(axes), keepdims=True) == X),
        "Min": wide * (X.min(tuple(axes), keepdims=True) == X),
    }

    for op_type, wanted in expected.items():
        dy, dx = slope(op_type, x, np.array(axes, np.int32), keep_dims=keep)
        np.testing.assert_allclose(evaluate(dx, {x: X, dy: weights}), wanted, err_msg=op_type)


def test_the_gradient_of_a_sum_over_axes_known_only_at_run_time():
    x, axes = placeholder("float64", (2, 3, 4)), placeholder("int64", (None,))

    dy, dx = slope("Sum", x, axes)

    weights = np.arange(3.0)
    expected = np.broadcast_to(weights[None, :, None], X.shape)
    np.testing.assert_allclose(evaluate(dx, {x: X, axes: np.array([2, -3]), dy: weights}), expected)


@pytest.mark.parametrize("dims", [None, (2, 3, 4)])
def test_the_gradient_of_a_product_over_axes_known_at_run_time_only(dims):
    x, axes = placeholder("float64", dims), placeholder("int32", (None,))

    dy, dx = slope("Prod", x, axes)
    found = evaluate(dx, {x: X, axes: np.array([-1, 0], np.int32), dy: np.array([1.0, 2.0, -1.0])})

    expected = np.prod(X, (0, 2), keepdims=True) / X * np.array([1.0, 2.0, -1.0])[:, np.newaxis]
    np.testing.assert_allclose(found, expected)


def test_equal_extrema_share_the_gradient():
    x = placeholder("float64", (None,))

    dy, dx = slope("Max", x, np.array([0], np.int32))

    assert evaluate(dx, {x: np.array([1.0, 4.0, 4.0, 0.0]), dy: np.array(6.0)}).tolist() == [0, 3, 3, 0]


def test_argmax_takes_axis_or_dimension_and_an_output_type():
    x = placeholder("float64", (2, 3, 4))

    found = arg_reduction.argmax(x, 1)
    other = arg_reduction.argmin(x, dimension=-1, output_type=dtypes.int32)

    assert (found.dtype, found.dims, found.op.name) == (dtypes.int64, (2, 4), "ArgMax")
    assert (other.dtype, other.dims) == (dtypes.int32, (2, 3))
    assert evaluate(found, {x: X}).tolist() == X.argmax(1).tolist()
    assert arg_reduction.argmax(x).dims == (3, 4)
    with pytest.raises(GraphValueError, match="Cannot specify both"):
        arg_reduction.argmax(x, 0, dimension=1)
    with pytest.raises(GraphValueError, match="range"):
        arg_reduction.argmax(x, 3)


def test_log_sum_exp_does_not_overflow():
    x = placeholder("float64", None)
    value = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [0.0, np.inf], [-1.0, 2.0]])

    result = statistics.reduce_logsumexp(x, 1)
    kept = statistics.reduce_logsumexp(x, 0, keepdims=True)

    np.testing.assert_allclose(
        evaluate(result, {x: value}), [1000 + np.log(2), -np.inf, np.inf, np.log(np.exp(-1) + np.exp(2))]
    )
    assert evaluate(kept, {x: value[:1]}).shape == (1, 2)
    assert result.op.name == "ReduceLogSumExp"


def test_variance_deviation_and_moments():
    x = placeholder("float64", (2, 3, 4))
    results = [
        statistics.reduce_variance(x, [0, 2]),
        statistics.reduce_std(x, 1, keepdims=True),
        *statistics.moments(x, [0, 1]),
        *statistics.moments(x, [2], keep_dims=True),
    ]

    values = evaluate(results, {x: X})

    expected = [X.var((0, 2)), X.std(1, keepdims=True), X.mean((0, 1)), X.var((0, 1)), X.mean(2)[..., None]]
    for value, wanted in zip(values, [*expected, X.var(2)[..., None]], strict=True):
        np.testing.assert_allclose(value, wanted)
    with pytest.raises(GraphTypeError, match="floating"):
        statistics.reduce_variance(placeholder("int32", (2,)))


def test_moments_of_half_precision_are_computed_in_single():
    mean, variance = statistics.moments(placeholder("float16", (None, 3)), [0])

    assert {mean.dtype, variance.dtype} == {dtypes.float16}
    assert mean.op.inputs[0].op.inputs[0].op.attrs["T"] is dtypes.float32


def test_counting_zeros():
    x = placeholder("float32", None)
    value = np.array([[0, 1, 0], [2, 0, 0]], np.float32)

    counts = [statistics.count_nonzero(x), statistics.count_nonzero(x, 0, dtype=dtypes.int32)]
    share = statistics.zero_fraction(x)

    assert evaluate(counts[0], {x: value}) == 2
    assert evaluate(counts[1], {x: value}).tolist() == [1, 1, 0]
    assert evaluate(share, {x: value}) == pytest.approx(4 / 6)


def test_running_sums_and_products():
    x = placeholder("float64", (None,))

    sums = cumulative.cumsum(x, exclusive=True, reverse=True)
    products = cumulative.cumprod(x)

    assert evaluate(sums, {x: np.array([1.0, 2.0, 3.0])}).tolist() == [5, 3, 0]
    assert evaluate(products, {x: np.array([1.0, 2.0, 3.0])}).tolist() == [1, 2, 6]
