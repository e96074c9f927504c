"""Whether a control-flow operation belongs to a conditional or to a loop. Names are those of TensorFlow's control_flow_util."""

from __future__ import annotations

from aioexec.graph.control_flow import ControlFlowContext, is_loop_constant, output_context
from aioexec.graph.kernels.kernel import Role
from aioexec.graph.node import Operation


def IsSwitch(op: Operation) -> bool:
    return op.row.role is Role.SWITCH


def IsMerge(op: Operation) -> bool:
    return op.row.role is Role.MERGE


def IsLoopEnter(op: Operation) -> bool:
    return op.row.role is Role.ENTER


def IsLoopExit(op: Operation) -> bool:
    return op.row.role is Role.EXIT


def IsLoopConstantEnter(op: Operation) -> bool:
    """Whether an Enter repeats a tensor from outside in every iteration."""
    return is_loop_constant(op)


def IsCondSwitch(op: Operation) -> bool:
    """Whether a Switch captures a tensor for a conditional: all its consumers are in one."""
    consumers = [consumer for tensor in op.outputs for consumer in tensor.consumers()]
    return IsSwitch(op) and all(_is_conditional(_user_context(consumer)) for consumer in consumers)


def IsCondMerge(op: Operation) -> bool:
    """Whether a Merge ends a conditional: all its inputs come from one."""
    return IsMerge(op) and all(_is_conditional(output_context(tensor.op)) for tensor in op.inputs)


def IsLoopSwitch(op: Operation) -> bool:
    """Whether a Switch routes a loop variable by the loop condition."""
    return IsSwitch(op) and op.inputs[1].op.row.role is Role.LOOP_COND


def IsLoopMerge(op: Operation) -> bool:
    """Whether a Merge joins the initial and the next value of a loop variable."""
    context = op._get_control_flow_context()
    return IsMerge(op) and context is not None and context.IsWhileContext() and not IsCondMerge(op)


def _user_context(op: Operation) -> ControlFlowContext | None:
    """The context of an operation's inputs: that of the operation, but for an Enter the one around its loop."""
    context: ControlFlowContext | None = op._get_control_flow_context()
    return context.outer_context if context is not None and IsLoopEnter(op) else context


def _is_conditional(context: ControlFlowContext | None) -> bool:
    return context is not None and context.IsCondContext()
