"""The tests of `tests.ops.containers.test_stacks`, on an opaque device."""

from tests.ops.containers.test_stacks import *
