"""The tests of `tests.train.test_monitored_loops`, on an opaque device."""

from tests.train.test_monitored_loops import *
