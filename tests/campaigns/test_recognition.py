"""A share of the campaign of recognised computations; and it finds a planted error."""

from __future__ import annotations

import pytest

from aioexec.planning.recognition import attention
from tests.campaigns import recognition


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_graphs_have_the_values_of_numpy(first: int):
    found = {seed: recognition.case(seed, ["off"]) for seed in range(first, first + 20)}

    assert {seed: message for seed, message in found.items() if message} == {}


def test_a_wrong_scale_is_found(monkeypatch):
    monkeypatch.setattr(attention, "_scale", lambda found: 1.25)

    assert any(recognition.case(seed, ["off"]) for seed in range(20))
