"""The tests of `tests.ops.functions.test_defun`, on an opaque device."""

from tests.ops.functions.test_defun import *
