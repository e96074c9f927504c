"""A share of the campaign of parallel regions, and a check that it detects errors."""

from __future__ import annotations

import pytest

from aioexec.execution.programs import parallel_regions
from tests.campaigns import regions


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 6])
def test_regions_give_what_numpy_gives_and_tear_nothing(seed: int):
    assert regions.case(seed) is None


@pytest.mark.slow
def test_a_cancelled_step_that_publishes_what_it_has_not_written_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parallel_regions.RegionRun, "has_run", lambda self, row: True)

    # Real threads decide whether a step is cancelled within its region: about one case of twenty finds the error.
    assert any(regions.case(seed) for seed in range(400))
