"""Arithmetic through Python operators and functions: dtypes, names, broadcasting, errors."""

from __future__ import annotations

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError
from aioexec.graph.kernels.kernel import ElementwiseKernel, Launches, Spec
from aioexec.graph.registry import lookup
from tests.ops.evaluate import evaluate

X = np.array([[7.5, -7.5, 3.0], [2.5, -0.5, 1.5]], np.float32)
Y = np.array([[2.0, -2.0, -0.7], [0.5, 3.0, -1.5]], np.float32)
INTEGERS = np.array([7, -7, 7, -7], np.int32)
J = np.array([2, 2, -3, -3], np.int32)


@pytest.fixture(autouse=True)
def graph():
    with ax.Graph().as_default() as made:
        yield made


def test_operators_compute_and_name_their_nodes():
    x, y = ax.constant(X), ax.constant(Y)

    results = {
        "add": x + y,
        "sub": x - y,
        "mul": x * y,
        "truediv": x / y,
        "floordiv": x // y,
        "mod": x % y,
        "Neg": -x,
    }

    assert [tensor.op.name for tensor in results.values()] == list(results)
    for tensor, expected in zip(
        results.values(), (X + Y, X - Y, X * Y, X / Y, np.floor(X / Y), np.mod(X, Y), -X), strict=True
    ):
        np.testing.assert_allclose(evaluate(tensor), expected, rtol=1e-6, atol=1e-6)


def test_a_python_number_takes_the_dtype_of_the_tensor_on_either_side():
    x = ax.constant(X, ax.float64)

    assert (2 - x).dtype == ax.float64
    np.testing.assert_allclose(evaluate(2 - x), 2 - X)
    np.testing.assert_allclose(evaluate(2 / x), 2 / X.astype(np.float64))


def test_integers_divide_down_truly_and_towards_zero():
    i, j = ax.constant(INTEGERS), ax.constant(J)

    assert evaluate(i // j).tolist() == [3, -4, -3, 2]
    assert evaluate(i % j).tolist() == [1, 1, -2, -1]
    assert evaluate(ax.truncatediv(i, j)).tolist() == [3, -3, -2, 2]
    assert evaluate(ax.truncatemod(i, j)).tolist() == [1, -1, 1, -1]
    assert (i / j).dtype == ax.float64
    np.testing.assert_allclose(evaluate(i / j), INTEGERS / J)


def test_tensors_of_different_dtypes_do_not_mix():
    with pytest.raises(GraphTypeError, match="float32"):
        ax.constant(X) + ax.constant(INTEGERS)


def test_shapes_that_do_not_broadcast_are_refused_while_building():
    with pytest.raises(GraphValueError, match=r"\(2, 3\).*\(4,\)"):
        ax.constant(X) + ax.constant([1.0, 2.0, 3.0, 4.0])


def test_shapes_that_do_not_broadcast_are_found_at_run_time_too():
    x = ax.placeholder(ax.float32)

    with pytest.raises(InvalidArgumentError, match=r"Incompatible shapes: \[2,3\] vs. \[4\]"):
        evaluate(ax.constant(X) + x, {x: np.zeros(4, np.float32)})


def test_comparisons_and_logic_through_operators():
    x, y = ax.constant(X), ax.constant(Y)

    assert (evaluate((x < y) | ~(x > 0.0)) == ((X < Y) | ~(X > 0))).all()
    assert (evaluate((x <= y) & (x >= 0.0)) == ((X <= Y) & (X >= 0))).all()
    assert (evaluate((x <= y) ^ (x >= 0.0)) == ((X <= Y) ^ (X >= 0))).all()


def test_equality_of_tensors_is_identity():
    x = ax.constant(X)

    assert x == x
    assert x != ax.constant(X)


def test_where_chooses_and_finds():
    x, y = ax.constant(X), ax.constant(Y)

    np.testing.assert_array_equal(evaluate(ax.where(x > 0.0, x, y)), np.where(X > 0, X, Y))
    np.testing.assert_array_equal(evaluate(ax.where(x > 0.0)), np.argwhere(X > 0))
    with pytest.raises(GraphValueError, match="both"):
        ax.where(x > 0.0, x)


def test_casting_to_the_same_dtype_is_the_same_tensor():
    x = ax.constant(X)

    assert ax.cast(x, ax.float32) is x
    assert evaluate(ax.cast(x, ax.int32)).tolist() == [[7, -7, 3], [2, 0, 1]]
    assert evaluate(ax.to_float(ax.constant(INTEGERS))).dtype == np.float32


def test_saturate_cast_moves_what_does_not_fit():
    assert evaluate(ax.saturate_cast(ax.constant([300.0, -5.0, 7.9]), ax.uint8)).tolist() == [255, 0, 7]


def test_clip_by_value_keeps_the_static_shape():
    clipped = ax.clip_by_value(ax.constant(X), -1.0, 2.0)

    np.testing.assert_array_equal(evaluate(clipped), np.clip(X, -1, 2))
    assert clipped.shape == (2, 3)


def test_add_n_of_nothing_is_refused():
    with pytest.raises(GraphValueError, match="non-empty"):
        ax.add_n([])


def test_division_by_zero_of_integers_is_an_error_and_of_floats_is_not():
    with pytest.raises(InvalidArgumentError, match="division by zero"):
        evaluate(ax.constant(INTEGERS) // ax.placeholder_with_default(np.int32(0), []))

    assert np.isinf(evaluate(ax.constant([1.0]) / ax.constant([0.0]))).all()


def test_division_by_zero_without_nan():
    assert evaluate(ax.div_no_nan(ax.constant([1.0, 3.0]), ax.constant([0.0, 2.0]))).tolist() == [0.0, 1.5]


def test_a_name_scope_holds_the_constants_of_an_operation():
    total = ax.add(ax.constant(X), 1.0, name="total")

    assert total.op.name == "total"
    assert total.op.inputs[1].op.name == "total/y"


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("function", [ax.sqrt, ax.rsqrt, ax.reciprocal])
async def test_an_infinite_slope_times_nothing_is_nothing(function, jit, graph):
    x = ax.placeholder(ax.float32, [2])
    (gradient,) = ax.gradients(function(x) * [0.0, 1.0], x)
    config = ax.ConfigProto()
    config.aioexec.jit = jit
    with np.errstate(divide="ignore"):
        async with ax.Session(graph=graph, config=config) as session:
            found = await session.run(gradient, {x: [0, 4]})

    assert found[0] == 0
    assert np.isfinite(found[1])


@pytest.mark.parametrize(("exponent", "multiplies"), [(2.0, True), (3.0, True), (0.5, False), (-1.0, False)])
def test_small_whole_powers_are_products_where_the_exponent_is_constant(exponent: float, multiplies: bool):
    native = lookup("Pow").native
    assert native is not None
    x, power = Spec(X.dtype, X.shape), np.array(exponent, np.float32)

    known = native.bind({}, [x, Spec(power.dtype, (), power)], [x])
    unknown = native.bind({}, [x, Spec(power.dtype, ())], [x])

    assert [is_product(each) for each in (known, unknown)] == [multiplies, False]


def is_product(bound: object) -> bool:
    assert isinstance(bound, Launches)
    (row,) = bound.rows
    assert isinstance(row.kernel, ElementwiseKernel)
    return "pow" not in row.kernel.body


async def test_a_cube_is_as_exact_as_two_products():
    x = ax.placeholder(ax.float32, [6])
    values = np.array([-2.5, 0.1, 3.0, -1e12, np.inf, np.nan], np.float32)
    config = ax.ConfigProto()
    config.aioexec.jit = "eager"

    async with ax.Session(config=config) as session:
        cubes = await session.run(x**3.0, {x: values})

    exact = (values[:4].astype(np.float64) ** 3).astype(np.float32)
    np.testing.assert_array_almost_equal_nulp(cubes[:4], exact, 2)
    np.testing.assert_array_equal(cubes[4:], [np.inf, np.nan])
