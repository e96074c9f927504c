"""Every function of the expression language is within 4 ulp of the exact value, and right at the edges of its domain.

float32 is compared with NumPy in float64, float64 with NumPy in long double (erf with the C library, itself within 1 ulp).
The suite runs a seeded share of the float32 numbers; `-m sweep` runs all of them.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.devices.jit.elementwise import compiled, ulps

LIMIT = 4.0
SHARE = 1 << 14
WHOLE = 1 << 32
STEP = 1 << 22

each_erf, each_erfc = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)


def exact_sigmoid(x):
    return np.where(x > 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "tanh": np.tanh,
    "sigmoid": exact_sigmoid,
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": lambda x: each_erf(x.astype(np.float64)).astype(np.float64),
    "erfc": lambda x: each_erfc(x.astype(np.float64)).astype(np.float64),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
}
WIDER = {"float32": np.float64, "float64": np.longdouble}


def share(dtype):
    """A seeded share of a dtype's numbers: of all bit patterns, and of the ranges where functions do most."""
    rng = np.random.default_rng(11)
    bits = np.dtype(dtype).itemsize * 8
    patterns = rng.integers(0, (1 << bits) - 1, SHARE, dtype=f"uint{bits}", endpoint=True).view(dtype)
    ranges = [rng.uniform(-size, size, SHARE // 4) for size in (0.01, 0.5, 1, 2, 8, 30, 100, 800)]
    near_one = 1 + rng.normal(size=SHARE // 4) * 10.0 ** rng.uniform(-15, -1, SHARE // 4)
    turns = rng.integers(1, 600_000, SHARE // 4) * (np.pi / 2)
    return np.concatenate([patterns, *(part.astype(dtype) for part in (*ranges, near_one, turns, -turns))])


def distances(name, dtype, x):
    """How far a function's results are from exact ones, in ulp."""
    kernel = compiled(f"z = {name}(x)", f"x:{dtype}", f"z:{dtype}")
    z = np.zeros_like(x)
    assert kernel(x, z) == 0
    with np.errstate(all="ignore"):
        return ulps(z, FUNCTIONS[name](x.astype(WIDER[dtype])))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_four_ulp_everywhere(name, dtype):
    x = share(dtype)

    found = distances(name, dtype, x)

    worst = int(np.argmax(found))
    assert found[worst] <= LIMIT, f"{found[worst]:.2f} ulp at {x[worst]!r}"


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_four_ulp_at_every_float32(name):
    worst, place = 0.0, np.float32(0)

    for start in range(0, WHOLE, STEP):
        x = np.arange(start, start + STEP, dtype=np.uint32).view(np.float32)
        found = distances(name, "float32", x)
        if found.max() > worst:
            worst, place = found.max(), x[int(np.argmax(found))]

    print(f"{name}: {worst:.2f} ulp at {place!r}")
    assert worst <= LIMIT, f"{worst:.2f} ulp at {place!r}"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_right_at_zeros_infinities_and_nan(name, dtype):
    kernel = compiled(f"z = {name}(x)", f"x:{dtype}", f"z:{dtype}")
    tiny = np.finfo(dtype).tiny
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, tiny, -tiny], dtype)
    z = np.zeros_like(x)

    kernel(x, z)

    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x)
    np.testing.assert_allclose(z, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(z[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "sqrt", "atan"])
def test_the_smallest_numbers_give_their_result_or_a_zero_of_its_sign(name):
    kernel = compiled(f"z = {name}(x)", "x:float32", "z:float32")
    x = np.array([1e-40, -1e-40, 1e-45, -1e-45], np.float32)
    z = np.zeros_like(x)

    kernel(x, z)

    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64)).astype(np.float32)
    zero = (z == 0) & (np.signbit(z) == np.signbit(expected)) & (np.abs(expected) < 1.2e-38)
    assert (zero | np.isclose(z, expected, rtol=1e-6, atol=0, equal_nan=True)).all(), (z, expected)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles_are_given_to_the_c_library(name):
    rng = np.random.default_rng(3)

    for dtype, top in (("float32", 1e38), ("float64", 1e300)):
        x = (rng.uniform(-1, 1, 200) * top).astype(dtype)
        x[::3] = rng.uniform(-1, 1, len(x[::3]))  # fast and slow lanes side by side
        assert distances(name, dtype, x).max() <= LIMIT


SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 3.0, -3.0, 0.5, -0.5, 1e300, -1e300]
SPECIAL += [2.0**53 + 2, -(2.0**53) - 2, 4503599627370497.0, 5e-324]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_special_numbers_follow_c(dtype):
    kernel = compiled("z = pow(x, y)", f"x:{dtype} y:{dtype}", f"z:{dtype}")
    with np.errstate(all="ignore"):
        numbers = np.array(SPECIAL).astype(dtype)
        x, y = np.repeat(numbers, len(numbers)), np.tile(numbers, len(numbers))
        expected = np.power(x, y)
    z = np.zeros_like(x)

    kernel(x, y, z)

    np.testing.assert_allclose(z, expected, rtol=4 * np.finfo(dtype).eps, atol=np.finfo(dtype).tiny)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(z[signed]), np.signbit(expected[signed]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_are_within_four_ulp(dtype):
    rng = np.random.default_rng(5)
    reach = 0.97 * math.log(np.finfo(dtype).max)
    kernel = compiled("z = pow(x, y)", f"x:{dtype} y:{dtype}", f"z:{dtype}")
    x = np.concatenate([np.exp(rng.uniform(-reach, reach, SHARE)), rng.uniform(0.5, 2, SHARE)]).astype(dtype)
    y = (rng.uniform(-reach, reach, len(x)) / np.log(x)).astype(dtype)
    z = np.zeros_like(x)

    kernel(x, y, z)

    wide = WIDER[dtype]
    assert ulps(z, np.power(x.astype(wide), y.astype(wide))).max() <= LIMIT


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_angles_of_points_in_every_quadrant(dtype):
    rng = np.random.default_rng(6)
    kernel = compiled("z = atan2(y, x)", f"y:{dtype} x:{dtype}", f"z:{dtype}")
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e30, -1e-30])
    scale = 10.0 ** rng.uniform(-5, 5, (2, SHARE))
    y, x = (rng.normal(size=(2, SHARE)) * scale).astype(dtype)
    y = np.concatenate([y, np.repeat(special, len(special)).astype(dtype)])
    x = np.concatenate([x, np.tile(special, len(special)).astype(dtype)])
    z = np.zeros_like(x)

    kernel(y, x, z)

    expected = np.arctan2(y.astype(WIDER[dtype]), x.astype(WIDER[dtype]))
    assert ulps(z, expected).max() <= LIMIT
    np.testing.assert_array_equal(np.signbit(z)[~np.isnan(z)], np.signbit(expected)[~np.isnan(z)])


def test_products_with_zero_ignore_what_the_other_factor_is():
    kernel = compiled(
        "a = xlogy(x, y); b = xdivy(x, y); c = xlog1py(x, y)",
        "x:float32 y:float32",
        "a:float32 b:float32 c:float32",
    )
    x, y = np.array([0, 0, 0, 2], np.float32), np.array([0, np.inf, np.nan, 3], np.float32)
    a, b, c = (np.zeros(4, np.float32) for _ in range(3))

    kernel(x, y, a, b, c)

    np.testing.assert_allclose(a, [0, 0, 0, 2 * np.log(3)], rtol=1e-6)
    np.testing.assert_allclose(b, [0, 0, 0, 2 / 3], rtol=1e-6)
    np.testing.assert_allclose(c, [0, 0, 0, 2 * np.log(4)], rtol=1e-6)


@pytest.mark.parametrize("name", ["exp", "tanh", "sigmoid"])
def test_float16_functions_are_computed_in_float32_and_rounded_once(name):
    kernel = compiled(f"z = {name}(x)", "x:float16", "z:float16")
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    z = np.zeros_like(x)

    kernel(x, z)

    with np.errstate(all="ignore"):
        expected = FUNCTIONS[name](x.astype(np.float64)).astype(np.float16)
    close = np.abs(z.view(np.int16).astype(int) - expected.view(np.int16)) <= 1
    assert (close | (np.isnan(z) & np.isnan(expected))).all()
