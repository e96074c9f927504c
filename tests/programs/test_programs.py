"""Programs of TensorFlow 1.x, ported by `aioexec port` as they are: their losses are TensorFlow's."""

import numpy as np
import pytest

from tests.distributed.grpc_process import grpc_runs as grpc_runs
from tests.programs.programs import EXPECTED, PROGRAMS
from tests.programs.running import Program, run_ported


@pytest.mark.slow
@pytest.mark.may_block
@pytest.mark.filterwarnings(
    "ignore:.*was never stopped:ResourceWarning"
)  # servers of TensorFlow have no `stop`
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_ported_program_has_the_losses_of_tensorflow(program: Program, tmp_path):
    losses = run_ported(program, tmp_path)

    np.testing.assert_allclose(losses, EXPECTED[program.name], rtol=program.tolerance, atol=program.tolerance)
