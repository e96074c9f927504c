"""A share of `python -m tests.campaigns.operands`: a few seeds."""

from __future__ import annotations

import pytest

from tests.campaigns import campaign


@pytest.mark.slow
def test_hostile_operands_fail_canonically_and_alike() -> None:
    assert [*map(str, campaign.run("tests.campaigns.operands", 3, 4))] == []
