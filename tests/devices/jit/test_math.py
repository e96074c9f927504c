"""Every function of the expression language is within 4 ulp of the exact value, and correct at the limits of its domain.

The suite runs a seeded share of the numbers; `-m sweep`, or `python -m tests.devices.jit.ulp`, runs all of float32.
"""

import mpmath
import numpy as np
import pytest

from tests.devices.jit.elementwise import compiled, ulps
from tests.devices.jit.ulp import (
    LIMIT,
    ORACLES,
    STEP,
    WIDER,
    distances,
    every_float32,
    kernel_of,
    pairs,
    samples,
    special_numbers,
    worst,
)

SHARE = 1 << 14

EXACT = {
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": lambda x: mpmath.log1p(mpmath.exp(x)),
    "softsign": lambda x: x / (1 + abs(x)),
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
}
HARD = [
    16367173.0 * 2**72,
    1.5707964,
    11.0,
    355.0,
    103993.0,
    411557987.0,
    1e38,
    1e-38,
    1e-45,
    1e-3,
    0.5,
    2.0,
    3.9,
    9.0,
]
HARD += [
    1 + 2.0**-23,
    1 - 2.0**-24,
    -1 + 2.0**-24,
    0.70710677,
    0.34657359,
    17.32868,
    88.7,
    -87.3,
    -103.9,
    0.9999,
    26.0,
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ORACLES)
def test_a_function_is_within_four_ulp_everywhere(name, dtype):
    highest, place = worst(kernel_of(name, dtype), ORACLES[name], samples(dtype, STEP, seed=11))

    assert highest <= LIMIT, place


@pytest.mark.parametrize("name", ORACLES)
def test_the_oracle_is_right_to_twelve_digits_where_it_is_hard(name):
    x = np.array([*HARD, *(-each for each in HARD)]).astype(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        oracle = ORACLES[name](x)
    known = np.isfinite(oracle) & (np.abs(oracle) > 1e-45)
    evaluate = EXACT.get(name) or getattr(mpmath, name)

    with mpmath.workdps(80):
        exact = [evaluate(mpmath.mpf(float(each))) for each in x[known]]
        errors = [
            abs(got / want - 1) for got, want in zip(map(mpmath.mpf, oracle[known]), exact, strict=True)
        ]

    assert max(errors) < 1e-12, x[known][errors.index(max(errors))]


@pytest.mark.sweep
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ORACLES)
def test_a_function_is_within_four_ulp_at_every_float32(name):
    highest, place = worst(kernel_of(name, "float32"), ORACLES[name], every_float32(stride=1))

    assert highest <= LIMIT, place


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ORACLES)
def test_a_function_is_right_at_zeros_infinities_and_nan(name, dtype):
    kernel = compiled(f"z = {name}(x)", f"x:{dtype}", f"z:{dtype}")
    tiny = np.finfo(dtype).tiny
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, tiny, -tiny], dtype)
    z = np.zeros_like(x)

    kernel(x, z)

    with np.errstate(all="ignore"):
        expected = ORACLES[name](x)
    np.testing.assert_allclose(z, expected, rtol=4 * np.finfo(dtype).eps, atol=0)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(z[known]), np.signbit(expected[known]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ORACLES)
def test_special_and_denormal_numbers_are_within_four_ulp(name, dtype):
    smallest = np.finfo(dtype).smallest_subnormal
    denormals = (np.arange(1, 100) * 2.0 ** np.arange(0, 19.8, 0.2) * smallest).astype(dtype)
    x = np.concatenate([special_numbers(dtype), denormals, -denormals])

    assert distances(kernel_of(name, dtype), ORACLES[name], x).max() <= LIMIT


@pytest.mark.parametrize("name", ["sin", "cos", "tanh", "erf"])
def test_what_is_bounded_by_one_never_exceeds_it(name):
    rng = np.random.default_rng(8)
    extremes = rng.integers(-300_000, 300_000, STEP) * (np.pi / 2)
    x = np.concatenate([extremes, rng.normal(size=STEP) * 5, rng.normal(size=STEP) * 1e-3]).astype(np.float32)
    z = np.zeros_like(x)

    kernel_of(name, "float32")(x, z)

    assert np.abs(z).max() <= 1


@pytest.mark.parametrize(
    ("name", "x", "expected"), [("cos", 0, 1), ("exp", 0, 1), ("tanh", 30, 1), ("erf", 30, 1), ("log", 1, 0)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_round_results_are_exact(name, x, expected, dtype):
    z = np.zeros(1, dtype)

    kernel_of(name, dtype)(np.full(1, x, dtype), z)

    assert z[0] == expected


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_huge_angles_are_given_to_the_c_library(name):
    rng = np.random.default_rng(3)

    for dtype, top in (("float32", 1e38), ("float64", 1e300)):
        x = (rng.uniform(-1, 1, 200) * top).astype(dtype)
        x[::3] = rng.uniform(-1, 1, len(x[::3]))  # fast and slow lanes side by side
        assert distances(kernel_of(name, dtype), ORACLES[name], x).max() <= LIMIT


def test_what_stands_beside_a_small_angle_changes_nothing():
    # Vectors of small angles alone take another way than those that have a larger one.
    edge = np.float32(1.5703125).view(np.int32)
    small = np.arange(edge - 1000, edge, dtype=np.int32).view(np.float32)
    small = np.concatenate(
        [small, np.linspace(0, 1.57, 1000, dtype=np.float32), np.array([1e-45, 1e-38], np.float32)]
    )
    small = np.concatenate([small, -small])
    kernel = kernel_of("sin", "float32")
    alone, beside = np.zeros_like(small), np.zeros((len(small), 2), np.float32)

    kernel(small, alone)
    for large in (2.0, -100.0, 1e7, np.inf, np.nan):
        kernel(np.stack([small, np.full_like(small, large)], axis=1).ravel(), beside.ravel())
        np.testing.assert_array_equal(beside[:, 0].view(np.int32), alone.view(np.int32))


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
    highest, place = worst(kernel_of("pow", dtype), np.power, pairs(dtype, STEP, seed=5))

    assert highest <= LIMIT, place


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
        expected = ORACLES[name](x.astype(np.float64)).astype(np.float16)
    close = np.abs(z.view(np.int16).astype(int) - expected.view(np.int16)) <= 1
    assert (close | (np.isnan(z) & np.isnan(expected))).all()
