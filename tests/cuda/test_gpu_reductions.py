"""Reductions whose elements are divided among blocks and threads; the op tables have only small ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.assembler import assemble
from tests.cuda.gpu import EmulatedLauncher, run_on_gpu
from tests.ops.harness import Case, case, setting

Array = np.ndarray[Any, Any]


def run(found: Case, dtype: str = "float32") -> tuple[Array, EmulatedLauncher]:
    outputs, _, launcher = run_on_gpu(setting(found, dtype))
    return outputs[0], launcher


@pytest.mark.parametrize(
    ("shape", "axes", "launches"),
    [
        ((70_000,), [0], 2),  # contiguous: blocks, each a slice
        ((3, 5_000), [1], 2),
        ((2_000, 3), [0], 2),  # threads, each a slice of a column
        ((40, 70, 9), [0, 1], 2),
        ((7, 90, 11), [1], 1),
        ((5, 6, 7, 8), [1, 3], 1),
    ],
)
def test_sums_in_slices(shape: tuple[int, ...], axes: list[int], launches: int):
    x = np.random.default_rng(1).normal(size=shape)

    total, launcher = run(case("Sum", x, np.array(axes, np.int32)), "float64")

    np.testing.assert_allclose(total, x.sum(tuple(axes)), rtol=1e-12, atol=1e-11)
    assert len(launcher.modules) == launches
    for module in launcher.modules:
        assemble(module.ptx)


def test_the_mean_of_slices_divides_by_the_number_of_all_elements():
    x = np.random.default_rng(2).normal(size=(9_000,))

    mean, launcher = run(case("Mean", x, np.array([0], np.int32)))

    np.testing.assert_allclose(mean, x.mean(), rtol=1e-5, atol=1e-6)
    assert len(launcher.modules) == 2


def test_the_position_of_the_first_extreme_is_found_in_any_slice():
    x = np.zeros((2, 6_000))
    x[0, [4_321, 5_000]] = 3.0
    x[1, 17] = np.nan

    found, _ = run(case("ArgMax", x, np.int32(1)))

    np.testing.assert_array_equal(found, [4_321, 0])


def test_softmax_of_long_rows():
    x = np.random.default_rng(3).normal(size=(3, 2_500)) * 20

    y, launcher = run(case("Softmax", x))

    wanted = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, wanted / wanted.sum(1, keepdims=True), rtol=1e-5, atol=1e-7)
    for module in launcher.modules:
        assemble(module.ptx)
