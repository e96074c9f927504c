"""Functions of `tf.linalg` built of several ops, and linear operators, against TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, Built, values
from tests.interop.train.engines import compare, table

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

ROWS, add = table()
ERRORS, add_error = table()

SQUARE = values(1, 4, 4) + 2 * np.eye(4, dtype=np.float32)
SQUARES = values(2, 3, 4, 4) + 2 * np.eye(4, dtype=np.float32)
WIDE, TALL = values(3, 2, 3, 5), values(4, 6, 2)
RIGHT, RIGHTS, VECTORS = values(5, 4, 2), values(6, 3, 4, 2), values(7, 3, 4)


def of(make: Callable[..., Any], *inputs: Any, known: bool = True, slopes: bool = True) -> Builder:
    """What `make(tf, *inputs)` returns for placeholders that hold the inputs, and its gradients."""

    def build(tf: Any) -> Built:
        fed = [
            tf.placeholder(each.dtype.name, each.shape if known else [None] * each.ndim) for each in inputs
        ]
        made = make(tf, *fed)
        outputs = list(made) if isinstance(made, list | tuple) else [made]
        floats = [each for each in outputs if each.dtype.is_floating]
        if slopes and floats:
            found = tf.gradients([tf.sin(each) for each in floats], fed)
            outputs += [each for each in found if each is not None]
        return Built(outputs, [dict(zip(fed, inputs, strict=True))])

    return build


def linalg(function: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    return lambda tf, *inputs: getattr(tf.linalg, function)(*inputs, *arguments, **options)


def of_factors(function: str) -> Callable[..., Any]:
    return lambda tf, a, *rest: getattr(tf.linalg, function)(*map(tf.stop_gradient, tf.linalg.lu(a)), *rest)


for name, matrix, right in (("one", SQUARE, RIGHT), ("batch", SQUARES, RIGHTS)):
    for known in (True, False):
        where = f"{name}, {'known' if known else 'unknown'}"
        add(f"lu_solve {where}", of(of_factors("lu_solve"), matrix, right, known=known))
        add(f"lu_matrix_inverse {where}", of(of_factors("lu_matrix_inverse"), matrix, known=known))
        add(f"lu_reconstruct {where}", of(of_factors("lu_reconstruct"), matrix, known=known))
        add(f"matrix_rank {where}", of(linalg("matrix_rank"), matrix, known=known))
        add(f"pinv {where}", of(linalg("pinv"), matrix, known=known, slopes=False))
add("pinv of wide matrices", of(linalg("pinv"), WIDE, slopes=False))
add("pinv of a tall matrix", of(linalg("pinv"), TALL, slopes=False))
add("pinv with a bound", of(linalg("pinv", 0.5), WIDE, slopes=False))
SINGULAR = np.concatenate([TALL, TALL[:, :1] * 2], axis=1)
add("matrix_rank of dependent columns", of(linalg("matrix_rank"), SINGULAR))
add("matrix_rank with a bound", of(linalg("matrix_rank", 1.5), WIDE))
add("matvec", of(linalg("matvec"), SQUARES, VECTORS))
add("matvec transposed", of(linalg("matvec", transpose_a=True), SQUARES, VECTORS))
add("matvec of unknown size", of(linalg("matvec"), SQUARES, VECTORS, known=False))
add("adjoint", of(linalg("adjoint"), WIDE))
add("adjoint of complex numbers", of(linalg("adjoint"), (WIDE + 1j * WIDE[:, ::-1]).astype(np.complex64)))
for order in ("euclidean", 1, 2, np.inf, 3):
    for axis in (None, -1, 0):
        add(f"normalize {order} {axis}", of(linalg("normalize", ord=order, axis=axis), WIDE))
add("global_norm", of(lambda tf, a, b: tf.linalg.global_norm([a, b]), WIDE, TALL))
add_error("matrix_rank of a vector", of(linalg("matrix_rank"), VECTORS[0]))
add_error("pinv of a vector", of(linalg("pinv"), VECTORS[0]))
add_error("matrix_rank of integers", of(linalg("matrix_rank"), np.eye(3, dtype=np.int32)))


# Linear operators


def operator(method: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
    """A method of the operator of the first input, called with the others."""

    def make(tf: Any, tril: Any, *inputs: Any) -> Any:
        made = tf.linalg.LinearOperatorLowerTriangular(tril, is_non_singular=True)
        return getattr(made, method)(*inputs, *arguments, **options)

    return make


for known in (True, False):
    where = "known" if known else "unknown"
    for method in ("to_dense", "determinant", "log_abs_determinant", "diag_part", "trace"):
        add(f"{method}, {where}", of(operator(method), SQUARES, known=known))
    for method in ("matmul", "solve"):
        add(f"{method}, {where}", of(operator(method), SQUARES, RIGHTS, known=known))
        add(f"{method} adjoint, {where}", of(operator(method, adjoint=True), SQUARES, RIGHTS, known=known))
        turned = RIGHTS.transpose(0, 2, 1).copy()
        add(
            f"{method} of the adjoint, {where}",
            of(operator(method, adjoint_arg=True), SQUARES, turned, known=known),
        )
    for method in ("matvec", "solvevec"):
        add(f"{method}, {where}", of(operator(method), SQUARES, VECTORS, known=known))
        add(f"{method} adjoint, {where}", of(operator(method, adjoint=True), SQUARES, VECTORS, known=known))
    for method in ("shape", "batch_shape", "tensor_rank", "domain_dimension", "range_dimension"):
        whole = f"{method}_tensor"
        add(f"{whole}, {where}", of(operator(whole), SQUARES, known=known))
add("add_to_tensor", of(operator("add_to_tensor"), SQUARES, SQUARES))


def asserted(method: str, **hints: Any) -> Callable[..., Any]:
    def make(tf: Any, tril: Any) -> Any:
        made = tf.linalg.LinearOperatorLowerTriangular(tril, **hints)
        with tf.control_dependencies([getattr(made, method)()]):
            return tf.identity(tril)

    return make


DIAGONAL = np.diag([1.0, 2.0, 3.0]).astype(np.float32)
for method in ("assert_non_singular", "assert_self_adjoint", "assert_positive_definite"):
    add(method, of(asserted(method, is_self_adjoint=True), DIAGONAL))
add_error(
    "assert_non_singular of zeros",
    of(asserted("assert_non_singular"), DIAGONAL - np.eye(3, dtype=np.float32)),
)
add_error("assert_self_adjoint of a triangle", of(asserted("assert_self_adjoint"), SQUARE))
add_error("an operator of a vector", of(operator("to_dense"), VECTORS[0]))
add_error(
    "an operator that is not square",
    lambda tf: tf.linalg.LinearOperatorLowerTriangular(np.eye(3, dtype=np.float32), is_square=False),
)
add_error("matmul of doubles", of(operator("matmul"), SQUARES, RIGHTS.astype(np.float64)))
add_error(
    "a definite operator without an inverse",
    lambda tf: tf.linalg.LinearOperatorLowerTriangular(
        np.eye(3, dtype=np.float32), is_positive_definite=True, is_non_singular=False
    ),
)


@pytest.mark.parametrize("name", ROWS)
async def test_functions_agree_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ROWS[name], 300.0) == []


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ERRORS[name]) == []
