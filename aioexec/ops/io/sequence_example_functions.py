"""`parse_single_sequence_example`: decode the requested features of a serialised SequenceExample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_any_op, graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.io import sequence_examples  # noqa: F401  (registers the op)
from aioexec.ops.io.example_functions import FixedLenFeature, FixedLenSequenceFeature, VarLenFeature
from aioexec.ops.io.examples import KINDS


def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Decode features of one serialised SequenceExample; return those of its context and those of its feature lists.

    Args:
        context_features: for each key, a FixedLenFeature, returned as a tensor of its shape, or a VarLenFeature, returned as a
            SparseTensor.
        sequence_features: for each key, a FixedLenSequenceFeature, returned as a tensor [steps, *shape], or a VarLenFeature,
            returned as a SparseTensor of rank 2.
        example_name: a name used in messages.

    Raises:
        GraphValueError: no features, or one of another class or dtype.
    """
    context, lists = dict(context_features or {}), dict(sequence_features or {})
    if not context and not lists:
        raise GraphValueError(
            "Both context_features and sequence_features are None, but at least one should have values."
        )
    with (
        graph_of([serialized]).as_default() as graph,
        graph.name_scope(name or "ParseSingleSequenceExample"),
    ):
        sparse, dense = _split(context, FixedLenFeature)
        sparse_lists, dense_lists = _split(lists, FixedLenSequenceFeature)
        found = apply_any_op(
            "ParseSingleSequenceExample",
            convert_to_tensor(serialized, dt.string),
            _strings(key for key in dense_lists if lists[key].allow_missing),
            *(
                [convert_to_tensor(key.encode(), dt.string) for key in keys]
                for keys in (sparse, dense, sparse_lists, dense_lists)
            ),
            [_default(dense[key], context[key]) for key in dense],
            convert_to_tensor(b"" if example_name is None else example_name, dt.string),
            Ncontext_sparse=len(sparse),
            Ncontext_dense=len(dense),
            Nfeature_list_sparse=len(sparse_lists),
            Nfeature_list_dense=len(dense_lists),
            context_sparse_types=list(sparse.values()),
            Tcontext_dense=list(dense.values()),
            context_dense_shapes=[shapes.as_dims(context[key].shape) for key in dense],
            feature_list_sparse_types=list(sparse_lists.values()),
            feature_list_dense_types=list(dense_lists.values()),
            feature_list_dense_shapes=[shapes.as_dims(lists[key].shape) for key in dense_lists],
        )
    return _results(found[:4], sparse, dense), _results(found[4:], sparse_lists, dense_lists)


def _split(features: Mapping[str, Any], dense: type) -> tuple[dict[str, DType], dict[str, DType]]:
    """Return the dtypes of the sparse and the dense features, by key and in order of keys."""
    groups: tuple[dict[str, DType], dict[str, DType]] = {}, {}
    for key in sorted(features):
        feature = features[key]
        if not isinstance(feature, VarLenFeature | dense):
            raise GraphValueError(
                f"Unsupported VarLenFeature or {dense.__name__} {feature!r} for key {key!r}"
            )
        dtype: DType = dt.as_dtype(features[key].dtype)
        if dtype not in KINDS:
            raise GraphValueError(f"Examples hold float32, int64 and string, not {dtype.name} as {key!r}")
        groups[isinstance(feature, dense)][key] = dtype
    return groups


def _strings(words: Iterable[str]) -> Tensor:
    return convert_to_tensor(np.array([word.encode() for word in words], np.object_), dt.string)


def _default(dtype: DType, feature: FixedLenFeature) -> Tensor:
    if feature.default_value is None:
        return convert_to_tensor(np.zeros(0, dtype.numpy), dtype)
    return reshape(convert_to_tensor(feature.default_value, dtype), shapes.as_dims(feature.shape))


def _results(
    parts: Sequence[Sequence[Tensor]], sparse: Mapping[str, DType], dense: Mapping[str, DType]
) -> dict[str, Any]:
    indices, values, sizes, tensors = parts
    found: dict[str, Any] = {
        key: SparseTensor(*each) for key, *each in zip(sparse, indices, values, sizes, strict=True)
    }
    return found | dict(zip(dense, tensors, strict=True))
