"""The tests of `tests.ops.state.test_variable_scope`, on an opaque device."""

from tests.ops.state.test_variable_scope import *
