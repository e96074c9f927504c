"""A share of the tables on the reference tier and compiled: within the stated bounds. `python -m …parity.tiers` runs all."""

import numpy as np
import pytest

from aioexec.devices.jit.library import library
from tests.interop.parity.families import FAMILIES, cases_of
from tests.interop.parity.tier_bounds import BY_OP
from tests.interop.parity.tiers import apart, distances, tiers

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

EVERY, SEED = 100, 20
"""Of the cases of each table, drawn by the seed."""


@pytest.mark.parametrize("family", FAMILIES)
def test_tiers_agree_within_the_stated_bounds(family, tf):
    cases = cases_of(family)
    drawn = np.random.default_rng(SEED).choice(len(cases), -(-len(cases) // EVERY), replace=False)

    failed = library().statistics().failed

    with tiers() as (reference, native):
        found = distances([cases[k] for k in sorted(drawn)], reference, native)

    assert [each for each in found if not each.within] == []
    assert library().statistics().failed == failed


def test_every_bound_is_for_an_op_of_the_tables(tf):
    assert BY_OP.keys() <= {case.op_type for family in FAMILIES for case in cases_of(family)}


@pytest.mark.parametrize(
    ("expected", "got", "sums", "distance"),
    [
        ([1.0, 8.0], [1.0 + 2.0**-22, 8.0], False, 2),
        ([1.0, 8.0], [1.0 + 2.0**-22, 8.0], True, 0.25),
        ([2.0**-30], [2.0**-30 + 2.0**-52], True, 2.0**-29),
        ([1e-40, 0.0], [0.0, -0.0], False, 0),
        ([1e-40], [1e-3], False, np.inf),
        ([np.nan, np.inf], [np.nan, np.inf], False, 0),
        ([np.inf], [3e38], False, np.inf),
        ([1.0, 2.0], [1.0, np.nan], False, np.inf),
        ([1.0, 2.0], [np.inf, 2.0], True, np.inf),
    ],
)
def test_a_distance_is_in_units_of_the_last_place(expected, got, sums, distance):
    found = apart(np.array(expected, np.float32), np.array(got, np.float32), sums)

    assert found == distance or (distance == np.inf and found > 1e30)


def test_what_is_no_real_number_is_equal_or_infinitely_far():
    assert apart(np.array([1, 2]), np.array([1, 2]), False) == 0
    assert apart(np.array([1, 2]), np.array([1, 3]), False) == np.inf
    assert apart(np.array([1, 2]), np.array([1, 2], np.int32), False) == np.inf
