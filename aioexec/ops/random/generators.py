"""Random ops whose generator state is a resource variable of int64: counter (two words) and key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.errors import InvalidArgumentError, UnimplementedError
from aioexec.graph.kernels.kernel import Compute, KernelContext, Reference, Role
from aioexec.graph.kernels.random import Distribution
from aioexec.graph.registry import ShapeContext, register, undefined_gradient
from aioexec.ops.common.elementwise import Array, shown
from aioexec.ops.random import philox
from aioexec.ops.random.philox import RESERVED_PER_OUTPUT
from aioexec.ops.random.random_ops import limits_of, size_of, sizes_of
from aioexec.ops.random.stateless import AUTO, PHILOX
from aioexec.resources.variable import Variable
from aioexec.shapes import Dims

_STATE = 3
_THREEFRY = 2


def _state_of(variable: Variable, algorithm: Array) -> Array:
    """Return the state of a generator.

    Raises:
        InvalidArgumentError: the algorithm or the state is invalid.
        UnimplementedError: the algorithm is not supported on this device.
    """
    if algorithm.ndim:
        raise InvalidArgumentError(f"algorithm must be of shape [], not {shown(algorithm.shape)}")
    if int(algorithm) == _THREEFRY:
        raise UnimplementedError("Non-XLA devices don't support the ThreeFry algorithm.")
    if int(algorithm) not in (PHILOX, AUTO):
        raise InvalidArgumentError(f"Unsupported algorithm id: {algorithm}")
    state = variable.require()
    if state.dtype != np.int64 or state.ndim != 1 or len(state) < _STATE:
        raise InvalidArgumentError(
            f"For the Philox algorithm, the size of state must be at least {_STATE}, as int64; got {state.dtype} of "
            f"shape {shown(state.shape)}"
        )
    return state


def _advance(variable: Variable, state: Array, count: int) -> tuple[int, int]:
    """Reserve counters; return the key and the first counter."""
    words = state.view(np.uint64)
    start = int(words[0]) | int(words[1]) << 64
    after = (start + count) % 2**128
    fresh = state.copy()
    fresh.view(np.uint64)[:2] = after & 2**64 - 1, after >> 64
    variable.update(lambda present: fresh)
    return int(words[2]), start


# Drawing


def _drawn(distribution: Distribution) -> Reference:
    def bound(context: KernelContext) -> Compute:
        draw = philox.DISTRIBUTIONS[distribution](context.output_dtypes[0].numpy)

        def compute(variable: Variable, algorithm: Array, shape: Array) -> Array:
            sizes = sizes_of(shape)
            size, state = size_of(sizes), _state_of(variable, algorithm)
            return draw(*_advance(variable, state, size * RESERVED_PER_OUTPUT), size).reshape(sizes)

        return compute

    return bound


def _whole(context: KernelContext) -> Compute:
    dtype = context.output_dtypes[0].numpy

    def compute(variable: Variable, algorithm: Array, shape: Array, minval: Array, maxval: Array) -> Array:
        sizes = sizes_of(shape)
        size, state = size_of(sizes), _state_of(variable, algorithm)
        limits = limits_of(minval, maxval, size)
        key, start = _advance(variable, state, size * RESERVED_PER_OUTPUT)
        if limits is None:
            return np.zeros(sizes, dtype)
        return philox.fill(key, start, size, philox.uniform_int(dtype, *limits)).reshape(sizes)

    return compute


def _shape_rule(context: ShapeContext) -> Sequence[Dims]:
    shapes.with_rank(context.inputs[1], 0)
    shapes.with_rank(context.inputs[2], 1)
    for dims in context.inputs[3:]:
        shapes.with_rank(dims, 0)
    return [context.partial(2)]


def _register(
    signature: str, kernel: Reference, shape: Callable[..., Any], operands: tuple[int, ...]
) -> None:
    register(
        signature,
        shape=shape,
        kernel=kernel,
        gradient=undefined_gradient,
        role=Role.UPDATE,
        shape_operands=operands,
        writes=(0,),
        reads=(0,),
    )


_distributions: Sequence[tuple[str, Distribution, str]] = (
    ("StatefulUniform", "Uniform", "float"),
    ("StatefulStandardNormalV2", "Normal", "float"),
    ("StatefulTruncatedNormal", "TruncatedNormal", "float"),
    ("StatefulUniformFullInt", "FullInt", "uint64"),
)
for _name, _distribution, _default in _distributions:
    _register(
        f"{_name}(resource:resource, algorithm:int64, shape:shape_dtype) -> (output:dtype)"
        f" [dtype:type={_default}; shape_dtype:type=int64] {{stateful}}",
        _drawn(_distribution),
        _shape_rule,
        (2,),
    )
_register(
    "StatefulUniformInt(resource:resource, algorithm:int64, shape:shape_dtype, minval:dtype, maxval:dtype)"
    " -> (output:dtype) [dtype:type=int64; shape_dtype:type=int64] {stateful}",
    _whole,
    _shape_rule,
    (2,),
)

# Skipping


def _skipped(variable: Variable, algorithm: Array, delta: Array) -> Array:
    """Advance the counter by `delta` outputs; return the previous state."""
    if delta.ndim:
        raise InvalidArgumentError(f"delta must be of shape [], not {shown(delta.shape)}")
    before = _state_of(variable, algorithm)
    _advance(variable, before, int(delta) * RESERVED_PER_OUTPUT)
    return before


def _only_skipped(variable: Variable, algorithm: Array, delta: Array) -> None:
    _skipped(variable, algorithm, delta)


def _read_and_skipped(variable: Variable, algorithm: Array, delta: Array) -> Array:
    return _skipped(variable, algorithm, delta)[:_STATE].copy()


def _skip_shape(context: ShapeContext) -> Sequence[Dims]:
    for dims in context.inputs[1:]:
        shapes.with_rank(dims, 0)
    return []


_register(
    "RngSkip(resource:resource, algorithm:int64, delta:int64) -> () {stateful}",
    lambda context: _only_skipped,
    _skip_shape,
    (),
)
_register(
    "RngReadAndSkip(resource:resource, alg:int32, delta:uint64) -> (value:int64) {stateful}",
    lambda context: _read_and_skipped,
    lambda context: [*_skip_shape(context), (_STATE,)],
    (),
)
