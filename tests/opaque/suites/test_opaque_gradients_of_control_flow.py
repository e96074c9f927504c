"""The tests of `tests.gradients.test_control_flow`, on an opaque device."""

from tests.gradients.test_control_flow import *
