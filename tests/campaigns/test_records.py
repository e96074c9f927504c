"""A share of `python -m tests.campaigns.records` and of `decoders`: some seeds."""

from __future__ import annotations

import pytest

from tests.campaigns import campaign


@pytest.mark.slow
@pytest.mark.parametrize("name", ["records", "decoders"])
def test_mutants_of_records_and_messages_are_read_or_refused_within_bounds(name: str) -> None:
    assert [*map(str, campaign.run(f"tests.campaigns.{name}", 10, 300))] == []
