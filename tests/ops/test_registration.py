"""Importing aioexec is enough to have every op."""

import subprocess
import sys
from pathlib import Path

import pytest

import aioexec

PROGRAM = """
import sys, aioexec
print(*sorted(name for name in sys.modules if name.startswith("aioexec.ops.")))
"""


@pytest.mark.slow
def test_every_module_of_ops_is_loaded_with_the_package():
    folder = Path(aioexec.__file__).parent / "ops"
    present = {f"aioexec.ops.{path.stem}" for path in folder.glob("*.py")} - {"aioexec.ops.__init__"}

    loaded = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    assert present <= set(loaded.stdout.split())
