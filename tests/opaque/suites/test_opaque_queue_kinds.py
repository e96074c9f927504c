"""The tests of `tests.ops.containers.test_queue_kinds`, on an opaque device."""

from tests.ops.containers.test_queue_kinds import *
