"""A share of `python -m tests.campaigns.cancellations`: one session of each kind."""

from __future__ import annotations

import pytest

from tests.campaigns import cancellations
from tests.distributed.grpc_process import grpc_runs as grpc_runs


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.may_block
@pytest.mark.parametrize("place", cancellations.PLACES)
def test_a_step_that_is_cancelled_anywhere_leaves_variables_whole_and_nothing_behind(place: str):
    cancellations.case(cancellations.PLACES.index(place))
