"""A share of `python -m tests.campaigns.checkpoints`: some seeds."""

from __future__ import annotations

import pytest

from tests.campaigns import campaign


@pytest.mark.slow
def test_mutants_of_checkpoints_are_read_or_refused_within_bounds() -> None:
    assert [*map(str, campaign.run("tests.campaigns.checkpoints", 10, 300))] == []
