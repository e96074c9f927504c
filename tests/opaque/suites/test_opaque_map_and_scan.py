"""The tests of `tests.ops.functions.test_map_and_scan`, on an opaque device."""

from tests.ops.functions.test_map_and_scan import *
