"""Cases of neural network ops: activations and their derivatives, softmax and cross entropies, biases, top-k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

nan, inf = np.nan, np.inf
FLOATS = ["float64", "float32"]
WHOLE = ["int64", "int32"]
POINTS = [[-3.5, -1.0, -0.25, 0.75], [0.5, 2.0, 5.5, 8.0]]
SLOPES = [[0.5, -1.0, 2.0, 3.0], [1.5, -0.5, 1.0, 0.25]]
INTEGERS = [[-3, 0, 4], [7, 6, -1]]
EXTREMES = [nan, -inf, inf, 0.0, -300.0, 300.0]
SLOPE = float(np.float32(0.2))
ALPHA, SCALE = 1.6732632423543772, 1.0507009873554805


def elu(x: Any) -> Any:
    return np.where(x < 0, np.expm1(np.minimum(x, 0)), x)


def softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


def activations() -> Iterator[Case]:
    functions = {
        "Relu": lambda x: np.maximum(x, 0),
        "Relu6": lambda x: np.clip(x, 0, 6),
        "LeakyRelu": lambda x: np.where(x > 0, x, SLOPE * x),
        "Elu": elu,
        "Selu": lambda x: SCALE * np.where(x < 0, ALPHA * np.expm1(np.minimum(x, 0)), x),
        "Softplus": softplus,
        "Softsign": lambda x: x / (1 + abs(x)),
    }
    for op, function in functions.items():
        yield case(op, POINTS, expected=function, gradients=(0,))
        yield case(op, np.linspace(-9.1, 9.2, 333), expected=function)
        yield case(op, EXTREMES, expected=function)
        yield case(op, -0.5, expected=function, gradients=(0,))
        yield case(op, np.zeros((0, 3)), expected=function)
    yield case("Relu", INTEGERS, expected=[[0, 0, 4], [7, 6, 0]], dtypes=["int64", "int32", "int8"])
    yield case("Relu6", INTEGERS, expected=[[0, 0, 4], [6, 6, 0]], dtypes=["int64", "int32", "int16"])
    yield case(
        "LeakyRelu",
        POINTS,
        attrs={"alpha": 0.5},
        expected=lambda x: np.where(x > 0, x, x / 2),
        gradients=(0,),
    )


def derivatives() -> Iterator[Case]:
    """The second input is the input of the activation, or its output for the exponential units."""
    functions = {
        "ReluGrad": lambda g, x: np.where(x > 0, g, 0),
        "Relu6Grad": lambda g, x: np.where((x > 0) & (x < 6), g, 0),
        "LeakyReluGrad": lambda g, x: np.where(x > 0, g, SLOPE * g),
        "EluGrad": lambda g, y: np.where(y < 0, g * (y + 1), g),
        "SeluGrad": lambda g, y: np.where(y < 0, g * (y + ALPHA * SCALE), g * SCALE),
        "SoftplusGrad": lambda g, x: g / (1 + np.exp(-x)),
        "SoftsignGrad": lambda g, x: g / (1 + abs(x)) ** 2,
    }
    for op, function in functions.items():
        checked = () if op == "SoftsignGrad" else (0, 1)  # TensorFlow has no gradient of it
        yield case(op, SLOPES, POINTS, expected=function, gradients=checked)
        yield case(op, np.ones(6), EXTREMES, expected=function)
        yield case(op, 2.0, -0.5, expected=function, gradients=checked)
        yield case(op, np.zeros((0, 3)), np.zeros((0, 3)), expected=function)
    for op, expected in (("ReluGrad", [[0, 0, 3], [4, 5, 0]]), ("Relu6Grad", [[0, 0, 3], [0, 0, 0]])):
        yield case(op, [[1, 2, 3], [4, 5, 6]], INTEGERS, expected=expected, dtypes=WHOLE)
    yield case(
        "LeakyReluGrad", SLOPES, POINTS, attrs={"alpha": 0.5}, expected=lambda g, x: np.where(x > 0, g, g / 2)
    )


def normalised(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True, initial=-inf))
    return e / e.sum(-1, keepdims=True)


def logarithm(x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True, initial=-inf)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def softmaxes() -> Iterator[Case]:
    long = np.sin(np.arange(3 * 1300.0)).reshape(3, 1300) * 4
    special = [[inf, 1.0], [-inf, 1.0], [-inf, -inf], [nan, 1.0], [1.0, nan], [1000.0, -1000.0]]
    for op, function in (("Softmax", normalised), ("LogSoftmax", logarithm)):
        yield case(op, POINTS, expected=function, gradients=(0,))
        yield case(op, [1.0, 2.0, 4.0], expected=function, gradients=(0,))
        yield case(op, np.reshape(POINTS, (2, 2, 2)), expected=function, gradients=(0,))
        yield case(op, np.resize(long, (37, 10)), expected=function, dtypes=FLOATS)
        yield case(op, long, expected=function, dtypes=FLOATS)
        yield case(op, special, expected=function, dtypes=FLOATS)
        yield case(op, [[3.0]], expected=function)
        yield case(op, np.zeros((2, 0)), expected=np.zeros((2, 0)))
        yield case(op, np.zeros((0, 2)), expected=np.zeros((0, 2)))


def dense_loss(x: Any, p: Any) -> Any:
    x, p = np.broadcast_arrays(x, p)
    return -np.sum(p * logarithm(x), -1), normalised(x) - p


def sparse_loss(x: Any, labels: Any) -> Any:
    rows = np.arange(len(labels))
    hot = np.zeros(x.shape)
    hot[rows, labels] = 1
    return -logarithm(x)[rows, labels], normalised(x) - hot


def entropies() -> Iterator[Case]:
    dense, sparse = "SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits"
    shares = [[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 0.0]]
    yield case(dense, POINTS, shares, expected=dense_loss, gradients=(0, 1), differentiated=(0,))
    yield case(dense, POINTS, shares, expected=dense_loss, gradients=(0,))
    yield case(dense, [[1.0, 2.0], [3.0, 1.0]], [[0.25, 0.75]], expected=dense_loss)
    yield case(dense, [[1.0], [3.0]], [[0.25, 0.75]], expected=dense_loss)
    yield case(
        dense, [[-inf, 1.0], [1000.0, 0.0]], [[1.0, 0.0], [0.5, 0.5]], expected=dense_loss, dtypes=FLOATS
    )
    wide = np.sin(np.arange(40 * 33.0)).reshape(40, 33)
    yield case(dense, wide * 3, normalised(wide), expected=dense_loss, dtypes=FLOATS)
    yield case(dense, np.zeros((0, 2)), np.zeros((0, 2)), expected=(np.zeros(0), np.zeros((0, 2))))
    yield case(dense, np.zeros((2, 0)), np.zeros((2, 0)), expected=(np.zeros(2), np.zeros((2, 0))))
    yield case(sparse, POINTS, [3, 0], expected=sparse_loss, gradients=(0,))
    yield case(
        sparse, POINTS, np.array([1, 1], np.int32), expected=sparse_loss, gradients=(0,), differentiated=(0,)
    )
    yield case(sparse, wide * 3, np.arange(40) % 33, expected=sparse_loss, dtypes=FLOATS)
    yield case(sparse, np.zeros((0, 2)), np.zeros(0, int), expected=(np.zeros(0), np.zeros((0, 2))))
    yield case(sparse, POINTS, [0, 4], raises=InvalidArgumentError)
    yield case(sparse, POINTS, [-1, 0], raises=InvalidArgumentError)


def biases() -> Iterator[Case]:
    cube = np.linspace(-1.0, 2.0, 24).reshape(2, 3, 2, 2)
    second = {"data_format": "NCHW"}
    yield case("BiasAdd", POINTS, [1.0, 2.0, 3.0, -4.0], expected=lambda x, b: x + b, gradients=(0, 1))
    yield case("BiasAdd", cube, [0.5, -1.0], expected=lambda x, b: x + b, gradients=(0, 1))
    yield case(
        "BiasAdd",
        cube,
        [0.5, -1.0, 2.0],
        attrs=second,
        expected=lambda x, b: x + b[:, None, None],
        gradients=(0, 1),
    )
    yield case(
        "BiasAdd", INTEGERS, [1, 2, 3], expected=[[-2, 2, 7], [8, 8, 2]], dtypes=["int64", "int32", "int8"]
    )
    yield case("BiasAdd", np.zeros((0, 3)), [1.0, 2.0, 3.0], expected=np.zeros((0, 3)))
    yield case("BiasAddGrad", POINTS, expected=lambda g: g.sum(0), gradients=(0,))
    yield case("BiasAddGrad", cube, expected=lambda g: g.sum((0, 1, 2)), gradients=(0,))
    yield case("BiasAddGrad", cube, attrs=second, expected=lambda g: g.sum((0, 2, 3)), gradients=(0,))
    yield case("BiasAddGrad", [POINTS[0]], expected=POINTS[0])
    yield case("BiasAddGrad", INTEGERS, expected=[4, 6, 3], dtypes=["int64", "int32", "int16"])
    yield case("BiasAddGrad", np.zeros((0, 3)), expected=np.zeros(3))


def others() -> Iterator[Case]:
    yield case("L2Loss", POINTS, expected=lambda t: np.sum(t * t) / 2, gradients=(0,))
    yield case("L2Loss", np.sin(np.arange(3000.0)), expected=lambda t: np.sum(t * t) / 2, dtypes=FLOATS)
    yield case("L2Loss", np.zeros((0, 2)), expected=0.0)
    yield case("L2Loss", 3.0, expected=4.5, gradients=(0,))
    scores = [
        [1.0, 2.0, 3.0],
        [3.0, 3.0, 1.0],
        [nan, 1.0, 2.0],
        [1.0, inf, 2.0],
        [1.0, 2.0, 3.0],
        [3.0, 3.0, 3.0],
    ]
    best, targets = [True, True, False, False, False, True], np.array([2, 0, 1, 1, 5, 2])
    yield case("InTopK", scores, targets, attrs={"k": 1}, expected=best)
    yield case("InTopKV2", scores, targets, 1, expected=best)
    yield case("InTopKV2", scores[:2], np.array([2, -1]), 5, expected=[True, False])
    yield case("InTopK", scores[:2], np.array([0, 1]), attrs={"k": 0}, expected=[False, False])
    yield case(
        "TopKV2",
        [[1.0, 3.0, 3.0, 2.0]],
        np.int32(3),
        expected=([[3.0, 3.0, 2.0]], np.array([[1, 2, 3]], np.int32)),
    )
    yield case(
        "TopKV2",
        [[[1.5, 4.0]], [[0.5, 2.0]]],
        1,
        expected=([[[4.0]], [[2.0]]], [[[1]], [[1]]]),
        gradients=(0,),
    )
    yield case("TopKV2", [[1, 3, 3, 2]], 2, expected=([[3, 3]], [[1, 2]]))
    yield case("TopKV2", [1.0, 2.0], 0, expected=([], []))
    yield case("TopKV2", [1.0, 2.0], 3, raises=InvalidArgumentError, native=False)
    yield case(
        "TopKV2",
        np.array([[3.0, np.nan, -1.0, np.inf, 3.0, np.nan], [0.0, 5.0, 1.0, 4.0, 2.0, 3.0]]),
        4,
        expected=([[np.nan, np.nan, np.inf, 3.0], [5.0, 4.0, 3.0, 2.0]], [[1, 5, 3, 0], [1, 3, 5, 4]]),
    )
    yield from trees()


def trees():
    """Two rows of three beams: the first has all four steps, the second only two; its end token is 9."""
    ids = np.array(
        [[[1, 2, 3], [1, 2, 3]], [[4, 5, 6], [4, 9, 6]], [[7, 8, 9], [7, 8, 9]], [[1, 9, 3], [1, 2, 3]]],
        np.int32,
    )
    parents = np.array(
        [[[0, 0, 0], [0, 0, 0]], [[0, 1, 1], [2, 1, 0]], [[2, 1, 0], [7, 7, 7]], [[2, 1, 0], [7, 7, 7]]],
        np.int32,
    )
    expected = np.array(
        [[[1, 2, 2], [3, 2, 1]], [[4, 5, 6], [4, 9, 6]], [[9, 8, 7], [9, 9, 9]], [[9, 9, 3], [9, 9, 9]]],
        np.int32,
    )
    yield case("GatherTree", ids, parents, np.array([4, 2], np.int32), np.int32(9), expected=expected)
    yield case(
        "GatherTree",
        ids,
        parents,
        np.array([9, 0], np.int32),
        np.int32(9),
        expected=np.stack([expected[:, 0], np.full((4, 3), 9, np.int32)], axis=1),
    )
    yield case(
        "GatherTree", ids, parents, np.array([4, 3], np.int32), np.int32(9), raises=InvalidArgumentError
    )
    yield case("GatherTree", ids, parents, np.array([4], np.int32), np.int32(9), raises=InvalidArgumentError)


CASES = [*activations(), *derivatives(), *softmaxes(), *entropies(), *biases(), *others()]
