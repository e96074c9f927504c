"""The tests of `tests.train.test_monitored_recovery`, on an opaque device."""

from tests.train.test_monitored_recovery import *
