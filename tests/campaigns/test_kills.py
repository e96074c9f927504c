"""A share of `python -m tests.campaigns.kills`: one process of each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.campaigns import kills
from tests.distributed.grpc_process import grpc_runs as grpc_runs


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[kills.Bench]:
    made = kills.Bench()
    monkeypatch.setattr(kills, "_bench", lambda: made)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.may_block
@pytest.mark.usefixtures("bench")
def test_nothing_that_was_acknowledged_is_lost_when_a_process_is_killed():
    """The tasks of a cluster have tests of their own."""
    kinds = [kills.KINDS.index(kind) for kind in (kills.saving, kills.training, kills.serving)]

    assert [kills.case(seed) for seed in kinds] == [None, None, None]
