"""Minimization of a loss by an algorithm outside of the graph, such as SciPy's L-BFGS-B.

The algorithm runs in a thread. Whenever it needs a loss and a gradient, the thread waits for a run of the session in the event
loop. Callbacks of the program are called in the event loop. If `minimize` is cancelled, the algorithm ends at its next request.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from aioexec.errors import GraphValueError
from aioexec.gradients.backprop import gradients
from aioexec.graph.defaults import get_default_session
from aioexec.graph.node import Tensor
from aioexec.in_thread import in_thread
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.filling import zeros_like
from aioexec.ops.array.identity import placeholder
from aioexec.ops.array.joining import concat
from aioexec.ops.state.initialization import trainable_variables
from aioexec.train.callbacks import settle

logger = logging.getLogger(__name__)

Evaluate = Callable[[Any], Any]
"""A function of the vector of all variables."""


class ExternalOptimizerInterface:
    """The base of such optimizers; subclasses define `_minimize`, which is called in a thread.

    Args:
        loss: the scalar to minimize.
        var_list: the variables to change; by default all trainable ones.
        equalities: scalars that are to be 0.
        inequalities: scalars that are not to be negative.
        var_to_bounds: (low, high) by variable, each a number or an array that broadcasts to it, None for no bound.
        optimizer_kwargs: arguments of the algorithm.
    """

    def __init__(
        self,
        loss: Any,
        var_list: Any = None,
        equalities: Sequence[Any] | None = None,
        inequalities: Sequence[Any] | None = None,
        var_to_bounds: Mapping[Any, tuple[Any, Any]] | None = None,
        **optimizer_kwargs: Any,
    ) -> None:
        self.optimizer_kwargs = optimizer_kwargs
        self._vars = trainable_variables() if var_list is None else list(var_list)
        self._bounds = None if var_to_bounds is None else self._packed_bounds(var_to_bounds)
        self._placeholders = [placeholder(var.dtype.base_dtype) for var in self._vars]
        self._updates = [
            var.assign(reshape(fed, var.shape.as_list()))
            for var, fed in zip(self._vars, self._placeholders, strict=True)
        ]
        self._packed = _packed(self._vars)
        self._loss = [loss, self._gradient(loss)]
        self._equalities = [(each, self._gradient(each)) for each in equalities or ()]
        self._inequalities = [(each, self._gradient(each)) for each in inequalities or ()]

    def _gradient(self, scalar: Any) -> Tensor:
        found = gradients(scalar, self._vars)
        pairs = zip(found, self._vars, strict=True)
        return _packed([zeros_like(var) if gradient is None else gradient for gradient, var in pairs])

    def _packed_bounds(self, var_to_bounds: Mapping[Any, tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        lows: list[Any] = []
        highs: list[Any] = []
        for var in self._vars:
            low, high = var_to_bounds.get(var, (-np.inf, np.inf))
            lows += list(np.broadcast_to(low, var.shape.as_list()).flat)
            highs += list(np.broadcast_to(high, var.shape.as_list()).flat)
        return list(zip(lows, highs, strict=True))

    def _parts(self, packed: Any) -> list[Any]:
        """The values of the variables in a vector."""
        parts, start = [], 0
        for var in self._vars:
            dims = var.shape.as_list()
            parts.append(packed[start : start + math.prod(dims)].reshape(dims))
            start += math.prod(dims)
        return parts

    async def minimize(
        self,
        session: Any = None,
        feed_dict: Mapping[Any, Any] | None = None,
        fetches: Sequence[Any] | None = None,
        step_callback: Callable[..., Any] | None = None,
        loss_callback: Callable[..., Any] | None = None,
        **run_kwargs: Any,
    ) -> None:
        """Minimize the loss in a session; the variables change at the end.

        Args:
            session: by default the default session.
            feed_dict: feeds of all runs.
            fetches: tensors whose values `loss_callback` gets.
            step_callback: called after each iteration with the vector of the variables; plain or `async def`.
            loss_callback: called after each evaluation of the loss; plain or `async def`.
            run_kwargs: arguments of the last run.
        """
        session = session or get_default_session()
        bridge = _Bridge(self, session, dict(feed_dict or {}), list(fetches or ()))
        start = await session.run(self._packed)
        found = await bridge.call(
            self._minimize,
            initial_val=start,
            loss_grad_func=bridge.function(self._loss, loss_callback),
            equality_funcs=[bridge.function(value) for value, _ in self._equalities],
            equality_grad_funcs=[bridge.function(gradient) for _, gradient in self._equalities],
            inequality_funcs=[bridge.function(value) for value, _ in self._inequalities],
            inequality_grad_funcs=[bridge.function(gradient) for _, gradient in self._inequalities],
            packed_bounds=self._bounds,
            step_callback=bridge.callback(step_callback),
            optimizer_kwargs=self.optimizer_kwargs,
        )
        feeds = dict(zip(self._placeholders, self._parts(found), strict=True))
        await session.run(self._updates, feed_dict=feeds, **run_kwargs)

    def _minimize(
        self,
        initial_val: Any,
        loss_grad_func: Evaluate,
        equality_funcs: list[Evaluate],
        equality_grad_funcs: list[Evaluate],
        inequality_funcs: list[Evaluate],
        inequality_grad_funcs: list[Evaluate],
        packed_bounds: list[tuple[Any, Any]] | None,
        step_callback: Evaluate,
        optimizer_kwargs: dict[str, Any],
    ) -> Any:
        """Return the vector that minimizes the loss; `loss_grad_func` returns [loss, gradient] of a vector."""
        raise NotImplementedError(
            "To use ExternalOptimizerInterface, subclass from it and implement the _minimize() method."
        )


def _packed(tensors: Sequence[Any]) -> Tensor:
    flat = [reshape(tensor, [-1]) for tensor in tensors]
    return flat[0] if len(flat) == 1 else concat(flat, 0)


class _Stopped(Exception):
    """Ends the algorithm after `minimize` was cancelled."""


class _Bridge:
    """Runs the session in the event loop for the thread of the algorithm.

    State: `_is_stopped` is set once by the event loop, when `minimize` is cancelled, and read by the thread.
    """

    def __init__(
        self, owner: ExternalOptimizerInterface, session: Any, feeds: dict[Any, Any], fetches: list[Any]
    ) -> None:
        self._owner = owner
        self._session = session
        self._feeds = feeds
        self._fetches = fetches
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False

    async def call(self, algorithm: Callable[..., Any], **arguments: Any) -> Any:
        """Run the algorithm in a thread; if cancelled, wait for its end."""
        running = asyncio.ensure_future(in_thread(algorithm, **arguments))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self._is_stopped = True
            await asyncio.wait([running])
            running.exception()  # the caller gets the cancellation
            raise

    def _in_loop(self, work: Any) -> Any:
        """Run a coroutine in the event loop, and wait for it in the thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _check(self) -> None:
        if self._is_stopped:
            raise _Stopped

    def function(self, tensors: Any, callback: Callable[..., Any] | None = None) -> Evaluate:
        """A function of the vector that returns values of tensors, a list or one."""

        async def run(vector: Any) -> Any:
            feeds = dict(zip(self._owner._vars, self._owner._parts(vector), strict=True))
            values, fetched = await self._session.run([tensors, self._fetches], {**feeds, **self._feeds})
            if callback is not None:
                await settle(callback(*fetched))
            return values

        def evaluate(vector: Any) -> Any:
            self._check()
            return self._in_loop(run(vector))

        return evaluate

    def callback(self, function: Callable[..., Any] | None) -> Evaluate:
        """A function of the vector that calls a callback of the program."""

        async def run(*arguments: Any) -> None:
            if function is not None:
                await settle(function(*arguments))

        def call(vector: Any) -> None:
            self._check()
            self._in_loop(run(vector))

        return call


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """Minimizes by `scipy.optimize.minimize`; `method` is by default L-BFGS-B, `options` are those of SciPy."""

    _DEFAULT_METHOD: Final = "L-BFGS-B"

    def _minimize(
        self,
        initial_val: Any,
        loss_grad_func: Evaluate,
        equality_funcs: list[Evaluate],
        equality_grad_funcs: list[Evaluate],
        inequality_funcs: list[Evaluate],
        inequality_grad_funcs: list[Evaluate],
        packed_bounds: list[tuple[Any, Any]] | None,
        step_callback: Evaluate,
        optimizer_kwargs: dict[str, Any],
    ) -> Any:
        from scipy.optimize import minimize

        def loss_and_gradient(vector: Any) -> tuple[Any, Any]:
            loss, gradient = loss_grad_func(vector)
            return loss, gradient.astype(np.float64)  # as SciPy's L-BFGS-B requires

        constraints = [
            {"type": kind, "fun": function, "jac": gradient}
            for kind, functions, their_gradients in (
                ("eq", equality_funcs, equality_grad_funcs),
                ("ineq", inequality_funcs, inequality_grad_funcs),
            )
            for function, gradient in zip(functions, their_gradients, strict=True)
        ]
        given = dict(optimizer_kwargs)
        own = {
            "method": given.pop("method", self._DEFAULT_METHOD),
            "jac": True,
            "callback": step_callback,
            "constraints": constraints,
            "bounds": packed_bounds,
        }
        _check_arguments(own, given)
        result = minimize(loss_and_gradient, np.asarray(initial_val, np.float64), **own, **given)
        logger.info(
            "Optimization terminated with: %s; objective function value: %f", result.message, result.fun
        )
        return result.x


def _check_arguments(own: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise GraphValueError if the program gives an argument that is set here."""
    if "bounds" in given:
        raise GraphValueError("Bounds must be set using the var_to_bounds argument")
    for name in given:
        if name in own:
            raise GraphValueError(
                f"Optimizer keyword arg '{name}' is set automatically and cannot be injected manually"
            )
