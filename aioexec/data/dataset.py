"""Datasets under the names of `tf.data.Dataset`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.data.arguments import check_predicate, component_tensors, int64_tensor, seed_tensors, static_rows
from aioexec.data.batching import padded_batch, sparse_slices
from aioexec.data.functions import TracedFunction, split_sparse, traced
from aioexec.data.generators import Generated
from aioexec.data.iterator import Iterator, initializable, one_shot
from aioexec.data.matching import count_of, matching_files
from aioexec.data.options import Options
from aioexec.data.reduction import reduced
from aioexec.data.structure import (
    Component,
    SparseComponent,
    attrs_of,
    common_spec,
    flat_shapes,
    flatten,
    legacy_classes,
    legacy_shapes,
    legacy_types,
    map_structure,
    normalized,
    register_kind,
)
from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Operation, Tensor
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
        self._options: Options = inputs[0]._options if inputs else Options()

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
        parts = component_tensors(spec, values)
        variant = apply_op("TensorDataset", parts, output_shapes=flat_shapes(spec))
        return Dataset(variant, spec)

    @staticmethod
    def from_tensor_slices(tensors: Any) -> Dataset:
        """Return a dataset of the rows of tensors, which have equal first dimensions.

        Raises:
            GraphValueError: a tensor is a scalar.
        """
        spec, values = normalized(tensors)
        parts = component_tensors(spec, values, slices=True)
        if not parts:
            raise GraphValueError("Must provide at least one tensor")
        rows = map_structure(lambda component: component.unbatched(), spec)
        variant = apply_op("TensorSliceDataset", parts, output_shapes=flat_shapes(rows))
        return Dataset(variant, rows)

    @staticmethod
    def from_sparse_tensor_slices(sparse_tensor: Any) -> Dataset:
        """Return a dataset of the rows of a SparseTensor, each as (indices, values, dense_shape).

        Raises:
            GraphTypeError: the argument is no SparseTensor.
        """
        return Dataset(*sparse_slices(sparse_tensor))

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
        bounds = [int64_tensor(start, "start"), int64_tensor(stop, "stop"), int64_tensor(step, "step")]
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

    @staticmethod
    def from_generator(
        generator: Callable[..., Any], output_types: Any, output_shapes: Any = None, args: Any = None
    ) -> Dataset:
        """Return the elements of the iterators that a Python function returns, a new one for each repetition.

        A plain iterator runs on workers, and may block. If `generator` is an asynchronous generator function
        (`async def` with `yield`), it runs on the session's event loop.

        Args:
            output_types: structure of dtypes of an element.
            output_shapes: structure of shapes; by default unknown.
            args: tensors whose values are the arguments of `generator`.

        Raises:
            GraphTypeError: `generator` is not callable.
        """
        generated = Generated(generator, output_types, output_shapes, args)

        def dataset(dummy: Tensor) -> Dataset:
            return Dataset(generated.node(dummy), generated.spec)

        return Dataset.from_tensors(0).flat_map(dataset)

    @staticmethod
    def list_files(file_pattern: Any, shuffle: Any = None, seed: Any = None) -> Dataset:
        """Return the names of files that match a pattern, or one of several.

        A step that finds none fails with InvalidArgumentError.

        Args:
            shuffle: in random order, which is the default.
            seed: of the order.
        """
        with get_default_graph().name_scope("list_files"):
            names = matching_files(file_pattern)
            dataset = Dataset.from_tensor_slices(names)
            if shuffle is None or shuffle:
                dataset = dataset.shuffle(count_of(names), seed=seed)
            return dataset

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
        spec = common_spec(self._spec, dataset.element_spec)
        found = self._derived("ConcatenateDataset", dataset._variant_tensor, spec=spec)
        found._inputs.append(dataset)
        return found

    def prefetch(self, buffer_size: Any) -> Dataset:
        """Return the same elements, of which up to `buffer_size` are computed ahead of the steps that get them."""
        size = AUTOTUNE if buffer_size is None else buffer_size
        return self._derived("PrefetchDataset", int64_tensor(size, "buffer_size"))

    def repeat(self, count: Any = None) -> Dataset:
        """Return `count` repetitions of the elements; without end for None or -1."""
        return self._derived("RepeatDataset", int64_tensor(-1 if count is None else count, "count"))

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
        size = int64_tensor(buffer_size, "buffer_size")
        reshuffles = reshuffle_each_iteration is None or reshuffle_each_iteration
        return self._derived("ShuffleDataset", size, *seed_tensors(seed), reshuffle_each_iteration=reshuffles)

    def cache(self, filename: Any = "") -> Dataset:
        """Return the same elements, which are kept in memory in the first repetition, for the later ones.

        Args:
            filename: must be empty; elements are not cached in files.
        """
        return self._derived("CacheDataset", convert_to_tensor(filename, dtypes.string, name="filename"))

    def take(self, count: Any) -> Dataset:
        """Return the first `count` elements; all for -1."""
        return self._derived("TakeDataset", int64_tensor(count, "count"))

    def skip(self, count: Any) -> Dataset:
        """Return the elements after the first `count`; none for -1."""
        return self._derived("SkipDataset", int64_tensor(count, "count"))

    def shard(self, num_shards: Any, index: Any) -> Dataset:
        """Return every `num_shards`-th element, beginning with the one at `index`."""
        return self._derived(
            "ShardDataset", int64_tensor(num_shards, "num_shards"), int64_tensor(index, "index")
        )

    # Batches

    def batch(self, batch_size: Any, drop_remainder: Any = False) -> Dataset:
        """Return batches of `batch_size` elements, stacked.

        Args:
            drop_remainder: drop the last batch if it is smaller.
        """
        size = int64_tensor(batch_size, "batch_size")
        drops = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
        rows = static_rows(size, drops)
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
        node = padded_batch(self, batch_size, padded_shapes, padding_values, drop_remainder)
        return Dataset(*node, [self])

    def unbatch(self) -> Dataset:
        """Return the rows of each element."""
        if any(isinstance(component, SparseComponent) for component in flatten(self._spec)):
            return self._mapped("MapDataset", split_sparse(self._spec), spec=self._spec)._unbatched()
        return self._unbatched()

    def _unbatched(self) -> Dataset:
        spec = map_structure(lambda component: component.unbatched(), self._spec)
        return self._derived("UnbatchDataset", spec=spec)

    def window(self, size: Any, shift: Any = None, stride: Any = 1, drop_remainder: Any = False) -> Dataset:
        """Return datasets of `size` elements, one for each component.

        Args:
            shift: the next window begins that many elements later; by default `size`.
            stride: the distance of elements in a window.
            drop_remainder: drop windows with fewer elements.
        """
        length = int64_tensor(size, "size")
        spec = map_structure(NestedDataset.of, self._spec)
        return self._derived(
            "WindowDataset",
            length,
            length if shift is None else int64_tensor(shift, "shift"),
            int64_tensor(stride, "stride"),
            convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder"),
            spec=spec,
        )

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
        calls = convert_to_tensor(num_parallel_calls, dtypes.int32, name="num_parallel_calls")
        return self._mapped("ParallelMapDataset", function, calls)

    def _mapped(
        self, op_type: str, function: TracedFunction, *arguments: Any, spec: Any = None, **attrs: Any
    ) -> Dataset:
        return self._derived(
            op_type,
            function.captured,
            *arguments,
            spec=function.spec if spec is None else spec,
            f=function.attr,
            Targuments=function.captured_types,
            **attrs,
        )

    def flat_map(self, map_func: Callable[..., Any]) -> Dataset:
        """Return the elements of the datasets that a function returns for each element, one dataset after another.

        Raises:
            GraphTypeError: the function returns something else.
        """
        function = traced(map_func, "Dataset_flat_map", self._spec)
        return self._mapped("FlatMapDataset", function, spec=spec_of_dataset(function, "map_func"))

    def interleave(
        self,
        map_func: Callable[..., Any],
        cycle_length: Any = AUTOTUNE,
        block_length: Any = 1,
        num_parallel_calls: Any = None,
    ) -> Dataset:
        """Return the elements of the datasets that a function returns for each element, in turn.

        Args:
            cycle_length: the number of datasets at a time.
            block_length: the number of successive elements of each.
            num_parallel_calls: the number of datasets whose elements are computed at once; the order is the same.

        Raises:
            GraphTypeError: the function returns something else.
        """
        function = traced(map_func, "Dataset_interleave", self._spec)
        cycle = int64_tensor(cycle_length, "cycle_length"), int64_tensor(block_length, "block_length")
        spec = spec_of_dataset(function, "map_func")
        if num_parallel_calls is None:
            return self._mapped("InterleaveDataset", function, *cycle, spec=spec)
        calls = int64_tensor(num_parallel_calls, "num_parallel_calls")
        return self._mapped("ParallelInterleaveDatasetV2", function, *cycle, calls, spec=spec)

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

    def reduce(self, initial_state: Any, reduce_func: Callable[[Any, Any], Any]) -> Any:
        """Return the last state, as tensors: `state = reduce_func(state, element)` for each element.

        Raises:
            GraphTypeError: the function returns a state of another structure or other dtypes.
        """
        return reduced(self, initial_state, reduce_func)

    def with_options(self, options: Options) -> Dataset:
        """Return the same elements; options are kept, and change nothing.

        Raises:
            ValueError: an option is set to another value already.
        """
        found = Dataset(self._variant_tensor, self._spec, [self])
        found._options = self._options.merge(options)
        return found

    def options(self) -> Options:
        """Return the options of the dataset and those it is derived from."""
        return self._options

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


@dataclass(frozen=True, slots=True)
class NestedDataset(Component):
    """A component that is a dataset, of elements of a spec."""

    spec: Any

    @classmethod
    def of(cls, spec: Any) -> NestedDataset:
        return cls(dtypes.variant, TensorShape([]), spec)

    @property
    def legacy_class(self) -> Any:
        return self

    @property
    def legacy_type(self) -> Any:
        return self

    @property
    def legacy_shape(self) -> Any:
        return self

    def to_tensor(self, value: Any, slices: bool = False) -> Tensor:
        tensor: Tensor = value._variant_tensor
        return tensor

    def from_tensor(self, tensor: Tensor) -> Dataset:
        return Dataset(tensor, self.spec)

    def with_shape(self, shape: TensorShape) -> NestedDataset:
        return type(self)(self.dtype, shape, self.spec)


def spec_of_dataset(function: TracedFunction, what: str) -> Any:
    """Return the spec of the elements of the dataset that a function returns.

    Raises:
        GraphTypeError: it returns something else.
    """
    if not isinstance(function.spec, NestedDataset):
        raise GraphTypeError(f"`{what}` must return a `Dataset` object. Got {function.spec!r}")
    return function.spec.spec


register_kind(lambda value: isinstance(value, Dataset), lambda value: NestedDataset.of(value.element_spec))
