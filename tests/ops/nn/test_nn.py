"""Wrappers of neural network ops: biases, softmax along any axis, losses of any rank, normalisation, top-k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec import dtypes
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.graph import Graph
from aioexec.ops.nn import activations, cross_entropy, nn_ops, softmax
from tests.ops.evaluate import evaluate
from tests.ops.sources import placeholder

X = np.sin(np.arange(24.0)).reshape(2, 3, 4) * 3


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


def log_softmax(x: Any, axis: int = -1) -> Any:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


@pytest.mark.parametrize("axis", [None, -1, 0, 1, 2, -3])
@pytest.mark.parametrize("dims", [(2, 3, 4), (None, None, None)])
def test_softmax_along_any_axis(axis: Any, dims: Any):
    x = placeholder("float64", dims)
    expected = log_softmax(X, -1 if axis is None else axis)

    both = [softmax.softmax(x, axis), softmax.log_softmax(x, dim=axis)]

    values = evaluate(both, {x: X})
    np.testing.assert_allclose(values[0], np.exp(expected))
    np.testing.assert_allclose(values[1], expected)
    assert both[0].dims == dims
    assert both[0].op.name == ("Softmax" if both[0].op.type == "Softmax" else "transpose_1")


def test_an_axis_softmax_does_not_have_is_refused():
    x = placeholder("float64", (2, 3))
    for axis in (2, -3):
        with pytest.raises(GraphValueError, match="axis must be in the range"):
            softmax.softmax(x, axis)
    with pytest.raises(GraphValueError, match="Cannot specify both"):
        softmax.softmax(x, 0, dim=0)
    with pytest.raises(GraphValueError, match="known rank"):
        softmax.softmax(placeholder("float64", None), 0)


@pytest.mark.parametrize("dims", [(2, 3, 4), (None, None, 4), (None, None, None)])
@pytest.mark.parametrize("axis", [-1, 1])
def test_cross_entropy_of_logits_of_any_rank(dims: Any, axis: int):
    x, p = placeholder("float64", dims), placeholder("float64", dims)
    shares = np.exp(log_softmax(np.cos(X), axis))

    loss = cross_entropy.softmax_cross_entropy_with_logits_v2(p, x, axis)

    np.testing.assert_allclose(evaluate(loss, {x: X, p: shares}), -(shares * log_softmax(X, axis)).sum(axis))
    assert loss.dims == tuple(dim for k, dim in enumerate(dims) if k != axis % 3)


def test_matrices_go_to_the_loss_as_they_are():
    x, p = placeholder("float32", (None, 4)), placeholder("float32", (None, 4))

    loss = cross_entropy.softmax_cross_entropy_with_logits_v2(labels=p, logits=x)

    assert loss.op.type == "SoftmaxCrossEntropyWithLogits"
    assert loss.op.name == "softmax_cross_entropy_with_logits"
    assert loss.op.inputs == (x, p)


def test_the_older_cross_entropy_stops_the_gradient_of_labels():
    x, p = placeholder("float32", (None, 4)), placeholder("float32", (None, 4))

    loss = cross_entropy.softmax_cross_entropy_with_logits(labels=p, logits=x)

    assert loss.op.inputs[1].op.type == "StopGradient"
    assert loss.op.name == "softmax_cross_entropy_with_logits_sg"
    with pytest.raises(GraphValueError, match="named arguments"):
        cross_entropy.softmax_cross_entropy_with_logits(x, p)
    with pytest.raises(GraphValueError, match="must be provided"):
        cross_entropy.softmax_cross_entropy_with_logits(logits=x)


@pytest.mark.parametrize("dims", [(2, 3, 4), (None, None, 4), None])
def test_sparse_cross_entropy_of_logits_of_any_rank(dims: Any):
    x, labels = placeholder("float64", dims), placeholder("int64", None if dims is None else dims[:-1])
    classes = np.arange(6).reshape(2, 3) % 4

    loss = cross_entropy.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)

    expected = -np.take_along_axis(log_softmax(X), classes[..., None], -1)[..., 0]
    np.testing.assert_allclose(evaluate(loss, {x: X, labels: classes}), expected)
    with pytest.raises(InvalidArgumentError, match=r"label value of 4 .* \[0, 4\)"):
        evaluate(loss, {x: X, labels: classes + 1})


def test_sparse_labels_have_one_dimension_less_than_logits():
    with pytest.raises(GraphValueError, match="rank of logits minus 1"):
        cross_entropy.sparse_softmax_cross_entropy_with_logits(
            labels=placeholder("int32", (2, 3)), logits=placeholder("float32", (2, 3))
        )


def test_half_precision_losses_are_computed_in_single():
    x, labels = placeholder("float16", (2, 3)), placeholder("int32", (2,))

    sparse = cross_entropy.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
    dense = cross_entropy.softmax_cross_entropy_with_logits_v2(placeholder("float16", (2, 3)), x)

    for loss in (sparse, dense):
        assert loss.dtype is dtypes.float16
        assert loss.op.inputs[0].op.attrs["T"] is dtypes.float32


def test_the_gradient_of_the_gradient_of_a_cross_entropy():
    x, labels = placeholder("float64", (2, 4)), placeholder("int64", (2,))
    loss = cross_entropy.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
    d_loss, d_backprop = placeholder("float64", (2,)), placeholder("float64", (2, 4))
    rule: Any = loss.op.row.gradient

    (dx, _) = rule(loss.op, d_loss, d_backprop)

    logits, weights = X[0, :2], X[1, :2]
    y = np.exp(log_softmax(logits))
    expected = (weights - (weights * y).sum(1, keepdims=True)) * y
    feeds = {x: logits, labels: np.array([0, 1]), d_loss: np.zeros(2), d_backprop: weights}
    np.testing.assert_allclose(evaluate(dx, feeds), expected)


def test_losses_of_independent_classes():
    x, z = placeholder("float64", (2, 3)), placeholder("float64", (2, 3))
    logits, labels = X[0, :2, :3] * 50, np.array([[0.0, 1.0, 0.3], [1.0, 0.0, 0.5]])

    plain = cross_entropy.sigmoid_cross_entropy_with_logits(labels=z, logits=x)
    weighted = cross_entropy.weighted_cross_entropy_with_logits(z, x, 3.0)

    positive, negative = np.logaddexp(0, -logits), np.logaddexp(0, logits)
    values = evaluate([plain, weighted], {x: logits, z: labels})
    np.testing.assert_allclose(values[0], labels * positive + (1 - labels) * negative)
    np.testing.assert_allclose(values[1], 3 * labels * positive + (1 - labels) * negative, atol=1e-30)
    with pytest.raises(GraphValueError, match="same shape"):
        cross_entropy.sigmoid_cross_entropy_with_logits(labels=placeholder("float64", (3,)), logits=x)


def test_biases_go_to_the_channels_of_the_format():
    x = placeholder("float64", (2, 3, 4))

    last = nn_ops.bias_add(x, np.arange(4.0))
    second = nn_ops.bias_add(x, np.arange(3.0), data_format="NCW")

    values = evaluate([last, second], {x: X})
    np.testing.assert_allclose(values[0], X + np.arange(4.0))
    np.testing.assert_allclose(values[1], X + np.arange(3.0)[:, None])
    with pytest.raises(GraphValueError, match="Dimensions must be equal, but are 4 and 3"):
        nn_ops.bias_add(x, np.arange(3.0))


def test_a_bias_of_the_wrong_length_is_found_at_run_time():
    x, b = placeholder("float64"), placeholder("float64")

    for value, bias in ((X, np.zeros(3)), (np.zeros(3), np.zeros(3))):
        with pytest.raises(InvalidArgumentError):
            evaluate(nn_ops.bias_add(x, b), {x: value, b: bias})


def test_layers():
    x, w, b = placeholder("float64", (None, 4)), placeholder("float64", (4, 2)), placeholder("float64", (2,))
    weights, biases = np.linspace(-1, 1, 8).reshape(4, 2), np.array([0.5, -0.5])

    values = evaluate(
        [nn_ops.xw_plus_b(x, w, b), nn_ops.relu_layer(x, w, b)], {x: X[0], w: weights, b: biases}
    )

    np.testing.assert_allclose(values[0], X[0] @ weights + biases)
    np.testing.assert_allclose(values[1], np.maximum(X[0] @ weights + biases, 0))


def test_normalising_by_the_l2_norm():
    x = placeholder("float64", None)

    values = evaluate([nn_ops.l2_normalize(x, 1), nn_ops.l2_normalize(x), nn_ops.l2_loss(x)], {x: X})

    np.testing.assert_allclose(values[0], X / np.linalg.norm(X, axis=1, keepdims=True))
    np.testing.assert_allclose(values[1], X / np.linalg.norm(X))
    np.testing.assert_allclose(values[2], (X**2).sum() / 2)


def test_the_best_classes():
    x, targets = placeholder("float32", (None, 4)), placeholder("int32", (None,))
    value = X[0].astype(np.float32)

    best = nn_ops.top_k(x, 2)
    found = nn_ops.in_top_k(x, targets, 2)

    order = np.argsort(-value, axis=1)[:, :2]
    assert evaluate(best.indices, {x: value}).tolist() == order.tolist()
    assert best.values.dims == (None, 2)
    assert evaluate(found, {x: value, targets: order[:, 1].astype(np.int32)}).all()
    with pytest.raises(GraphValueError, match="k = 5 but is 4"):
        nn_ops.top_k(x, 5)


def test_the_gradient_of_the_best_goes_back_to_its_place():
    x, dy = placeholder("float64", (None, None)), placeholder("float64", None)
    best = nn_ops.top_k(x, 2)
    rule: Any = best.values.op.row.gradient

    dx = rule(best.values.op, dy, None)[0]

    result = evaluate(dx, {x: np.array([[3.0, 1.0, 2.0]]), dy: np.array([[10.0, 20.0]])})
    assert result.tolist() == [[10, 0, 20]]


def test_activations_are_named_after_their_ops():
    x = placeholder("float64", (3,))
    names = ["relu", "relu6", "elu", "selu", "softplus", "softsign", "leaky_relu"]

    made = [getattr(activations, name)(x) for name in names]

    assert [each.op.name for each in made] == [
        "Relu",
        "Relu6",
        "Elu",
        "Selu",
        "Softplus",
        "Softsign",
        "LeakyRelu",
    ]
    assert evaluate(activations.leaky_relu(x, 0.5), {x: np.array([-2.0, 0.0, 2.0])}).tolist() == [-1, 0, 2]
