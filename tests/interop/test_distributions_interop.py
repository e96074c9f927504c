"""Distributions against TensorFlow's: samples, densities, statistics, divergences, gradients, static shapes and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.interop.building import Builder, Built, values
from tests.interop.train.engines import compare, table

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning"),
]

ROWS, add = table()
ERRORS, add_error = table()


HEIGHTS = values(1, 2, 3, low=-2.0, high=2.0)
WIDTHS = values(2, 3, low=0.3, high=2.0)
SIZES, OTHERS = values(3, 2, 3, low=0.5, high=4.0), values(4, 3, low=0.5, high=4.0)
ODDS = values(5, 2, 4, low=-2.0, high=2.0)
SHARES = np.exp(ODDS) / np.exp(ODDS).sum(axis=1, keepdims=True)
COUNTS = np.array([5.0, 3.0], np.float32)

NUMBERS, POSITIVE, FRACTIONS = (
    values(6, 4, 2, 3, low=-3.0, high=3.0),
    SIZES[None] * 0.7,
    values(7, 4, 2, 3, low=0.05, high=0.95),
)
BITS = (NUMBERS > 0).astype(np.int32)
CLASSES = np.array([[0, 3], [2, 1], [1, 1]], np.int32)
TALLIES = np.array([[2, 0, 1, 2], [1, 1, 1, 0]], np.float32)
SIMPLEX = np.abs(values(8, 3, 2, 3)) + 0.1
SIMPLEX /= SIMPLEX.sum(axis=-1, keepdims=True)

KINDS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "Normal": (
        {"loc": HEIGHTS, "scale": WIDTHS},
        NUMBERS,
        "cdf log_cdf survival_function log_survival_function entropy mean variance stddev mode",
    ),
    "Laplace": (
        {"loc": HEIGHTS, "scale": WIDTHS},
        NUMBERS,
        "cdf log_cdf survival_function log_survival_function entropy mean variance stddev mode",
    ),
    "StudentT": (
        {"df": SIZES, "loc": HEIGHTS, "scale": WIDTHS},
        NUMBERS,
        "entropy mean variance stddev mode",
    ),
    "Uniform": (
        {"low": HEIGHTS, "high": HEIGHTS + WIDTHS},
        NUMBERS,
        "cdf log_cdf survival_function entropy mean variance stddev",
    ),
    "Gamma": (
        {"concentration": SIZES, "rate": OTHERS},
        POSITIVE,
        "cdf log_cdf survival_function entropy mean variance stddev mode",
    ),
    "Exponential": (
        {"rate": OTHERS},
        POSITIVE,
        "cdf log_survival_function entropy mean variance stddev mode",
    ),
    "Beta": (
        {"concentration1": SIZES, "concentration0": OTHERS},
        FRACTIONS,
        "entropy mean variance stddev mode",
    ),
    "Bernoulli": ({"logits": HEIGHTS}, BITS, "entropy mean variance stddev mode"),
    "Categorical": ({"logits": ODDS}, CLASSES, "cdf entropy mode"),
    # In a batch, TensorFlow may draw for the last element first: samples are compared of one distribution only.
    "Multinomial": ({"total_count": COUNTS, "logits": ODDS}, TALLIES, "mean variance stddev covariance"),
    "Dirichlet": ({"concentration": SIZES}, SIMPLEX, "entropy mean variance stddev covariance"),
    "DirichletMultinomial": (
        {"total_count": np.float32(5.0), "concentration": np.abs(ODDS) + 0.5},
        TALLIES,
        "mean variance stddev covariance",
    ),
}
OF_VALUES = ["cdf", "log_cdf", "survival_function", "log_survival_function"]


def distribution(
    tf: Any, kind: str, known: bool = True, **options: Any
) -> tuple[Any, dict[Any, Any], list[Any]]:
    """A distribution, a feed for its parameters, and the parameters."""
    parameters, _, _ = KINDS[kind]
    fed = {
        name: tf.placeholder(value.dtype.name, value.shape if known else [None] * value.ndim)
        for name, value in parameters.items()
    }
    made = getattr(tf.distributions, kind)(**fed, **options)
    return made, {fed[name]: value for name, value in parameters.items()}, list(fed.values())


def program(kind: str, make: Callable[[Any, Any], Any], slopes: bool = True, **options: Any) -> Builder:
    def build(tf: Any) -> Built:
        made, feed, parameters = distribution(tf, kind, **options)
        outputs = make(tf, made)
        outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        floats = [each for each in outputs if each.dtype.is_floating]
        if floats and slopes:
            found = tf.gradients([tf.sin(each) for each in floats], parameters)
            outputs += [each for each in found if each is not None]
        return Built(outputs, [feed] * 2)

    return build


def of_value(method: str, value: Any) -> Callable[[Any, Any], Any]:
    return lambda tf, made: getattr(made, method)(value)


def statistic(method: str) -> Callable[[Any, Any], Any]:
    return lambda tf, made: getattr(made, method)()


def drawn(count: Any) -> Callable[[Any, Any], Any]:
    return lambda tf, made: made.sample(count, seed=7)


for kind, (_, value, methods) in KINDS.items():
    for method in ("log_prob", "prob", *methods.split()):
        make = of_value(method, value) if method in ("log_prob", "prob", *OF_VALUES) else statistic(method)
        smooth = kind not in ("Gamma", "Exponential") or method not in ("cdf", "log_cdf", "survival_function")
        smooth = smooth and method != "covariance"
        add(f"{kind}.{method}", program(kind, make, slopes=smooth))
        if method in ("log_prob", "mean"):
            add(f"{kind}.{method} of unknown shape", program(kind, make, known=False))
            if kind != "Categorical":
                add(f"{kind}.{method} validated", program(kind, make, slopes=False, validate_args=True))
    add(
        f"{kind} shapes",
        program(
            kind,
            lambda tf, made: [
                made.batch_shape_tensor(),
                made.event_shape_tensor(),
                made.is_scalar_batch(),
                made.is_scalar_event(),
            ],
            known=False,
        ),
    )

for kind in KINDS.keys() - {"Multinomial"}:
    smooth = kind not in ("Gamma", "Beta", "Dirichlet", "StudentT")
    for count in ((), 5, [2, 3]):
        add(f"{kind}.sample {count}", program(kind, drawn(count), slopes=smooth))
    add(
        f"{kind}.sample of unknown shape",
        program(kind, lambda tf, made: made.sample(4, seed=3), slopes=False, known=False),
    )
    add(
        f"{kind}.copy",
        program(kind, lambda tf, made: made.copy(allow_nan_stats=False).sample(2, seed=1), slopes=False),
    )

add("Normal.quantile", program("Normal", lambda tf, made: made.quantile(FRACTIONS[0])))
add("Uniform.range", program("Uniform", lambda tf, made: made.range()))
FAR = np.array([[-40.0, -12.0, 12.0]], np.float32)
for method in ("log_cdf", "log_survival_function"):
    add(f"Normal.{method} far away", program("Normal", of_value(method, FAR), slopes=False))


def given(kind: str, value: Any, *arguments: Any, **options: Any) -> Builder:
    """The log probability of a value and samples, for constant parameters."""

    def build(tf: Any) -> Built:
        named = {key: getattr(tf, value) if key == "dtype" else value for key, value in options.items()}
        made = getattr(tf.distributions, kind)(*arguments, **named)
        return Built([made.log_prob(value), made.sample(5, seed=2), made.sample([2, 2], seed=3)])

    return build


add("Bernoulli of probs", given("Bernoulli", BITS, probs=FRACTIONS[0]))
add("Bernoulli of floats", given("Bernoulli", 1.0, probs=[0.2, 0.9], dtype="float32"))
add("Categorical of probs", given("Categorical", CLASSES, probs=SHARES))
add("Categorical of int64", given("Categorical", CLASSES, probs=SHARES, dtype="int64"))
add("Categorical of a vector", given("Categorical", [0, 3], ODDS[0]))
add("Normal of Python numbers", given("Normal", 1, 0.0, [1.0, 2.0]))
add("Normal of doubles", given("Normal", [0.5, 1.0], np.zeros(2), np.ones(2)))
add(
    "Multinomial of probs",
    given("Multinomial", [1.0, 0.0, 2.0, 1.0], 4.0, probs=SHARES[0].astype(np.float32)),
)


def between(kind: str, allow_nan_stats: bool = True) -> Builder:
    """Divergences between two distributions of a class."""

    def build(tf: Any) -> Built:
        first, feed, _ = distribution(tf, kind)
        parameters, _, _ = KINDS[kind]
        last = list(parameters)[-1]
        second = first.copy(**{last: (parameters[last] * 0.8 + 0.3).astype(np.float32)})
        outputs = [
            tf.distributions.kl_divergence(first, second, allow_nan_stats),
            first.kl_divergence(second),
            first.cross_entropy(second),
        ]
        return Built(outputs, [feed])

    return build


for kind in ("Normal", "Gamma", "Exponential", "Beta", "Bernoulli", "Categorical", "Dirichlet"):
    add(f"divergence of {kind}", between(kind))
add("divergence of Normal, checked", between("Normal", allow_nan_stats=False))
add_error("Bernoulli of both", lambda tf: tf.distributions.Bernoulli(logits=[0.0], probs=[0.5]))
add_error("Bernoulli of none", lambda tf: tf.distributions.Bernoulli())
add_error("Categorical of integers", lambda tf: tf.distributions.Categorical([1, 2]))
add_error("Normal of two dtypes", lambda tf: tf.distributions.Normal(np.zeros(2), np.ones(2, np.float32)))
add_error("Categorical of one class", lambda tf: tf.distributions.Categorical([[1.0]], validate_args=True))


def hidden(tf: Any, value: Any) -> Any:
    """A value that is not static."""
    return tf.placeholder_with_default(np.float32(value), np.shape(value))


def faulty(name: str, make: Callable[[Any, Any], Any]) -> None:
    add_error(name, lambda tf: Built([make(tf, tf.distributions)]))


faulty("Normal of a negative scale", lambda tf, d: d.Normal(0.0, hidden(tf, -1.0), validate_args=True).mean())
faulty(
    "Gamma of a negative value",
    lambda tf, d: d.Gamma(1.0, 1.0, validate_args=True).log_prob(hidden(tf, -1.0)),
)
faulty("Beta without a mode", lambda tf, d: d.Beta(hidden(tf, 0.5), 2.0, allow_nan_stats=False).mode())
faulty(
    "Multinomial of a wrong sum",
    lambda tf, d: d.Multinomial(4.0, ODDS[0], validate_args=True).log_prob(hidden(tf, TALLIES[0])),
)


@pytest.mark.parametrize("name", ROWS)
async def test_distributions_agree_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ROWS[name], 100.0) == []


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_agrees_with_tensorflow(tf: Any, name: str):
    assert await compare(tf, ERRORS[name]) == []
