"""The tests of `tests.ops.control_flow.test_control_flow`, on an opaque device."""

from tests.ops.control_flow.test_control_flow import *
