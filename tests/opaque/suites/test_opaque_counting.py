"""The tests of `tests.ops.state.test_counting`, on an opaque device."""

from tests.ops.state.test_counting import *
