"""Ops that call functions. They have no kernel: planning inlines the body of the function."""

from __future__ import annotations

from collections.abc import Sequence

from aioexec.errors import GraphValueError, InvalidArgumentError
from aioexec.graph.func_graph import FuncGraph, as_func_graph
from aioexec.graph.kernels.kernel import Compute, KernelContext, Role, plain
from aioexec.graph.name_attr_list import NameAttrList
from aioexec.graph.node import Operation, Tensor
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register, undefined_gradient
from aioexec.shapes import Dims


def checked_body(
    op: Operation, attr: str, called: NameAttrList, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None
) -> FuncGraph:
    """Return the body of the function `called`, which an attribute of an operation names, after checking its signature.

    Args:
        inputs: the arguments of the call.
        outputs: the outputs of the call; None to skip their check.

    Raises:
        NotFoundError: the graph has no such function.
        InvalidArgumentError: the dtypes of inputs or outputs differ from the function's.
    """
    body = as_func_graph(op.graph.functions.body(called))
    check_body(op, attr, body, inputs, outputs)
    return body


def check_body(
    op: Operation, attr: str, body: FuncGraph, inputs: Sequence[Tensor], outputs: Sequence[Tensor] | None
) -> None:
    """Check that a body accepts the inputs and returns the outputs of an operation; see `checked_body`."""
    for kind, expected, got in (("takes", body.inputs, inputs), ("returns", body.outputs, outputs)):
        if got is None:
            continue
        types = [[tensor.dtype.base_dtype.name for tensor in tensors] for tensors in (expected, got)]
        if types[0] != types[1]:
            raise InvalidArgumentError(
                f"{op.type} {op.name!r}: function {body.name!r}, its attr {attr!r}, {kind} {types[0]}, "
                f"which does not fit {types[1]}"
            )


def _called(op: Operation) -> tuple[FuncGraph, ...]:
    return (checked_body(op, "f", op.attrs["f"], op.inputs, op.outputs),)


def _call_shapes(context: ShapeContext) -> Sequence[Dims]:
    called, expected = context.attrs["f"], len(context.attrs["Tout"])
    shapes = context.call(called)
    if len(shapes) != expected:
        raise GraphValueError(f"function {called.name!r} returns {len(shapes)} values, expected {expected}")
    return shapes


def _like_inputs(context: ShapeContext) -> Sequence[Dims]:
    """Shape rule of SymbolicGradient: gradients have the shapes of the inputs."""
    return [*context.inputs[: len(context.attrs["Tout"])]]


def _unfed_input(context: KernelContext) -> Compute:
    def compute() -> None:
        raise InvalidArgumentError(
            f"input {context.attrs['index']} of a function, {context.node_name!r}, is run outside of a call"
        )

    return compute


_CALL = "f:func; config:string=''; config_proto:string=''; executor_type:string=''"

for _prefix, _flags in (("", ""), ("Stateful", " {stateful}")):
    register(
        f"{_prefix}PartitionedCall(args:Tin) -> (output:Tout) [Tin:list(type)>=0; Tout:list(type)>=0; {_CALL}]{_flags}",
        shape=_call_shapes,
        kernel=None,
        gradient=undefined_gradient,
        role=Role.CALL,
        bodies=_called,
    )

register(
    "SymbolicGradient(input:Tin) -> (output:Tout) [Tin:list(type)>=1; Tout:list(type)>=1; f:func]",
    shape=_like_inputs,
    kernel=None,
    gradient=undefined_gradient,
    role=Role.SYMBOLIC,
)
register(
    "_Arg() -> (output:T) [T:type; index:int>=0] {stateful}",
    shape=lambda context: [None],
    kernel=_unfed_input,
    gradient=NOT_DIFFERENTIABLE,
    role=Role.PLACEHOLDER,
)
register(
    "_Retval(input:T) -> () [T:type; index:int>=0] {stateful}",
    shape=lambda context: [],
    kernel=plain(lambda value: None),
    gradient=NOT_DIFFERENTIABLE,
)
