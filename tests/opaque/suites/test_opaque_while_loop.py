"""The tests of `tests.ops.control_flow.test_while_loop`, on an opaque device."""

from tests.ops.control_flow.test_while_loop import *
