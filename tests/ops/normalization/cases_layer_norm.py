"""Cases of layer normalisation, against its formula in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.harness import Case, case


def numbers(*shape: int) -> Any:
    return np.sin(np.arange(1.0, np.prod(shape) + 1) * 1.7).reshape(shape)


def normalized(epsilon: float) -> Any:
    def expected(*inputs: Any) -> Any:
        *terms, scale, shift = inputs
        x = sum(terms)
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + epsilon) * scale + shift

    return expected


def layer_norm_case(terms: list[Any], scale: Any, shift: Any, epsilon: float = 2**-7, **more: Any) -> Case:
    return case(
        "_LayerNorm",
        terms,
        scale,
        shift,
        attrs={"epsilon": epsilon},
        expected=normalized(epsilon),
        dtypes=["float64", "float32"],
        **more,
    )


def cases() -> Iterator[Case]:
    for shape in ((3, 7), (2, 3, 5), (9,), (4, 1), (5, 1300)):
        scale, shift = numbers(shape[-1]) + 2, 0.5 - numbers(shape[-1])
        yield layer_norm_case([numbers(*shape)], scale, shift)
        yield layer_norm_case([numbers(*shape) + 10, numbers(*shape) ** 2], scale, shift)
    yield layer_norm_case([np.full((2, 4), 3.0)], np.ones(4), np.zeros(4))
    yield layer_norm_case([np.array([[1.0, np.nan, 2.0], [1.0, 2.0, 4.0]])], np.ones(3), np.zeros(3))
    yield layer_norm_case([np.zeros((0, 3))], np.ones(3), np.zeros(3))
    # broadcast: no native form
    yield layer_norm_case([numbers(2, 3, 4), numbers(3, 4)], numbers(4), numbers(4), native=False)
    yield layer_norm_case([numbers(2, 4)], numbers(2, 4), numbers(1), native=False)


CASES = list(cases())
