"""Ops of conditional accumulators: creation, application and taking of gradients.

The kernels run on the event loop, which owns the accumulators; large gradients are summed on workers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, Role, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, ShapeRule, register
from aioexec.ops.common.copies import are_large
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.common.handles import finder, maker
from aioexec.resources.accumulators import Accumulator, Dense, DenseAccumulator, Sparse, SparseAccumulator
from aioexec.resources.waiting import Attempt, waiting
from aioexec.shapes import Dims

Gradient = Dense | Sparse


def _make(context: KernelContext, name: str, kind: type[Accumulator]) -> Accumulator:
    attrs = context.attrs
    return kind(name, attrs["dtype"], attrs["shape"], attrs["reduction_type"] == "MEAN", context.device)


def _find(context: KernelContext, kind: type[Accumulator]) -> Callable[[Any], Accumulator]:
    dtype = context.attrs.get("dtype")

    def check(accumulator: Accumulator) -> None:
        if dtype is not None and accumulator.dtype != dtype:
            raise InvalidArgumentError(
                f"Signature mismatch: accumulator {accumulator.name!r} is of {accumulator.dtype.name}, "
                f"the node expects {dtype.name}"
            )

    return finder(context, kind, check)


def _scalar(value: Array, what: str) -> int:
    if np.shape(value) != ():
        raise InvalidArgumentError(f"Argument {what} must be a scalar, it has shape {shown(np.shape(value))}")
    return int(value)


# Applying


def _apply_kernel(kind: type[Accumulator], gradient_of: Callable[..., Callable[[], Gradient]]) -> Reference:
    """Return the kernel of an op that adds a gradient; `gradient_of` checks the inputs and returns what copies them."""

    def kernel(context: KernelContext) -> Compute:
        find = _find(context, kind)

        def apply(step: StepContext, handle: Any, local_step: Array, *parts: Array) -> Awaitable[Any] | None:
            accumulator = find(handle)
            at = _scalar(local_step, "local_step")
            if accumulator.is_stale(at):
                return None
            make = gradient_of(context, accumulator, *parts)
            if are_large(parts):
                return _apply_large(step, accumulator, at, make)
            accumulator.apply(at, make())
            return None

        return apply

    return kernel


async def _apply_large(
    step: StepContext, accumulator: Accumulator, local_step: int, make: Callable[[], Gradient]
) -> None:
    """Add on a worker to the accumulated sum; repeat if the sum has changed meanwhile (compare-and-swap)."""
    gradient: Any = await step.run_in_worker(make)
    while not accumulator.is_stale(local_step):
        base = accumulator.gradients
        total = gradient if base is None else await step.run_in_worker(partial(base.plus, gradient))
        if accumulator.offer(base, total):
            return


def _dense(context: KernelContext, accumulator: DenseAccumulator, gradient: Array) -> Callable[[], Dense]:
    accumulator.check(gradient)
    return lambda: Dense(gradient.copy(), 1)


def _sparse(
    context: KernelContext, accumulator: SparseAccumulator, indices: Array, values: Array, shape: Array
) -> Callable[[], Sparse]:
    accumulator.check(indices, values, shape if context.attrs["has_known_shape"] else None)
    return lambda: Sparse(indices.copy(), values.copy(), np.ones(len(indices), np.int64), 1)


# Taking


def _take_kernel(kind: type[Accumulator], outputs_of: Callable[[Any, Any], Any]) -> Reference:
    """Return the kernel of an op that takes the accumulated gradient; `outputs_of` converts it to outputs."""

    def kernel(context: KernelContext) -> Compute:
        find = _find(context, kind)

        def take(step: StepContext, handle: Any, num_required: Array) -> Awaitable[Any]:
            accumulator = find(handle)
            count = _scalar(num_required, "num_required")
            return _take(step, accumulator, count, partial(outputs_of, accumulator))

        return take

    return kernel


async def _take(
    step: StepContext, accumulator: Accumulator, count: int, outputs_of: Callable[[Any], Any]
) -> Any:
    """Join the waiting queue once the task runs, and wait in the same turn of the loop, so that no wake-up is lost."""
    outcome = accumulator.take(count)
    gradients = await waiting(accumulator, outcome) if isinstance(outcome, Attempt) else outcome
    if not are_large([gradients.sum()]):
        return outputs_of(gradients)
    try:
        return await step.run_in_worker(partial(outputs_of, gradients))
    except BaseException:
        accumulator.give_back(gradients)
        raise


def _reduced(accumulator: Accumulator, gradients: Gradient) -> Array:
    return gradients.mean() if accumulator.is_mean else gradients.sum()


def _slices(accumulator: SparseAccumulator, gradients: Sparse) -> tuple[Array, Array, Array]:
    values = _reduced(accumulator, gradients)
    return gradients.indices, values, np.array([accumulator.rows, *values.shape[1:]], np.int64)


def _query_kernel(answer: Callable[..., Any]) -> Reference:
    """Return the kernel of an op that reads or sets a property."""

    def kernel(context: KernelContext) -> Compute:
        find = _find(context, Accumulator)
        return lambda step, handle, *inputs: answer(find(handle), *inputs)

    return kernel


def _set_global_step(accumulator: Accumulator, step: Array) -> None:
    accumulator.set_global_step(_scalar(step, "new_global_step"))


# Rows

_TYPE = (
    "dtype:type{float|double|int32|uint8|int16|int8|complex64|int64|qint8|quint8|qint32|bfloat16|qint16|quint16|"
    "uint16|complex128|half|uint32|uint64}"
)


def _scalar_behind_handle(outputs: Sequence[Dims]) -> ShapeRule:
    """Shape rule: input 1 is a scalar."""

    def shape(context: ShapeContext) -> Sequence[Dims]:
        shapes.with_rank(context.inputs[1], 0)
        return outputs

    return shape


def _register_maker(name: str, handle: str, kind: type[Accumulator]) -> None:
    register(
        f"{name}() -> (handle:{handle}) [{_TYPE}; shape:shape; container:string=''; shared_name:string=''; "
        "reduction_type:string{MEAN|SUM}='MEAN'] {stateful}",
        shape=lambda context: [(2,)],
        kernel=maker(Accumulator, partial(_make, kind=kind)),
        gradient=NOT_DIFFERENTIABLE,
        role=Role.VARIABLE,
    )


_register_maker("ConditionalAccumulator", "Ref(string)", DenseAccumulator)
_register_maker("ResourceConditionalAccumulator", "resource", DenseAccumulator)
_register_maker("SparseConditionalAccumulator", "Ref(string)", SparseAccumulator)


def _verbs(prefix: str, handle: str, flags: str) -> Sequence[tuple[str, ShapeRule, Reference]]:
    return (
        (
            f"{prefix}AccumulatorApplyGradient(handle:{handle}, local_step:int64, gradient:dtype) -> () [{_TYPE}]{flags}",
            _scalar_behind_handle([]),
            _apply_kernel(DenseAccumulator, _dense),
        ),
        (
            f"{prefix}AccumulatorTakeGradient(handle:{handle}, num_required:int32) -> (average:dtype) [{_TYPE}]{flags}",
            _scalar_behind_handle([None]),
            _take_kernel(DenseAccumulator, _reduced),
        ),
        (
            f"{prefix}AccumulatorNumAccumulated(handle:{handle}) -> (num_accumulated:int32){flags}",
            lambda context: [()],
            _query_kernel(lambda accumulator: np.int32(accumulator.count)),
        ),
        (
            f"{prefix}AccumulatorSetGlobalStep(handle:{handle}, new_global_step:int64) -> (){flags}",
            _scalar_behind_handle([]),
            _query_kernel(_set_global_step),
        ),
    )


_VERBS: tuple[tuple[str, ShapeRule, Reference], ...] = (
    *_verbs("", "Ref(string)", ""),
    *_verbs("Resource", "resource", " {stateful}"),
    (
        "SparseAccumulatorApplyGradient(handle:Ref(string), local_step:int64, gradient_indices:int64, "
        f"gradient_values:dtype, gradient_shape:int64) -> () [{_TYPE}; has_known_shape:bool]",
        _scalar_behind_handle([]),
        _apply_kernel(SparseAccumulator, _sparse),
    ),
    (
        "SparseAccumulatorTakeGradient(handle:Ref(string), num_required:int32) -> "
        f"(indices:int64, values:dtype, shape:int64) [{_TYPE}]",
        _scalar_behind_handle([None, None, None]),
        _take_kernel(SparseAccumulator, _slices),
    ),
)
for _signature, _shape, _kernel in _VERBS:
    register(_signature, shape=_shape, kernel=_kernel, gradient=NOT_DIFFERENTIABLE, asynchronous=True)
