"""The tests of `tests.train.test_feed_hooks`, on an opaque device."""

from tests.train.test_feed_hooks import *
