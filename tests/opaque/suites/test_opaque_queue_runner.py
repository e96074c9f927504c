"""The tests of `tests.train.test_queue_runner`, on an opaque device."""

from tests.train.test_queue_runner import *
