"""A share of `python -m tests.campaigns.graphs`: some seeds."""

from __future__ import annotations

import pytest

from tests.campaigns import campaign


@pytest.mark.slow
def test_mutants_of_graph_defs_are_refused_or_imported_within_bounds() -> None:
    assert [*map(str, campaign.run("tests.campaigns.graphs", 100, 100))] == []
