"""The tests of `tests.sessions.test_variables_in_steps`, on an opaque device."""

from tests.sessions.test_variables_in_steps import *
