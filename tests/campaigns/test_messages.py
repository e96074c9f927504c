"""A share of `python -m tests.campaigns.messages`."""

from __future__ import annotations

import pytest

from tests.campaigns.messages import Target


@pytest.mark.slow
@pytest.mark.may_block
def test_whatever_a_request_says_the_call_fails_canonically_and_the_next_program_runs():
    target = Target()
    try:
        assert [target.batch(seed) for seed in range(5)] == [None] * 5
    finally:
        target.close()
