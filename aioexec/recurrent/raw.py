"""`raw_rnn`: a cell in a while loop whose inputs, end and outputs a function of the caller decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.nesting import assert_same_structure, flatten, map_structure, pack_sequence_as
from aioexec.ops.control_flow.while_loop import while_loop
from aioexec.ops.math.comparison import logical_not
from aioexec.ops.reduction.reductions import reduce_all
from aioexec.recurrent.states import assert_like_rnncell, batch_shape, recurrent_scope, zeros_of
from aioexec.recurrent.steps import chosen, leaves, packed
from aioexec.shapes import Dimension

LoopFunction = Callable[[Tensor, Any, Any, Any], tuple[Any, Any, Any, Any, Any]]


def raw_rnn(
    cell: Any,
    loop_fn: LoopFunction,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Run a cell in a while loop; `loop_fn` decides what goes in, what comes out and when a row of the batch ends.

    `loop_fn(time, cell_output, cell_state, loop_state)` returns `(finished, next_input, next_state, emit_output,
    next_loop_state)`. It is called twice. First with time 0 and None for the rest: it returns the first input, the initial
    state, a structure of tensors with the shapes (without batch) and dtypes of emitted outputs (None: those of the cell's), and
    the initial loop state, which may be None. Then in the body of the loop, with the output and state of the cell.

    Args:
        loop_fn: `finished` is a boolean vector of the batch. Rows that have ended emit zeros and keep their state. The loop
            state is passed on as it is; None keeps the last one.
        parallel_iterations: maximum number of concurrent iterations, by default 32.
        swap_memory: ignored; there is one memory.
        scope: the variable scope or its name, by default `rnn`.

    Returns:
        `(emitted, final_state, final_loop_state)`; `emitted` has a TensorArray of all steps in place of each emitted output.

    Raises:
        GraphTypeError: `cell` is no cell, `loop_fn` is not callable, or structures differ in their types.
        GraphValueError: structures or batch sizes differ.
    """
    assert_like_rnncell("cell", cell)
    if not callable(loop_fn):
        raise GraphTypeError("loop_fn must be a callable")
    with recurrent_scope(scope):
        time = constant(0, dtypes.int32, name="time")
        finished, first_input, initial_state, emit, loop_state = loop_fn(time, None, None, None)
        has_loop_state = loop_state is not None
        assert_same_structure(initial_state, cell.state_size)
        state = map_structure(convert_to_tensor, initial_state)
        first_input = map_structure(convert_to_tensor, first_input)
        emitted = _Emitted(cell, emit, flatten(first_input), flatten(state))
        loop = _Loop(cell, loop_fn, emitted)
        found = while_loop(
            lambda time, finished, *_: logical_not(reduce_all(finished)),
            loop.step,
            (
                time,
                convert_to_tensor(finished),
                first_input,
                emitted.arrays,
                state,
                loop_state if has_loop_state else constant(0, dtypes.int32),
            ),
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory,
        )
        return found[3], found[4], found[5] if has_loop_state else None


class _Emitted:
    """The TensorArrays of emitted outputs, and the zeros that rows emit after their end, in one structure."""

    def __init__(self, cell: Any, emit: Any, inputs: list[Tensor], state: list[Tensor]) -> None:
        static_batch = Dimension(None)
        for each in inputs:
            static_batch = static_batch.merge_with(each.shape[0])
        batch_size = shape(inputs[0])[0] if static_batch.value is None else static_batch.value
        structure = cell.output_size if emit is None else emit
        if emit is None:
            sizes = flatten(structure)
            kinds = [state[0].dtype.base_dtype] * len(sizes)
        else:
            outputs = [convert_to_tensor(each) for each in flatten(emit)]
            sizes = [each.shape if each.shape.is_fully_defined() else shape(each) for each in outputs]
            kinds = [each.dtype.base_dtype for each in outputs]
        arrays = [
            TensorArray(
                kind,
                dynamic_size=True,
                size=0,
                element_shape=batch_shape(static_batch, size),
                name=f"rnn_output_{k}",
            )
            for k, (size, kind) in enumerate(zip(sizes, kinds, strict=True))
        ]
        zero = [zeros_of(batch_size, size, kind) for size, kind in zip(sizes, kinds, strict=True)]
        self.arrays = packed(structure, arrays)
        self.zero = pack_sequence_as(structure, zero)


@dataclass(frozen=True, slots=True)
class _Loop:
    """The body of the loop."""

    cell: Any
    loop_fn: LoopFunction
    emitted: _Emitted

    def step(
        self, time: Tensor, finished: Tensor, current_input: Any, arrays: Any, state: Any, loop_state: Any
    ) -> Any:
        output, cell_state = self.cell(current_input, state)
        assert_same_structure(state, cell_state)
        assert_same_structure(self.cell.output_size, output)
        next_time = time + 1
        next_finished, next_input, next_state, emit, next_loop_state = self.loop_fn(
            next_time, output, cell_state, loop_state
        )
        assert_same_structure(state, next_state)
        assert_same_structure(current_input, next_input)
        assert_same_structure(self.emitted.zero, emit)
        emit = _chosen_in(finished, self.emitted.zero, emit)
        next_state = _chosen_in(finished, state, next_state)
        written = [
            array.write(time, value) for array, value in zip(leaves(arrays), flatten(emit), strict=True)
        ]
        return (
            next_time,
            apply_op("LogicalOr", finished, next_finished),
            next_input,
            packed(arrays, written),
            next_state,
            loop_state if next_loop_state is None else next_loop_state,
        )


def _chosen_in(condition: Tensor, held: Any, candidate: Any) -> Any:
    """Choose in each leaf of two structures, row by row, `held` where the condition holds, else `candidate`."""
    pairs = zip(leaves(held), leaves(candidate), strict=True)
    return packed(held, [chosen(condition, old, _as_tensor(new)) for old, new in pairs])


def _as_tensor(value: Any) -> Any:
    return value if isinstance(value, TensorArray) else convert_to_tensor(value)
