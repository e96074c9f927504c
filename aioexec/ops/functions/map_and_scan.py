"""Loops over the rows of tensors: map_fn, scan, foldl and foldr.

Each unstacks the elements into TensorArrays, runs a while loop over them, and stacks its results. Elements and results may be
nested structures of tensors; their first dimensions must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.nesting import (
    assert_same_structure,
    flatten,
    flatten_sequences,
    map_sequences,
    map_structure,
    pack_sequence_as,
)
from aioexec.ops.control_flow.while_loop import while_loop
from aioexec.shapes import Dimension, TensorShape


@dataclass(frozen=True, slots=True)
class _Options:
    """The arguments that are passed on to the while loop."""

    parallel_iterations: int | None
    back_prop: bool
    swap_memory: bool

    def loop(self, cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any) -> Any:
        return while_loop(
            cond,
            body,
            loop_vars,
            parallel_iterations=self.parallel_iterations or 10,
            back_prop=self.back_prop,
            swap_memory=self.swap_memory,
        )


class _Elements:
    """The unstacked elements: one TensorArray per tensor; `count` is their number as a tensor, `length` if it is static."""

    def __init__(self, elems: Any) -> None:
        self.structure = map_sequences(_rows_of, elems)
        self.sparse = {
            place: elem.dtype
            for place, elem in enumerate(flatten_sequences(elems))
            if isinstance(elem, SparseTensor)
        }
        tensors = [convert_to_tensor(elem, name="elem") for elem in flatten(self.structure)]
        length = Dimension(None)
        for tensor in tensors:
            if tensor.dims == ():
                raise GraphValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
            length = length.merge_with(tensor.shape[0])
        self.length = length.value
        self.count: Tensor = (
            shape(tensors[0])[0]
            if self.length is None
            else convert_to_tensor(self.length, dtypes.int32, name="n")
        )
        self.arrays = [TensorArray(tensor.dtype.base_dtype, self.count).unstack(tensor) for tensor in tensors]

    def read(self, index: Any) -> Any:
        """Return the rows at an index, in the structure of the elements."""
        rows: list[Any] = [array.read(index) for array in self.arrays]
        for place, dtype in self.sparse.items():
            rows[place] = SparseTensor(*apply_tuple_op("DeserializeSparse", rows[place], dtype=dtype))
        return pack_sequence_as(self.structure, rows)

    def order(self, reverse: bool) -> tuple[Tensor, int, Callable[..., Tensor]]:
        """Return the first index, the step between indices, and the condition that an index is in range."""
        if reverse:
            return self.count - 1, -1, lambda i, *others: i >= 0
        return convert_to_tensor(0), 1, lambda i, *others: i < self.count

    def new_array(self, value: Tensor, infer_shape: bool) -> TensorArray:
        """Create an array for one result like `value` per row."""
        return TensorArray(
            value.dtype.base_dtype,
            self.count,
            infer_shape=infer_shape,
            element_shape=value.shape if infer_shape else None,
        )

    def results(self, arrays: Sequence[TensorArray]) -> list[Tensor]:
        """Stack the results, one row per element."""
        found = [array.stack() for array in arrays]
        for tensor in found:
            tensor.set_shape(TensorShape([self.length]).concatenate(tensor.shape[1:]))
        return found


def _rows_of(elem: Any) -> Any:
    """The rows of a sparse tensor as a dense one, three strings each; any other value as it is."""
    if not isinstance(elem, SparseTensor):
        return elem
    return apply_op("SerializeManySparse", elem.indices, elem.values, elem.dense_shape)


def _tensors_of(found: Any, structure: Any) -> list[Tensor]:
    """Return the tensors in the result of a function, which must have this structure."""
    assert_same_structure(structure, found)
    tensors: list[Tensor] = flatten(map_structure(convert_to_tensor, found))
    return tensors


def _write_row(arrays: Sequence[TensorArray], index: Any, values: Sequence[Any]) -> list[TensorArray]:
    """Write a value to each array at an index; return the arrays."""
    return [array.write(index, value) for array, value in zip(arrays, values, strict=True)]


def _check_function(function: Any) -> None:
    if not callable(function):
        raise GraphTypeError(f"fn must be callable, got {function!r}")


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """Apply `fn` to each row of `elems` and stack the results.

    Args:
        elems: a tensor, dense or sparse, or a structure of tensors with equal first dimensions.
        dtype: the structure of dtypes that `fn` returns; by default that of `elems`. `fn` returns dense tensors.
        infer_shape: the results have one shape.
        fn_output_signature: the newer name of `dtype`.

    Raises:
        GraphTypeError, GraphValueError: an argument has another form, or `fn` returns another structure.
    """
    _check_function(fn)
    dtype = dtype if fn_output_signature is None else fn_output_signature
    with op_scope(name, "map", *flatten(elems)):
        elements = _Elements(elems)
        if dtype is None and elements.sparse:
            raise GraphTypeError(
                "map_fn: with elements that are SparseTensors, dtype must tell what fn returns"
            )
        structure = elements.structure if dtype is None else dtype
        kinds = [array.dtype for array in elements.arrays] if dtype is None else flatten(dtype)
        arrays = [TensorArray(kind, elements.count, infer_shape=infer_shape) for kind in kinds]

        def body(i: Tensor, written: list[TensorArray]) -> Any:
            found = fn(elements.read(i))
            assert_same_structure(structure, found)
            return i + 1, _write_row(written, i, flatten(found))

        options = _Options(parallel_iterations, back_prop, swap_memory)
        _, arrays = options.loop(lambda i, _: i < elements.count, body, (convert_to_tensor(0), arrays))
        return pack_sequence_as(structure, elements.results(arrays))


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """Compute `accumulated = fn(accumulated, row)` for each row of `elems` and stack all values.

    Args:
        elems: a tensor, or a structure of tensors with equal first dimensions.
        initializer: initial value; by default the first row, which then is the first result.
        infer_shape: the results have one shape.
        reverse: begin with the last row; results keep the order of the rows.

    Raises:
        GraphTypeError, GraphValueError: an argument has another form, or `fn` returns another structure.
    """
    _check_function(fn)
    with op_scope(name, "scan", *flatten(elems)):
        elements = _Elements(elems)
        first, step, goes_on = elements.order(reverse)
        structure = elems if initializer is None else initializer
        start = elements.read(first) if initializer is None else map_structure(convert_to_tensor, initializer)
        arrays = [elements.new_array(value, infer_shape) for value in flatten(start)]
        if initializer is None:
            arrays, first = _write_row(arrays, first, flatten(start)), first + step

        def body(i: Tensor, flat: list[Tensor], written: list[TensorArray]) -> Any:
            found = fn(pack_sequence_as(structure, flat), elements.read(i))
            values = _tensors_of(found, structure)
            return i + step, values, _write_row(written, i, values)

        options = _Options(parallel_iterations, back_prop, swap_memory)
        _, _, arrays = options.loop(goes_on, body, (first, flatten(start), arrays))
        return pack_sequence_as(structure, elements.results(arrays))


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """Compute `accumulated = fn(accumulated, row)` for each row of `elems` and return the last value.

    Args:
        elems: a tensor, or a structure of tensors with equal first dimensions.
        initializer: initial value; by default the first row.

    Raises:
        GraphTypeError, GraphValueError: an argument has another form, or `fn` returns another structure.
    """
    return _fold(
        fn, elems, initializer, _Options(parallel_iterations, back_prop, swap_memory), name or "foldl", False
    )


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """As `foldl`, from the last row to the first."""
    return _fold(
        fn, elems, initializer, _Options(parallel_iterations, back_prop, swap_memory), name or "foldr", True
    )


def _fold(
    fn: Callable[[Any, Any], Any], elems: Any, initializer: Any, options: _Options, name: str, reverse: bool
) -> Any:
    _check_function(fn)
    with op_scope(name, name, *flatten(elems)):
        elements = _Elements(elems)
        first, step, goes_on = elements.order(reverse)
        start = initializer
        if initializer is None:
            start, first = elements.read(first), first + step

        def body(i: Tensor, accumulated: Any) -> Any:
            return i + step, fn(accumulated, elements.read(i))

        return options.loop(goes_on, body, (first, start))[1]
