"""A share of the campaigns of mutants: graphs, checkpoints, records, messages to decode, and cache entries."""

from __future__ import annotations

import pytest

from tests.campaigns import campaign, mutant_shares


@pytest.mark.slow
def test_mutants_are_read_or_refused_within_bounds() -> None:
    assert [*map(str, campaign.run(mutant_shares.__name__, 0, len(mutant_shares.CASES)))] == []
