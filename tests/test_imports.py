"""`import aioexec` loads none of the heavy libraries; they are imported at first use."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAVY = ["numba", "llvmlite", "grpc", "aiohttp", "rich", "re2", "scipy", "PIL", "tensorflow", "pytest"]


@pytest.mark.slow
@pytest.mark.parametrize("module", ["aioexec", "aioexec.cli"])
def test_importing_loads_no_heavy_library(module):
    program = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (result.stdout.strip(), result.stderr) == ("[]", "")


@pytest.mark.slow
def test_of_the_training_stack_that_part_is_loaded_which_is_used():
    program = (
        "import sys, aioexec; before = 'aioexec.train' in sys.modules; print(before, aioexec.train.Saver.__name__); "
        "wanted = 'aioexec.train.sessions.supervisor aioexec.train.optimizers.optimizer aioexec.formats.protos'.split(); "
        "print([name for name in wanted "
        "if name in sys.modules])"
    )

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (result.stdout, result.stderr) == ("False Saver\n[]\n", "")


@pytest.mark.slow
def test_the_planner_is_loaded_by_the_first_plan_in_the_planner_thread():
    program = """
import asyncio, builtins, sys, threading
import aioexec

wanted = {"aioexec.planning.pipeline", "aioexec.planning.layout.variant_builder"}
print(sorted(wanted & set(sys.modules)))
threads = set()
import_module = builtins.__import__

def watched(name, *arguments):
    if name in wanted:
        threads.add(threading.current_thread() is threading.main_thread())
    return import_module(name, *arguments)

async def main():
    async with aioexec.Session() as session:
        builtins.__import__ = watched
        await session.run(aioexec.constant(1.0))

asyncio.run(main())
print(sorted(wanted & set(sys.modules)), threads)
"""

    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert (result.stdout, result.stderr) == ("[]\n['aioexec.planning.pipeline'] {False}\n", "")


def test_a_free_threaded_interpreter_is_refused_before_anything_is_loaded():
    program = "import sys; sys.version = '3.14.0 free-threading build (main)'; import aioexec"

    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 1
    assert "ImportError: aioexec needs a build of CPython with the global interpreter lock" in result.stderr
    assert "numpy" not in result.stderr
