"""Metrics of binary classification: counts of outcomes at thresholds, and metrics derived from them; see `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import ones_like
from aioexec.ops.array.shapes_of import rank
from aioexec.ops.common.elementwise import named
from aioexec.ops.control_flow.checks import assert_greater_equal, assert_less_equal, assert_rank_in
from aioexec.ops.math.binary_functions import div_no_nan
from aioexec.ops.math.cast import cast
from aioexec.ops.reduction.arg_reduction import argmax, argmin
from aioexec.ops.reduction.reductions import reduce_min, reduce_sum
from aioexec.ops.state.assignments import assign_add
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.ops.training.metrics import Metric, fitted, listed, metric_variable
from aioexec.ops.training.weights import broadcast_weights

MARGIN = 1e-7
"""Added to divisors and to the outer thresholds, against rounding."""


class Outcome(NamedTuple):
    """One of the four combinations of prediction and label."""

    name: str
    label: bool
    prediction: bool


OUTCOMES = {
    "tp": Outcome("true_positives", label=True, prediction=True),
    "fn": Outcome("false_negatives", label=True, prediction=False),
    "tn": Outcome("true_negatives", label=False, prediction=False),
    "fp": Outcome("false_positives", label=False, prediction=True),
}
"""In the order in which their variables are created."""


def _matches(outcome: Outcome, labels: Tensor, predictions: Tensor) -> Tensor:
    """Return where labels and predictions have these values."""
    label = labels if outcome.label else apply_op("LogicalNot", labels)
    prediction = predictions if outcome.prediction else apply_op("LogicalNot", predictions)
    return apply_op("LogicalAnd", label, prediction)


# At one threshold


def _counted(key: str) -> Callable[..., Metric]:
    """Return the metric that counts one outcome."""
    outcome = OUTCOMES[key]

    def metric(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Metric:
        with variable_scope(name, outcome.name, [predictions, labels, weights]):
            predicted, wanted, factors = _as_booleans(predictions, labels, weights)
            count = metric_variable([], dtypes.float32, name="count")
            each = cast(_matches(outcome, wanted, predicted), dtypes.float32)
            if factors is not None:
                checked = assert_rank_in(factors, (0, rank(each)))
                with get_default_graph().control_dependencies([checked]):
                    each = apply_op("Mul", each, cast(factors, dtypes.float32))
            update = assign_add(count, reduce_sum(each))
            return listed(apply_op("Identity", count), update, metrics_collections, updates_collections)

    return named(metric, outcome.name, f"Return the weighted number of {outcome.name.replace('_', ' ')}.")


def _as_booleans(predictions: Any, labels: Any, weights: Any) -> tuple[Tensor, Tensor, Any]:
    return fitted(cast(predictions, dtypes.bool_), cast(labels, dtypes.bool_), weights)


true_positives = _counted("tp")
true_negatives = _counted("tn")
false_positives = _counted("fp")
false_negatives = _counted("fn")


def _fraction_of_positives(
    name_of_function: str, others: Callable[..., Metric], summary: str
) -> Callable[..., Metric]:
    """Return true positives / (true positives + the other outcome)."""

    def metric(
        labels: Any,
        predictions: Any,
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Metric:
        with variable_scope(name, name_of_function, [predictions, labels, weights]):
            predicted, wanted, factors = _as_booleans(predictions, labels, weights)
            right = true_positives(wanted, predicted, factors)
            wrong = others(wanted, predicted, factors)
            value, update = (
                _fraction(one, other, called)
                for one, other, called in zip(right, wrong, ("value", "update_op"), strict=True)
            )
            return listed(value, update, metrics_collections, updates_collections)

    return named(metric, name_of_function, f"Return {summary}; 0 before the first of them.")


def _fraction(right: Tensor, wrong: Tensor, name: str) -> Tensor:
    total = right + wrong
    is_any = apply_op("Greater", total, 0.0)
    return apply_op("Select", is_any, apply_op("RealDiv", right, total), 0.0, name=name)


RIGHT_OF_PREDICTED = "the fraction of positive predictions that are right (precision)"
FOUND_OF_POSITIVE = "the fraction of positive labels that were predicted (recall)"
precision = _fraction_of_positives("precision", false_positives, RIGHT_OF_PREDICTED)
recall = _fraction_of_positives("recall", false_negatives, FOUND_OF_POSITIVE)


# At many thresholds


class Counts(NamedTuple):
    """By outcome: the counts at each threshold, before and after the update."""

    values: Mapping[str, Any]
    updates: Mapping[str, Any]


def _at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any,
    keys: Sequence[str] = tuple(OUTCOMES),
) -> Counts:
    """Count outcomes, where predictions above a threshold are positive.

    Raises:
        InvalidArgumentError: (in a run, or statically) a prediction is not in [0, 1].
    """
    given = convert_to_tensor(predictions)
    zero, one = (cast(limit, given.dtype.base_dtype) for limit in (0.0, 1.0))
    message = "predictions must be in [0, 1]"
    checks = (
        assert_greater_equal(given, zero, message=message),
        assert_less_equal(given, one, message=message),
    )
    with get_default_graph().control_dependencies(checks):
        predicted, wanted, factors = fitted(cast(given, dtypes.float32), cast(labels, dtypes.bool_), weights)
    limits = apply_op("ExpandDims", constant(list(thresholds), dtypes.float32), 1)
    above = apply_op("Greater", apply_op("Reshape", predicted, [1, -1]), limits)
    wanted = apply_op("Reshape", wanted, [1, -1])
    if factors is not None:
        factors = broadcast_weights(cast(factors, dtypes.float32), predicted)
        factors = apply_op("Reshape", factors, [1, -1])
    values: dict[str, Any] = {}
    updates: dict[str, Any] = {}
    for key in (key for key in OUTCOMES if key in keys):
        values[key] = metric_variable([len(thresholds)], dtypes.float32, name=OUTCOMES[key].name)
        each = cast(_matches(OUTCOMES[key], wanted, above), dtypes.float32)
        updates[key] = assign_add(values[key], reduce_sum(each if factors is None else each * factors, 1))
    return Counts(values, updates)


def _metric_of_counts(
    counts: Counts, compute: Callable[[Mapping[str, Any], str], Tensor], metrics: Any, updates: Any
) -> Metric:
    """Return the metric that `compute` derives from the counts, before and after the update."""
    return listed(compute(counts.values, "value"), compute(counts.updates, "update_op"), metrics, updates)


def _counted_at_thresholds(key: str) -> Callable[..., Metric]:
    outcome = OUTCOMES[key]

    def metric(
        labels: Any,
        predictions: Any,
        thresholds: Sequence[float],
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Metric:
        with variable_scope(name, outcome.name, [predictions, labels, weights]):
            counts = _at_thresholds(labels, predictions, thresholds, weights, (key,))
            value = apply_op("Identity", counts.values[key])
            return listed(value, counts.updates[key], metrics_collections, updates_collections)

    return named(
        metric,
        f"{outcome.name}_at_thresholds",
        f"Return the weighted number of {outcome.name.replace('_', ' ')} at each threshold.",
    )


true_positives_at_thresholds = _counted_at_thresholds("tp")
true_negatives_at_thresholds = _counted_at_thresholds("tn")
false_positives_at_thresholds = _counted_at_thresholds("fp")
false_negatives_at_thresholds = _counted_at_thresholds("fn")


def _fraction_at_thresholds(kind: str, other: str, summary: str) -> Callable[..., Metric]:
    def metric(
        labels: Any,
        predictions: Any,
        thresholds: Sequence[float],
        weights: Any = None,
        metrics_collections: Any = None,
        updates_collections: Any = None,
        name: str | None = None,
    ) -> Metric:
        def fraction(counts: Mapping[str, Any], called: str) -> Tensor:
            total = MARGIN + counts["tp"] + counts[other]
            return apply_op("RealDiv", counts["tp"], total, name=f"{kind}_{called}")

        with variable_scope(name, f"{kind}_at_thresholds", [predictions, labels, weights]):
            counts = _at_thresholds(labels, predictions, thresholds, weights, ("tp", other))
            return _metric_of_counts(counts, fraction, metrics_collections, updates_collections)

    return named(metric, f"{kind}_at_thresholds", f"Return {summary}, at each threshold.")


precision_at_thresholds = _fraction_at_thresholds("precision", "fp", RIGHT_OF_PREDICTED)
recall_at_thresholds = _fraction_at_thresholds("recall", "fn", FOUND_OF_POSITIVE)


# Curves

SUMMATIONS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "trapezoidal": lambda one, other: (one + other) / 2.0,
    "careful_interpolation": lambda one, other: (one + other) / 2.0,
    "minoring": lambda one, other: apply_op("Minimum", one, other),
    "majoring": lambda one, other: apply_op("Maximum", one, other),
}
"""The height of a curve between two of its points."""


def _thresholds(count: int, last: float = 1.0 + MARGIN) -> list[float]:
    """Return evenly spaced thresholds; the first is just below 0, the last (`last`) by default just above 1."""
    return [0.0 - MARGIN, *((k + 1) * 1.0 / (count - 1) for k in range(count - 2)), last]


def _check_curve(curve: str, summation_method: str) -> None:
    if curve not in ("ROC", "PR"):
        raise GraphValueError(f"Curve must be either ROC or PR, got {curve!r}")
    if summation_method not in SUMMATIONS:
        raise GraphValueError(
            f"Invalid summation_method: {summation_method!r}, expected one of {sorted(SUMMATIONS)}"
        )


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Metric:
    """Return the area under a curve, approximated from counts at thresholds.

    Args:
        curve: "ROC" (recall over the rate of false positives) or "PR" (precision over recall).
        summation_method: "trapezoidal", "minoring", "majoring", or "careful_interpolation", which is exact for "PR".

    Raises:
        GraphValueError: the curve or the summation method is unknown.
    """
    with variable_scope(name, "auc", [labels, predictions, weights]):
        _check_curve(curve, summation_method)
        if thresholds is None:
            limits = _thresholds(num_thresholds)
        else:
            limits = [0.0 - MARGIN, *sorted(thresholds), 1.0 + MARGIN]
        counts = _at_thresholds(labels, predictions, limits, weights)

        def area(of: Mapping[str, Any], called: str) -> Tensor:
            tensors = {key: convert_to_tensor(count) for key, count in of.items()}
            if curve == "PR" and summation_method == "careful_interpolation":
                return _interpolated_area(tensors)
            return _area(tensors, curve, SUMMATIONS[summation_method], called)

        return _metric_of_counts(counts, area, metrics_collections, updates_collections)


def _area(
    of: Mapping[str, Tensor], curve: str, height: Callable[[Tensor, Tensor], Tensor], name: str
) -> Tensor:
    margin = 1e-6
    found = (of["tp"] + margin) / (of["tp"] + of["fn"] + margin)
    if curve == "ROC":
        x, y = of["fp"] / (of["fp"] + of["tn"] + margin), found
    else:
        x, y = found, (of["tp"] + margin) / (of["tp"] + of["fp"] + margin)
    return reduce_sum((x[:-1] - x[1:]) * height(y[:-1], y[1:]), name=name)


def _interpolated_area(of: Mapping[str, Tensor]) -> Tensor:
    """Return the area under a precision-recall curve, interpolating counts rather than rates (Davis and Goadrich, 2006)."""
    right = of["tp"]
    positive = right + of["fp"]
    before, after = positive[:-1], positive[1:]
    gained = right[:-1] - right[1:]
    slope = div_no_nan(gained, apply_op("Maximum", before - after, 0.0), name="prec_slope")
    intercept = right[1:] - slope * after
    ratio = div_no_nan(before, apply_op("Maximum", after, 0.0), name="recall_relative_ratio")
    is_safe = apply_op("LogicalAnd", apply_op("Greater", before, 0.0), apply_op("Greater", after, 0.0))
    ratio = apply_op("Select", is_safe, ratio, ones_like(after))
    increase = slope * (gained + intercept * apply_op("Log", ratio))
    total = apply_op("Maximum", right[1:] + of["fn"][1:], 0.0)
    return reduce_sum(div_no_nan(increase, total, name="pr_auc_increment"), name="interpolate_pr_auc")


def _nearest(rates: Tensor, wanted: float) -> Tensor:
    """Return the first position of the rate nearest to the wanted one."""
    return argmin(apply_op("Abs", rates - wanted), 0)


def _last_nearest(rates: Tensor, wanted: float) -> Tensor:
    """Return the last position of the rate nearest to the wanted one."""
    distance = apply_op("Abs", rates - wanted)
    is_least = cast(apply_op("Equal", distance, reduce_min(distance)), dtypes.int64)
    return argmax(apply_op("Cumsum", is_least, 0), 0)


def _rate_at(
    rate: tuple[str, str, str],
    fixed: tuple[str, str, str],
    last: float,
    nearest: Callable[[Tensor, float], Tensor],
) -> Callable[[Any, Any, float, Any, int, Any, Any, str | None], Metric]:
    """Return one rate at the threshold where another is nearest to a value; rates are (name, right, wrong outcome)."""
    (name_of_rate, right, wrong), (name_of_fixed, fixed_right, fixed_wrong) = rate, fixed
    scope = f"{name_of_rate}_at_{name_of_fixed}"

    def metric(
        labels: Any,
        predictions: Any,
        wanted: float,
        weights: Any,
        num_thresholds: int,
        metrics_collections: Any,
        updates_collections: Any,
        name: str | None,
    ) -> Metric:
        if not 0 <= wanted <= 1:
            raise GraphValueError(f"`{name_of_fixed}` must be in the range [0, 1], got {wanted!r}")

        def found(counts: Mapping[str, Any], called: str) -> Tensor:
            of = {key: convert_to_tensor(count) for key, count in counts.items()}
            rates = of[fixed_right] / (of[fixed_right] + of[fixed_wrong] + MARGIN)
            place = cast(nearest(rates, wanted), dtypes.int32)
            good, bad = of[right][place], of[wrong][place]
            return apply_op("RealDiv", good, good + bad + MARGIN, name=called)

        with variable_scope(name, scope, [predictions, labels, weights]):
            counts = _at_thresholds(labels, predictions, _thresholds(num_thresholds, last), weights)
            return _metric_of_counts(counts, found, metrics_collections, updates_collections)

    return metric


SENSITIVITY, SPECIFICITY = ("sensitivity", "tp", "fn"), ("specificity", "tn", "fp")
_sensitivity = _rate_at(SENSITIVITY, SPECIFICITY, 1.0 + MARGIN, _nearest)
_specificity = _rate_at(SPECIFICITY, SENSITIVITY, 1.0 - MARGIN, _last_nearest)


def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the sensitivity (recall of positives) at the threshold where the specificity is nearest to a value.

    Raises:
        GraphValueError: the specificity is not in [0, 1].
    """
    collections = metrics_collections, updates_collections
    return _sensitivity(labels, predictions, specificity, weights, num_thresholds, *collections, name)


def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Return the specificity (recall of negatives) at the threshold where the sensitivity is nearest to a value.

    Raises:
        GraphValueError: the sensitivity is not in [0, 1].
    """
    collections = metrics_collections, updates_collections
    return _specificity(labels, predictions, sensitivity, weights, num_thresholds, *collections, name)
