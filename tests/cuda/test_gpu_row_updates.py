"""Sparse updates of optimizers on GPUs: rows that are listed several times, and rows that are not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cuda.assembler import assemble
from tests.cuda.gpu import run_on_gpu
from tests.ops.harness import Ref, case, setting

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
GRADIENT = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]], np.float32)


@pytest.mark.parametrize("op_type", ["SparseApplyMomentum", "ResourceSparseApplyMomentum"])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_a_row_that_is_listed_twice_is_updated_in_sequence(op_type: str, index_dtype: type):
    indices: np.ndarray[Any, Any] = np.array([2, 0, 2, 2], index_dtype)
    found = case(op_type, Ref(TABLE), Ref(np.ones((4, 3))), 0.5, GRADIENT, indices, 0.25)

    _, (table, slot), launcher = run_on_gpu(setting(found, "float32"))

    expected, sums = TABLE.copy(), np.ones((4, 3), np.float32)
    for index, row in zip(indices, GRADIENT, strict=True):
        sums[index] = sums[index] * 0.25 + row
        expected[index] -= 0.5 * sums[index]
    np.testing.assert_array_equal(slot, sums)
    np.testing.assert_array_equal(table, expected)
    for module in launcher.modules:
        assemble(module.ptx)


def test_a_row_outside_the_table_is_skipped():
    indices = np.array([1, 4, -1, 3])
    found = case("ResourceSparseApplyAdagrad", Ref(TABLE), Ref(np.ones((4, 3))), 0.5, GRADIENT, indices)

    _, (_, slot), _ = run_on_gpu(setting(found, "float32"))

    expected = np.ones((4, 3), np.float32)
    expected[1] += GRADIENT[0] ** 2
    expected[3] += GRADIENT[3] ** 2
    np.testing.assert_array_equal(slot, expected)


def test_many_rows():
    generator = np.random.default_rng(5)
    indices = generator.integers(0, 50, 700)
    gradients, table = generator.normal(size=(700, 2)), generator.normal(size=(50, 2))
    found = case(
        "ResourceSparseApplyAdagradV2", Ref(table), Ref(np.ones((50, 2))), 0.5, 0.125, gradients, indices
    )

    _, (actual, slot), _ = run_on_gpu(setting(found, "float64"))

    expected, sums = table.copy(), np.ones((50, 2))
    for index, row in zip(indices, gradients, strict=True):
        sums[index] += row * row
        expected[index] -= 0.5 * row / (np.sqrt(sums[index]) + 0.125)
    np.testing.assert_allclose(slot, sums, rtol=1e-12)
    np.testing.assert_allclose(actual, expected, rtol=1e-12, atol=1e-14)
