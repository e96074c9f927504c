"""`import aioexec` loads none of the heavy libraries; they come when they are used."""

import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = ["numba", "llvmlite", "grpc", "aiohttp", "rich", "tensorflow", "pytest"]


@pytest.mark.slow
@pytest.mark.parametrize("module", ["aioexec", "aioexec.cli"])
def test_importing_loads_no_heavy_library(module):
    program = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.stdout.strip(), result.stderr) == ("[]", "")
