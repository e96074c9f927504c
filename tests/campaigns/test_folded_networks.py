"""A share of the campaign of rewritten networks, and a check that it detects errors."""

from __future__ import annotations

import numpy as np
import pytest

from aioexec.planning.rewriting import channel_scales, dilations
from tests.campaigns import folded_networks


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_rewritten_networks_give_what_numpy_gives(seed: int):
    assert folded_networks.case(seed) is None


@pytest.mark.slow
def test_a_shift_that_is_not_scaled_is_found(monkeypatch: pytest.MonkeyPatch):
    def then(first: channel_scales._Affine, second: channel_scales._Affine) -> channel_scales._Affine:
        return channel_scales._Affine(first.s * second.s, np.add(first.t, second.t))

    monkeypatch.setattr(channel_scales._Affine, "then", then)

    assert any(folded_networks.case(seed) for seed in range(40))


@pytest.mark.slow
def test_paddings_of_a_dilated_convolution_that_are_swapped_are_found(monkeypatch: pytest.MonkeyPatch):
    margins = dilations._margins
    monkeypatch.setattr(dilations, "_margins", lambda *given: margins(*given)[::-1])

    assert any(folded_networks.case(seed) for seed in range(40))
