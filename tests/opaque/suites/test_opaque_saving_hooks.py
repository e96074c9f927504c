"""The tests of `tests.train.test_saving_hooks`, on an opaque device."""

from tests.train.test_saving_hooks import *
