"""The tests of `tests.train.test_monitored_session`, on an opaque device."""

from tests.train.test_monitored_session import *
