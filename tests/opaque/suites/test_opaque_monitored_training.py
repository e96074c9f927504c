"""The tests of `tests.train.test_monitored_training`, on an opaque device."""

from tests.train.test_monitored_training import *
