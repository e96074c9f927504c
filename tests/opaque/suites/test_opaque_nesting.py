"""The tests of `tests.ops.control_flow.test_nesting`, on an opaque device."""

from tests.ops.control_flow.test_nesting import *
