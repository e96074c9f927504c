"""The tests of `tests.train.test_sync_replicas`, on an opaque device."""

from tests.train.test_sync_replicas import *
