"""The tests of `tests.train.test_update_optimizers`, on an opaque device."""

from tests.train.test_update_optimizers import *
