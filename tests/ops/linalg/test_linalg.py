"""Wrappers of matrix products, contractions and norms."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aioexec.errors import CancelledError, GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph import registry
from aioexec.graph.apply import apply_any_op
from aioexec.graph.graph import Graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.kernels import interruption
from aioexec.graph.kernels.kernel import Spec
from aioexec.ops.linalg import product_launches, products
from aioexec.ops.linalg.tensordot import tensordot
from aioexec.ops.reduction import norms
from tests.ops.evaluate import evaluate
from tests.ops.sources import placeholder

A = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
B = np.linspace(0.5, 2.0, 12).reshape(3, 4)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as made:
        yield made


@pytest.mark.parametrize(
    ("dims", "op_type"), [((2, 3), "MatMul"), ((None, None, 3), "BatchMatMulV2"), (None, "BatchMatMulV2")]
)
def test_matrices_are_multiplied_by_matmul_and_anything_that_may_be_a_batch_by_batch_matmul(
    dims: Any, op_type: str
):
    a, b = placeholder("float64", dims), placeholder("float64", (3, 4))

    product = products.matmul(a, b)

    assert (product.op.type, product.op.name) == (op_type, "MatMul")
    value = A if dims is None or len(dims) == 2 else np.stack([A, -A])
    np.testing.assert_allclose(evaluate(product, {a: value, b: B}), value @ B)


def test_operands_are_transposed_or_taken_adjoint():
    a, b = placeholder("float64", (3, 2)), placeholder("float64", (4, 3))
    batch = placeholder("complex128", (None, 3, 2))

    product = products.matmul(a, b, adjoint_a=True, transpose_b=True, name="p")
    adjoint = products.matmul(batch, batch, adjoint_a=True)

    np.testing.assert_allclose(evaluate(product, {a: A.T, b: B.T}), A @ B)
    value = np.stack([A.T + 1j])
    np.testing.assert_allclose(evaluate(adjoint, {batch: value}), value.conj().swapaxes(1, 2) @ value)
    assert product.op.name == "p"
    with pytest.raises(GraphValueError, match="only one of transpose and adjoint"):
        products.matmul(a, b, transpose_a=True, adjoint_a=True)


def test_python_values_take_the_dtype_of_the_other_operand():
    b = placeholder("float64", (2, 1))

    product = products.matmul([[1, 2]], b)

    assert evaluate(product, {b: np.array([[3.0], [4.0]])}).tolist() == [[11.0]]


def test_inner_dimensions_that_differ_are_refused_when_known():
    with pytest.raises(GraphValueError, match="Dimensions must be equal, but are 3 and 2"):
        products.matmul(placeholder("float32", (2, 3)), placeholder("float32", (2, 3)))


@pytest.mark.parametrize(
    "shapes", [((2, 3), (2, 3)), ((3,), (3, 2)), ((2, 1, 3), (2, 2, 1)), ((2, 1, 3), (3, 3, 1))]
)
def test_operands_that_do_not_fit_are_found_at_run_time(shapes: Any):
    a, b = placeholder("float32"), placeholder("float32")
    product = apply_any_op("MatMul" if len(shapes[0]) == 2 else "BatchMatMulV2", a, b)

    with pytest.raises(InvalidArgumentError, match=r"In\[0\]"):
        evaluate(product, {a: np.zeros(shapes[0], np.float32), b: np.zeros(shapes[1], np.float32)})


def test_the_gradient_of_a_batch_is_summed_over_what_was_broadcast_at_run_time():
    x, y, g = placeholder("float64", None), placeholder("float64", (None, None)), placeholder("float64", None)
    product = products.matmul(x, y)
    batch, weights = np.stack([A, 2 * A]), np.ones((2, 2, 4))

    gradient = product.op.row.gradient
    assert callable(gradient)
    dx, dy = evaluate(list(gradient(product.op, g)), {x: batch, y: B, g: weights})

    np.testing.assert_allclose(dx, weights @ B.T)
    np.testing.assert_allclose(dy, batch[0].T @ weights[0] + batch[1].T @ weights[1])


@pytest.mark.parametrize(
    ("axes", "shapes"),
    [
        (1, ((2, 3), (3, 4))),
        (0, ((2,), (3,))),
        (2, ((4, 2, 3), (2, 3, 5))),
        ([[0, -1], [1, 0]], ((2, 4, 3), (3, 2, 5))),
        ([1, 0], ((2, 3), (3, 4))),
        ([[0], [1]], ((3, 2), (4, 3))),
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_tensordot(axes: Any, shapes: Any, known: bool):
    values = [np.random.default_rng(k).normal(size=shape) for k, shape in enumerate(shapes)]
    a, b = (placeholder("float64", shape if known else (None,) * len(shape)) for shape in shapes)
    expected: Any = np.tensordot(values[0], values[1], axes=axes)

    result = tensordot(a, b, axes)

    np.testing.assert_allclose(evaluate(result, {a: values[0], b: values[1]}), expected)
    assert result.dims == (expected.shape if known else (None,) * expected.ndim)


@pytest.mark.parametrize("axes", [4, [[0], [0, 1]], [[0, 0], [0, 1]], [[2], [0]], [1]])
def test_axes_tensordot_cannot_contract_are_refused(axes: Any):
    with pytest.raises(GraphValueError, match="tensordot"):
        tensordot(placeholder("float64", (2, 3)), placeholder("float64", (2, 3)), axes)


@pytest.mark.parametrize("order", ["euclidean", 1, 2, np.inf, 3])
@pytest.mark.parametrize("axis", [None, 0, -1, (1,)])
def test_norms_of_vectors(order: Any, axis: Any):
    x = placeholder("float64", (2, 3))

    result = evaluate([norms.norm(x, order, axis), norms.norm(x, order, axis, keepdims=True)], {x: A})

    flat = A.reshape(-1) if axis is None else A
    along = 0 if axis is None else axis[0] if isinstance(axis, tuple) else axis
    expected = np.linalg.norm(flat, 2 if order == "euclidean" else order, along)
    np.testing.assert_allclose(result[0], expected)
    assert result[1].ndim == 2


@pytest.mark.parametrize("order", ["euclidean", "fro", 1, np.inf])
def test_norms_of_matrices(order: Any):
    x = placeholder("float64", None)
    value = np.linspace(-2.0, 1.0, 24).reshape(2, 3, 4)

    result = evaluate(norms.norm(x, order, [-2, -1]), {x: value})

    np.testing.assert_allclose(
        result, np.linalg.norm(value, "fro" if order == "euclidean" else order, (-2, -1))
    )


def test_norms_that_do_not_exist_are_refused():
    for arguments in (("nuc", None), (-1, None), (3, [0, 1]), (2, [0, 1, 2])):
        with pytest.raises(GraphValueError, match="norm"):
            norms.norm(placeholder("float64", (2, 3)), *arguments)


def test_clipping_by_norm():
    x = placeholder("float64", (2, 3))

    whole, rows = norms.clip_by_norm(x, 1.0), norms.clip_by_norm(x, 0.5, axes=[1])
    average = norms.clip_by_average_norm(x, 0.1)

    values = evaluate([whole, rows, average], {x: A})
    sizes = np.linalg.norm(A, axis=1, keepdims=True)
    np.testing.assert_allclose(values[0], A / np.linalg.norm(A))
    np.testing.assert_allclose(values[1], A * np.minimum(0.5 / sizes, 1))
    np.testing.assert_allclose(values[2], A * 0.1 * np.minimum(6 / np.linalg.norm(A), 1 / 0.1))
    assert evaluate(norms.clip_by_norm(x, 2.0), {x: np.zeros((2, 3))}).tolist() == np.zeros((2, 3)).tolist()
    assert whole.op.name == "clip_by_norm"


def test_clipping_by_global_norm_scales_all_tensors_alike():
    x, y = placeholder("float64", (2, 3)), placeholder("float64", (2,))
    rows = IndexedSlices(y, placeholder("int64", (2,)), None)

    (first, nothing, second), size = norms.clip_by_global_norm([x, None, rows], 2.0)

    value = np.array([3.0, 4.0])
    expected = np.sqrt((A**2).sum() + 25)
    assert nothing is None
    assert isinstance(second, IndexedSlices)
    results = evaluate([first, second.values, size], {x: A, y: value})
    np.testing.assert_allclose(results[0], A * 2 / expected)
    np.testing.assert_allclose(results[1], value * 2 / expected)
    assert results[2] == pytest.approx(expected)


def test_clipping_by_a_global_norm_that_is_not_finite_gives_nan():
    x = placeholder("float64", (2,))

    (clipped,), _ = norms.clip_by_global_norm([x], 1.0)
    (small,), _ = norms.clip_by_global_norm([x], 100.0)

    assert np.isnan(evaluate(clipped, {x: np.array([np.inf, 1.0])})).all()
    np.testing.assert_allclose(evaluate(small, {x: np.array([3.0, 4.0])}), [3, 4])
    with pytest.raises(GraphTypeError, match="sequence"):
        norms.global_norm(x)


@pytest.mark.parametrize(
    ("m", "k", "n", "transpose_a", "unit", "grain", "share"),
    [
        (256, 784, 512, False, "column", 32, 1),
        (784, 64, 512, True, "row", 42, 336),
        (64, 784, 512, True, "column", 32, 384),
        (1024, 1024, 1024, False, "column", 32, 384),
        (1024, 1024, 1024, True, "row", 42, 336),
    ],
)
def test_shares_are_large_where_each_copies_the_other_matrix(
    m: int, k: int, n: int, transpose_a: bool, unit: str, grain: int, share: int
):
    float32 = np.dtype(np.float32)
    a, b = Spec(float32, (k, m) if transpose_a else (m, k)), Spec(float32, (k, n))

    found = product_launches.bind_product(transpose_a, False, [a, b], [Spec(float32, (m, n))])

    assert found is not None
    (row,) = found.rows
    assert row.units is not None
    assert row.words[row.units.word] == (m if unit == "row" else n)
    assert (row.units.grain, row.units.share) == (grain, share)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("op_type", ["Svd", "MatrixSquareRoot", "MatrixLogarithm"])
def test_of_a_matrix_that_is_not_finite_nothing_is_known_as_in_tensorflow(op_type: str, bad: float):
    x = np.array([np.eye(2), [[1, bad], [2, 3]]])
    x = x.astype(np.complex128) if op_type == "MatrixLogarithm" else x

    results = evaluate(apply_any_op(op_type, x))

    expected = {"Svd": np.ones(2), "MatrixSquareRoot": np.eye(2), "MatrixLogarithm": np.zeros((2, 2))}
    for result in results if op_type == "Svd" else [results]:
        assert np.isnan(result[1]).all()
    first = results[0] if op_type == "Svd" else results
    np.testing.assert_allclose(first[0], expected[op_type], atol=1e-12)


@pytest.mark.filterwarnings("ignore:The logm input matrix")
def test_a_logarithm_that_takes_long_ends_with_its_step():
    """SciPy takes a square root again and again, of what is singular but for rounding."""
    nilpotent = np.diag(np.ones(40), 1).astype(np.complex128)
    kernel = registry.lookup("MatrixLogarithm").kernel
    assert kernel is not None
    looks = 0

    class Job:
        @property
        def is_cancelled(self) -> bool:
            nonlocal looks
            looks += 1
            return looks > 1000

    interruption.current.job = Job()
    try:
        with pytest.raises(CancelledError), np.errstate(all="ignore"):
            kernel(SimpleNamespace(attrs={}))(nilpotent)
    finally:
        interruption.current.job = None


@pytest.mark.parametrize(
    "matrix",
    [
        np.full((3, 3), 1e308),
        np.diag([1e308, 1.0, 1e-308]),
        np.array([[1.0, 1e308], [0.0, 1.0]]),
        np.array([[1e-300, 1e300, 1e300], [0.0, 1.0, 1e300], [0.0, 0.0, 2e-300]]),
    ],
    ids=["huge", "wide", "shear", "triangle"],
)
def test_the_logarithm_of_a_matrix_whose_roots_overflow_ends(matrix: Any) -> None:
    kernel: Any = registry.lookup("MatrixLogarithm").kernel

    found = kernel(SimpleNamespace())(matrix.astype(np.complex128))

    assert found.shape == matrix.shape
