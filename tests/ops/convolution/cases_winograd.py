"""Cases of Winograd's convolution: expected values from the convolution with the filters before their transform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from tests.ops.harness import Case, case

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(23)
POINTS = (0.0, 1.0, -1.0, 2.0, -2.0)


def transformed(filters: Array) -> Array:
    """The filters at the points of the algorithm: values of the polynomial of their taps, scaled as Lagrange's basis is."""
    rows = []
    for point in POINTS:
        others = np.prod([point - other for other in POINTS if other != point])
        rows.append(np.array([1, point, point**2]) / others)
    rows.append(np.array([0.0, 0.0, 1.0]))
    matrix = np.array(rows)
    return np.einsum("ai,bj,ijcn->abcn", matrix, matrix, filters).reshape(36, *filters.shape[2:])


def convolved(image: Array, filters: Array, padding: tuple[int, int]) -> Array:
    """The sum over the taps; `padding` before and after, along both axes."""
    padded = np.pad(image, ((0, 0), padding, padding, (0, 0)))
    rows, columns = padded.shape[1] - 2, padded.shape[2] - 2
    taps = [(i, j) for i in range(3) for j in range(3)]
    return np.sum([padded[:, i : i + rows, j : j + columns] @ filters[i, j] for i, j in taps], axis=0)


def cases() -> Iterator[Case]:
    for shape, n, name, padding in (
        ((2, 9, 14, 17), 19, "SAME", (1, 1)),
        ((1, 8, 6, 33), 16, "VALID", (0, 0)),
        ((1, 3, 4, 16), 35, "SAME", (1, 1)),
        ((1, 5, 7, 18), 16, "EXPLICIT", (2, 3)),
    ):
        image, filters = RNG.integers(-6, 7, shape) / 4.0, RNG.integers(-6, 7, (3, 3, shape[3], n)) / 4.0
        yield case(
            "_WinogradConv2D",
            image,
            transformed(filters),
            attrs={
                "padding": name,
                "explicit_paddings": [0, 0, *padding, *padding, 0, 0] if name == "EXPLICIT" else [],
            },
            expected=convolved(image, filters, padding),
            tolerance=1e-4,
        )
    given = {"padding": "SAME"}
    empty = np.zeros((0, 8, 8, 16)), np.zeros((36, 16, 16))
    yield case("_WinogradConv2D", *empty, attrs=given, expected=np.zeros((0, 8, 8, 16)))
    bad = np.zeros((1, 8, 8, 17)), np.zeros((36, 16, 16))
    yield case("_WinogradConv2D", *bad, attrs=given, raises=InvalidArgumentError)


CASES = list(cases())
