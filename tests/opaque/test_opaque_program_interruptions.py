"""The tests of `test_opaque_interruptions`, on devices with programs."""

from __future__ import annotations

import pytest

from aioexec.testing.opaque_device import OpaqueDeviceFactory
from tests.opaque.test_opaque_interruptions import (
    test_cancelled_in_each_turn_of_the_loop as test_cancelled_in_each_turn_of_the_loop,
    test_lost_at_each_launch as test_lost_at_each_launch,
    test_timed_out_at_each_moment as test_timed_out_at_each_moment,
    test_without_memory_or_with_failed_work_at_each_node as test_without_memory_or_with_failed_work_at_each_node,
)


@pytest.fixture(autouse=True)
def with_programs(opaque: OpaqueDeviceFactory) -> None:
    opaque.has_programs = True
