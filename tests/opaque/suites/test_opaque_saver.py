"""The tests of `tests.train.test_saver`, on an opaque device."""

from tests.train.test_saver import *
