"""The tests of `tests.ops.state.test_temporary_variable`, on an opaque device."""

from tests.ops.state.test_temporary_variable import *
