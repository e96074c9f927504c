"""Initializers: values, distributions, configurations."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from aioexec.graph.graph import Graph
from aioexec.ops.state import initializers
from tests.ops.evaluate import evaluate

SHAPE = [30, 40]
MANY = [200, 100]

ALL: list[Any] = [
    initializers.Zeros(),
    initializers.Ones(dtype="float64"),
    initializers.Constant(2.5),
    initializers.RandomUniform(-1.0, 1.0, seed=1),
    initializers.RandomNormal(1.0, 2.0, seed=1),
    initializers.TruncatedNormal(1.0, 2.0, seed=1),
    initializers.UniformUnitScaling(2.0, seed=1),
    initializers.VarianceScaling(2.0, "fan_out", "uniform", seed=1),
    initializers.Identity(3.0),
    initializers.GlorotUniform(seed=1),
    initializers.GlorotNormal(seed=1),
    initializers.he_normal(seed=1),
]
EACH = pytest.mark.parametrize("initializer", ALL, ids=lambda item: type(item).__name__)


@pytest.fixture(autouse=True)
def graph():
    with Graph().as_default() as graph:
        yield graph


@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_values_have_the_shape_and_dtype_asked_for(initializer, dtype):
    value = evaluate(initializer(SHAPE, dtype=dtype))

    assert value.shape == tuple(SHAPE)
    assert value.dtype.name == dtype


@EACH
def test_the_dtype_it_was_made_with_is_the_default(initializer):
    assert initializer(SHAPE).dtype == initializer.dtype


@EACH
def test_an_initializer_made_from_a_configuration_is_like_the_first(initializer):
    config = initializer.get_config()

    again = type(initializer).from_config(config)

    assert again.get_config() == config
    np.testing.assert_array_equal(evaluate(again(SHAPE)), evaluate(initializer(SHAPE)))


def test_constants_are_what_they_say():
    np.testing.assert_array_equal(evaluate(initializers.Zeros()([2, 2])), np.zeros((2, 2)))
    np.testing.assert_array_equal(evaluate(initializers.Ones()([2, 2], "int32")), np.ones((2, 2)))
    np.testing.assert_array_equal(evaluate(initializers.Constant(3)([2])), [3, 3])
    np.testing.assert_array_equal(evaluate(initializers.Constant([1, 2])([2, 2])), [[1, 2], [2, 2]])
    np.testing.assert_array_equal(evaluate(initializers.Identity(2.0)([2, 3])), 2 * np.eye(2, 3))


def test_zeros_are_zero_in_every_dtype():
    assert evaluate(initializers.Zeros()([1], "string")).tolist() == [b""]
    assert evaluate(initializers.Zeros()([1], "bool")).tolist() == [False]


@pytest.mark.parametrize(
    ("initializer", "low", "high", "mean", "deviation"),
    [
        (initializers.RandomUniform(-1.0, 3.0, seed=2), -1, 3, 1, 4 / np.sqrt(12)),
        (initializers.RandomNormal(1.0, 2.0, seed=2), -np.inf, np.inf, 1, 2),
        (initializers.TruncatedNormal(1.0, 2.0, seed=2), -3, 5, 1, 2 * 0.8796),
        (initializers.UniformUnitScaling(seed=2), -np.sqrt(3 / 200), np.sqrt(3 / 200), 0, np.sqrt(1 / 200)),
        (initializers.GlorotUniform(seed=2), -np.sqrt(6 / 300), np.sqrt(6 / 300), 0, np.sqrt(2 / 300)),
        (initializers.GlorotNormal(seed=2), -np.inf, np.inf, 0, np.sqrt(2 / 300)),
        (initializers.he_uniform(seed=2), -np.sqrt(6 / 200), np.sqrt(6 / 200), 0, np.sqrt(2 / 200)),
        (initializers.he_normal(seed=2), -np.inf, np.inf, 0, np.sqrt(2 / 200)),
        (initializers.lecun_uniform(seed=2), -np.sqrt(3 / 200), np.sqrt(3 / 200), 0, np.sqrt(1 / 200)),
        (initializers.lecun_normal(seed=2), -np.inf, np.inf, 0, np.sqrt(1 / 200)),
        (
            initializers.VarianceScaling(3.0, "fan_out", "untruncated_normal", 2),
            -np.inf,
            np.inf,
            0,
            np.sqrt(0.03),
        ),
    ],
)
def test_random_values_are_distributed_as_they_say(initializer, low, high, mean, deviation):
    drawn = evaluate(initializer(MANY, "float64"))

    assert low <= drawn.min() < drawn.max() <= high
    assert drawn.mean() == pytest.approx(mean, abs=0.05 * deviation)
    assert drawn.std() == pytest.approx(deviation, rel=0.03)


@pytest.mark.parametrize(
    ("dims", "expected"), [([], (1, 1)), ([7], (7, 7)), ([3, 5], (3, 5)), ([2, 3, 5, 7], (30, 42))]
)
def test_fans_count_inputs_and_outputs_of_a_unit(dims, expected):
    assert initializers.fans(dims) == expected


def test_a_part_is_scaled_as_the_whole():
    whole = SimpleNamespace(full_shape=[600, 2])

    drawn = evaluate(
        initializers.VarianceScaling(3.0, seed=1, distribution="uniform")([6, 2], partition_info=whole)
    )

    assert np.abs(drawn).max() <= np.sqrt(9 / 600)


def test_the_same_seed_draws_the_same_numbers():
    one, other, third = (evaluate(initializers.RandomUniform(seed=seed)(SHAPE)) for seed in (5, 5, 6))

    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="scale must be positive, got -1"):
        initializers.VarianceScaling(-1)
    with pytest.raises(ValueError, match="mode"):
        initializers.VarianceScaling(mode="fan")
    with pytest.raises(ValueError, match="distribution"):
        initializers.VarianceScaling(distribution="cauchy")
    with pytest.raises(ValueError, match="floating"):
        initializers.RandomNormal(dtype="int32")
    with pytest.raises(TypeError, match="expected a number"):
        initializers.Constant(object())
    with pytest.raises(ValueError, match="only matrices"):
        initializers.Identity()([2, 2, 2])
    with pytest.raises(ValueError, match="fully defined"):
        initializers.GlorotUniform()([None, 2])
    with pytest.raises(TypeError, match="shape"):
        initializers.Constant([1, 2], verify_shape=True)([2, 2])


def test_tensorflows_names_are_there():
    assert initializers.zeros_initializer is initializers.Zeros
    assert initializers.random_normal_initializer is initializers.RandomNormal
    assert initializers.glorot_uniform_initializer is initializers.GlorotUniform
    assert initializers.variance_scaling_initializer is initializers.VarianceScaling


@pytest.mark.parametrize("shape", [[6, 4], [4, 6], [2, 3, 4]])
def test_an_orthogonal_matrix_is_orthogonal(shape: list[int]):
    value = evaluate(initializers.Orthogonal(2.0, seed=1)(shape))

    matrix = value.reshape(-1, shape[-1])
    product = matrix.T @ matrix if len(matrix) >= shape[-1] else matrix @ matrix.T
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-5)


def test_an_orthogonal_matrix_has_two_axes():
    with pytest.raises(ValueError, match="must be at least two-dimensional"):
        initializers.Orthogonal()([4])


def test_an_orthogonal_initializer_has_its_arguments_as_configuration():
    initializer = initializers.Orthogonal(2.0, seed=1, dtype="float64")

    assert initializer.get_config() == {"gain": 2.0, "seed": 1, "dtype": "float64"}
    again = initializers.Orthogonal.from_config(initializer.get_config())
    assert again.get_config() == initializer.get_config()
