"""The tests of `tests.ops.control_flow.test_cond`, on an opaque device."""

from tests.ops.control_flow.test_cond import *
