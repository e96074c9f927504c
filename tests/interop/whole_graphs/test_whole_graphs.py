"""Whole programs of TensorFlow yield the same losses and outputs here, by NumPy kernels and by native programs."""

import re

import numpy as np
import pytest

from tests.interop.whole_graphs.running import PROGRAMS, Recorded, differences, native_share, record

pytestmark = pytest.mark.interop

LEAST_NATIVE = {
    "queues_and_readers": 0,  # of its typical run all nodes are about files, strings or queues
    "beam_search": 70,  # 7 of 26 nodes have shapes that depend on values
    "beam_search_of_functions": 70,
}
"""Percent of nodes of the typical run, where it is less than what all others reach."""


@pytest.fixture(scope="module")
def recordings() -> dict[str, Recorded]:
    """TensorFlow's runs, each program once."""
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


async def test_most_nodes_run_natively(recorded, request):
    explained = await native_share(recorded)

    share = re.match(r"native ([\d.]+)%", explained)
    assert share is not None, explained
    assert float(share[1]) >= LEAST_NATIVE.get(request.node.callspec.params["recorded"], 95), explained


def test_the_loss_changes_in_training_so_that_the_comparison_means_something(recorded):
    losses = [
        float(values[0])
        for run, values in zip(recorded.runs, recorded.results, strict=True)
        if run.targets and run.fetches and np.shape(values[0]) == () and isinstance(values[0], np.floating)
    ]

    assert not losses or len(set(losses)) > 40
