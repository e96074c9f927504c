"""The GPU's random ops draw TensorFlow's numbers: uniform ones and integers the same bits, normal ones within few ulp."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from aioexec.dtypes import as_dtype
from aioexec.errors import InvalidArgumentError
from tests.cuda.assembler import assemble
from tests.cuda.gpu import EmulatedLauncher, run_on_gpu
from tests.ops.harness import case, run_reference, setting
from tests.ops.random.golden_random import REAL, SEEDS

SIZE = np.array([3, 7], np.int32)
PLACES: dict[str, tuple[Any, ...]] = {
    "": (np.array([5, -3], np.int64),),
    "V2": (np.array([2**63 + 5], np.uint64), np.array([2**64 - 2, 7], np.uint64), np.array(1, np.int32)),
}
MOST_ULP = 4


def ulps(actual: Any, expected: Any) -> float:
    """The largest distance in units in the last place of the expected number, or of 1e-3 where that is less."""
    exact = expected.astype(np.float64)
    spacing = np.spacing(np.maximum(np.abs(exact), 1e-3).astype(expected.dtype)).astype(np.float64)
    return float(np.max(np.abs(actual.astype(np.float64) - exact) / spacing))


def drawn(op_type: str, dtype: str, *inputs: Any, **attrs: Any) -> tuple[Any, Any, EmulatedLauncher]:
    """What the GPU and the reference kernel draw, and the launcher with the modules."""
    name = "Tout" if op_type == "RandomUniformInt" else "dtype"
    found = setting(case(op_type, *inputs, attrs={**attrs, name: dtype}, vary=name), dtype)
    (actual,), _, launcher = run_on_gpu(found)
    (expected,) = run_reference(found, found.fresh_values())
    return actual, expected, launcher


@pytest.mark.parametrize(("op_type", "dtype"), REAL)
def test_numbers_of_a_session_are_those_of_tensorflow(op_type: str, dtype: str):
    actual, _, launcher = drawn(op_type, dtype, np.array([6], np.int32), **SEEDS)

    expected = np.array(REAL[op_type, dtype][0]).astype(as_dtype(dtype).numpy)
    if "Uniform" in op_type:
        np.testing.assert_array_equal(actual, expected)
    else:
        assert ulps(actual, expected) <= MOST_ULP
    for module in launcher.modules:
        assemble(module.ptx)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("distribution", ["RandomUniform", "RandomNormal", "TruncatedNormal"])
def test_numbers_of_a_place_are_those_of_the_reference(distribution: str, dtype: str, place: str):
    actual, expected, _ = drawn(f"Stateless{distribution}{place}", dtype, SIZE, *PLACES[place])

    assert actual.dtype == expected.dtype
    if distribution == "RandomUniform":
        np.testing.assert_array_equal(actual, expected)
    else:
        assert ulps(actual, expected) <= MOST_ULP


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
@pytest.mark.parametrize("limits", [(), (3, 40), (5, 6)])
def test_integers_are_those_of_the_reference(dtype: str, limits: tuple[int, ...]):
    op_type = "StatelessRandomUniformIntV2" if limits else "StatelessRandomUniformFullIntV2"

    actual, expected, launcher = drawn(op_type, dtype, SIZE, *PLACES["V2"], *limits)

    assert actual.dtype == expected.dtype
    np.testing.assert_array_equal(actual, expected)
    for module in launcher.modules:
        assemble(module.ptx)


@pytest.mark.parametrize(("dtype", "low", "high"), [("int32", -7, 9), ("int64", -(2**63), 2**63 - 1)])
def test_integers_of_a_session_are_those_of_the_reference(dtype: str, low: int, high: int):
    actual, expected, _ = drawn("RandomUniformInt", dtype, SIZE, low, high, **SEEDS)

    np.testing.assert_array_equal(actual, expected)


def test_numbers_across_a_carry_of_the_counter():
    place = (np.array([1], np.uint64), np.array([2**64 - 1, 2**64 - 1], np.uint64), np.array(1, np.int32))

    actual, expected, _ = drawn("StatelessRandomUniformV2", "float32", np.array([20_000]), *place)

    np.testing.assert_array_equal(actual, expected)


def test_an_empty_draw_gives_the_device_no_work():
    actual, _, launcher = drawn("RandomUniform", "float32", np.array([3, 0], np.int32), **SEEDS)

    assert actual.shape == (3, 0)
    assert not launcher.modules


def test_limits_are_checked():
    with pytest.raises(InvalidArgumentError, match="Need minval < maxval"):
        drawn("RandomUniformInt", "int32", SIZE, 9, 9, **SEEDS)


def test_many_truncated_numbers_are_within_the_bound():
    actual, expected, _ = drawn("TruncatedNormal", "float32", np.array([5_000], np.int32), **SEEDS)

    assert np.abs(actual).max() < 2
    assert ulps(actual, expected) <= MOST_ULP
