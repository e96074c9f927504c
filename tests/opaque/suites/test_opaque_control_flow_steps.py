"""The tests of `tests.execution.test_control_flow`, on an opaque device."""

from tests.execution.test_control_flow import *
