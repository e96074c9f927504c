"""Moving averages of batch normalization: their updates, and the corrections of batch renormalization."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aioexec.graph.apply import apply_op
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.control_flow.smart_cond import smart_cond, smart_constant_value
from aioexec.ops.normalization.functions import in_dtype
from aioexec.ops.state.assignments import assign_sub
from aioexec.ops.state.variable import is_resource_variable


def update_average(variable: Any, value: Any, momentum: Any) -> Any:
    """Add a node that moves a variable towards `value` by the share 1 - `momentum`; return what reads the new content.

    `momentum` is a number or a scalar tensor.
    """
    graph = get_default_graph()
    dtype = variable.dtype.base_dtype
    with graph.name_scope("AssignMovingAvg") as scope, graph.colocate_with(variable.op):
        share = apply_op("Sub", 1.0, momentum) if isinstance(momentum, Tensor) else 1.0 - momentum
        if isinstance(share, Tensor):
            share = in_dtype(share, dtype)
        distance = apply_op("Sub", variable, in_dtype(value, dtype))
        name = None if is_resource_variable(variable) else scope
        return assign_sub(variable, apply_op("Mul", distance, share), name=name)


def update_average_if(training: Any, variable: Any, value: Any, momentum: Any) -> Any:
    """As `update_average` in training, else the content of the variable."""
    if smart_constant_value(training):
        return update_average(variable, value, momentum)
    return smart_cond(
        training,
        lambda: apply_op("Identity", update_average(variable, value, momentum)),
        lambda: apply_op("Identity", variable),
    )


def clipped(ratio: Tensor, distance: Tensor, clipping: Mapping[str, Any]) -> tuple[Tensor, Tensor]:
    """The corrections of batch renormalization within the bounds `rmin`, `rmax` and `dmax`, each of which may be missing."""
    if clipping.get("rmin") is not None:
        ratio = apply_op("Maximum", ratio, clipping["rmin"])
    if clipping.get("rmax") is not None:
        ratio = apply_op("Minimum", ratio, clipping["rmax"])
    if clipping.get("dmax") is not None:
        distance = apply_op("Maximum", distance, -clipping["dmax"])
        distance = apply_op("Minimum", distance, clipping["dmax"])
    return ratio, distance


def composed(first: tuple[Any, Any], then: tuple[Any, Any]) -> tuple[Any, Any]:
    """The scale and offset of two affine functions, one after the other; those of the second may be None."""
    (scale, offset), (then_scale, then_offset) = first, then
    if then_scale is not None:
        scale, offset = apply_op("Mul", scale, then_scale), apply_op("Mul", offset, then_scale)
    if then_offset is not None:
        offset = apply_op("AddV2", offset, then_offset)
    return scale, offset
