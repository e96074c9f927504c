"""The tests of `tests.ops.state.test_variables`, on an opaque device."""

from tests.ops.state.test_variables import *
