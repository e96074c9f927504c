"""The tests of `tests.train.test_summary_hooks`, on an opaque device."""

from tests.train.test_summary_hooks import *
