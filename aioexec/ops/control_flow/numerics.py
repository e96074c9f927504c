"""Checks for NaN and infinity: CheckNumerics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import InvalidArgumentError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.kernels.kernel import (
    Attrs,
    Compute,
    KernelContext,
    Launch,
    Launches,
    LoopKernel,
    Native,
    Operand,
    Spec,
)
from aioexec.graph.kernels.loop_language import Pointer
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import register
from aioexec.ops.control_flow.dependencies import group, with_dependencies

FINDINGS = ("Tensor had NaN values", "Tensor had Inf values", "Tensor had Inf and NaN values")
"""The findings of a check, by status k (from 1) of the native form; the node's message precedes them."""


def _check_kernel(context: KernelContext) -> Compute:
    message = context.attrs["message"]

    def compute(tensor: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if not np.isfinite(tensor).all():
            found = bool(np.isnan(tensor).any()) + 2 * bool(np.isinf(tensor).any())
            raise InvalidArgumentError(f"{message} : {FINDINGS[found - 1]}")
        return tensor

    return compute


def copy_checked(x: Pointer, y: Pointer, count: int) -> int:
    """Copy, and report which kinds of non-finite values were found. For such x, x - x is NaN."""
    doubts = 0
    for i in range(count):
        difference = x[i] - x[i]
        doubts |= difference != difference
        y[i] = x[i]
    if doubts == 0:
        return 0
    found = 0
    for i in range(count):
        if x[i] != x[i]:
            found |= 1
        elif x[i] - x[i] != 0:
            found |= 2
    return found


def _bind_check(attrs: Attrs, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launches | None:
    spec = inputs[0]
    if spec.dtype.name not in ("float32", "float64"):
        return None
    if spec.size == 0:
        return Launches(())
    kernel = LoopKernel(copy_checked, (spec.dtype.name, spec.dtype.name), 1, 0)
    operands = (Operand("input", 0), Operand("output", 0))
    return Launches((Launch(kernel, operands, (spec.size,), cost=10 + spec.nbytes // 50),), inplace=(0,))


def _check_gradient(op: Operation, dy: Tensor) -> Sequence[Tensor]:
    message = f"Not a number (NaN) or infinity (Inf) values detected in gradient. {op.attrs['message']}"
    return (apply_op("CheckNumerics", dy, message=message),)


register(
    "CheckNumerics(tensor:T) -> (output:T) [T:type{bfloat16|half|float|double}; message:string] {stateful}",
    shape=lambda context: [context.inputs[0]],
    kernel=_check_kernel,
    gradient=_check_gradient,
    native=Native(
        _bind_check,
        frozenset({"float32", "float64"}),
        tuple((InvalidArgumentError, f"{{message}} : {finding}") for finding in FINDINGS),
    ),
)


def check_numerics(tensor: Any, message: str, name: str | None = None) -> Tensor:
    """Return the same value; its computation fails with `message` if it contains NaN or infinity.

    Raises:
        InvalidArgumentError: (in a run) the value contains NaN or infinity.
    """
    return apply_op("CheckNumerics", tensor, message=message, name=name)


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """Return the same value after a check that it is finite; `x` and `message` are newer names of `t` and `msg`."""
    with get_default_graph().name_scope(name or "VerifyFinite"):
        tensor = convert_to_tensor(x if t is None else t, name="t")
        checked = check_numerics(tensor, str(message if msg is None else msg))
        result: Tensor = with_dependencies([checked], tensor)
        return result


def add_check_numerics_ops() -> Operation:
    """Return an operation that fails if any floating-point tensor of the default graph (as it is now) is not finite.

    Checks run in the order of graph construction, so that the error names the first such tensor.
    """
    graph = get_default_graph()
    checks: list[Tensor] = []
    for op in graph.get_operations():
        for tensor in op.outputs:
            if tensor.dtype.base_dtype.is_floating:
                with graph.control_dependencies(checks[-1:]):
                    checks.append(check_numerics(tensor, tensor.name))
    return group(*checks)
