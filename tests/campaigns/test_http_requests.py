"""A share of `python -m tests.campaigns.http_requests`."""

from __future__ import annotations

import pytest

from tests.campaigns.http_requests import Target


@pytest.mark.slow
@pytest.mark.network
def test_whatever_a_request_says_the_answer_is_json_and_the_next_one_is_served():
    target = Target()
    try:
        assert [target.batch(seed) for seed in range(6)] == [None] * 6
    finally:
        target.close()
