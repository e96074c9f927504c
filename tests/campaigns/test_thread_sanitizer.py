"""Parallel regions under ThreadSanitizer: a share of the campaign, and a check that it detects errors."""

from __future__ import annotations

import pytest

from tests.campaigns import thread_sanitizer
from tests.devices.jit.region_model import changed, portable_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not thread_sanitizer.is_available(), reason="there is no gcc with ThreadSanitizer"),
]


@pytest.mark.parametrize(("owners", "helpers"), [(1, 1), (2, 2)])
def test_owners_and_helpers_do_regions_without_a_data_race(owners: int, helpers: int):
    done = thread_sanitizer.run(portable_text(), 3000, owners, helpers)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout


def test_an_owner_that_does_not_wait_for_its_helpers_is_found():
    text = changed(portable_text(), "br i1 %is.free, label %exit, label %wait", "br label %exit")

    done = thread_sanitizer.run(text, 100_000, 1, 2)

    assert "data race" in done.stderr
