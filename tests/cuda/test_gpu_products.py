"""Products in tiles of the size that GPUs get, with sizes that no tile divides, and with their terms in parts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.assembler import assemble
from tests.cuda.gpu import run_on_gpu
from tests.ops.harness import case, setting


@pytest.mark.parametrize(
    ("dtype", "flip_x", "flip_y"),
    [
        ("float32", False, False),
        ("float64", True, False),
        ("float16", False, True),
        ("int32", True, True),
    ],
)
def test_matmul(dtype: str, flip_x: bool, flip_y: bool):
    generator = np.random.default_rng(1)
    x, y = generator.integers(-4, 5, (70, 37)), generator.integers(-4, 5, (37, 66))
    found = case(
        "MatMul",
        x.T.copy() if flip_x else x,
        y.T.copy() if flip_y else y,
        attrs={"transpose_a": flip_x, "transpose_b": flip_y},
    )

    (product,), _, launcher = run_on_gpu(setting(found, dtype))

    np.testing.assert_array_equal(product, (x @ y).astype(dtype))
    for module in launcher.modules:
        assemble(module.ptx)


def test_many_terms_are_divided():
    generator = np.random.default_rng(2)
    x, y = generator.normal(size=(5, 1_536)), generator.normal(size=(1_536, 7))

    (product,), _, launcher = run_on_gpu(setting(case("MatMul", x, y), "float64"))

    np.testing.assert_allclose(product, x @ y, rtol=1e-11, atol=1e-11)
    assert len(launcher.modules) == 2


def test_the_gradient_of_a_filter_is_summed_by_images():
    generator = np.random.default_rng(3)
    image, gradient = generator.normal(size=(6, 12, 11, 3)), generator.normal(size=(6, 10, 9, 4))
    found = case(
        "Conv2DBackpropFilter",
        image,
        np.array([3, 3, 3, 4], np.int32),
        gradient,
        attrs={"strides": (1, 1, 1, 1), "padding": "VALID"},
    )

    (sums,), _, launcher = run_on_gpu(setting(found, "float64"))

    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(
        sums, np.einsum("bijcpq,bijf->pqcf", windows, gradient), rtol=1e-11, atol=1e-11
    )
    assert len(launcher.modules) == 2
