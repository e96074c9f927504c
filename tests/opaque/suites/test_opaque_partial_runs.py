"""The tests of `tests.sessions.test_partial_runs`, on an opaque device."""

from tests.sessions.test_partial_runs import *
