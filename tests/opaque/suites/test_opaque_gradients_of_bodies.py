"""The tests of `tests.gradients.test_bodies`, on an opaque device."""

from tests.gradients.test_bodies import *
