"""The tests of `tests.train.test_scaffold`, on an opaque device."""

from tests.train.test_scaffold import *
