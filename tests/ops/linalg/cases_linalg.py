"""Cases of matrix products: both transpositions, vectors, few rows, broadcast batches, empty operands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.harness import Case, case

FLIPS = [(False, False), (False, True), (True, False), (True, True)]
FLOATS = ["float64", "float32"]
WHOLE = ["int64", "int32"]


def matrix(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, shape)


def whole(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(-9, 9, shape)


def turned(x: Any, flip: bool) -> Any:
    return np.swapaxes(x, -1, -2) if flip else x


def products() -> Iterator[Case]:
    sizes = [(2, 3, 4), (1, 5, 3), (4, 5, 1), (3, 7, 9), (5, 1, 6), (6, 33, 40)]
    for flip_a, flip_b in FLIPS:
        attrs = {"transpose_a": flip_a, "transpose_b": flip_b}
        for m, k, n in sizes:
            a, b = turned(matrix(m, k), flip_a), turned(matrix(k, n, seed=1), flip_b)
            expected = turned(a, flip_a) @ turned(b, flip_b)
            small = m * k * n < 100
            yield case(
                "MatMul",
                a,
                b,
                attrs=attrs,
                expected=expected,
                gradients=(0, 1) if small else (),
                tolerance=2e-5,
            )
            a, b = turned(whole(m, k), flip_a), turned(whole(k, n, seed=1), flip_b)
            dtypes = None if m * k * n == 24 else WHOLE
            if dtypes is None:
                a, b = abs(a) % 3, abs(b) % 3
            yield case(
                "MatMul", a, b, attrs=attrs, expected=turned(a, flip_a) @ turned(b, flip_b), dtypes=dtypes
            )
        yield case(
            "MatMul",
            turned([[1 + 2j, 3j]], flip_a),
            turned([[1j], [2 - 1j]], flip_b),
            attrs=attrs,
            expected=[[1 + 7j]],
        )
    yield case(
        "MatMul",
        matrix(70, 600),
        matrix(600, 5),
        expected=matrix(70, 600) @ matrix(600, 5),
        dtypes=FLOATS,
        tolerance=1e-4,
    )
    yield case(
        "MatMul",
        matrix(2, 600),
        matrix(600, 1100),
        expected=lambda a, b: a @ b,
        dtypes=FLOATS,
        tolerance=1e-4,
    )
    yield case("MatMul", np.zeros((2, 0)), np.zeros((0, 3)), expected=np.zeros((2, 3)))
    yield case("MatMul", np.zeros((0, 2)), np.zeros((2, 3)), expected=np.zeros((0, 3)))
    yield case("MatMul", [[np.inf, 1.0]], [[0.0, 1.0], [1.0, np.nan]], expected=[[np.nan, np.nan]])
    yield case("MatMul", matrix(2, 3), matrix(3, 2), expected=lambda a, b: a @ b, strided=True)


def batches() -> Iterator[Case]:
    shapes = [((2, 2, 3), (2, 3, 4)), ((3, 1, 2, 3), (3, 4, 3, 2)), ((2, 3), (2, 3, 2)), ((2, 2, 3), (3, 2))]
    shapes += [
        ((2, 1, 2, 1, 2, 3), (1, 3, 1, 2, 3, 2)),
        ((1, 2, 3), (1, 3, 1)),
        ((3, 1, 3), (3, 3, 1)),
        ((2, 3), (3, 2)),
    ]
    for flip_x, flip_y in FLIPS:
        attrs = {"adj_x": flip_x, "adj_y": flip_y}
        for left, right in shapes:
            x, y = turned(matrix(*left), flip_x), turned(matrix(*right, seed=1), flip_y)
            expected = turned(x, flip_x) @ turned(y, flip_y)
            yield case("BatchMatMulV2", x, y, attrs=attrs, expected=expected, gradients=(0, 1))
            if left[:-2] == right[:-2]:
                yield case("BatchMatMul", x, y, attrs=attrs, expected=expected, gradients=(0, 1))
            x, y = turned(whole(*left), flip_x), turned(whole(*right, seed=1), flip_y)
            expected = turned(x, flip_x) @ turned(y, flip_y)
            yield case("BatchMatMulV2", x, y, attrs=attrs, expected=expected, dtypes=WHOLE)
        x, y = turned(whole(2, 2, 3), flip_x), turned(whole(2, 3, 2), flip_y)
        yield case(
            "BatchMatMul", x, y, attrs=attrs, expected=turned(x, flip_x) @ turned(y, flip_y), dtypes=WHOLE
        )
    adjoint = {"adj_x": True}
    yield case("BatchMatMulV2", [[[1j], [2.0]]], [[[1.0], [1j]]], attrs=adjoint, expected=[[[1j]]])
    yield case("BatchMatMulV2", np.zeros((2, 0, 3)), np.zeros((2, 3, 4)), expected=np.zeros((2, 0, 4)))
    yield case("BatchMatMulV2", np.zeros((2, 3, 0)), np.zeros((0, 4)), expected=np.zeros((2, 3, 4)))
    yield case("BatchMatMulV2", np.zeros((0, 2, 3)), np.zeros((3, 4)), expected=np.zeros((0, 2, 4)))


CASES = [*products(), *batches()]
