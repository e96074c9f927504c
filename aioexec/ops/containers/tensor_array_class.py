"""`TensorArray`: the class for arrays of tensors that loops write and read, made of a handle and the current flow.

A method that changes the array returns a new object with the same handle and a later flow. Further calls on the older object
are not ordered after that change. In the loop variables and results of conditionals and loops, an array is represented by its
flow, since its handle never changes.
"""

from __future__ import annotations

import contextlib
from typing import Any

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_any_op, apply_no_output_op, apply_op, apply_tuple_op, graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import BaseGraph, Operation, Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.filling import range_
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.containers.tensor_array import gradient_array, version_of
from aioexec.ops.control_flow.nesting import register_composite
from aioexec.ops.math.cast import cast
from aioexec.shapes import TensorShape


class _SharedState:
    """The state shared by all objects of one array.

    Constant: dtype, handle, size (None if dynamic), infers (whether the element shape is inferred from the first element).
    Changing: element_shape; colocated, the op that produces the first value written, if the array is colocated with it.
    """

    def __init__(
        self,
        dtype: DType,
        handle: Tensor,
        size: Tensor | None,
        infers: bool,
        element_shape: TensorShape,
        colocates: bool,
    ) -> None:
        self.dtype = dtype
        self.handle = handle
        self.size = size
        self.infers = infers
        self.element_shape = element_shape
        self.colocates = colocates
        self.colocated: Operation | None = None

    def merge_shape(self, shape: TensorShape) -> None:
        """Merge the shape of an element into `element_shape`."""
        if not self.element_shape.is_compatible_with(shape):
            raise GraphValueError(f"Inconsistent shapes: saw {shape} but expected {self.element_shape}")
        if self.infers:
            self.element_shape = self.element_shape.merge_with(shape)


class TensorArray:
    """An array of tensors of one dtype.

    Args:
        size: number of elements.
        dynamic_size: whether writing past the end extends the array.
        clear_after_read: free each element when it is read; default True.
        tensor_array_name: the name in messages.
        handle, flow: handle and flow of an existing array.
        infer_shape: whether all elements have the same shape.
        element_shape: shape of each element.
        colocate_with_first_write_call: colocate the array with the op that produces the first value written.

    Raises:
        GraphTypeError, GraphValueError: the arguments contradict each other.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        _check_arguments(size, dynamic_size, clear_after_read, handle)
        dtype, shape = dtypes.as_dtype(dtype).base_dtype, TensorShape(element_shape)
        if handle is None:
            with (
                graph_of([size, flow]).as_default() as graph,
                graph.name_scope(name or "TensorArray") as scope,
            ):
                size = convert_to_tensor(size, dtypes.int32, name="size")
                with _placed(graph, None, colocate_with_first_write_call):
                    handle, flow = apply_tuple_op(
                        "TensorArrayV3",
                        size,
                        dtype=dtype,
                        element_shape=shape,
                        identical_element_shapes=infer_shape,
                        dynamic_size=bool(dynamic_size),
                        clear_after_read=clear_after_read is not False,
                        tensor_array_name=tensor_array_name or "",
                        name=scope,
                    )
        fixed = None if dynamic_size else size
        self._known = _SharedState(dtype, handle, fixed, infer_shape, shape, colocate_with_first_write_call)
        self._flow: Tensor = flow

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._known.dtype

    @property
    def handle(self) -> Tensor:
        """The handle of the array."""
        return self._known.handle

    @property
    def flow(self) -> Tensor:
        """The flow after all operations of this object and its predecessors."""
        return self._flow

    @property
    def element_shape(self) -> TensorShape:
        """The static shape of the elements, as far as it is known."""
        return self._known.element_shape

    @property
    def dynamic_size(self) -> bool:
        """Whether the size may change."""
        return self._known.size is None

    def _with_flow(self, flow: Tensor) -> TensorArray:
        """Return an object for the same array with a later flow."""
        later: TensorArray = object.__new__(TensorArray)
        later._known, later._flow = self._known, flow
        return later

    def _apply(self, verb: str, *operands: Any, name: str | None = None, **attrs: Any) -> Any:
        op_type = f"TensorArray{verb}{version_of(self.handle)}"
        return apply_any_op(op_type, self.handle, *operands, self._flow, name=name, **attrs)

    def _written(self, verb: str, value: Tensor, *operands: Any, name: str | None) -> TensorArray:
        """Apply an op that changes the array, colocated with the first value written."""
        known = self._known
        if known.colocated is None:
            known.colocated = value.op
        with _placed(value.graph, known.colocated, known.colocates):
            return self._with_flow(self._apply(verb, *operands, name=name))

    def identity(self) -> TensorArray:
        """Return an object whose later operations follow the current control dependencies."""
        return self._with_flow(apply_op("Identity", self._flow))

    def grad(self, source: str, flow: Any = None, name: str | None = None) -> TensorArray:
        """Return the array of the gradients with respect to the elements.

        Args:
            source: the name of the gradient computation; each has its own gradient array.
            flow: the flow after which it is created; by default that of this object.
        """
        with get_default_graph().name_scope(name or "TensorArrayGrad"):
            handle, later = gradient_array(self.handle, self._flow if flow is None else flow, source)
        known = self._known
        found = TensorArray(
            known.dtype,
            handle=handle,
            flow=later,
            infer_shape=known.infers,
            colocate_with_first_write_call=False,
        )
        found._known.element_shape = known.element_shape
        return found

    # Reading

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """Return the element at `index`."""
        value: Tensor = self._apply("Read", index, name=name, dtype=self.dtype)
        value.set_shape(self.element_shape)
        return value

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """Return the elements at `indices`, stacked."""
        value: Tensor = self._apply(
            "Gather", indices, name=name, dtype=self.dtype, element_shape=self.element_shape
        )
        value.set_shape(TensorShape([None]).concatenate(self.element_shape))
        return value

    def stack(self, name: str | None = None) -> Tensor:
        """Return all elements, stacked."""
        with get_default_graph().name_scope(name or "TensorArrayStack"):
            value = self.gather(range_(0, self.size()), name=name)
        value.set_shape(TensorShape([self._static_size()]).concatenate(self.element_shape))
        return value

    def concat(self, name: str | None = None) -> Tensor:
        """Return all elements, concatenated along their first dimension."""
        shape, count = self.element_shape, self._static_size()
        value: Tensor
        value, _ = self._apply("Concat", name=name, dtype=self.dtype, element_shape_except0=shape[1:])
        is_known = self._known.infers and shape.rank is not None and count is not None
        length = shape[0] * count if is_known else None
        value.set_shape(TensorShape([length]).concatenate(shape[1:]))
        return value

    def _static_size(self) -> int | None:
        size = None if self._known.size is None else constant_value(self._known.size)
        return None if size is None else int(size)

    def size(self, name: str | None = None) -> Tensor:
        """Return the number of elements."""
        if self._known.size is not None:
            return self._known.size
        found: Tensor = self._apply("Size", name=name)
        return found

    # Writing

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """Set the element at `index`."""
        with op_scope(name, "TensorArrayWrite", self._flow, index, value):
            tensor = self._converted(value)
            self._known.merge_shape(tensor.shape)
            return self._written("Write", tensor, index, tensor, name=name)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """Set the element at `indices[k]` to row k of `value`."""
        with op_scope(name, "TensorArrayScatter", self._flow, indices, value):
            tensor = self._converted(value)
            self._known.merge_shape(tensor.shape[1:])
            return self._written("Scatter", tensor, indices, tensor, name=name)

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """Set all elements to the rows of `value`."""
        with op_scope(name, "TensorArrayUnstack", self._flow, value):
            tensor = self._converted(value)
            count = shape(tensor)[0]
            return self.scatter(range_(0, count), tensor, name=name)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """Split `value` along its first dimension into parts of these lengths, and set all elements to them."""
        with op_scope(name, "TensorArraySplit", self._flow, value, lengths):
            tensor, sizes = self._converted(value), cast(lengths, dtypes.int64)
            known = constant_value(sizes)
            if known is not None and known.size and (known == known.flat[0]).all():
                self._known.merge_shape(TensorShape([int(known.flat[0])]).concatenate(tensor.shape[1:]))
            return self._written("Split", tensor, tensor, sizes, name=name)

    def _converted(self, value: Any) -> Tensor:
        return convert_to_tensor(value, preferred_dtype=self.dtype, name="value")

    def close(self, name: str | None = None) -> Operation:
        """Free the elements before the end of the step."""
        return apply_no_output_op(f"TensorArrayClose{version_of(self.handle)}", self.handle, name=name)


def _placed(
    graph: BaseGraph, op: Operation | None, colocates: bool
) -> contextlib.AbstractContextManager[None]:
    """Colocate nodes with `op`; if `op` is None, ignore the current colocation and let placement decide."""
    if not colocates or (op is not None and op.graph is not graph):
        return contextlib.nullcontext()
    return graph.colocate_with(op, ignore_existing=True)


def _check_arguments(size: Any, dynamic_size: Any, clear_after_read: Any, handle: Any) -> None:
    if handle is None:
        if size is None:
            raise GraphValueError("Size must be provided if handle is not provided")
        return
    if not isinstance(handle, Tensor):
        raise GraphTypeError(f"Handle must be a Tensor, got {handle!r}")
    for name, value in (
        ("size", size),
        ("dynamic_size", dynamic_size),
        ("clear_after_read", clear_after_read),
    ):
        if value is not None:
            raise GraphValueError(f"Cannot provide both a handle and {name} at the same time")


register_composite(TensorArray, lambda array: [array.flow], lambda array, parts: array._with_flow(parts[0]))
