"""Barriers: the ops, and the class that users create."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from aioexec import dtypes as dt, shapes
from aioexec.dtypes import DType
from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.apply import apply_any_op, apply_no_output_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, Role, StepContext
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register
from aioexec.graph.static_values import constant_value
from aioexec.ops.common.copies import LARGE, are_large, free_in_slices, stacked
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.common.handles import finder, maker
from aioexec.ops.containers.queues import names_of
from aioexec.resources.barrier import Barrier as BarrierResource, Entry
from aioexec.resources.waiting import Attempt, waiting
from aioexec.shapes import Dims, TensorShape

_MANY = 256
"""Tuples whose splitting or stacking would block the event loop for too long."""


def _make(context: KernelContext, name: str) -> BarrierResource:
    attrs = context.attrs
    if attrs["capacity"] != -1:
        raise InvalidArgumentError(
            "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue "
            "to enforce a limited capacity."
        )
    return BarrierResource(name, attrs["component_types"], attrs["shapes"], context.device)


# Verbs


def _check_component(barrier: BarrierResource, component: int, dtype: DType) -> None:
    if not 0 <= component < len(barrier.dtypes):
        raise InvalidArgumentError(
            f"The component ID is out of range {component} > num_components (= {len(barrier.dtypes)})"
        )
    if barrier.dtypes[component] != dtype:
        raise InvalidArgumentError(
            f"Signature mismatch: component {component} of barrier {barrier.name!r} is "
            f"{barrier.dtypes[component].name}, the node inserts {dtype.name}"
        )


def _check_inserted(barrier: BarrierResource, component: int, keys: Array, values: Array) -> None:
    dims = barrier.dims[component] or ()
    if keys.ndim != 1 or values.shape[:1] != keys.shape:
        raise InvalidArgumentError(
            f"BarrierInsertMany: keys must be a vector, with a value each; "
            f"got shapes {shown(keys.shape)} and {shown(values.shape)}"
        )
    if values.shape[1:] != dims:
        raise InvalidArgumentError(
            f"Shape mismatch in tuple component {component + 2}. "
            f"Expected {shapes.describe(dims)}, got {shown(values.shape[1:])}"
        )


def _insert_many(context: KernelContext) -> Compute:
    component: int = context.attrs["component_index"]
    dtype: DType = context.attrs["T"]
    find = finder(context, BarrierResource, lambda barrier: _check_component(barrier, component, dtype))

    async def insert_large(step: StepContext, barrier: BarrierResource, keys: Array, values: Array) -> None:
        listed: list[bytes] = keys.tolist()

        def prepare() -> tuple[list[Array], Mapping[bytes, Entry]]:
            elements = _elements(values)
            return elements, barrier.begun(component, listed, elements)

        elements, begun = await step.run_in_worker(prepare)
        barrier.insert_many(component, listed, elements, begun)

    def insert_many(step: StepContext, handle: Any, keys: Array, values: Array) -> Awaitable[Any] | None:
        barrier = find(handle)
        _check_inserted(barrier, component, keys, values)
        if len(keys) > _MANY or are_large([values]):
            return insert_large(step, barrier, keys, values)
        barrier.insert_many(component, keys.tolist(), _elements(values))
        return None

    return insert_many


def _elements(values: Array) -> list[Array]:
    return [values[k, ...].copy() for k in range(len(values))]


def _take_many(context: KernelContext) -> Compute:
    types: Sequence[DType] = context.attrs["component_types"]
    allow_small: bool = context.attrs["allow_small_batch"]
    if context.attrs["timeout_ms"] != -1:
        raise InvalidArgumentError(f"Timeout not supported yet: timeout_ms is {context.attrs['timeout_ms']}")

    def check(barrier: BarrierResource) -> None:
        if tuple(types) != barrier.dtypes:
            raise InvalidArgumentError(
                f"Signature mismatch: barrier {barrier.name!r} has components {names_of(barrier.dtypes)}, "
                f"the node expects {names_of(types)}"
            )

    find = finder(context, BarrierResource, check)

    def take_many(step: StepContext, handle: Any, num_elements: Array) -> Any:
        barrier = find(handle)
        if np.shape(num_elements) != ():
            raise InvalidArgumentError("num_elements must be a scalar.")
        count = int(num_elements)
        if count < 0:
            raise InvalidArgumentError(f"BarrierTakeMany: num_elements must not be negative, it is {count}")
        finish = partial(_batch, barrier)
        if count > _MANY or count * barrier.element_bytes > LARGE:
            return _take_large(step, barrier, count, allow_small)
        outcome = barrier.take_many(count, allow_small)
        return waiting(barrier, outcome, finish) if isinstance(outcome, Attempt) else finish(outcome)

    return take_many


async def _take_large(step: StepContext, barrier: BarrierResource, count: int, allow_small: bool) -> Any:
    outcome = barrier.take_many(count, allow_small)
    entries = await waiting(barrier, outcome) if isinstance(outcome, Attempt) else outcome
    try:
        batch = await step.run_in_worker(partial(_batch, barrier, entries))
    except BaseException:
        barrier.give_back(entries)
        raise
    free_in_slices(entries)
    return batch


def _batch(barrier: BarrierResource, entries: Sequence[Entry]) -> tuple[Array, ...]:
    keys = np.empty(len(entries), np.object_)
    keys[:] = [entry.key for entry in entries]
    return (
        np.array([entry.index for entry in entries], np.int64),
        keys,
        *[
            stacked([entry.values[k] for entry in entries], dims or (), dtype)
            for k, (dims, dtype) in enumerate(zip(barrier.dims, barrier.dtypes, strict=True))
        ],
    )


def _query_kernel(answer: Callable[[BarrierResource], Any]) -> Reference:
    """Return the kernel of an op that reads a property or closes."""

    def kernel(context: KernelContext) -> Compute:
        find = finder(context, BarrierResource)
        return lambda step, handle: answer(find(handle))

    return kernel


def _close(context: KernelContext) -> Compute:
    return _query_kernel(lambda barrier: barrier.close(context.attrs["cancel_pending_enqueues"]))(context)


# Rows


def _keys_and_values(context: ShapeContext) -> Sequence[Dims]:
    keys = shapes.with_rank(context.inputs[1], 1)
    values = shapes.with_rank_at_least(context.inputs[2], 1)
    shapes.merge(keys, None if values is None else values[:1])
    return []


_TYPES = "component_types:list(type)>=1"
register(
    f"Barrier() -> (handle:Ref(string)) [{_TYPES}; shapes:list(shape)>=0=[]; capacity:int=-1; container:string=''; "
    "shared_name:string=''] {stateful}",
    shape=lambda context: [(2,)],
    kernel=maker(BarrierResource, _make),
    gradient=NOT_DIFFERENTIABLE,
    role=Role.VARIABLE,
)

_VERBS: tuple[tuple[str, ShapeRule, Reference], ...] = (
    (
        "BarrierInsertMany(handle:Ref(string), keys:string, values:T) -> () [T:type; component_index:int]",
        _keys_and_values,
        _insert_many,
    ),
    (
        "BarrierTakeMany(handle:Ref(string), num_elements:int32) -> "
        f"(indices:int64, keys:string, values:component_types) [{_TYPES}; allow_small_batch:bool=false; "
        "wait_for_incomplete:bool=false; timeout_ms:int=-1]",
        lambda context: [None] * (2 + len(context.attrs["component_types"])),
        _take_many,
    ),
    (
        "BarrierClose(handle:Ref(string)) -> () [cancel_pending_enqueues:bool=false]",
        lambda context: [],
        _close,
    ),
    (
        "BarrierReadySize(handle:Ref(string)) -> (size:int32)",
        lambda context: [()],
        _query_kernel(lambda barrier: np.int32(barrier.ready_size)),
    ),
    (
        "BarrierIncompleteSize(handle:Ref(string)) -> (size:int32)",
        lambda context: [()],
        _query_kernel(lambda barrier: np.int32(barrier.incomplete_size)),
    ),
)
for _signature, _shape, _kernel in _VERBS:
    register(_signature, shape=_shape, kernel=_kernel, gradient=NOT_DIFFERENTIABLE, asynchronous=True)


# The class


class Taken(NamedTuple):
    """Tuples taken from a barrier: the insertion order of each, their keys, and a batch of each component."""

    indices: Tensor
    keys: Tensor
    values: list[Tensor]


class Barrier:
    """A map from keys to tuples of tensors whose components are inserted separately; complete tuples can be taken in batches.

    Args:
        types: dtypes of the components, or one dtype.
        shapes: shapes of the components; scalars by default.
        shared_name: barriers of one name are shared by the sessions of a container.

    Raises:
        GraphValueError: a shape is not fully defined or is empty.
    """

    def __init__(
        self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier"
    ) -> None:
        self._types = [
            dt.as_dtype(dtype) for dtype in (types if isinstance(types, list | tuple) else [types])
        ]
        dims = None if shapes is None else [TensorShape(shape) for shape in shapes]
        if dims is not None and not all(shape.is_fully_defined() for shape in dims):
            raise GraphValueError(f"All shapes must be fully defined: {dims}")
        for k, shape in enumerate(dims or ()):
            if shape.num_elements() == 0:
                raise GraphValueError(
                    f"Empty tensors are not supported, but received shape '{shape}' at index {k}"
                )
        self._shapes = [TensorShape(None)] * len(self._types) if dims is None else dims
        self._barrier_ref = apply_op(
            "Barrier",
            name=name,
            component_types=self._types,
            shapes=dims or (),
            container=get_default_graph().default_container,
            shared_name=shared_name or "",
        )
        self._name = self._barrier_ref.op.name.split("/")[-1]

    @property
    def barrier_ref(self) -> Tensor:
        """The handle of the barrier."""
        return self._barrier_ref

    @property
    def name(self) -> str:
        return self._barrier_ref.op.name

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """Return an operation that inserts one component of the tuples of `keys`; `values` has a leading batch dimension."""
        return apply_no_output_op(
            "BarrierInsertMany",
            self._barrier_ref,
            keys,
            convert_to_tensor(values, self._types[component_index])
            if 0 <= component_index < len(self._types)
            else values,
            name=name or f"{self._name}_BarrierInsertMany",
            component_index=component_index,
        )

    def take_many(
        self,
        num_elements: Any,
        allow_small_batch: bool = False,
        timeout: int | None = None,
        name: str | None = None,
    ) -> Taken:
        """Return the first complete tuples.

        Args:
            allow_small_batch: allow fewer tuples if the barrier is closed.
            timeout: unsupported, as in TensorFlow; use the timeout of the step.
        """
        taken = Taken(
            *apply_any_op(
                "BarrierTakeMany",
                self._barrier_ref,
                num_elements,
                name=name or f"{self._name}_BarrierTakeMany",
                component_types=self._types,
                allow_small_batch=allow_small_batch,
                timeout_ms=timeout,
            )
        )
        known = None if allow_small_batch else constant_value(taken.indices.op.inputs[1])
        count = TensorShape((None if known is None else int(known),))
        taken.indices.set_shape(count)
        taken.keys.set_shape(count)
        for tensor, shape in zip(taken.values, self._shapes, strict=True):
            tensor.set_shape(count.concatenate(shape))
        return taken

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """Return an operation that closes the barrier to new keys.

        Args:
            cancel_pending_enqueues: drop incomplete tuples; otherwise they may still be completed.
        """
        return apply_no_output_op(
            "BarrierClose",
            self._barrier_ref,
            name=name or f"{self._name}_BarrierClose",
            cancel_pending_enqueues=cancel_pending_enqueues,
        )

    def ready_size(self, name: str | None = None) -> Tensor:
        """Return the number of complete tuples."""
        return self._query("BarrierReadySize", name)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """Return the number of incomplete tuples."""
        return self._query("BarrierIncompleteSize", name)

    def _query(self, op_type: str, name: str | None) -> Tensor:
        return apply_op(op_type, self._barrier_ref, name=name or f"{self._name}_{op_type}")
