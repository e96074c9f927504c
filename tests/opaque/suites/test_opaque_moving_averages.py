"""The tests of `tests.train.test_moving_averages`, on an opaque device."""

from tests.train.test_moving_averages import *
