"""Session handles: tensors that stay in the session between steps instead of being returned to the caller.

handle = await session.run(get_session_handle(big))
holder, tensor = get_session_tensor(handle.handle, float32)
await session.run(tensor * 2, {holder: handle.handle})
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import GraphTypeError, InternalError, InvalidArgumentError
from aioexec.graph.apply import apply_no_output_op, apply_op
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.array.identity import placeholder
from aioexec.ops.common.elementwise import Array
from aioexec.resources.session_state import device_of, session_state
from aioexec.shapes import Dims

# Rows


def _keep(context: KernelContext) -> Compute:
    state, name, device = session_state(context.resources), context.node_name, context.device

    def keep(value: Array) -> Array:
        return dtypes.to_array(state.keep(value, name, device), dtypes.string)

    return keep


def _find(context: KernelContext) -> Compute:
    state, expected = session_state(context.resources), context.output_dtypes[0]

    def find(handle: Array) -> Array:
        value = state.find(_text(handle))
        if value.dtype != expected.numpy:
            raise InternalError(
                f"Output 0 of type {value.dtype} does not match declared output type {expected.name}"
            )
        return value

    return find


def _delete(context: KernelContext) -> Compute:
    state = session_state(context.resources)
    return lambda handle: state.delete(_text(handle))


def _text(handle: Any) -> str:
    if np.shape(handle) != ():
        raise InvalidArgumentError(f"a session handle is a scalar, got shape {np.shape(handle)}")
    content = handle.item() if isinstance(handle, np.ndarray) else handle
    return content.decode() if isinstance(content, bytes) else str(content)


def _scalar(context: ShapeContext) -> Sequence[Dims]:
    return [()]


for _signature in (
    "GetSessionHandle(value:T) -> (handle:string) [T:type] {stateful}",
    "GetSessionHandleV2(value:T) -> (handle:resource) [T:type] {stateful}",
):
    register(_signature, shape=_scalar, kernel=_keep, gradient=NOT_DIFFERENTIABLE)

register(
    "GetSessionTensor(handle:string) -> (value:dtype) [dtype:type] {stateful}",
    shape=lambda context: [None],
    kernel=_find,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)

register(
    "DeleteSessionTensor(handle:string) -> () {stateful}",
    shape=lambda context: [],
    kernel=_delete,
    gradient=NOT_DIFFERENTIABLE,
)


class TensorHandle:
    """The value of a fetched `get_session_handle(...)`: refers to a tensor kept in a session, and can be fed for it.

    Deleting or garbage-collecting the TensorHandle frees the tensor; after `get_raw_handle`, only `delete_session_tensor`
    does.

    Args:
        handle: the text of the handle.
        dtype: dtype of the tensor.
        session: the session that keeps it.
        forget: frees the tensor of a handle without waiting; thread-safe.
    """

    def __init__(
        self, handle: str, dtype: DType, session: Any, forget: Callable[[str], object] | None = None
    ) -> None:
        self._handle = handle
        self._dtype = dtype
        self._session = session
        self._forgetting = None if forget is None else weakref.finalize(self, forget, handle)
        if self._forgetting is not None:
            self._forgetting.atexit = False

    @property
    def handle(self) -> str:
        """The text of the handle."""
        return self._handle

    @property
    def dtype(self) -> DType:
        return self._dtype

    @property
    def session(self) -> Any:
        """The session that keeps the tensor."""
        return self._session

    def get_raw_handle(self) -> str:
        """Return the text of the handle; from now on the tensor is kept until it is deleted explicitly."""
        if self._forgetting is not None:
            self._forgetting.detach()
        return self._handle

    async def eval(self) -> Any:
        """Return the value of the tensor."""
        holder, reader = _cached(self._session.graph, _READERS, self._handle, self._dtype)
        return await self._session.run(reader, {holder: self._handle})

    async def delete(self) -> None:
        """Free the tensor.

        Raises:
            InvalidArgumentError: the tensor was freed before.
        """
        holder, deleter = _cached(self._session.graph, _DELETERS, self._handle, None)
        await self._session.run(deleter, {holder: self._handle})
        if self._forgetting is not None:
            self._forgetting.detach()

    def __str__(self) -> str:
        return self._handle

    def __repr__(self) -> str:
        return f"TensorHandle({self._handle!r}, {self._dtype.name})"


# Nodes that read and delete, cached in collections of the graph: one for each device and dtype
_READERS = "_session_handle_readers"
_DELETERS = "_session_handle_deleters"


def _cached(graph: Graph, collection: str, handle: str, dtype: DType | None) -> tuple[Tensor, Any]:
    """Return the placeholder and the node on a device that read or delete the tensor of a handle, creating them once."""
    key = (device_of(handle), dtype)
    for known, holder, node in graph.get_collection_ref(collection):
        if known == key:
            return holder, node
    with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
        holder, node = delete_session_tensor(handle) if dtype is None else get_session_tensor(handle, dtype)
    graph.add_to_collection(collection, (key, holder, node))
    return holder, node


# Functions


def get_session_handle(data: Tensor, name: str | None = None) -> Tensor:
    """Keep `data` in the session and return its handle; fetching it returns a TensorHandle.

    Raises:
        GraphTypeError: `data` is not a tensor.
    """
    if not isinstance(data, Tensor):
        raise GraphTypeError(f"`data` must be of type Tensor, got {data!r}")
    with data.graph.as_default() as graph, graph.colocate_with(data.op):
        return apply_op("GetSessionHandle", data, name=name)


def get_session_tensor(handle: Any, dtype: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Return a placeholder for a handle, and the tensor of the handle that is fed for it.

    Args:
        handle: a handle (text or TensorHandle) of a tensor on the device of the handles that will be fed.
    """
    with get_default_graph().device(device_of(str(handle))):
        holder = placeholder(dtypes.string)
        tensor = apply_op("GetSessionTensor", holder, name=name, dtype=dtypes.as_dtype(dtype))
    return holder, tensor


def delete_session_tensor(handle: Any, name: str | None = None) -> tuple[Tensor, Operation]:
    """Return a placeholder for a handle, and an operation that frees the tensor of the handle that is fed for it.

    Args:
        handle: a handle (text or TensorHandle) of a tensor on the device of the handles that will be fed.
    """
    with get_default_graph().device(device_of(str(handle))):
        holder = placeholder(dtypes.string)
        operation = apply_no_output_op("DeleteSessionTensor", holder, name=name)
    return holder, operation
