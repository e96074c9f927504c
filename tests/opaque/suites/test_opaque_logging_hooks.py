"""The tests of `tests.train.test_logging_hooks`, on an opaque device."""

from tests.train.test_logging_hooks import *
