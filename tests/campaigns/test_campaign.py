"""The runner of campaigns finds what it is there to find."""

from __future__ import annotations

import os
import threading

from tests.campaigns import campaign


def case(seed: int) -> str | None:
    """Seeds with a fault of each kind."""
    if seed == 3:
        return "a wrong result"
    if seed == 5:
        os.abort()
    if seed == 7:
        threading.Event().wait()
    if seed == 8:
        raise ValueError("foreign")
    return None


def test_wrong_results_deaths_hangs_and_exceptions_are_found_and_the_campaign_goes_on(monkeypatch):
    monkeypatch.setattr(campaign, "FIRST_CASE_LIMIT_S", 20.0)

    found = list(campaign.run(__name__, 0, 10, limit=2.0))

    assert [finding.seed for finding in found] == [3, 5, 7, 8]
    wrong, died, hung, raised = (finding.message for finding in found)
    assert "a wrong result" in wrong
    for traceback in (died, hung):
        assert "in case" in traceback
    assert "status -6" in died
    assert "took over 2 s" in hung
    assert "ValueError" in raised


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
