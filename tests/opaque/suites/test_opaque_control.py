"""The tests of `tests.ops.control_flow.test_control`, on an opaque device."""

from tests.ops.control_flow.test_control import *
