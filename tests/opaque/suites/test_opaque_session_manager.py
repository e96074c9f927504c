"""The tests of `tests.train.test_session_manager`, on an opaque device."""

from tests.train.test_session_manager import *
