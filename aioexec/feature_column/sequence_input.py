"""sequence_input_layer: the columns of sequences as one tensor; concatenate_context_input: further numbers at each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.feature_column.columns import (
    ColumnScope,
    Features,
    SequenceDenseColumn,
    check_batch_sizes,
    checked_columns,
)
from aioexec.feature_column.input_layers import collections_of
from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.array.joining import concat
from aioexec.ops.control_flow.checks import assert_equal, assert_rank, assert_type
from aioexec.ops.state.variable_scope import variable_scope


def sequence_input_layer(
    features: Mapping[str, Any],
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
) -> tuple[Tensor, Tensor]:
    """Return the columns side by side, in the order of their names, float32 [batch, steps, sum of their sizes], and lengths.

    Variables are `sequence_input_layer/<column>/embedding_weights`. The lengths are int64 [batch]; in a run it is checked that
    they are the same for all columns.

    Args:
        features: SparseTensors by name.
        feature_columns: columns of sequences, or one: numeric ones, or embeddings and indicators of categorical ones.
        weight_collections: further collections of the variables, besides GLOBAL_VARIABLES and MODEL_VARIABLES.
        trainable: whether the variables are trained.

    Raises:
        GraphValueError: a column is none of sequences, a feature is missing, or batch sizes differ.
    """
    columns = checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, SequenceDenseColumn):
            raise GraphValueError(
                "All feature_columns must be of type _SequenceDenseColumn. You can wrap a sequence_categorical_column with an "
                f"embedding_column or indicator_column. Given (type {type(column)}): {column!r}"
            )
    scope = ColumnScope(collections_of(weight_collections), trainable)
    with variable_scope(None, default_name="sequence_input_layer", values=list(features.values())):
        made = Features(features)
        outputs, lengths = [], []
        for column in columns:
            assert isinstance(column, SequenceDenseColumn)
            with variable_scope(None, default_name=column.var_scope_name):
                steps, length = column.get_sequence_dense_tensor(made, scope)
                outputs.append(_by_step(steps, column))
                lengths.append(length)
        check_batch_sizes(outputs, columns)
        check_batch_sizes(lengths, columns)
        length = _the_same(lengths)
        layer: Tensor = concat(outputs, -1)
        return layer, length


def _by_step(steps: Tensor, column: SequenceDenseColumn) -> Tensor:
    """The numbers of a column as [batch, steps, size]."""
    size = column.variable_shape.num_elements()
    whole = apply_op("Shape", steps)
    return apply_op("Reshape", steps, apply_op("Pack", [whole[0], whole[1], size]))


def _the_same(tensors: Sequence[Tensor]) -> Tensor:
    """The first of tensors that must be equal."""
    with get_default_graph().name_scope("assert_all_equal") as scope:
        first, *others = tensors
        if not others:
            return first
        checks = [assert_equal(first, each) for each in others]
        with get_default_graph().control_dependencies(checks):
            return apply_op("Identity", first, name=scope)


def concatenate_context_input(context_input: Tensor, sequence_input: Tensor) -> Tensor:
    """Return `sequence_input` [batch, steps, n] with `context_input` [batch, m] at each step: [batch, steps, n + m].

    Raises:
        GraphValueError: another rank.
        GraphTypeError: one is not float32.
    """
    checks = [
        assert_rank(sequence_input, 3, message="sequence_input must have rank 3"),
        assert_type(sequence_input, dtypes.float32, message="sequence_input must have dtype float32"),
        assert_rank(context_input, 2, message="context_input must have rank 2"),
        assert_type(context_input, dtypes.float32, message="context_input must have dtype float32"),
    ]
    with get_default_graph().control_dependencies(checks):
        steps = apply_op("Shape", sequence_input)[1]
        times = apply_op("ConcatV2", [[1], apply_op("ExpandDims", steps, 0), [1]], 0)
        tiled = apply_op("Tile", apply_op("ExpandDims", context_input, 1), times)
    joined: Tensor = concat([sequence_input, tiled], 2)
    return joined
