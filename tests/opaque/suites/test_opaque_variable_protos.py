"""The tests of `tests.ops.state.test_variable_protos`, on an opaque device."""

from tests.ops.state.test_variable_protos import *
