"""The tests of `tests.ops.state.test_partitioned_variables`, on an opaque device."""

from tests.ops.state.test_partitioned_variables import *
