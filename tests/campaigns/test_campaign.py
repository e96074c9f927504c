"""The runner of campaigns reports failures, crashes and hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from tests.campaigns import campaign


def case(seed: int) -> str | None:
    """Seeds with a fault of each kind."""
    if seed == 3:
        return "a wrong result"
    if seed == 5:
        os.abort()
    if seed == 7:
        print("begun", flush=True)
        threading.Event().wait()
    if seed == 8:
        raise ValueError("foreign")
    return None


@pytest.mark.slow
def test_wrong_results_deaths_hangs_and_exceptions_are_found_and_the_campaign_goes_on():
    found = list(campaign.run(__name__, 0, 10, limit=1.5))

    assert [finding.seed for finding in found] == [3, 5, 7, 8]
    wrong, died, hung, raised = (finding.message for finding in found)
    assert "a wrong result" in wrong
    for traceback in (died, hung):
        assert "in case" in traceback
    assert "status -6" in died
    assert "took over 1.5 s" in hung
    assert "ValueError" in raised


@pytest.mark.slow
def test_a_child_ends_with_its_parent():
    command = [sys.executable, "-m", __name__, "--first", "7", "--count", "1"]
    parent = subprocess.Popen([*command, "--limit", "600"], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    assert parent.stdout.readline() == b"begun\n"

    parent.kill()

    assert parent.stdout.read() == b""  # the end comes when no process holds the pipe any more
    parent.wait()
    parent.stdout.close()


if __name__ == "__main__":
    raise SystemExit(campaign.main(case))
