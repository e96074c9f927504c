"""A share of `python -m tests.campaigns.error_classes` and of `tensor_arrays`, which need TensorFlow."""

from __future__ import annotations

import pytest

from tests.campaigns import campaign

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]


def test_odd_operands_fail_or_succeed_as_in_tensorflow() -> None:
    assert [*map(str, campaign.run("tests.campaigns.error_classes", 0, 200))] == []


def test_programs_on_tensor_arrays_give_what_tensorflow_gives() -> None:
    assert [*map(str, campaign.run("tests.campaigns.tensor_arrays", 0, 200))] == []
