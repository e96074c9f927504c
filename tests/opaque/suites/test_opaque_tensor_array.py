"""The tests of `tests.ops.containers.test_tensor_array`, on an opaque device."""

from tests.ops.containers.test_tensor_array import *
