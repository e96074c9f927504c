"""A share of the campaign of gradients, and a check that it detects small errors."""

from __future__ import annotations

import numpy as np
import pytest

from tests.campaigns import network_gradients

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("seed", range(8))
def test_gradients_are_those_of_tensorflow(tf, seed: int):
    assert network_gradients.case(seed) is None


def test_an_error_of_one_in_a_hundred_thousand_is_found(tf):
    recorded = network_gradients.record(tf, 4)
    results = [value.astype(np.float32) for value in recorded.expected]
    assert not [*network_gradients.differences(recorded, results)]

    off = [result * np.float32(1 + 1e-5) for result in results]

    assert len([*network_gradients.differences(recorded, off)]) == len(off)
