"""The tests of `tests.ops.containers.test_queues`, on an opaque device."""

from tests.ops.containers.test_queues import *
