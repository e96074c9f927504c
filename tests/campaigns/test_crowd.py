"""The crowds of `crowd`, smaller."""

from __future__ import annotations

import pytest

from tests.campaigns import crowd


@pytest.mark.slow
async def test_runs_of_one_session_begin_in_the_order_of_arrival_within_a_factor_of_two():
    assert await crowd.runs_of_one_session(300) is None


@pytest.mark.slow
async def test_what_waiting_runs_take_grows_with_their_number_alone():
    assert await crowd.memory_of_waiting_runs(200) is None


@pytest.mark.slow
async def test_a_session_that_refuses_admits_exactly_as_many_runs_as_configured():
    assert await crowd.refusals(300, 17) is None
