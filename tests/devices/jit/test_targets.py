"""Kernels compiled for other processors: the same bits if this one can run them, and code for wider ones."""

import platform

import numpy as np
import pytest

from aioexec.devices.jit.linker import Linker
from aioexec.devices.jit.llvm import templates
from aioexec.devices.jit.objects import check_symbols
from aioexec.devices.jit.target import IrCompiler, Target, host
from aioexec.graph.kernels.kernel import ElementwiseKernel
from tests.devices.jit.elementwise import compiled, numbers
from tests.devices.jit.ulp import ORACLES, kernel_of, pairs, samples

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="names of x86 processors")

NARROWER = ["x86-64", "x86-64-v2", "x86-64-v3"]
"""SSE2 alone; SSE 4.2; AVX2 and FMA. Without FMA each fma is a call of the C library's, which rounds once too."""
WIDER = ["skylake-avx512", "sapphirerapids", "znver4"]

BODIES = [
    ("z = x + y * x", "float32"),
    ("z = x / y - sqrt(abs(x))", "float64"),
    ("z = floordiv(x, y) + floormod(x, y)", "float32"),
    ("z = truncdiv(x, y) ^ truncmod(x, y)", "int32"),
    ("z = floordiv(x, y) - floormod(x, y)", "int64"),
    ("z = rint(x) + floor(y) * trunc(x)", "float32"),
    ("z = minimum(x, y) + maximum(x, 1)", "int8"),
    ("z = atan2(x, y)", "float32"),
    ("z = cast(cast(x, 'bfloat16'), 'float32') + cast(cast(y, 'int32'), 'float32')", "float32"),
]


def runnable(processor: str) -> str:
    if processor == "x86-64-v3" and not {"+avx2", "+fma"} <= set(host().features.split(",")):
        pytest.skip("this processor has no AVX2")
    return processor


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two results are equal to the sign of zero; a NaN is a NaN."""
    if one.dtype.kind != "f":
        return np.array_equal(one, other)
    return np.array_equal(one, other, equal_nan=True) and np.array_equal(
        np.signbit(one[one == 0]), np.signbit(other[other == 0])
    )


@pytest.mark.slow
@pytest.mark.parametrize("processor", NARROWER)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_give_the_same_bits_on_a_narrower_processor(processor, dtype):
    (x,) = next(samples(dtype, 1, seed=2))
    here, there = np.empty_like(x), np.empty_like(x)

    for name in ORACLES:
        kernel_of(name, dtype)(x, here)
        kernel_of(name, dtype, runnable(processor))(x, there)

        assert same_bits(here, there), name


@pytest.mark.slow
@pytest.mark.parametrize("processor", NARROWER)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_have_the_same_bits_on_a_narrower_processor(processor, dtype):
    for x, y in pairs(dtype, 1, seed=2):
        here, there = np.empty_like(x), np.empty_like(x)
        kernel_of("pow", dtype)(x, y, here)
        kernel_of("pow", dtype, runnable(processor))(x, y, there)

        assert same_bits(here, there)


@pytest.mark.slow
@pytest.mark.parametrize("processor", NARROWER)
@pytest.mark.parametrize(("body", "dtype"), BODIES)
@pytest.mark.parametrize("pattern", ["vvv", "xsv"])
def test_bodies_give_the_same_bits_on_a_narrower_processor(body, dtype, pattern, processor):
    rng = np.random.default_rng(3)
    x, y = numbers(rng, 2 * 333, dtype)[:: 2 if pattern[0] == "x" else 1][:333], numbers(rng, 333, dtype)
    y[y == 0] = 1
    y = y[:1] if pattern[1] == "s" else y
    here, there = np.zeros(333, dtype), np.zeros(333, dtype)

    for z, target in ((here, ""), (there, runnable(processor))):
        kernel = compiled(body, f"x:{dtype} y:{dtype}", f"z:{dtype}", pattern, target)
        assert kernel(x, y, z) == 0

    assert same_bits(here, there)


RARELY_CALLED = {
    ("sin", "float32"): {"sin", "cos", "atan2"},  # an angle of the same sine, found in float64
    ("cos", "float32"): {"cosf"},
    ("tan", "float32"): {"tanf"},
    **{(name, "float64"): {name} for name in ("sin", "cos", "tan")},
}


@pytest.mark.slow
@pytest.mark.parametrize("processor", WIDER)
def test_every_function_compiles_for_a_wider_processor_and_needs_no_more_symbols(processor):
    compiler = IrCompiler(Target(processor, "-prefer-256-bit", ()))
    allowed = Linker(templates.EXTERNAL_SYMBOLS).allowed

    for name in ORACLES:
        for dtype in ("float32", "float64"):
            kernel = ElementwiseKernel(f"z = {name}(x)", (("x", dtype),), (("z", dtype),), "vv")
            code = compiler.compile_ir("kernel", templates.emit(kernel, "kernel"))

            expected = RARELY_CALLED.get((name, dtype), set())
            assert check_symbols(code, allowed) <= expected | {"memcpy", "memset"}, (name, dtype)
