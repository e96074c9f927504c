"""The tests of `tests.train.test_stopping_hooks`, on an opaque device."""

from tests.train.test_stopping_hooks import *
