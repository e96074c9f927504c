"""The tests of `tests.sessions.test_partial_run`, on an opaque device."""

from tests.sessions.test_partial_run import *
