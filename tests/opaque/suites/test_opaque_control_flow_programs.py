"""The tests of `tests.execution.test_control_flow_programs`, on an opaque device."""

import pytest

from tests.execution.test_control_flow_programs import *

pytestmark = pytest.mark.sweep
