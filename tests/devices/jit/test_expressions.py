"""Kernel bodies compute what NumPy computes, for every dtype; errors locate constructs that the language lacks."""

import numpy as np
import pytest

from aioexec.devices.jit.llvm import templates
from aioexec.graph.kernels.kernel import ElementwiseKernel
from tests.devices.jit.elementwise import ALL, INTEGERS, REALS, compiled, numbers


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_division_follows_numpy_and_c(rng, dtype):
    text = "f = x // y; m = x % y; t = truncdiv(x, y); r = truncmod(x, y)"
    kernel = compiled(text, f"x:{dtype} y:{dtype}", f"f:{dtype} m:{dtype} t:{dtype} r:{dtype}")
    x, y = numbers(rng, 500, dtype), numbers(rng, 500, dtype)
    y[::2] = y[::2] % 7
    y[y == 0] = 3
    limits = np.iinfo(dtype)
    if limits.min:
        x[:20], y[:20] = limits.min, -1
    outputs = [np.zeros_like(x) for _ in range(4)]

    assert kernel(x, y, *outputs) == 0

    with np.errstate(over="ignore"):
        floor, rest = np.floor_divide(x, y), np.mod(x, y)
    toward_zero = np.where((rest != 0) & ((x < 0) != (y < 0)), floor + 1, floor).astype(dtype)
    for got, expected in zip(outputs, (floor, rest, toward_zero, x - toward_zero * y), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("operation", ["x // y", "x % y", "truncdiv(x, y)", "truncmod(x, y)"])
@pytest.mark.parametrize("place", [0, 70, 130])
def test_a_zero_divisor_gives_status_one_and_zero_in_its_lane(operation, place):
    kernel = compiled(f"z = {operation}", "x:int32 y:int32", "z:int32")
    x, y, z = (np.full(131, value, np.int32) for value in (7, 1, 99))
    y[place] = 0

    assert kernel(x, y, z) == 1

    assert z[place] == 0
    assert (np.delete(z, place) == (0 if "%" in operation or "mod" in operation else 7)).all()


def test_lanes_behind_the_end_never_fail():
    kernel = compiled("z = x // (y - 1)", "x:int64 y:int64", "z:int64")
    x, y, z = (np.full(3, value, np.int64) for value in (9, 4, 0))

    assert kernel(x, y, z) == 0
    np.testing.assert_array_equal(z, [3, 3, 3])


def test_a_zero_divisor_in_any_row_is_reported(rng):
    kernel = compiled("z = x // y", "x:int32 y:int32", "z:int32", "vvv")
    x, y = np.ones((4, 6), np.int32), np.ones((4, 6), np.int32)
    y[1, 5] = 0

    assert kernel(x[:, :5], y[:, :5], np.zeros((4, 5), np.int32)) == 0
    assert kernel(x, y, np.zeros((4, 6), np.int32)) == 1


@pytest.mark.parametrize("dtype", REALS)
def test_real_division_and_remainder(rng, dtype):
    text = "f = x // y; m = x % y; t = truncdiv(x, y); r = truncmod(x, y)"
    kernel = compiled(text, f"x:{dtype} y:{dtype}", f"f:{dtype} m:{dtype} t:{dtype} r:{dtype}")
    special = np.array([0.0, -0.0, 1.0, -1.0, 5.5, np.inf, -np.inf, np.nan, 3e30, 1e-30], dtype)
    wide = rng.normal(size=400) * 10 ** rng.uniform(-3, 12, 400)
    x = np.concatenate([np.repeat(special, len(special)), wide.astype(dtype)])
    y = np.concatenate([np.tile(special, len(special)), numbers(rng, 400, dtype)])
    outputs = [np.zeros_like(x) for _ in range(4)]

    assert kernel(x, y, *outputs) == 0

    with np.errstate(all="ignore"):
        rest = np.fmod(x, y)
        modulus = np.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
        expected = (np.floor(x / y), modulus, np.trunc(x / y), rest)
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_integer_powers_wrap_and_refuse_negative_exponents(rng, dtype):
    kernel = compiled("z = pow(x, y)", f"x:{dtype} y:{dtype}", f"z:{dtype}")
    x, y = numbers(rng, 100, dtype), rng.integers(0, 70, 100).astype(dtype)
    z = np.zeros_like(x)

    assert kernel(x, y, z) == 0
    np.testing.assert_array_equal(z, x**y)

    if dtype != "uint8":
        y[42] = -1
        assert kernel(x, y, z) == 1
        assert z[42] == 0


@pytest.mark.parametrize("dtype", [*INTEGERS, *REALS])
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons_give_bools(rng, dtype, sign):
    kernel = compiled(f"z = x {sign} y", f"x:{dtype} y:{dtype}", "z:bool")
    x, y = numbers(rng, 90, dtype), numbers(rng, 90, dtype)
    y[::3] = x[::3]
    if dtype in REALS:
        x[:20], y[10:30] = np.nan, np.nan
    z = np.full(90, True)

    kernel(x, y, z)

    expected = {"<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y, "==": x == y, "!=": x != y}[sign]
    np.testing.assert_array_equal(z.view(np.uint8), expected.view(np.uint8))


def test_bools_combine_and_choose(rng):
    kernel = compiled(
        "u = a & ~b | (a != b); z = where(u, x, -1); w = u ^ True",
        "a:bool b:bool x:float64",
        "z:float64 w:bool",
    )
    a, b, x = (numbers(rng, 130, dtype) for dtype in ("bool", "bool", "float64"))
    z, w = np.zeros(130), np.zeros(130, bool)

    kernel(a, b, x, z, w)

    chosen = a & ~b | (a != b)
    np.testing.assert_array_equal(z, np.where(chosen, x, -1))
    np.testing.assert_array_equal(w, ~chosen)


@pytest.mark.parametrize("dtype", [*INTEGERS, *REALS])
def test_extremes_and_sizes(rng, dtype):
    text = (
        "a = minimum(x, y); b = maximum(x, y); c = maximum(x, 3); d = minimum(3, x); e = abs(x); f = sign(x)"
    )
    kernel = compiled(text, f"x:{dtype} y:{dtype}", " ".join(f"{name}:{dtype}" for name in "abcdef"))
    x, y = numbers(rng, 90, dtype), numbers(rng, 90, dtype)
    if dtype in REALS:
        x[:20], y[10:30] = np.nan, np.nan
    outputs = [np.zeros_like(x) for _ in range(6)]

    kernel(x, y, *outputs)

    three = np.dtype(dtype).type(3)
    expected = (
        np.minimum(x, y),
        np.maximum(x, y),
        np.maximum(x, three),
        np.minimum(three, x),
        np.abs(x),
        np.sign(x),
    )
    for got, want in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", REALS)
def test_roundings_and_classes(rng, dtype):
    text = (
        "a = floor(x); b = ceil(x); c = trunc(x); d = rint(x); e = is_nan(x); f = is_inf(x); g = is_finite(x); "
        "h = fma(x, x, 0.1); i = copysign(2.0, x)"
    )
    names = " ".join(
        [*(f"{name}:{dtype}" for name in "abcd"), "e:bool f:bool g:bool", f"h:{dtype} i:{dtype}"]
    )
    kernel = compiled(text, f"x:{dtype}", names)
    special = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -2.5, 1e30, np.inf, -np.inf, np.nan]
    x = np.concatenate([special, rng.normal(size=60) * 10]).astype(dtype)
    outputs = [np.zeros_like(x, dtype=bool if name in "efg" else None) for name in "abcdefghi"]

    kernel(x, *outputs)

    expected = [np.floor(x), np.ceil(x), np.trunc(x), np.rint(x), np.isnan(x), np.isinf(x), np.isfinite(x)]
    for got, want in zip(outputs, expected, strict=False):
        np.testing.assert_array_equal(got, want)
    with np.errstate(all="ignore"):
        wide = x.astype(np.longdouble)
        np.testing.assert_array_equal(outputs[7], (wide * wide + x.dtype.type(0.1)).astype(dtype))
    np.testing.assert_array_equal(outputs[8], np.copysign(x.dtype.type(2), x))


@pytest.mark.parametrize("source", ALL)
def test_casts_to_every_dtype(rng, source):
    targets = [target for target in ALL if target != source]
    body = "; ".join(f'z{k} = cast(x, "{target}")' for k, target in enumerate(targets))
    outputs = " ".join(f"z{k}:{target}" for k, target in enumerate(targets))
    kernel = compiled(body, f"x:{source}", outputs)
    x = rng.integers(0, 2 if source == "bool" else 100, 70).astype(source)
    if np.dtype(source).kind == "f":
        x += np.dtype(source).type(0.75)
    results = [np.zeros(70, target) for target in targets]

    kernel(x, *results)

    for target, result in zip(targets, results, strict=True):
        np.testing.assert_array_equal(result, x.astype(target))


def test_casts_of_integers_wrap_and_casts_of_reals_saturate():
    wrap = compiled('z = cast(x, "int8")', "x:int32", "z:int8")
    saturate = compiled('z = cast(x, "int32"); w = cast(x, "bool")', "x:float32", "z:int32 w:bool")
    x, z = np.array([200, -129, 1 << 20, -1], np.int32), np.zeros(4, np.int8)
    y, w, b = np.array([np.nan, np.inf, -1e20, -2.9], np.float32), np.zeros(4, np.int32), np.zeros(4, bool)

    wrap(x, z)
    saturate(y, w, b)

    np.testing.assert_array_equal(z, x.astype(np.int8))
    np.testing.assert_array_equal(w, [0, 2**31 - 1, -(2**31), -2])
    assert b.all()


def test_bfloat16_rounds_each_result(rng):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    kernel = compiled(
        'z = x * y + 0.1; w = exp(x); v = cast(x, "float32")',
        "x:bfloat16 y:bfloat16",
        "z:bfloat16 w:bfloat16 v:float32",
    )
    x, y = (rng.normal(size=200).astype(bfloat16) for _ in range(2))
    x[3] = np.nan
    z, w, v = np.zeros_like(x), np.zeros_like(x), np.zeros(200, np.float32)

    kernel(x, y, z, w, v)

    np.testing.assert_array_equal(z.astype(np.float32), (x * y + bfloat16(0.1)).astype(np.float32))
    np.testing.assert_array_equal(v, x.astype(np.float32))
    expected = np.exp(v.astype(np.float64)).astype(np.float32).astype(bfloat16)
    np.testing.assert_array_equal(w.astype(np.float32), expected.astype(np.float32))


@pytest.mark.parametrize(
    ("shift", "count"), [("x << 3", None), ("x >> 3", None), ("x << y", 1), ("x >> y", 1)]
)
def test_shifts_beyond_the_width_shift_everything_out(rng, shift, count):
    kernel = compiled(f"z = {shift}", "x:int32 y:int32", "z:int32")
    x, y = numbers(rng, 80, "int32"), rng.integers(0, 50, 80).astype(np.int32)
    z = np.zeros_like(x)

    kernel(x, y, z)

    by = y if count else 3
    np.testing.assert_array_equal(z, np.left_shift(x, by) if "<<" in shift else np.right_shift(x, by))


def test_literals_take_the_dtype_beside_them_and_fold():
    kernel = compiled("z = x * (2 * 3 - 1) + 1; w = -inf", "x:float32", "z:float32 w:float32")
    x = np.array([1.5, -2.0], np.float32)
    z, w = np.zeros_like(x), np.zeros_like(x)

    kernel(x, z, w)

    np.testing.assert_array_equal(z, [8.5, -9.0])
    np.testing.assert_array_equal(w, [-np.inf, -np.inf])


def test_a_kernel_without_inputs_fills():
    kernel = compiled("y = 3", "", "y:int64")
    y = np.zeros(21, np.int64)

    kernel(y)

    assert (y == 3).all()


# Errors


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("z = x + q", "unknown name 'q'.*column 8"),
        ("z = frob(x)", "unknown function 'frob'"),
        ("z = x + i", "different dtypes.*float32.*int32"),
        ("z = x[0]", "Subscript is not part of the language"),
        ("z = 0 < x < 1", "Compare is not part of the language"),
        ("z = where(x, x, x)", "expected a bool"),
        ("z = i / i", "expected floats"),
        ("z = i * 1.5", "literal 1.5 where int32 is expected"),
        ("z = sqrt(x, x)", "takes 1 operands, got 2"),
        ("z = exp(x, x)", "takes 1 operands, got 2"),
        ("z = exp(i)", "not defined for"),
        ("z = x > 1", "output 'z' is bool, expected float32"),
        ("w = x", "output 'z' is never assigned"),
        ("x", "expected 'name = expression'"),
        ("z = (x", "was never closed"),
        ('z = cast(x, "complex64")', "unknown dtype 'complex64'"),
        ("t = 1; z = x", "'t' is only a literal"),
        ('z = otherwise("sin", x, x > 1)', "expected 'otherwise"),
    ],
)
def test_a_body_outside_the_language_is_refused_with_its_place(body, complaint):
    kernel = ElementwiseKernel(body, (("x", "float32"), ("i", "int32")), (("z", "float32"),), "vvv")

    with pytest.raises(templates.BodyError, match=complaint) as caught:
        templates.emit(kernel, "kernel")

    assert repr(body) in str(caught.value)


def test_a_pattern_must_fit_the_operands():
    kernel = ElementwiseKernel("z = x", (("x", "float32"),), (("z", "float32"),), "v")

    with pytest.raises(templates.BodyError, match="bad dtypes or pattern 'v'"):
        templates.emit(kernel, "kernel")
