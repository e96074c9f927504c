"""Transformations for `Dataset.apply`, of groups of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data.dataset import Dataset, NestedDataset, spec_of_dataset
from aioexec.data.experimental.transformations import Transformation
from aioexec.data.functions import traced
from aioexec.data.structure import Component, legacy_shapes, map_structure
from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.gathering import gather
from aioexec.ops.control_flow.checks import assert_less
from aioexec.ops.control_flow.dependencies import with_dependencies
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import less, less_equal, logical_and, where
from aioexec.ops.reduction.reductions import reduce_min
from aioexec.shapes import TensorShape


def group_by_window(
    key_func: Callable[..., Any],
    reduce_func: Callable[[Any, Any], Any],
    window_size: Any = None,
    window_size_func: Callable[[Any], Any] | None = None,
) -> Transformation:
    """Group elements by key: `reduce_func(key, window)` makes a dataset of each `window_size` elements of one key.

    Args:
        key_func: from an element to an int64 scalar.
        window_size_func: from a key to a size, instead of `window_size`.

    Raises:
        GraphValueError: not exactly one of the sizes is given, or a function returns no int64 scalar.
        GraphTypeError: `reduce_func` returns no dataset.
    """
    if (window_size is None) == (window_size_func is None):
        raise GraphValueError("Must pass either window_size or window_size_func.")

    def size_of(key: Any) -> Any:
        found = window_size if window_size_func is None else window_size_func(key)
        return convert_to_tensor(found, dtypes.int64)

    def transformed(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        scalar = Component(dtypes.int64, TensorShape([]))
        key = traced(key_func, "tf_data_experimental_group_by_window", spec, _int64)
        _check_scalar(key.spec, "key_func")
        reduce = traced(reduce_func, "tf_data_experimental_group_by_window", (scalar, NestedDataset.of(spec)))
        size = traced(size_of, "tf_data_experimental_group_by_window", scalar)
        _check_scalar(size.spec, "window_size_func")
        return dataset._derived(
            "GroupByWindowDataset",
            key.captured,
            reduce.captured,
            size.captured,
            spec=spec_of_dataset(reduce, "reduce_func"),
            key_func=key.attr,
            reduce_func=reduce.attr,
            window_size_func=size.attr,
            Tkey_func_other_arguments=key.captured_types,
            Treduce_func_other_arguments=reduce.captured_types,
            Twindow_size_func_other_arguments=size.captured_types,
        )

    return transformed


def _int64(key: Any) -> Tensor:
    found: Tensor = cast(convert_to_tensor(key), dtypes.int64)
    return found


def _check_scalar(spec: Any, what: str) -> None:
    if not isinstance(spec, Component) or not spec.shape.is_compatible_with([]):
        raise GraphValueError(f"`{what}` must return a single tf.int64 scalar tensor.")


def bucket_by_sequence_length(
    element_length_func: Callable[..., Any],
    bucket_boundaries: Sequence[int],
    bucket_batch_sizes: Sequence[int],
    padded_shapes: Any = None,
    padding_values: Any = None,
    pad_to_bucket_boundary: bool = False,
    no_padding: bool = False,
    drop_remainder: bool = False,
) -> Transformation:
    """Batch elements of similar lengths, padded.

    Args:
        element_length_func: from an element to its length, an int32 scalar.
        bucket_boundaries: upper bounds of the lengths of each bucket but the last, exclusive.
        bucket_batch_sizes: the size of the batches of each bucket.
        padded_shapes, padding_values: as of `Dataset.padded_batch`.
        pad_to_bucket_boundary: pad unknown dimensions to the largest length of the bucket; none may be in the last.
        no_padding: do not pad; elements are dense batches of one shape, or sparse.
        drop_remainder: drop batches that are smaller.

    Raises:
        GraphValueError: the number of sizes is not that of the buckets.
    """
    if len(bucket_batch_sizes) != len(bucket_boundaries) + 1:
        raise GraphValueError("len(bucket_batch_sizes) must equal len(bucket_boundaries) + 1")
    sizes = constant(list(bucket_batch_sizes), dtypes.int64)
    low = [np.iinfo(np.int32).min, *bucket_boundaries]
    high = [*bucket_boundaries, np.iinfo(np.int32).max]

    def bucket_of(*element: Any) -> Tensor:
        length = element_length_func(*element)
        inside = logical_and(less_equal(low, length), less(length, high))
        found: Tensor = reduce_min(where(inside))
        return found

    def batched(bucket: Tensor, grouped: Dataset) -> Dataset:
        size = gather(sizes, bucket)
        if no_padding:
            return grouped.batch(size, drop_remainder=drop_remainder)
        unknown = None
        if pad_to_bucket_boundary:
            last = constant(len(bucket_batch_sizes) - 1, dtypes.int64)
            check = assert_less(
                bucket,
                last,
                message="When pad_to_bucket_boundary=True, elements must have length < max(bucket_boundaries).",
            )
            boundaries = constant(list(bucket_boundaries), dtypes.int64)
            unknown = gather(boundaries, with_dependencies([check], bucket)) - 1
        shapes = legacy_shapes(grouped.element_spec) if padded_shapes is None else padded_shapes
        return grouped.padded_batch(
            size, _filled(shapes, unknown), padding_values, drop_remainder=drop_remainder
        )

    return group_by_window(bucket_of, batched, window_size_func=lambda bucket: gather(sizes, bucket))


def _filled(shapes: Any, unknown: Tensor | None) -> Any:
    """Return shapes with a size instead of unknown dimensions."""
    if unknown is None:
        return shapes

    def filled(shape: Any) -> Any:
        sizes = TensorShape(shape).as_list()
        return [unknown if size is None else constant(size, dtypes.int64) for size in sizes]

    return map_structure(filled, shapes)
