"""How `parse_example` reads the features, labels and weights of a canned estimator."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.feature_column.input_layers import make_parse_example_spec
from aioexec.feature_column.numeric import NumericColumn, numeric_column
from aioexec.ops.io.example_functions import FixedLenFeature


def classifier_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = dtypes.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Return the spec for a classifier.

    Args:
        label_key: the name of the label in Examples.
        label_dtype: int64, or string for a vocabulary.
        label_default: for Examples without a label; None: that is an error.
        weight_column: the name of the weights, or their numeric column.

    Raises:
        GraphValueError: a name is used twice.
        GraphTypeError: `weight_column` is of another type.
    """
    label = FixedLenFeature((1,), dtypes.as_dtype(label_dtype), label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Any,
    label_key: str,
    label_dtype: Any = dtypes.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Return the spec for a regressor with labels of `label_dimension` numbers; see `classifier_parse_example_spec`."""
    label = FixedLenFeature((label_dimension,), dtypes.as_dtype(label_dtype), label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(feature_columns: Any, label_key: str, label: FixedLenFeature, weights: Any) -> dict[str, Any]:
    spec = make_parse_example_spec(feature_columns)
    if label_key in spec:
        raise GraphValueError(
            f"label should not be used as feature. label_key: {label_key}, features: {list(spec)}"
        )
    spec[label_key] = label
    if weights is None:
        return spec
    column = numeric_column(weights) if isinstance(weights, str) else weights
    if not isinstance(column, NumericColumn):
        raise GraphTypeError(
            f"weight_column should be an instance of tf.feature_column.numeric_column. Given type: {type(column)}"
        )
    if column.key in spec:
        raise GraphValueError(
            f"Key {column.key} should not be used as feature and as weight. Features and label: {list(spec)}"
        )
    return {**spec, **column.parse_example_spec}
