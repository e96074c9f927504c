"""The tests of `tests.ops.functions.test_functional_control_flow`, on an opaque device."""

from tests.ops.functions.test_functional_control_flow import *
