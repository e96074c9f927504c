"""The tests of `tests.train.test_optimizers`, on an opaque device."""

from tests.train.test_optimizers import *
