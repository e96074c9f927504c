"""input_layer: the columns of a model as one matrix; make_parse_example_spec: how their features are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.feature_column.columns import (
    ColumnScope,
    DenseColumn,
    FeatureColumn,
    Features,
    check_batch_sizes,
    checked_columns,
)
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import concat
from aioexec.ops.state.variable_scope import get_variable_scope, variable_scope


def input_layer(
    features: Mapping[str, Any],
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Tensor:
    """Return the dense columns side by side, in the order of their names: float32 [batch, sum of their sizes].

    Variables are `input_layer/<column>/embedding_weights`.

    Args:
        features: tensors and SparseTensors by name.
        feature_columns: dense columns, or one.
        weight_collections: further collections of the variables, besides GLOBAL_VARIABLES and MODEL_VARIABLES.
        trainable: whether the variables are trained.
        cols_to_vars: is filled with the variables of each column.
        cols_to_output_tensors: is filled with the tensor of each column.

    Raises:
        GraphValueError: a column is not dense, a feature is missing, or batch sizes differ.
    """
    columns = checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise GraphValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical column with an embedding_column "
                f"or indicator_column. Given: {column!r}"
            )
    scope = ColumnScope(collections_of(weight_collections), trainable)
    with variable_scope(None, default_name="input_layer", values=list(features.values())):
        made = Features(features)
        outputs = []
        for column in columns:
            assert isinstance(column, DenseColumn)
            with variable_scope(None, default_name=column.var_scope_name):
                outputs.append(as_matrix(column.get_dense_tensor(made, scope), column))
                if cols_to_vars is not None:
                    cols_to_vars[column] = variables_of_scope()
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = outputs[-1]
        check_batch_sizes(outputs, columns)
        layer: Tensor = concat(outputs, 1)
        return layer


def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """Return how `parse_example` reads the features of columns.

    Raises:
        GraphValueError: one is no column, or two need the same feature in different ways.
    """
    spec: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise GraphValueError(f"All feature_columns must be FeatureColumn instances. Given: {column!r}")
        for key, value in column.parse_example_spec.items():
            if spec.setdefault(key, value) != value:
                raise GraphValueError(
                    f"feature_columns contain different parse_spec for key {key}. Given {value} and {spec[key]}"
                )
    return spec


def collections_of(given: Any) -> list[str]:
    """The collections of the variables of columns: the given ones, GLOBAL_VARIABLES and MODEL_VARIABLES."""
    return list(dict.fromkeys([*(given or ()), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]))


def variables_of_scope() -> list[Any]:
    """The global variables in the current variable scope."""
    return get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, scope=get_variable_scope().name)


def as_matrix(tensor: Tensor, column: DenseColumn) -> Tensor:
    """The numbers of a column as [batch, size]."""
    size = column.variable_shape.num_elements()
    batch_size = apply_op("Shape", tensor)[0]
    matrix = apply_op("Reshape", tensor, apply_op("Pack", [batch_size, size]))
    matrix.set_shape([tensor.dims[0] if tensor.dims else None, size])
    return matrix
