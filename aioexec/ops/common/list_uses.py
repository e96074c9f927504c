"""How the ops on stacks, TensorArrays and TensorLists use their list, so that programs can keep lists in their memory.

These lists have elements of one dtype and one shape, accessed by index or from the end.
"""

from __future__ import annotations

from aioexec.errors import InvalidArgumentError
from aioexec.graph import registry
from aioexec.graph.kernels.kernel import ListUse, ListVerb

_EMPTY_STACK = ((InvalidArgumentError, "Stack is empty when calling Pop()"),)
_EMPTY_LIST = ((InvalidArgumentError, "Trying to pop from an empty list."),)
_READ_ARRAY = (
    (InvalidArgumentError, "Tried to read from an index outside of the TensorArray"),
    (
        InvalidArgumentError,
        "Could not read from the TensorArray: an element was not written, or cleared after a previous read",
    ),
)
_WRITE_ARRAY = (
    (
        InvalidArgumentError,
        "Tried to write to an index outside of the TensorArray, and the array is not resizeable",
    ),
    (
        InvalidArgumentError,
        "Could not write to the TensorArray because an element has already been written to or read",
    ),
)
_ITEM = (
    (InvalidArgumentError, "Trying to access an element outside of the list"),
    (
        InvalidArgumentError,
        "Trying to read an uninitialized tensor of a list with non-fully-defined element_shape",
    ),
)

_USES = {
    "StackV2": ListUse(ListVerb.EMPTY, ("list",), size=0, dtype="elem_type"),
    "StackPushV2": ListUse(ListVerb.PUSH, ("value",), value=1),
    "StackPopV2": ListUse(ListVerb.POP, ("value",), statuses=_EMPTY_STACK),
    "StackCloseV2": ListUse(ListVerb.CLOSE, ()),
    "TensorArrayV3": ListUse(ListVerb.RESERVE, ("list", "flow"), size=0, dtype="dtype", writes_once=True),
    "TensorArrayGradV3": ListUse(ListVerb.GRADIENT, ("list", "flow"), flow=1),
    "TensorArrayReadV3": ListUse(ListVerb.READ, ("value",), index=1, statuses=_READ_ARRAY),
    "TensorArrayWriteV3": ListUse(ListVerb.WRITE, ("flow",), index=1, value=2, flow=3, statuses=_WRITE_ARRAY),
    "TensorArrayGatherV3": ListUse(ListVerb.READ_ALL, ("value",), index=1, statuses=_READ_ARRAY),
    "TensorArrayScatterV3": ListUse(
        ListVerb.WRITE_ALL, ("flow",), index=1, value=2, flow=3, statuses=_WRITE_ARRAY
    ),
    "TensorArraySizeV3": ListUse(ListVerb.LENGTH, ("value",)),
    "TensorArrayCloseV3": ListUse(ListVerb.CLOSE, ()),
    "EmptyTensorList": ListUse(
        ListVerb.EMPTY, ("list",), shape=0, size=1, dtype="element_dtype", is_value=True
    ),
    "TensorListReserve": ListUse(
        ListVerb.RESERVE, ("list",), shape=0, size=1, dtype="element_dtype", is_value=True, zeros=True
    ),
    "TensorListFromTensor": ListUse(
        ListVerb.FROM_TENSOR, ("list",), shape=1, value=0, dtype="element_dtype", is_value=True, zeros=True
    ),
    "TensorListPushBack": ListUse(ListVerb.PUSH, ("list",), value=1),
    "TensorListPopBack": ListUse(ListVerb.POP, ("list", "value"), shape=1, statuses=_EMPTY_LIST),
    "TensorListGetItem": ListUse(ListVerb.READ, ("value",), shape=2, index=1, statuses=_ITEM),
    "TensorListSetItem": ListUse(ListVerb.WRITE, ("list",), index=1, value=2, statuses=_ITEM),
    "TensorListStack": ListUse(ListVerb.READ_ALL, ("value",), shape=1, statuses=_ITEM),
    "TensorListElementShape": ListUse(ListVerb.ELEMENT_SHAPE, ("value",)),
    "TensorListLength": ListUse(ListVerb.LENGTH, ("value",)),
    "ZerosLike": ListUse(ListVerb.ZEROS_LIKE, ("list",), also_tensors=True),
    "AddN": ListUse(ListVerb.ADD, ("list",), also_tensors=True),
}

for _op_type, _use in _USES.items():
    registry.complete(_op_type, lists=_use)
