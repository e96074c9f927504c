"""The test modules here are those of other folders, with an opaque device: it gets every node that it has a kernel for.

The default suite runs a share of the tests, which their names select; `-m sweep` runs the others.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.tiers import ops as ops, tier as tier

SHARE = 0.15
"""The part of the tests not marked slow that the default suite runs."""

LEFT_OUT = {
    "test_planning_and_running_no_ops_grows_with_their_number_only",
    "test_many_large_random_programs_compute_what_numpy_computes",
    "test_an_array_is_gone_with_its_step",
}
"""A test of the plan that a graph has on one device, one that is for native programs and takes minutes without them, and one
that fetches a handle, which does not cross devices."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests outside of the share; before tests are selected by their markers."""
    here = Path(__file__).parent
    mine = [item for item in items if item.path.parent == here]
    dropped = {item for item in mine if getattr(item, "originalname", "") in LEFT_OUT}
    for item in mine:
        if item.get_closest_marker("slow") or Random(item.nodeid).random() > SHARE:
            item.add_marker(pytest.mark.sweep)
    items[:] = [item for item in items if item not in dropped]


@pytest.fixture(autouse=True)
def on_the_device(opaque: OpaqueDeviceFactory, request: pytest.FixtureRequest) -> None:
    """Have everything that can be placed on the device placed there; a half of the tests has devices with programs."""
    opaque.has_programs = Random(f"programs {request.node.nodeid}").random() < 0.5
