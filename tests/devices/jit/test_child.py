"""The compiler child needs NumPy, numba and llvmlite only: neither aioexec nor its other dependencies."""

from __future__ import annotations

import sys
from contextlib import closing

import pytest

from aioexec.devices.jit.process import CompilerProcess, child_command
from aioexec.devices.jit.source import request_for
from aioexec.graph.kernels.kernel import LoopKernel
from aioexec.graph.kernels.loop_language import gemm, large_gemm, tiled_product
from aioexec.ops.linalg.product_launches import MOST_OPERANDS
from aioexec.ops.linalg.product_loops import product_handed_over

ABSENT = [
    "aioexec", "aiohttp", "attr", "attrs", "crc32c", "google", "grpc", "ml_dtypes", "PIL", "re2", "rich", "scipy", "uvloop",
]  # fmt: skip
STARTER = f"""
import runpy, sys

class Refuse:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refuse)
runpy.run_path({child_command()[-1]!r}, run_name="__main__")
"""


def fill(x, size) -> int:
    for i in range(size):
        x[i] = 1
    return 0


def multiply(a, b, c, m, n, k) -> int:
    gemm(False, False, m, n, k, 1.0, a, k, b, n, 0.0, c, n)
    large_gemm(False, False, m, n, k, 1.0, a, k, b, n, 1.0, c, n)
    return 0


def multiply_in_registers(a, b, c, m, n, k) -> int:
    tiled_product(m, n, 1, k, a, k, 0, 1, b, n, False, c, n)
    return 0


KERNELS = {
    "no product": LoopKernel(fill, ("int32",), 1, 0),
    "gemm": LoopKernel(multiply, ("float32",) * 3, 3, 0),
    "tiles": LoopKernel(multiply_in_registers, ("float64",) * 3, 3, 0),
    "handover": LoopKernel(product_handed_over, ("float32",) * (2 + MOST_OPERANDS), 11, 0),
}


@pytest.mark.slow
def test_the_child_compiles_without_aioexec_and_its_other_dependencies():
    with closing(CompilerProcess([sys.executable, "-I", "-c", STARTER])) as process:
        compiled = {name: process.compile(request_for(kernel)) for name, kernel in KERNELS.items()}

    assert {name: code.image[:4] for name, code in compiled.items()} == dict.fromkeys(KERNELS, b"\x7fELF")
