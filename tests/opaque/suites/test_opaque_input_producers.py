"""The tests of `tests.train.test_input_producers`, on an opaque device."""

from tests.train.test_input_producers import *
