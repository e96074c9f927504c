"""NVIDIA's assembler, from the wheel nvidia-cuda-nvcc or an installed CUDA toolkit."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

PROCESSORS = ("sm_75", "sm_90")


@cache
def ptxas() -> str | None:
    """The path of the assembler; None if there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).glob("*/bin/ptxas")):
            return str(path)
    return shutil.which("ptxas")


@cache
def assemble(ptx: str, processors: tuple[str, ...] = PROCESSORS) -> None:
    """Fail unless the PTX assembles for these processors; skip the test if there is no assembler."""
    program = ptxas()
    if program is None:
        pytest.skip("ptxas is not installed (wheel nvidia-cuda-nvcc)")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        for processor in processors:
            done = subprocess.run(
                [program, f"--gpu-name={processor}", "--output-file", f"{folder}/kernel.cubin", str(source)],
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
