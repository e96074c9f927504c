"""The tests of `tests.ops.state.test_initialization`, on an opaque device."""

from tests.ops.state.test_initialization import *
