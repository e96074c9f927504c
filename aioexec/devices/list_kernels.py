"""Kernels of stacks, TensorArrays and TensorLists on devices with memory of their own.

The lists are those of the processor, in main memory, with buffers as elements: to write or read one gives the device no work.
So the state of a loop stays on the device, and what its gradient needs of each iteration. The row's own kernel is called, which
looks at shape and dtype of an element alone. Rows of a tensor, stacks of elements and sums of gradients are made by other
kernels of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.devices.row_kernels import ELSEWHERE, VALUE_TYPES
from aioexec.dtypes import DType, as_dtype
from aioexec.graph.attrs import complete_attrs
from aioexec.graph.kernels.device_kernel import Launcher
from aioexec.graph.kernels.kernel import Attrs, Compute, KernelContext, ListVerb
from aioexec.graph.kernels.kernel_registry import find_kernel, register_kernel
from aioexec.graph.opdef import ArgDef
from aioexec.graph.registry import Row, lookup
from aioexec.resources.buffer import Buffer
from aioexec.resources.list_elements import Stacked, Sum
from aioexec.resources.manager import ResourceManager
from aioexec.resources.tensor_array import TensorArray

_TYPES = frozenset({"T", "dtype", "elem_type", "element_dtype"})
"""Attributes with the dtype of the elements."""


def is_on_lists(row: Row) -> bool:
    """Whether an op is one on lists alone."""
    return row.lists is not None and not row.lists.also_tensors


def register_list_kernel(
    row: Row, device_type: str, is_held: Callable[[DType], bool] = lambda dtype: True
) -> None:
    """Register the kernel of an op on lists for a type of devices, which have kernels of Pack, Unpack and AddV2.

    Args:
        is_held: whether a device holds values of a dtype.
    """
    make, definition = row.kernel, row.definition
    assert make is not None
    held = [dtype for dtype in VALUE_TYPES if dtype not in ELSEWHERE and is_held(dtype)]
    arguments = (*definition.inputs, *definition.outputs)
    register_kernel(
        row.name,
        device_type,
        lambda context: ListKernel(row, context, make(context), device_type),
        constraints={attr.name: held for attr in definition.attrs if attr.name in _TYPES},
        host_memory=[
            arg.name for arg in arguments if not _is_of_elements(arg) and arg.dtype is not dtypes.resource
        ],
    )


def _is_of_elements(argument: ArgDef) -> bool:
    return argument.type_attr in _TYPES


class ElementLauncher(Launcher, Protocol):
    """A launcher that copies arrays in, for kernels that are called in each step."""

    def copy_in(self, value: np.ndarray[Any, Any]) -> Buffer: ...


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """The node of a kernel that works on elements."""

    node_name: str
    device: str
    attrs: Attrs
    input_dtypes: Sequence[DType]
    output_dtypes: Sequence[DType]
    resources: ResourceManager
    functions: Any
    background: Any


class _Rows:
    """The rows of a tensor, as the kernel of the row takes them from it."""

    def __init__(self, tensor: Buffer, rows: Sequence[Buffer]) -> None:
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.ndim = len(tensor.shape)
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, key: tuple[int, Any]) -> Buffer:
        return self._rows[key[0]]


class ListKernel:
    """The kernel of one node.

    Constant: `_leaves`, of each output, whether it is an element or a stack of them. Changing: `_kernels` on elements, by op,
    number of elements and dtype.

    Args:
        compute: the row's kernel.
    """

    def __init__(self, row: Row, context: KernelContext, compute: Compute, device_type: str) -> None:
        assert row.lists is not None
        self._use = row.lists
        self._leaves = [_is_of_elements(arg) for arg in row.definition.outputs]
        self._context = context
        self._compute = compute
        self._device_type = device_type
        self._kernels: dict[tuple[str, int, np.dtype[Any]], Compute] = {}

    def __call__(self, launcher: ElementLauncher, *inputs: Any) -> Any:
        given, use = list(inputs), self._use
        if use.verb in (ListVerb.WRITE_ALL, ListVerb.FROM_TENSOR):
            given[use.value] = self._rows(launcher, given[use.value])
        result = self._compute(*given)
        if use.verb in (ListVerb.WRITE, ListVerb.WRITE_ALL):
            self._add_gradients(launcher, given[0], given[use.index])
        if len(self._leaves) == 1:
            return self._element(launcher, result) if self._leaves[0] else result
        return (
            None
            if result is None
            else tuple(
                self._element(launcher, each) if leaves else each
                for each, leaves in zip(result, self._leaves, strict=True)
            )
        )

    def _add_gradients(self, launcher: ElementLauncher, handle: Any, indices: Any) -> None:
        """Add the values that were written to elements of a gradient array to those before."""
        array = handle.item()
        if not isinstance(array, TensorArray):
            return
        for index in np.ravel(indices).tolist():
            element: Any = array.elements[index]
            if isinstance(element.array, Sum):
                element.array = self._element(launcher, element.array)

    def _element(self, launcher: ElementLauncher, value: Any) -> Buffer:
        """A buffer for what the row's kernel returns or keeps."""
        if isinstance(value, Stacked):
            return self._stack(launcher, value)
        if isinstance(value, Sum):
            one, other = (self._element(launcher, each) for each in (value.one, value.other))
            added: Buffer = self._kernel("AddV2", 2, value.dtype)(launcher, one, other)
            return added
        if isinstance(value, np.ndarray | np.generic):
            return launcher.copy_in(np.asarray(value))
        found: Buffer = value
        return found

    def _stack(self, launcher: ElementLauncher, value: Stacked) -> Buffer:
        count, *dims = value.shape
        rows = dict(value.rows)
        if len(rows) < count:
            zeros = launcher.copy_in(np.zeros(dims, value.dtype))
        elements = [
            self._element(launcher, rows[place]) if place in rows else zeros for place in range(count)
        ]
        found: Buffer = self._kernel("Pack", count, value.dtype)(launcher, *elements)
        return found

    def _rows(self, launcher: ElementLauncher, tensor: Any) -> _Rows:
        shape = tensor.shape
        if not shape or not shape[0]:
            return _Rows(tensor, ())
        found = self._kernel("Unpack", shape[0], tensor.dtype)(launcher, tensor)
        return _Rows(tensor, found if isinstance(found, tuple | list) else (found,))

    def _kernel(self, op_type: str, count: int, dtype: np.dtype[Any]) -> Compute:
        """The kernel of the device that computes with elements."""
        key = (op_type, count, dtype)
        if key not in self._kernels:
            many, one = [as_dtype(dtype)] * count, [as_dtype(dtype)]
            given, inputs, outputs = ({"num": count}, one, many) if op_type == "Unpack" else ({}, many, one)
            context = self._context
            attrs = complete_attrs(lookup(op_type).definition, context.node_name, given, inputs)
            inner = _Context(
                context.node_name,
                context.device,
                attrs,
                inputs,
                outputs,
                context.resources,
                context.functions,
                context.background,
            )
            found = find_kernel(op_type, self._device_type, attrs, runs_cpu_kernels=False)
            self._kernels[key] = found.make(inner)
        return self._kernels[key]
