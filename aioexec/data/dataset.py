"""Datasets under the names of `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data.functions import TracedFunction, traced
from aioexec.data.iterator import Iterator, initializable, one_shot
from aioexec.data.structure import (
    Component,
    attrs_of,
    flat_dtypes,
    flat_shapes,
    flatten,
    flatten_up_to,
    is_nested,
    legacy_classes,
    legacy_shapes,
    legacy_types,
    map_structure,
    normalized,
    pack,
    same_structure,
)
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.math.comparison import equal, logical_and, where
from aioexec.ops.random.random_ops import get_seed
from aioexec.shapes import TensorShape

AUTOTUNE = -1
"""For buffer sizes and numbers of calls that the runtime chooses."""


class Dataset:
    """A sequence of elements, each a structure of tensors, described by a node of the graph.

    Elements are computed when an iterator asks for them. `_inputs` are the datasets it is derived from.
    """

    def __init__(self, variant_tensor: Tensor, spec: Any, inputs: Sequence[Dataset] = ()) -> None:
        self._variant_tensor = variant_tensor
        self._spec = spec
        self._inputs = list(inputs)

    def _dataset_ops(self) -> set[Operation]:
        """The operations of this dataset and those it is derived from."""
        found = {self._variant_tensor.op}
        for each in self._inputs:
            found |= each._dataset_ops()
        return found

    # Elements

    @property
    def element_spec(self) -> Any:
        """The structure of components of an element."""
        return self._spec

    @property
    def output_types(self) -> Any:
        """The structure of dtypes of an element."""
        return legacy_types(self._spec)

    @property
    def output_shapes(self) -> Any:
        """The structure of static shapes of an element."""
        return legacy_shapes(self._spec)

    @property
    def output_classes(self) -> Any:
        """The structure of classes of an element: Tensor or SparseTensor."""
        return legacy_classes(self._spec)

    def make_one_shot_iterator(self) -> Iterator:
        """Return an iterator that needs no initializer.

        Raises:
            GraphValueError: the dataset depends on the state of a session, or on feeds.
        """
        return one_shot(self)

    def make_initializable_iterator(self, shared_name: str | None = None) -> Iterator:
        """Return an iterator whose `initializer` must be run first.

        Args:
            shared_name: the iterator is shared by sessions of the same devices under this name.
        """
        return initializable(self, shared_name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} shapes: {self.output_shapes}, types: {self.output_types}>"

    # Sources

    @staticmethod
    def from_tensors(tensors: Any) -> Dataset:
        """Return a dataset of one element."""
        spec, values = normalized(tensors)
        parts = _tensors(spec, values)
        variant = apply_op("TensorDataset", parts, output_shapes=flat_shapes(spec))
        return Dataset(variant, spec)

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Return a dataset of the rows of tensors, which have equal first dimensions.

        Raises:
            GraphValueError: a tensor is a scalar.
        """
        spec, values = normalized(tensors)
        parts = _tensors(spec, values, slices=True)
        if not parts:
            raise GraphValueError("Must provide at least one tensor")
        rows = map_structure(lambda component: component.unbatched(), spec)
        variant = apply_op("TensorSliceDataset", parts, output_shapes=flat_shapes(rows))
        return Dataset(variant, rows)

    @staticmethod
    def range(*args: Any) -> Dataset:
        """Return a dataset of int64 numbers; the arguments are those of `range`.

        Raises:
            GraphValueError: there are none, or more than three.
        """
        if not 1 <= len(args) <= 3:
            raise GraphValueError(f"Invalid arguments to RangeDataset: {args!r}")
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        spec = Component(dtypes.int64, TensorShape([]))
        bounds = [_int64(start, "start"), _int64(stop, "stop"), _int64(step, "step")]
        return Dataset(apply_op("RangeDataset", *bounds, **attrs_of(spec)), spec)

    @staticmethod
    def zip(datasets: Any) -> Dataset:
        """Return a dataset of structures with an element of each dataset; it is as long as the shortest.

        Raises:
            GraphTypeError: an argument is no dataset, or is a list.
        """
        for each in flatten(datasets):
            if not isinstance(each, Dataset):
                message = "The argument to `Dataset.zip()` must be a nested structure of `Dataset` objects."
                if isinstance(each, list):
                    message += " Nested structures do not support Python lists; please use a tuple instead."
                raise GraphTypeError(message)
        parts = flatten(datasets)
        spec = map_structure(lambda each: each.element_spec, datasets)
        variant = apply_op("ZipDataset", [each._variant_tensor for each in parts], **attrs_of(spec))
        return Dataset(variant, spec, parts)

    # Selections

    def _derived(self, op_type: str, *arguments: Any, spec: Any = None, **attrs: Any) -> Dataset:
        """Return the dataset of an op whose first input is this one; by default of elements like these."""
        spec = self._spec if spec is None else spec
        variant = apply_op(op_type, self._variant_tensor, *arguments, **attrs_of(spec), **attrs)
        return Dataset(variant, spec, [self])

    def concatenate(self, dataset: Dataset) -> Dataset:
        """Return a dataset of the elements of this one, then those of another.

        Raises:
            GraphTypeError: its elements have other dtypes or another structure.
        """
        ours, theirs = self._spec, dataset.element_spec
        if not same_structure(ours, theirs) or flat_dtypes(ours) != flat_dtypes(theirs):
            raise GraphTypeError(
                f"Two datasets to concatenate have different types {self.output_types} and {dataset.output_types}"
            )
        pairs = list(zip(flatten(ours), flatten(theirs), strict=True))
        if any(type(one) is not type(other) for one, other in pairs):
            raise GraphTypeError(
                f"Two datasets to concatenate have different classes {self.output_classes} and {dataset.output_classes}"
            )
        spec = pack(ours, [one.relaxed(other) for one, other in pairs])
        found = self._derived("ConcatenateDataset", dataset._variant_tensor, spec=spec)
        found._inputs.append(dataset)
        return found

    def prefetch(self, buffer_size: Any) -> Dataset:
        """Return the same elements, of which up to `buffer_size` are computed ahead of the steps that get them."""
        size = AUTOTUNE if buffer_size is None else buffer_size
        return self._derived("PrefetchDataset", _int64(size, "buffer_size"))

    def repeat(self, count: Any = None) -> Dataset:
        """Return `count` repetitions of the elements; without end for None or -1."""
        return self._derived("RepeatDataset", _int64(-1 if count is None else count, "count"))

    def enumerate(self, start: Any = 0) -> Dataset:
        """Return pairs of a number, from `start`, and an element."""
        return Dataset.zip((Dataset.range(start, np.iinfo(np.int64).max), self))

    def shuffle(
        self, buffer_size: Any, seed: Any = None, reshuffle_each_iteration: bool | None = None
    ) -> Dataset:
        """Return the elements in random order, each drawn from a buffer of the next `buffer_size` ones.

        Args:
            seed: with the graph's seed it determines the order, as in TensorFlow.
            reshuffle_each_iteration: each repetition has an order of its own, which is the default.
        """
        size = _int64(buffer_size, "buffer_size")
        reshuffles = reshuffle_each_iteration is None or reshuffle_each_iteration
        return self._derived("ShuffleDataset", size, *seed_tensors(seed), reshuffle_each_iteration=reshuffles)

    def take(self, count: Any) -> Dataset:
        """Return the first `count` elements; all for -1."""
        return self._derived("TakeDataset", _int64(count, "count"))

    def skip(self, count: Any) -> Dataset:
        """Return the elements after the first `count`; none for -1."""
        return self._derived("SkipDataset", _int64(count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Return every `num_shards`-th element, beginning with the one at `index`."""
        return self._derived("ShardDataset", _int64(num_shards, "num_shards"), _int64(index, "index"))

    # Batches

    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Dataset:
        """Return batches of `batch_size` elements, stacked.

        Args:
            drop_remainder: drop the last batch if it is smaller.
        """
        size = _int64(batch_size, "batch_size")
        drops = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
        rows = _rows(size, drops)
        spec = map_structure(lambda component: component.batched(rows), self._spec)
        return self._derived("BatchDatasetV2", size, drops, spec=spec)

    def padded_batch(
        self, batch_size: Any, padded_shapes: Any, padding_values: Any = None, drop_remainder: Any = False
    ) -> Dataset:
        """Return batches of `batch_size` elements, padded to one shape and stacked.

        Args:
            padded_shapes: structure of shapes; a dimension that is None or -1 is as large as the largest of the batch.
            padding_values: structure of scalars; by default 0 and the empty string.
            drop_remainder: drop the last batch if it is smaller.

        Raises:
            GraphTypeError: a component is no tensor.
            GraphValueError: a shape has another rank.
        """
        components = flatten(self._spec)
        if any(type(component) is not Component for component in components):
            raise GraphTypeError("Batching of padded sparse tensors is not currently supported")
        size = _int64(batch_size, "batch_size")
        shapes = [_shape_tensor(shape) for shape in flatten_up_to(self._spec, padded_shapes)]
        values = [None] * len(shapes) if padding_values is None else flatten_up_to(self._spec, padding_values)
        fillers = [_filler(*pair) for pair in zip(values, components, strict=True)]
        drops = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
        rows = _rows(size, drops)
        padded = [
            component.with_shape(_padded(component.shape, shape)).batched(rows)
            for component, shape in zip(components, shapes, strict=True)
        ]
        spec = pack(self._spec, padded)
        variant = apply_op(
            "PaddedBatchDatasetV2",
            self._variant_tensor,
            size,
            shapes,
            fillers,
            drops,
            output_shapes=flat_shapes(spec),
            Toutput_types=flat_dtypes(spec),
            N=len(shapes),
        )
        return Dataset(variant, spec, [self])

    def unbatch(self) -> Dataset:
        """Return the rows of each element."""
        spec = map_structure(lambda component: component.unbatched(), self._spec)
        return self._derived("UnbatchDataset", spec=spec)

    # Functions

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None) -> Dataset:
        """Return the results of a function for each element.

        Args:
            map_func: from the components of an element to a structure of tensors; traced once.
            num_parallel_calls: the number of elements that are computed at once; their order is kept.
        """
        function = traced(map_func, "Dataset_map", self._spec)
        if num_parallel_calls is None:
            return self._mapped("MapDataset", function)
        return self._mapped(
            "ParallelMapDataset",
            function,
            convert_to_tensor(num_parallel_calls, dtypes.int32, name="num_parallel_calls"),
        )

    def _mapped(self, op_type: str, function: TracedFunction, *arguments: Any, **attrs: Any) -> Dataset:
        return self._derived(
            op_type,
            function.captured,
            *arguments,
            spec=function.spec,
            f=function.attr,
            Targuments=function.captured_types,
            **attrs,
        )

    def filter(self, predicate: Callable[..., Any]) -> Dataset:
        """Return the elements for which a function returns true.

        Raises:
            GraphValueError: it does not return a scalar of dtype bool.
        """
        function = traced(predicate, "Dataset_filter", self._spec)
        check_predicate(function.spec, "predicate")
        return self._derived(
            "FilterDataset", function.captured, predicate=function.attr, Targuments=function.captured_types
        )

    def apply(self, transformation_func: Callable[[Dataset], Dataset]) -> Dataset:
        """Return `transformation_func(self)`.

        Raises:
            GraphTypeError: that is no dataset.
        """
        dataset = transformation_func(self)
        if not isinstance(dataset, Dataset):
            raise GraphTypeError(
                f"`transformation_func` must return a Dataset. Got type {type(dataset).__name__}."
            )
        return dataset


# Arguments


def _int64(value: Any, name: str) -> Tensor:
    return convert_to_tensor(value, dtypes.int64, name=name)


def _tensors(spec: Any, values: Sequence[Any], slices: bool = False) -> list[Tensor]:
    """Return the tensors of a dataset's op for the values of an element."""
    return [
        value if type(component) is Component else component.to_tensor(value, slices)
        for component, value in zip(flatten(spec), values, strict=True)
    ]


def _rows(size: Tensor, drops_remainder: Tensor) -> int | None:
    """Return the number of rows of every batch, if it is known."""
    rows = constant_value(size)
    return int(rows) if rows is not None and constant_value(drops_remainder) else None


def _shape_tensor(shape: Any) -> Tensor:
    """Return a shape as a tensor, with -1 for unknown dimensions."""
    if isinstance(shape, Tensor):
        return convert_to_tensor(shape, dtypes.int64)
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    sizes = shape.as_list() if isinstance(shape, TensorShape) else shape
    sizes = [sizes] if isinstance(sizes, int) else sizes
    if any(isinstance(size, Tensor) for size in sizes):
        return convert_to_tensor(sizes, dtypes.int64)
    known = [getattr(size, "value", size) for size in sizes]
    return constant([-1 if size is None else int(size) for size in known], dtypes.int64, shape=[len(known)])


def _padded(shape: TensorShape, padded: Tensor) -> TensorShape:
    """Return the static shape of a padded component.

    Raises:
        GraphValueError: the ranks differ, or a dimension is smaller than that of the component.
    """
    sizes = constant_value(padded)
    if sizes is None:
        (rank,) = padded.shape.as_list() if padded.shape.ndims == 1 else (None,)
        return TensorShape(None if rank is None else [None] * rank)
    found = [None if size < 0 else int(size) for size in sizes]
    if shape.ndims is not None and not (
        shape.ndims == len(found)
        and all(
            most is None or size is None or size <= most
            for size, most in zip(shape.as_list(), found, strict=True)
        )
    ):
        raise GraphValueError(
            f"The padded shape {tuple(found)} is not compatible with the shape {shape} of the corresponding input "
            "component."
        )
    return TensorShape(found)


def _filler(value: Any, component: Component) -> Tensor:
    """Return the scalar that a component is padded with.

    Raises:
        GraphValueError: it is no scalar.
    """
    if value is None:
        value = b"" if component.dtype == dtypes.string else component.dtype.numpy.type()
    found = convert_to_tensor(value, None if isinstance(value, Tensor) else component.dtype, "padding_value")
    if found.shape.ndims not in (0, None):
        raise GraphValueError(f"Padding value should be a scalar, but is not: {found}.")
    if found.dtype.base_dtype != component.dtype:
        raise GraphTypeError(
            f"Padding value tensor ({found}) does not match output type: {component.dtype!r}"
        )
    return found


def check_predicate(spec: Any, what: str) -> None:
    """Check that a function returns a scalar of dtype bool.

    Raises:
        GraphValueError: it does not.
    """
    if (
        is_nested(spec)
        or type(spec) is not Component
        or spec.dtype != dtypes.bool
        or not spec.shape.is_compatible_with([])
    ):
        raise GraphValueError(
            f"`{what}` must return a scalar boolean tensor, but its return value is {spec!r}."
        )


def seed_tensors(seed: Any) -> tuple[Tensor, Tensor]:
    """Return the two seeds of a dataset: of the graph and of the op; 0, 0 if neither is set."""
    first, second = get_seed(seed)
    if first is None or second is None:
        return _int64(0, "seed"), _int64(0, "seed2")
    one = _int64(first, "seed")
    with get_default_graph().name_scope("seed2") as scope:
        other = convert_to_tensor(second, dtypes.int64)
        both = logical_and(equal(one, 0), equal(other, 0))
        return one, where(both, constant(2**31 - 1, dtype=dtypes.int64), other, name=scope)


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """Return an iterator that needs no initializer; see `Dataset.make_one_shot_iterator`."""
    return dataset.make_one_shot_iterator()


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """Return an iterator with an initializer; see `Dataset.make_initializable_iterator`."""
    return dataset.make_initializable_iterator(shared_name)
