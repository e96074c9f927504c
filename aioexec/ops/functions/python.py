"""Python functions as ops: plain functions run on a worker, `async def` functions are awaited on the session's event loop.

A node refers to its function by a token. The graph owns the function (a collection), `_functions` only has weak references;
the function is freed with its graph, and a node imported in another process has none.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from aioexec import dtypes
from aioexec.dtypes import DType
from aioexec.errors import (
    CancelledError,
    GraphTypeError,
    GraphValueError,
    InternalError,
    InvalidArgumentError,
    OpError,
    from_exception,
)
from aioexec.graph.apply import graph_of
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.kernels.kernel import Compute, KernelContext, StepContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.ops.common.elementwise import Array
from aioexec.shapes import Dims

_LARGE = 128 * 1024
"""Bytes above which a copy would block the event loop for too long."""


class _Function:
    """A Python function of a node; `is_async`: whether its result is awaited."""

    __slots__ = ("__weakref__", "call", "is_async", "token")

    def __init__(self, call: Callable[..., Any], token: str) -> None:
        self.call = call
        self.token = token
        self.is_async = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(
            getattr(call, "__call__", None)  # noqa: B004  (tests the type of `__call__`)
        )


_functions: WeakValueDictionary[str, _Function] = WeakValueDictionary()
_tokens = itertools.count()
_COLLECTION = "_python_functions"  # a collection of the graph


# Conversion of arguments and results


def _argument(value: Array) -> Any:
    """Return an input as an argument of the function: an array of its own, or a NumPy scalar."""
    return value.copy() if value.ndim else value[()]


def _outputs(function: _Function, result: Any, expected: Sequence[DType]) -> tuple[Array, ...]:
    """Convert the result of a function to kernel outputs: arrays with no other reference.

    Raises:
        InvalidArgumentError: their number or dtypes differ from the declared ones.
    """
    values = [] if result is None else list(result) if isinstance(result, list | tuple) else [result]
    if len(values) != len(expected):
        raise InvalidArgumentError(
            f"{function.token} returns {len(values)} values, but expects to see {len(expected)} values"
        )
    return tuple(_output(function, k, value, expected[k]) for k, value in enumerate(values))


def _output(function: _Function, position: int, value: Any, expected: DType) -> Array:
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        try:
            array = dtypes.to_array(value, dtypes.string)
        except (GraphTypeError, GraphValueError) as error:
            raise InternalError(
                f"{position}-th value returned by {function.token}: Unsupported object type {type(value).__name__}"
            ) from error
    held = dtypes.string if array.dtype == object else dtypes.as_dtype(array.dtype)
    if held != expected:
        raise InvalidArgumentError(
            f"{position}-th value returned by {function.token} is {held.name}, but expects {expected.name}"
        )
    return np.array(array, held.numpy, copy=True, order="C")


def _canonical(error: BaseException) -> OpError:
    """Return the canonical error that an exception of a function causes; an OpError is returned unchanged."""
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration | StopAsyncIteration):
        error = error.__cause__  # a coroutine wraps these exceptions
    return from_exception(error)


# Kernels


def _kernel(context: KernelContext) -> Compute:
    token: str = context.attrs["token"]
    expected = tuple(context.output_dtypes)

    def compute(step: StepContext, *inputs: Array) -> Awaitable[Any]:
        function = _functions.get(token)
        if function is None:
            raise InvalidArgumentError(
                f"callback {token} is not found: its graph is in another process or was deleted"
            )
        if function.is_async:
            return _await_function(step, function, inputs, expected)
        return step.run_in_worker(partial(_call_function, function, inputs, expected))

    return compute


def _returned(outputs: tuple[Array, ...]) -> Any:
    return outputs[0] if len(outputs) == 1 else outputs


def _call_function(function: _Function, inputs: Sequence[Array], expected: Sequence[DType]) -> Any:
    """Call a plain function on a worker; SystemExit and the like fail the step and do not end the thread."""
    arguments = [_argument(value) for value in inputs]
    try:
        result = function.call(*arguments)
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        wrapped = _canonical(error)
        raise wrapped from wrapped.__cause__
    return _returned(_outputs(function, result, expected))


async def _await_function(
    step: StepContext, function: _Function, inputs: Sequence[Array], expected: Sequence[DType]
) -> Any:
    """Await an `async def` function on the event loop; large arrays are copied on a worker."""
    if sum(value.nbytes for value in inputs) > _LARGE:
        arguments = await step.run_in_worker(lambda: [_argument(value) for value in inputs])
    else:
        arguments = [_argument(value) for value in inputs]
    try:
        result = await function.call(*arguments)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise CancelledError(f"{function.token} was cancelled by itself") from error
    except (GeneratorExit, KeyboardInterrupt, SystemExit):  # these belong to the event loop
        raise
    except BaseException as error:
        wrapped = _canonical(error)
        raise wrapped from wrapped.__cause__
    convert = partial(_outputs, function, result, expected)
    return _returned(await step.run_in_worker(convert) if _is_large(result) else convert())


def _is_large(result: Any) -> bool:
    """Return whether converting a result could block the event loop; lists count as large."""
    values = result if isinstance(result, list | tuple) else [result]
    return any(isinstance(value, list | tuple) or getattr(value, "nbytes", 0) > _LARGE for value in values)


def _unknown(context: ShapeContext) -> Sequence[Dims]:
    return [None] * len(context.attrs["Tout"])


for _name, _flags in (("PyFunc", " {stateful}"), ("PyFuncStateless", "")):
    register(
        f"{_name}(input:Tin) -> (output:Tout) [token:string; Tin:list(type)>=0; Tout:list(type)>=0]{_flags}",
        shape=_unknown,
        kernel=_kernel,
        gradient=NOT_DIFFERENTIABLE,
        asynchronous=True,
    )


def py_func(
    func: Callable[..., Any], inp: Sequence[Any], Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """Add a node that calls `func` with the values of `inp`: arrays, NumPy scalars or bytes.

    A plain function runs on a worker in a copy of the caller's context variables, and may block. An `async def` function is
    awaited on the session's event loop, concurrently with other nodes, and is cancelled with its step. An exception of either
    fails the step with the corresponding canonical error, whose cause it is.

    Args:
        Tout: dtype of the result, or a list of dtypes of several results; [] for none.
        stateful: False for a pure function.

    Returns:
        A tensor, a list of tensors, or for [] the operation.

    Raises:
        GraphValueError: `func` is not callable.
    """
    if not callable(func):
        raise GraphValueError(f"Expected func to be callable, got {func!r}")
    several = isinstance(Tout, list | tuple)
    types = [dtypes.as_dtype(dtype) for dtype in (Tout if several else [Tout])]
    function = _Function(func, f"pyfunc_{next(_tokens)}")
    graph = graph_of(inp)
    with graph.as_default(), graph.name_scope(name or "PyFunc") as scope:
        inputs = [convert_to_tensor(value, name=f"input_{k}") for k, value in enumerate(inp)]
        op = graph.create_op(
            "PyFunc" if stateful else "PyFuncStateless",
            inputs,
            name=scope,
            attrs={"token": function.token, "Tout": types},
        )
    _functions[function.token] = function
    graph.add_to_collection(_COLLECTION, function)
    return (list(op.outputs) or op) if several else op.outputs[0]


def numpy_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """Add a node that calls a function of arrays: `py_func` under its later name."""
    return py_func(_required(func, "func"), inp or (), _required(Tout, "Tout"), stateful, name)


def py_function(
    func: Callable[..., Any] | None = None,
    inp: Sequence[Any] | None = None,
    Tout: Any = None,
    name: str | None = None,
) -> Any:
    """Add a node that calls a Python function with arrays, as `py_func` does.

    There are no eager tensors: where TensorFlow passes them, and differentiates what the function does with them, this passes
    arrays, and the node has no gradient.
    """
    return py_func(_required(func, "func"), inp or (), _required(Tout, "Tout"), name=name)


def _required(value: Any, argument: str) -> Any:
    if value is None:
        raise GraphTypeError(f"py_function: argument {argument!r} is required")
    return value
