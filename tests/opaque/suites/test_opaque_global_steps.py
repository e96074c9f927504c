"""The tests of `tests.train.test_global_steps`, on an opaque device."""

from tests.train.test_global_steps import *
