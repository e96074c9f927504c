"""Comparison of gradients with finite differences, under the names of `tf.test`; its functions are coroutines.

A Jacobian has a row for each number in x and a column for each number in y; a complex one counts as two, real and imaginary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.gradients.backprop import gradients
from aioexec.graph.convert import constant
from aioexec.graph.defaults import get_default_session
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor

Array = np.ndarray[Any, Any]
Jacobians = tuple[Array, Array]
"""(by the gradient function, by finite differences)."""


async def compute_gradient(
    x: Any,
    x_shape: Any,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Any:
    """The Jacobian of y with respect to x in two ways, in the default session; for lists of x, a list of pairs.

    Args:
        x_init_value: the point; random numbers in [0, 1) by default.
        delta: half the difference in x.
        init_targets: operations to run first.
        extra_feed_dict: further feeds that y needs.

    Raises:
        GraphValueError: shape and value do not fit, a tensor is not of floats, y does not depend on x, or there is no default
            session.
    """
    several = isinstance(x, list)
    inputs, sizes = (x, x_shape) if several else ([x], [x_shape])
    starts = x_init_value if several and x_init_value is not None else [x_init_value] * len(inputs)
    checks = [_Check(each, y, y_shape, delta, extra_feed_dict or {}) for each in inputs]
    for target in init_targets or ():
        await _run(target)
    found = [
        await check.jacobians(size, start) for check, size, start in zip(checks, sizes, starts, strict=True)
    ]
    return found if several else found[0]


async def compute_gradient_error(
    x: Any,
    x_shape: Any,
    y: Tensor,
    y_shape: Sequence[int],
    x_init_value: Any = None,
    delta: float = 1e-3,
    init_targets: Sequence[Any] | None = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> float:
    """The largest difference between the two Jacobians of `compute_gradient`."""
    found = await compute_gradient(x, x_shape, y, y_shape, x_init_value, delta, init_targets, extra_feed_dict)
    pairs = [found] if isinstance(found, tuple) else found
    return max((float(np.max(np.abs(one - other), initial=0.0)) for one, other in pairs), default=0.0)


class _Check:
    """One pair of x and y: the gradient of y * weights with respect to x, run with one-hot `weights` for each number in y."""

    def __init__(
        self, x: Tensor, y: Tensor, y_shape: Sequence[int], delta: float, feeds: Mapping[Any, Any]
    ) -> None:
        for tensor in (x, y):
            if not (tensor.dtype.is_floating or tensor.dtype.is_complex):
                raise GraphValueError(f"compute_gradient: expected a tensor of floats, got {tensor!r}")
        self.x, self.y, self.delta, self.feeds = x, y, delta, dict(feeds)
        self.weights = np.zeros(tuple(y_shape), y.dtype.base_dtype.numpy)
        with x.graph.as_default():
            self.fed = constant(np.ones_like(self.weights))
            (self.gradient,) = gradients(y, [x], [self.fed])
        if self.gradient is None:
            raise GraphValueError(f"compute_gradient: {y!r} does not depend on {x!r}")

    async def jacobians(self, x_shape: Sequence[int], start: Any) -> Jacobians:
        dtype = self.x.dtype.base_dtype.numpy
        if start is None:
            start = np.random.random_sample(x_shape)
            if self.x.dtype.is_complex:
                start = start + 1j * np.random.random_sample(x_shape)
        at = np.array(start, dtype)
        if at.shape != tuple(x_shape):
            raise GraphValueError(f"x_shape = {tuple(x_shape)}, init_data shape = {at.shape}")
        return await self._by_gradient(at), await self._by_differences(at)

    async def _by_gradient(self, at: Array) -> Array:
        weights = _numbers(self.weights)
        jacobian = np.zeros((_numbers(at).size, weights.size), _numbers(at).dtype)
        for column in range(weights.size):
            weights[column] = 1
            jacobian[:, column] = _numbers(await self._gradient(at))
            weights[column] = 0
        return jacobian

    async def _gradient(self, at: Array) -> Array:
        feeds = {**self.feeds, self.x: at, self.fed: self.weights}
        if not isinstance(self.gradient, IndexedSlices):
            return np.asarray(await _run(self.gradient, feeds))
        parts = [self.gradient.indices, self.gradient.values]
        indices, values = await _run(parts, feeds)
        whole = np.zeros_like(at)
        np.add.at(whole, indices, values)
        return whole

    async def _by_differences(self, at: Array) -> Array:
        numbers = _numbers(at)
        jacobian = np.zeros((numbers.size, _numbers(self.weights).size), numbers.dtype)
        for row in range(numbers.size):
            after, before = [await self._run_moved(at, row, step) for step in (self.delta, -self.delta)]
            jacobian[row] = (after - before) / (2 * self.delta)
        return jacobian

    async def _run_moved(self, at: Array, row: int, step: float) -> Array:
        moved = at.copy()
        _numbers(moved)[row] += step
        value = await _run(self.y, {**self.feeds, self.x: moved})
        return _numbers(np.asarray(value).reshape(self.weights.shape))


async def _run(fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
    session = get_default_session()
    if session is None:
        raise GraphValueError("compute_gradient: there is no default session")
    return await session.run(fetches, feeds)


def _numbers(array: Array) -> Array:
    """The real numbers in an array, a view of it where it is contiguous."""
    flat = np.reshape(array, math.prod(array.shape))
    return flat.view(flat.real.dtype) if flat.dtype.kind == "c" else flat
