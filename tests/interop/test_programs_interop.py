"""The programs of tests/programs, run by TensorFlow as they are: their losses are those expected of the ports."""

import numpy as np
import pytest

from tests.programs.programs import EXPECTED, PROGRAMS
from tests.programs.running import Program, run_tensorflow

pytestmark = [
    pytest.mark.interop,
    pytest.mark.may_block,
    pytest.mark.allow_leaks,
    pytest.mark.filterwarnings("ignore"),
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_expected_losses_of_a_program_are_tensorflows(program: Program, tf, tmp_path):
    losses = run_tensorflow(tf, program, tmp_path)

    np.testing.assert_allclose(losses, EXPECTED[program.name], rtol=program.tolerance, atol=program.tolerance)
