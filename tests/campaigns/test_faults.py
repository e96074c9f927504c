"""A share of `python -m tests.campaigns.faults`: each fault once, except those that wait for a compiler."""

from __future__ import annotations

import pytest

from tests.campaigns import faults

COMPILE = (faults.unusable_cache, faults.killed_compiler)


@pytest.mark.slow
@pytest.mark.may_block
@pytest.mark.parametrize(
    "fault", [each for each in faults.FAULTS if each not in COMPILE], ids=lambda each: each.__name__
)
def test_everything_works_again_once_a_fault_is_gone_and_nothing_acknowledged_is_lost(fault):
    faults.case(faults.FAULTS.index(fault))
