"""linear_model: a weighted sum of columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.feature_column.columns import (
    CategoricalColumn,
    ColumnScope,
    DenseColumn,
    FeatureColumn,
    Features,
    check_batch_sizes,
    checked_columns,
)
from aioexec.feature_column.input_layers import as_matrix, collections_of, variables_of_scope
from aioexec.graph.apply import apply_op
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.math.arithmetic import add_n
from aioexec.ops.nn.nn_ops import bias_add
from aioexec.ops.nn.safe_lookup import safe_embedding_lookup_sparse
from aioexec.ops.sparse.functions import sparse_reshape
from aioexec.ops.state.initializers import Zeros
from aioexec.ops.state.partitioned_variables import PartitionedVariable
from aioexec.ops.state.variable_scope import get_variable, variable_scope


def linear_model(
    features: Mapping[str, Any],
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Tensor:
    """Return the weighted sum of columns and a bias: float32 [batch, units].

    A categorical column has a weight for each category, a dense one for each of its numbers. Variables are
    `linear_model/<column>/weights` and `linear_model/bias_weights`; they start at zero.

    Args:
        features: tensors and SparseTensors by name.
        feature_columns: dense or categorical columns, or one.
        sparse_combiner: of the categories of an example: "sum", "mean" or "sqrtn".
        weight_collections: further collections of the variables, besides GLOBAL_VARIABLES and MODEL_VARIABLES.
        trainable: whether the variables are trained.
        cols_to_vars: is filled with the variables of each column, and of "bias".

    Raises:
        GraphValueError: a feature is missing, or batch sizes differ.
    """
    columns = checked_columns(feature_columns)
    scope = ColumnScope(collections_of(weight_collections), trainable)
    with variable_scope(None, default_name="linear_model") as chosen:
        model_name = _last_part(chosen.name)
    named = sorted(((_scope_of(column), column) for column in columns), key=lambda pair: pair[0])
    with variable_scope(model_name):
        made, sums = Features(features), []
        of_columns: dict[Any, list[Any]] = {}
        for name, column in named:
            with variable_scope(None, default_name=name):
                sums.append(_weighted_sum(column, made, units, sparse_combiner, scope))
                of_columns[column] = variables_of_scope()
        check_batch_sizes(sums, [column for _, column in named])
        total = add_n(sums, name="weighted_sum_no_bias")
        bias = _variable("bias_weights", [units], scope)
        result: Tensor = bias_add(total, bias, name="weighted_sum")
    if cols_to_vars is not None:
        parts = list(bias) if isinstance(bias, PartitionedVariable) else [bias]
        cols_to_vars.update({**of_columns, "bias": parts})
    return result


def _scope_of(column: FeatureColumn) -> str:
    """The name of a column's scope: numbered among the scopes around the model, as TensorFlow's layers are."""
    with variable_scope(None, default_name=column.var_scope_name) as chosen:
        return _last_part(chosen.name)


def _last_part(name: str) -> str:
    return name.rpartition("/")[2]


def _weighted_sum(
    column: FeatureColumn, features: Features, units: int, combiner: str, scope: ColumnScope
) -> Tensor:
    """The numbers, or the presence of categories, times the weights: [batch, units]."""
    if isinstance(column, CategoricalColumn):
        ids, weights = column.get_sparse_tensors(features)
        table = _variable("weights", [column.num_buckets, units], scope)
        return safe_embedding_lookup_sparse(
            table,
            _flat(ids),
            None if weights is None else _flat(weights),
            combiner=combiner,
            name="weighted_sum",
        )
    if not isinstance(column, DenseColumn):
        raise GraphValueError(
            f"Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. Given: {column!r}"
        )
    kernel = _variable("weights", [column.variable_shape.num_elements(), units], scope)
    matrix = as_matrix(column.get_dense_tensor(features, scope), column)
    return apply_op("MatMul", matrix, kernel, name="weighted_sum")


def _flat(tensor: SparseTensor) -> SparseTensor:
    """[batch, ...] as [batch, n]."""
    batch_size = apply_op("GatherV2", tensor.dense_shape, 0, 0)
    return sparse_reshape(tensor, apply_op("Pack", [batch_size, -1]))


def _variable(name: str, shape: list[Any], scope: ColumnScope) -> Any:
    return get_variable(
        name, shape, initializer=Zeros(), trainable=scope.trainable, collections=list(scope.collections)
    )
