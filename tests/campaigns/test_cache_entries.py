"""A share of `python -m tests.campaigns.cache_entries`: some seeds."""

from __future__ import annotations

import pytest

from tests.campaigns import campaign


@pytest.mark.slow
def test_mutants_of_cache_entries_are_never_loaded_nor_linked() -> None:
    assert [*map(str, campaign.run("tests.campaigns.cache_entries", 10, 500))] == []
