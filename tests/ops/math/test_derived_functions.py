"""Functions that are short formulas of ops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import aioexec as ax
from tests.ops.evaluate import evaluate

X = np.array([0.5, 0.0, -2.0], np.float32)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def test_they_compute_their_formulas():
    np.testing.assert_allclose(evaluate(ax.math.polyval([1.0, 2.0, 3.0], X)), np.polyval([1, 2, 3], X))
    np.testing.assert_array_equal(evaluate(ax.math.polyval([], X)), 0 * X)
    np.testing.assert_allclose(evaluate(ax.math.reciprocal_no_nan(X)), [2.0, 0.0, -0.5])
    np.testing.assert_allclose(
        evaluate(ax.math.erfcinv([0.3, 1.0, 1.9])),
        scipy.special.erfcinv([0.3, 1.0, 1.9]),
        rtol=1e-5,
        atol=1e-6,
    )


def test_coefficients_are_a_list():
    with pytest.raises(ValueError, match="must be list type"):
        ax.math.polyval(1.0, X)
