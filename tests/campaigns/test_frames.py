"""A share of `python -m tests.campaigns.frames`."""

from __future__ import annotations

import pytest

from tests.campaigns.frames import Target
from tests.distributed.grpc_process import grpc_runs as grpc_runs


@pytest.mark.slow
@pytest.mark.network
def test_whatever_bytes_come_only_canonical_errors_come_of_it_and_the_next_connection_is_served():
    target = Target()
    try:
        assert [target.batch(seed) for seed in range(5)] == [None] * 5
    finally:
        target.close()
