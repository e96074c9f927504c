"""Transformations for `Dataset.apply`, of single elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.data.arguments import check_predicate, component_tensors, int64_tensor, seed_tensors, static_rows
from aioexec.data.dataset import AUTOTUNE, Dataset
from aioexec.data.functions import traced
from aioexec.data.interleaving import interleaved
from aioexec.data.reduction import traced_states
from aioexec.data.structure import (
    Component,
    SparseComponent,
    attrs_of,
    flat_dtypes,
    from_tensors,
    legacy_types,
    map_structure,
    normalized,
)
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_list_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.shapes import TensorShape

Transformation = Callable[[Dataset], Dataset]


def map_and_batch(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """Return `map` followed by `batch`, as one node.

    Args:
        num_parallel_batches: calls at once, in batches.
        num_parallel_calls: calls at once.

    Raises:
        GraphValueError: both are given.
    """
    if num_parallel_batches is not None and num_parallel_calls is not None:
        raise GraphValueError(
            "The `num_parallel_batches` and `num_parallel_calls` arguments are mutually exclusive."
        )
    if num_parallel_calls is None:
        num_parallel_calls = batch_size if num_parallel_batches is None else batch_size * num_parallel_batches

    def transformed(dataset: Dataset) -> Dataset:
        function = traced(map_func, "tf_data_experimental_map_and_batch", dataset.element_spec)
        size = int64_tensor(batch_size, "batch_size")
        calls = int64_tensor(num_parallel_calls, "num_parallel_calls")
        drops = convert_to_tensor(drop_remainder, dtypes.bool, name="drop_remainder")
        rows = static_rows(size, drops)
        spec = map_structure(lambda component: component.batched(rows), function.spec)
        return dataset._mapped("MapAndBatchDataset", function, size, calls, drops, spec=spec)

    return transformed


def map_and_batch_with_legacy_function(
    map_func: Callable[..., Any],
    batch_size: Any,
    num_parallel_batches: Any = None,
    drop_remainder: Any = False,
    num_parallel_calls: Any = None,
) -> Transformation:
    """As `map_and_batch`."""
    return map_and_batch(map_func, batch_size, num_parallel_batches, drop_remainder, num_parallel_calls)


def parallel_interleave(
    map_func: Callable[..., Any],
    cycle_length: Any,
    block_length: Any = 1,
    sloppy: Any = False,
    buffer_output_elements: Any = None,
    prefetch_input_elements: Any = None,
) -> Transformation:
    """Return `interleave` whose datasets compute elements ahead.

    Args:
        sloppy: a dataset whose next element is not there is passed over, so that the order depends on time.
        buffer_output_elements: elements that each dataset computes ahead; by default twice `block_length`.
        prefetch_input_elements: datasets opened ahead; by default twice `cycle_length`.
    """

    def transformed(dataset: Dataset) -> Dataset:
        return interleaved(
            dataset,
            map_func,
            cycle_length,
            block_length,
            sloppy,
            buffer_output_elements,
            prefetch_input_elements,
        )

    return transformed


def shuffle_and_repeat(buffer_size: Any, count: Any = None, seed: Any = None) -> Transformation:
    """Return `shuffle` and `repeat` as one node: the buffer is filled with the next repetition before this one ends."""

    def transformed(dataset: Dataset) -> Dataset:
        size = int64_tensor(buffer_size, "buffer_size")
        times = int64_tensor(-1 if count is None else count, "count")
        return dataset._derived("ShuffleAndRepeatDataset", size, *seed_tensors(seed), times)

    return transformed


def shuffled_epochs(dataset: Dataset, count: int | None, buffer_size: Any, seed: Any) -> Dataset:
    """Return `count` repetitions of a dataset, endless for None, shuffled unless the buffer's size is None."""
    if buffer_size is not None:
        return dataset.apply(shuffle_and_repeat(buffer_size, count, seed))
    return dataset if count == 1 else dataset.repeat(count)


def unbatch() -> Transformation:
    """Return `Dataset.unbatch`."""
    return lambda dataset: dataset.unbatch()


def enumerate_dataset(start: Any = 0) -> Transformation:
    """Return `Dataset.enumerate`."""
    return lambda dataset: dataset.enumerate(start)


def ignore_errors() -> Transformation:
    """Return the elements without those that fail."""
    return lambda dataset: dataset._derived("IgnoreErrorsDataset")


def unique() -> Transformation:
    """Return the first of equal elements, in order.

    Raises:
        GraphTypeError: elements are no scalars of int32, int64 or string.
    """

    def transformed(dataset: Dataset) -> Dataset:
        spec = dataset.element_spec
        if not isinstance(spec, Component) or spec.dtype not in (dtypes.int32, dtypes.int64, dtypes.string):
            raise GraphTypeError(
                "`tf.data.experimental.unique()` only supports inputs with a single `tf.int32`, `tf.int64`, or "
                "`tf.string` component."
            )
        return dataset._derived("UniqueDataset")

    return transformed


def take_while(predicate: Callable[..., Any]) -> Transformation:
    """Return the elements before the first one for which a function returns false.

    Raises:
        GraphValueError: it does not return a scalar of dtype bool.
    """

    def transformed(dataset: Dataset) -> Dataset:
        function = traced(predicate, "tf_data_experimental_take_while", dataset.element_spec)
        check_predicate(function.spec, "predicate")
        return dataset._derived(
            "TakeWhileDataset", function.captured, predicate=function.attr, Targuments=function.captured_types
        )

    return transformed


def scan(initial_state: Any, scan_func: Callable[[Any, Any], Any]) -> Transformation:
    """Return the outputs of `state, output = scan_func(state, element)` for each element.

    Raises:
        GraphTypeError: the next state has another structure or other dtypes, or the function returns no pair.
    """

    def transformed(dataset: Dataset) -> Dataset:
        state, values = normalized(initial_state)
        tensors = component_tensors(state, values)
        function, state = traced_states(dataset, state, scan_func, "tf_data_experimental_scan", _first)
        output = function.spec[1]
        return dataset._derived(
            "ScanDataset",
            tensors,
            function.captured,
            spec=output,
            f=function.attr,
            Tstate=flat_dtypes(state),
            Targuments=function.captured_types,
        )

    return transformed


def _first(result: Any) -> Any:
    """Return the state in the result of a scanning function."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise GraphTypeError(
            "The scan function must return a pair comprising the new state and the output value."
        )
    return result[0]


def dense_to_sparse_batch(batch_size: Any, row_shape: Any) -> Transformation:
    """Return batches of elements of different shapes, as sparse tensors of shape [batch_size, *row_shape].

    Raises:
        GraphTypeError: elements have several components.
    """

    def transformed(dataset: Dataset) -> Dataset:
        component = dataset.element_spec
        if type(component) is not Component:
            raise GraphTypeError(
                "`dense_to_sparse_batch` requires a dataset of single tensors, got elements of types "
                f"{legacy_types(component)}"
            )
        shape = TensorShape(row_shape)
        spec = SparseComponent(component.dtype, TensorShape([None]).concatenate(shape))
        return dataset._derived(
            "DenseToSparseBatchDataset",
            int64_tensor(batch_size, "batch_size"),
            int64_tensor([-1 if size is None else size for size in shape.as_list()], "row_shape"),
            spec=spec,
        )

    return transformed


def prefetch_to_device(device: Any, buffer_size: Any = None) -> Transformation:
    """Return `prefetch`: elements are copied to the device of the step that gets them."""
    return lambda dataset: dataset.prefetch(AUTOTUNE if buffer_size is None else buffer_size)


def copy_to_device(target_device: Any, source_device: Any = "/cpu:0") -> Transformation:
    """Return the same elements: they are copied to the device of the step that gets them."""
    return lambda dataset: dataset


def get_single_element(dataset: Dataset) -> Any:
    """Return the only element of a dataset, as tensors; a step fails with InvalidArgumentError if there are others.

    Raises:
        GraphTypeError: the argument is no dataset.
    """
    if not isinstance(dataset, Dataset):
        raise GraphTypeError("`dataset` must be a `tf.data.Dataset` object.")
    spec = dataset.element_spec
    return from_tensors(
        spec, apply_list_op("DatasetToSingleElement", dataset._variant_tensor, **attrs_of(spec))
    )


def Counter(start: Any = 0, step: Any = 1, dtype: Any = dtypes.int64) -> Dataset:
    """Return the endless dataset of numbers from `start`, `step` apart."""

    def counted(state: Any, _: Any) -> tuple[Any, Any]:
        return state + step, state

    with get_default_graph().name_scope("counter"):
        first = convert_to_tensor(start, dtypes.as_dtype(dtype), name="start")
        step = convert_to_tensor(step, dtypes.as_dtype(dtype), name="step")
        return Dataset.from_tensors(0).repeat(None).apply(scan(first, counted))
