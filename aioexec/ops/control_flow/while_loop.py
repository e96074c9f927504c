"""while_loop: repeats a body while a condition on the loop variables holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from aioexec import shapes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op, graph_of
from aioexec.graph.control_flow import WhileContext
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.control_flow.nesting import (
    assert_same_structure,
    flatten,
    is_nested,
    is_sequence,
    map_sequences,
    map_structure,
    pack_sequence_as,
)
from aioexec.shapes import Dims, TensorShape


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat `loop_vars = body(*loop_vars)` while `cond(*loop_vars)` holds; return the final loop variables.

    Both functions are called once, to build the graph. They may use tensors created outside; tensors created in them can only
    be used in them.

    Args:
        loop_vars: a possibly nested list, tuple or dict of values that convert to tensors.
        shape_invariants: a structure like `loop_vars` of TensorShapes that hold in every iteration; by default the shapes of
            `loop_vars`. Of a SparseTensor, the dense shape; of a TensorArray, ignored.
        parallel_iterations: maximum number of concurrent iterations.
        back_prop: whether the loop supports gradients.
        swap_memory: ignored; there is one memory.
        maximum_iterations: maximum number of iterations.
        return_same_structure: return the structure of `loop_vars` even for a single loop variable.

    Raises:
        GraphTypeError, GraphValueError: an argument has another form, or the body returns another structure, dtype or shape.
    """
    _check_arguments(cond, body, loop_vars)
    with graph_of(flatten(loop_vars)).as_default() as graph, graph.name_scope(name or "while"):
        limit = None if maximum_iterations is None else _scalar(maximum_iterations)
        single = len(loop_vars) == 1 and not return_same_structure
        if limit is not None:
            cond, body, loop_vars, shape_invariants = _counted(
                cond, body, loop_vars, shape_invariants, limit, single
            )
        loop_vars = map_structure(convert_to_tensor, loop_vars)
        invariants = _part_shapes(loop_vars, shape_invariants)
        context = WhileContext(limit, parallel_iterations, back_prop, swap_memory)
        if context.outer_context is None:
            graph.add_to_collection(GraphKeys.WHILE_CONTEXT, context)
        result = _build(context, cond, body, loop_vars, invariants)
    if limit is not None:
        return result[1]
    return result if return_same_structure or len(context.loop_exits) > 1 else result[0]


def _check_arguments(cond: Any, body: Any, loop_vars: Any) -> None:
    for argument, function in (("cond", cond), ("body", body)):
        if not callable(function):
            raise GraphTypeError(f"'{argument}' must be callable, got {function!r}")
    if not loop_vars:
        raise GraphValueError("'loop_vars' must be provided")


def _scalar(maximum_iterations: Any) -> Tensor:
    limit = convert_to_tensor(maximum_iterations, name="maximum_iterations")
    if limit.dims is not None and len(limit.dims):
        raise GraphValueError(f"'maximum_iterations' must be a scalar, got shape {limit.shape}")
    return limit


def _counted(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any,
    limit: Tensor,
    single: bool,
) -> tuple[Callable[..., Any], Callable[..., Any], Any, Any]:
    """Return the loop with two variables: a counter, and the structure of the original variables."""
    counter = constant(0, limit.dtype, name="iteration_counter")

    def spread(function: Callable[..., Any], rest: Any) -> Any:
        return function(rest) if single else function(*rest)

    def counted_cond(i: Tensor, rest: Any) -> Any:
        return apply_op("LogicalAnd", i < limit, spread(cond, rest))

    def counted_body(i: Tensor, rest: Any) -> Any:
        following = i + 1
        return following, _as_sequence_of(rest, spread(body, rest), single)

    if shape_invariants is not None:
        shape_invariants = (TensorShape(()), shape_invariants[0] if single else shape_invariants)
    return counted_cond, counted_body, (counter, loop_vars[0] if single else loop_vars), shape_invariants


def _as_sequence_of(rest: Any, result: Any, single: bool) -> Any:
    """Convert the result of a body to the type of sequence of its variables."""
    if single:
        return result[0] if isinstance(result, list | tuple) and not is_sequence(rest) else result
    if not isinstance(result, list | tuple):
        result = [result]
    return type(rest)(result) if type(rest) in (list, tuple) else result


def _part_shapes(loop_vars: Any, shape_invariants: Any) -> list[TensorShape] | None:
    """Return the shape invariants of all component tensors; None: their current shapes.

    A composite (SparseTensor, IndexedSlices) has one invariant, for the dense tensor that it represents.
    """
    members: list[Any] = []
    outline = map_sequences(members.append, list(loop_vars))
    if shape_invariants is None:
        if not any(isinstance(member, SparseTensor) for member in members):
            return None
        shapes_of = [getattr(member, "shape", TensorShape(())) for member in members]
    else:
        shapes_of = []
        assert_same_structure(outline, map_sequences(shapes_of.append, list(shape_invariants)))
    for shape in shapes_of:
        if not isinstance(shape, TensorShape):
            raise GraphValueError(
                f"'shape_invariants' must be a (possibly nested) list of TensorShapes, got {shape!r}"
            )
    return [part for pair in zip(members, shapes_of, strict=True) for part in _component_shapes(*pair)]


def _component_shapes(member: Any, shape: TensorShape) -> list[TensorShape]:
    """Return the shapes of the components of a composite that represents a dense tensor."""
    if isinstance(member, SparseTensor):
        return [TensorShape([None, shape.rank]), TensorShape([None]), TensorShape([shape.rank])]
    if isinstance(member, IndexedSlices):
        dense_shape = [] if member.dense_shape is None else [TensorShape([shape.rank])]
        return [shape, shape[:1], *dense_shape]
    return [TensorShape(())] if is_nested(member) else [shape]


def _build(
    context: WhileContext,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    invariants: Sequence[TensorShape] | None,
) -> Any:
    """Build the loop; return the final loop variables in the structure that the body returned."""
    values = flatten(loop_vars)
    context.Enter()
    try:
        enters = context.enter_loop_vars(values, keep_shapes=invariants is None)
        if invariants is not None:
            for value, entered, shape in zip(values, enters, invariants, strict=True):
                _set_invariant(value, entered, shape)
        merges = context.merge_loop_vars(enters)
        condition = convert_to_tensor(cond(*pack_sequence_as(loop_vars, merges)))
        switches = context.switch_loop_vars(merges, condition)
        inside = pack_sequence_as(loop_vars, context.enter_body(switches))
        result = body(*inside)
        if not is_sequence(result):
            result = [result]
        assert_same_structure(list(inside), list(result))
        leaves = flatten(result)
        for value, merged, leaf in zip(values, merges, leaves, strict=True):
            following = context.add_back_edge(merged, convert_to_tensor(leaf))
            _check_invariant(value, merged, following)
        exits = context.leave(switches)
    finally:
        context.Exit()
    return pack_sequence_as(result, exits)


def _covers(general: Dims, special: Dims) -> bool:
    """Return whether every shape compatible with `special` is compatible with `general`."""
    if general is None:
        return True
    if special is None or len(special) != len(general):
        return False
    return all(size is None or size == other for size, other in zip(general, special, strict=True))


def _set_invariant(value: Tensor, entered: Tensor, shape: TensorShape) -> None:
    if not _covers(shape.plain, value.dims):
        raise GraphValueError(
            f"The shape invariant specified for {value.name} is not compatible with the initial shape of the loop variable. "
            f"It enters the loop with shape {value.shape}, but the specified shape invariant is {shape}"
        )
    entered.set_shape(shape)


def _check_invariant(value: Tensor, merged: Tensor, following: Tensor) -> None:
    if not _covers(merged.dims, following.dims):
        raise GraphValueError(
            f"Input tensor {value.name!r} enters the loop with shape {shapes.describe(merged.dims)}, but has shape "
            f"{following.shape} after one iteration. To allow the shape to vary across iterations, use the "
            "`shape_invariants` argument of while_loop to specify a less-specific shape"
        )
