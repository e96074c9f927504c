"""Distributions: what follows from what a subclass defines, divergences by class, copies, and samples of the right moments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import aioexec as ax
from aioexec.errors import GraphTypeError, GraphValueError, InvalidArgumentError


@pytest.fixture(autouse=True)
def graph() -> Any:
    with ax.Graph().as_default() as graph:
        yield graph


async def run(*fetches: Any) -> Any:
    async with ax.Session() as session:
        return await session.run(list(fetches))


class Triangle(ax.distributions.Distribution):
    """The density 2 x over (0, 1), with what needs no more than that."""

    def __init__(self, name: str = "Triangle") -> None:
        kind = ax.distributions.NOT_REPARAMETERIZED
        super().__init__(ax.float32, kind, False, True, {"name": name}, [], name)

    def _prob(self, value: Any) -> Any:
        return 2.0 * value

    def _cdf(self, value: Any) -> Any:
        return value * value

    def _variance(self) -> Any:
        return ax.constant(1 / 18)


async def test_what_a_subclass_leaves_out_follows_from_what_it_defines():
    triangle = Triangle()

    log_prob, log_cdf, survival, log_survival, stddev = await run(
        triangle.log_prob(0.5),
        triangle.log_cdf(0.5),
        triangle.survival_function(0.5),
        triangle.log_survival_function(0.5),
        triangle.stddev(),
    )

    assert log_prob == pytest.approx(0.0)
    assert log_cdf == pytest.approx(math.log(0.25))
    assert survival == pytest.approx(0.75)
    assert log_survival == pytest.approx(math.log(0.75))
    assert stddev == pytest.approx(math.sqrt(1 / 18))


def test_what_does_not_follow_is_not_implemented():
    triangle = Triangle()

    for method in (triangle.mean, triangle.entropy, triangle.mode, triangle.covariance):
        with pytest.raises(NotImplementedError, match="is not implemented: Triangle"):
            method()
    with pytest.raises(NotImplementedError, match="quantile"):
        triangle.quantile(0.5)
    with pytest.raises(NotImplementedError, match="sample_n"):
        triangle.sample()


async def test_the_nodes_of_a_distribution_are_in_its_scope():
    first, second = ax.distributions.Normal(0.0, 1.0), ax.distributions.Normal(0.0, 1.0)

    assert (first.name, second.name) == ("Normal/", "Normal_1/")
    assert first.log_prob(1.0).name.startswith("Normal/log_prob/")
    assert second.sample(name="drawn").name.startswith("Normal_1/drawn/")


async def test_a_density_of_the_normal_distribution():
    normal = ax.distributions.Normal([0.0, 1.0], 2.0)

    log_prob, entropy, median = await run(normal.log_prob(1.0), normal.entropy(), normal.quantile(0.5))

    constant = -math.log(2.0) - 0.5 * math.log(2 * math.pi)
    np.testing.assert_allclose(log_prob, [constant - 0.125, constant], rtol=1e-6)
    np.testing.assert_allclose(entropy, [0.5 + 0.5 * math.log(2 * math.pi) + math.log(2.0)] * 2, rtol=1e-6)
    np.testing.assert_allclose(median, [0.0, 1.0], atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("Normal", {"loc": 1.0, "scale": 2.0}),
        ("Laplace", {"loc": 1.0, "scale": 0.5}),
        ("StudentT", {"df": 9.0, "loc": 1.0, "scale": 0.5}),
        ("Uniform", {"low": -1.0, "high": 3.0}),
        ("Gamma", {"concentration": 3.0, "rate": 2.0}),
        ("Exponential", {"rate": 2.0}),
        ("Beta", {"concentration1": 2.0, "concentration0": 3.0}),
        ("Bernoulli", {"probs": 0.3, "dtype": "float32"}),
        ("Multinomial", {"total_count": 4.0, "probs": [0.2, 0.5, 0.3]}),
        ("Dirichlet", {"concentration": [1.0, 2.0, 3.0]}),
        ("DirichletMultinomial", {"total_count": 4.0, "concentration": [1.0, 2.0, 3.0]}),
    ],
)
async def test_samples_have_the_moments_of_the_distribution(kind: str, arguments: dict[str, Any]):
    made = getattr(ax.distributions, kind)(**arguments)

    samples, mean, variance = await run(made.sample(20_000, seed=1), made.mean(), made.variance())

    np.testing.assert_allclose(samples.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(samples.var(axis=0), variance, rtol=0.1, atol=0.02)


async def test_samples_of_classes_have_their_probabilities():
    classes = ax.distributions.Categorical(probs=[[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])

    (samples,) = await run(classes.sample(20_000, seed=1))

    counts = np.stack([np.bincount(column, minlength=3) for column in samples.T]) / len(samples)
    np.testing.assert_allclose(counts, [[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]], atol=0.02)


async def test_a_divergence_is_found_by_the_nearest_classes():
    class Special(ax.distributions.Normal):
        pass

    class Other(ax.distributions.Normal):
        pass

    @ax.distributions.RegisterKL(Special, ax.distributions.Normal)
    def special(a: Any, b: Any, name: str | None = None) -> Any:
        return ax.constant(7.0)

    values = await run(
        ax.distributions.kl_divergence(Special(0.0, 1.0), Other(0.0, 1.0)),
        ax.distributions.kl_divergence(Other(0.0, 1.0), Special(1.0, 1.0)),
    )

    assert values == [7.0, 0.5]
    with pytest.raises(GraphValueError, match="already been registered"):
        ax.distributions.RegisterKL(Special, ax.distributions.Normal)(special)
    with pytest.raises(GraphTypeError, match="callable"):
        ax.distributions.RegisterKL(Other, Other)(None)  # type: ignore[arg-type]


async def test_a_divergence_that_is_not_a_number_may_be_an_error():
    first, second = ax.distributions.Normal(np.float32("nan"), 1.0), ax.distributions.Normal(0.0, 1.0)

    with pytest.raises(NotImplementedError, match="Triangle and distribution_b type Normal"):
        ax.distributions.kl_divergence(Triangle(), second)
    with pytest.raises(InvalidArgumentError, match="NaN"):
        await run(ax.distributions.kl_divergence(first, second, allow_nan_stats=False))


def test_a_copy_has_the_other_arguments_of_the_original():
    made = ax.distributions.Uniform(1.0, [2.0, 3.0], validate_args=True, name="own")

    copied = made.copy(low=0.0)

    assert copied.parameters == {**made.parameters, "low": 0.0}
    assert (copied.batch_shape.as_list(), copied.event_shape.as_list()) == ([2], [])
    assert copied.reparameterization_type is ax.distributions.FULLY_REPARAMETERIZED
    assert (copied.dtype, copied.validate_args, copied.allow_nan_stats) == (ax.float32, True, True)
    assert str(made) == 'tfp.distributions.Uniform("own/", batch_shape=(2,), event_shape=(), dtype=float32)'


async def test_the_shapes_of_parameters_are_those_of_samples():
    static = ax.distributions.Normal.param_static_shapes([2, 3])
    (dynamic,) = await run(ax.distributions.Normal.param_shapes([2, 3])["scale"])

    assert {name: shape.as_list() for name, shape in static.items()} == {"loc": [2, 3], "scale": [2, 3]}
    assert dynamic.tolist() == [2, 3]
    with pytest.raises(GraphValueError, match="fully defined"):
        ax.distributions.Normal.param_static_shapes([None, 3])


def test_graph_parents_are_tensors():
    kind = ax.distributions.NOT_REPARAMETERIZED
    with pytest.raises(GraphValueError, match="item 0"):
        ax.distributions.Distribution(ax.float32, kind, False, True, graph_parents=[1.0])
