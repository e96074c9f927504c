"""Whole programs of TensorFlow's give the same losses and outputs here, by NumPy kernels and by native programs."""

import numpy as np
import pytest

from tests.interop.whole_graphs.running import PROGRAMS, Recorded, differences, record

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recorded]:
    """What TensorFlow has run, each program once."""
    return {}


@pytest.fixture(params=list(PROGRAMS))
def recorded(request, tf, recordings) -> Recorded:
    """Each program in turn."""
    if request.param not in recordings:
        recordings[request.param] = record(tf, PROGRAMS[request.param])
    return recordings[request.param]


@pytest.mark.parametrize("jit", ["off", "eager"])
async def test_losses_and_outputs_are_those_of_tensorflow(recorded, jit):
    assert recorded.missing == []
    assert await differences(recorded, jit) == []


def test_the_loss_changes_in_training_so_that_the_comparison_means_something(recorded):
    losses = [
        float(values[0])
        for run, values in zip(recorded.runs, recorded.results, strict=True)
        if run.targets and run.fetches and np.shape(values[0]) == () and isinstance(values[0], np.floating)
    ]

    assert not losses or len(set(losses)) > 40
