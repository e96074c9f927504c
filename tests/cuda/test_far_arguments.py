"""The functions that GPUs have no C library for, of arguments of every size, against NumPy's in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from aioexec.devices.cuda.ptx.elementwise import ENTRY, Variant, emit
from aioexec.devices.cuda.ptx.far_arguments import two_over_pi
from aioexec.graph.kernels.kernel import ElementwiseKernel
from tests.cuda.emulation import Emulated

Array = np.ndarray[Any, Any]


def sample(dtype: str, seed: int) -> Array:
    top = 300 if dtype == "float64" else 38
    sizes = 10.0 ** np.random.default_rng(seed).uniform(-top, top, 2000)
    special = [0.0, -0.0, np.inf, np.nan, -1e7, 1e22, 5e-310]
    with np.errstate(over="ignore"):
        return np.concatenate([sizes, -sizes, special]).astype(dtype)


@pytest.mark.parametrize("vector", ["", "vvv"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("body", "function"),
    [
        ("z = sin(x)", lambda x, y: np.sin(x)),
        ("z = cos(x)", lambda x, y: np.cos(x)),
        ("z = tan(x)", lambda x, y: np.tan(x)),
        ("z = truncmod(x, y)", np.fmod),
    ],
)
def test_functions_are_within_4_ulp(body: str, function: Callable[..., Array], dtype: str, vector: str):
    x, y = sample(dtype, 1), sample(dtype, 2)[::-1].copy()
    kernel = ElementwiseKernel(body, (("x", dtype), ("y", dtype)), (("z", dtype),), "vvv")
    z = np.empty_like(x)
    words = [np.int64(each) for each in (x.size, x.size, *[x.itemsize] * 3)]

    Emulated(emit(kernel, Variant(1, True, vector)), ENTRY).launch((2, 1, 1), 64, [x, y, z, *words])

    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64), y.astype(np.float64)).astype(dtype)
        distance = np.abs(z - expected) / np.spacing(np.abs(expected))
    np.testing.assert_array_equal(np.isnan(z), np.isnan(expected))
    assert np.nanmax(distance) <= 4


def test_the_table_holds_two_over_pi():
    assert two_over_pi()[:2] == [0, 0xA2F9836E4E441529]  # 2/pi in hexadecimal, as published
