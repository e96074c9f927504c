"""Functions that add nodes that call graph functions: calls, symbolic gradients, If, While and For; the ops are in `calls`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_list_op, apply_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.functions.defun import DefinedFunction, defined


def partitioned_call(
    args: Sequence[Any],
    f: DefinedFunction,
    tout: Sequence[Any] | None = None,
    executing_eagerly: bool | None = None,
    config: Any = None,
    executor_type: str = "",
    name: str | None = None,
) -> Any:
    """Call a graph function by a PartitionedCall node; return the list of outputs, or the operation if there are none.

    Args:
        tout: dtypes of the outputs; by default those of the function.
        executing_eagerly, config, executor_type: ignored; the last two are stored in the node, for TensorFlow.
    """
    graph = get_default_graph()
    f.add_to_graph(graph)
    types = [tensor.dtype.base_dtype for tensor in f.graph.outputs] if tout is None else list(tout)
    attrs = {
        "f": f.name,
        "Tout": types,
        "executor_type": executor_type,
        "config_proto": config.SerializeToString() if hasattr(config, "SerializeToString") else config or "",
    }
    op_type = "StatefulPartitionedCall" if f.function.definition.is_stateful else "PartitionedCall"
    with graph.control_dependencies(list(f.graph.control_captures)):
        return apply_list_op(op_type, [*args, *f.captured_inputs], name=name, **attrs)


def symbolic_gradient(
    input: Sequence[Any], Tout: Sequence[Any], f: DefinedFunction, name: str | None = None
) -> Any:
    """Return the gradients of a function's inputs; `input` are its inputs and the gradients of its outputs."""
    f.add_to_graph(get_default_graph())
    return apply_list_op("SymbolicGradient", input, Tout=list(Tout), f=f.name, name=name)


def Gradient(inputs: Sequence[Any], f: DefinedFunction, name: str | None = None) -> Any:
    """As `symbolic_gradient`, with one gradient for each input of the function."""
    return symbolic_gradient(inputs, [tensor.dtype.base_dtype for tensor in f.graph.inputs], f, name)


def If(
    cond: Any,
    inputs: Sequence[Any],
    then_branch: DefinedFunction,
    else_branch: DefinedFunction,
    name: str | None = None,
) -> Any:
    """Return `then_branch(*inputs)` if `cond` holds, else `else_branch(*inputs)`."""
    for branch in (then_branch, else_branch):
        _check_captures_nothing(branch)
        branch.add_to_graph(get_default_graph())
    types = [tensor.dtype.base_dtype for tensor in then_branch.graph.outputs]
    branches = {"then_branch": then_branch.name, "else_branch": else_branch.name}
    return apply_list_op("If", cond, inputs, Tout=types, name=name, **branches)


def While(
    input_: Sequence[Any],
    cond: DefinedFunction,
    body: DefinedFunction,
    name: str | None = None,
    hostmem: Sequence[int] | None = None,
) -> list[Tensor]:
    """Repeat `input_ = body(*input_)` while `cond(*input_)` holds.

    Args:
        hostmem: ignored; there is one memory.

    Raises:
        GraphValueError: the condition captures tensors.
    """
    if cond.captured_inputs:
        raise GraphValueError(f"The 'cond' argument can not have extra captured inputs, {cond.name!r} has")
    graph = get_default_graph()
    values = [
        convert_to_tensor(value, dtype)
        for value, dtype in zip(input_, cond.declared_input_types, strict=True)
    ]
    count, captured = len(values), body.captured_inputs
    if captured:
        cond, body = _with_captures(cond, body, captured)
    for function in (cond, body):
        function.add_to_graph(graph)
    called = {"cond": cond.name, "body": body.name}
    outputs = apply_list_op("While", [*values, *captured], name=name, **called)
    return list(outputs[:count])


def _with_captures(
    cond: DefinedFunction, body: DefinedFunction, captured: Sequence[Tensor]
) -> tuple[DefinedFunction, DefinedFunction]:
    """Return condition and body with the captured tensors as additional loop variables, which never change."""
    count = len(body.declared_input_types)
    types = [*body.declared_input_types, *(tensor.dtype.base_dtype for tensor in captured)]

    def wide_cond(*args: Tensor) -> Any:
        return cond(*args[:count])

    def wide_body(*args: Tensor) -> Any:
        graph = get_default_graph()
        body.add_to_graph(graph)
        return [*graph.create_op(body.name, args).outputs, *args[count:]]

    return defined(wide_cond, types), defined(wide_body, types)


def For(
    start: Any,
    limit: Any,
    delta: Any,
    inputs: Sequence[Any],
    body: DefinedFunction,
    name: str | None = None,
    hostmem: Sequence[int] | None = None,
    rewrite_with_while: bool | None = None,
) -> list[Tensor]:
    """Repeat `inputs = body(i, *inputs)` for i in range(start, limit, delta).

    Args:
        hostmem, rewrite_with_while: ignored; the loop is always a While node.
    """
    types = [dtypes.int32, dtypes.int32, dtypes.int32, *body.declared_input_types[1:]]
    if len(types) - 3 != len(inputs):
        raise GraphTypeError(
            f"For: {body.name!r} takes {len(types) - 3} values besides the index, got {len(inputs)}"
        )

    def in_range(i: Tensor, end: Tensor, step: Tensor, *values: Tensor) -> Tensor:
        forward, backward = apply_op("Less", i, end), apply_op("Greater", i, end)
        return apply_op("SelectV2", apply_op("Greater", step, 0), forward, backward)

    def round_(i: Tensor, end: Tensor, step: Tensor, *values: Tensor) -> list[Tensor]:
        result = body(i, *values)
        return [apply_op("AddV2", i, step), end, step, *(result if isinstance(result, list) else [result])]

    loop = defined(in_range, types), defined(round_, types)
    return While([start, limit, delta, *inputs], *loop, name=name or "For")[3:]


def _check_captures_nothing(branch: DefinedFunction) -> None:
    if branch.captured_inputs:
        raise GraphValueError(f"a branch of If gets its values as inputs: {branch.name!r} captures some")
