"""The tests of `tests.ops.control_flow.test_case`, on an opaque device."""

from tests.ops.control_flow.test_case import *
