"""`dynamic_rnn` and `bidirectional_dynamic_rnn`: a cell over the steps of a sequence, in a while loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.data_classes import dataclass
from aioexec.errors import GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import stack
from aioexec.ops.array.ordering import reverse_sequence
from aioexec.ops.array.reverse import reverse
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.nesting import flatten, map_structure, pack_sequence_as
from aioexec.ops.control_flow.printing import Assert
from aioexec.ops.control_flow.while_loop import while_loop
from aioexec.ops.math.comparison import equal
from aioexec.ops.reduction.reductions import reduce_all
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.recurrent.states import (
    assert_like_rnncell,
    batch_shape,
    batch_size_of,
    initial_state_of,
    merged_dimension,
    recurrent_scope,
    state_dtype,
    transpose_batch_time,
    zeros_of,
)
from aioexec.recurrent.steps import Lengths, length_vector, masked_step
from aioexec.shapes import Dimension, TensorShape


def dynamic_rnn(
    cell: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[Any, Any]:
    """Run a cell over the steps of a sequence; return `(outputs, final_state)`.

    Args:
        cell: a cell, called once, in the body of a while loop.
        inputs: `[batch, steps, ...]`, or `[steps, batch, ...]` if `time_major`; or a structure of such tensors. The dimensions
            after the first two are static.
        sequence_length: integer vector of the batch. Past the end of a sequence its outputs are zero, and its state is that at
            its end. By default all sequences have all steps.
        initial_state: a structure of tensors like `cell.state_size`; by default the cell's zero state.
        dtype: dtype of the zero state and of outputs; required without `initial_state`.
        parallel_iterations: maximum number of concurrent iterations, by default 32.
        swap_memory: ignored; there is one memory.
        time_major: the first two dimensions of inputs and outputs are steps, batch; it saves two transpositions.
        scope: the variable scope or its name, by default `rnn`.

    Returns:
        The outputs of all steps, in the structure of `cell.output_size`, with the first two dimensions of `inputs`; and the
        state after the last step, in the structure of `cell.state_size`.

    Raises:
        GraphTypeError: `cell` is no cell.
        GraphValueError: there is neither an initial state nor a dtype, or shapes do not fit.
    """
    assert_like_rnncell("cell", cell)
    with recurrent_scope(scope):
        flat_inputs = [convert_to_tensor(each) for each in flatten(inputs)]
        if not time_major:
            flat_inputs = [transpose_batch_time(each) for each in flat_inputs]
        lengths = None if sequence_length is None else length_vector(sequence_length)
        batch_size = batch_size_of(flat_inputs)
        missing = "If there is no initial_state, you must give a dtype."
        state = initial_state_of(cell, initial_state, batch_size, dtype, missing)
        loop = _Loop(
            cell, inputs, flat_inputs, batch_size, None if lengths is None else _checked(lengths, batch_size)
        )
        outputs, final_state = loop.run(state, dtype, parallel_iterations or 32, swap_memory)
        if not time_major:
            outputs = map_structure(transpose_batch_time, outputs)
        return outputs, final_state


def _checked(lengths: Tensor, batch_size: Any) -> Tensor:
    """Return the lengths, with a check when they are computed that there is one per row of the batch."""
    found, expected = shape(lengths), stack([batch_size])
    check = Assert(
        reduce_all(equal(found, expected)),
        [f"Expected shape for Tensor {lengths.name} is ", expected, " but saw shape: ", found],
    )
    with control_dependencies([check]):
        return identity(lengths, name="CheckSeqLen")  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class _Loop:
    """The loop of one network; `inputs` is the structure of the time-major tensors `flat_inputs`."""

    cell: Any
    inputs: Any
    flat_inputs: Sequence[Tensor]
    batch_size: Any
    lengths: Tensor | None

    def run(self, state: Any, dtype: Any, parallel_iterations: int, swap_memory: bool) -> tuple[Any, Any]:
        """Build the loop; return the stacked outputs, time-major, and the final state."""
        static_steps, static_batch = self._static_sizes()
        steps = shape(self.flat_inputs[0])[0]
        sizes = flatten(self.cell.output_size)
        dtype = state_dtype(dtype, state)
        zero_output = pack_sequence_as(
            self.cell.output_size, [zeros_of(self.batch_size, size, dtype) for size in sizes]
        )
        lengths = None if self.lengths is None else Lengths(self.lengths)
        time = constant(0, dtypes.int32, name="time")
        output_shapes = [batch_shape(static_batch, size) for size in sizes]
        with get_default_graph().name_scope("dynamic_rnn") as prefix:
            names = f"{prefix}output_", f"{prefix}input_"
        outputs = tuple(
            self._array(f"{names[0]}{k}", steps, known, dtype) for k, known in enumerate(output_shapes)
        )
        arrays = [
            self._array(f"{names[1]}{k}", steps, each.shape[1:], each.dtype).unstack(each)
            for k, each in enumerate(self.flat_inputs)
        ]

        def step(time: Tensor, written: tuple[TensorArray, ...], state: Any) -> Any:
            def call_cell() -> tuple[Any, Any]:
                found: tuple[Any, Any] = self.cell(self._read(arrays, time), state)
                return found

            if lengths is None:
                output, new_state = call_cell()
            else:
                output, new_state = masked_step(time, lengths, zero_output, state, call_cell)
            values = zip(written, flatten(output), strict=True)
            return time + 1, tuple(array.write(time, value) for array, value in values), new_state

        bound = (
            steps if lengths is None else apply_op("Minimum", steps, apply_op("Maximum", 1, lengths.longest))
        )
        _, outputs, final_state = while_loop(
            lambda time, *_: time < bound,
            step,
            (time, outputs, state),
            parallel_iterations=parallel_iterations,
            swap_memory=swap_memory,
            maximum_iterations=steps,
        )
        stacked = [array.stack() for array in outputs]
        for tensor, known in zip(stacked, output_shapes, strict=True):
            tensor.set_shape(TensorShape([static_steps]).concatenate(known))
        return pack_sequence_as(self.cell.output_size, stacked), final_state

    def _static_sizes(self) -> tuple[Dimension, Dimension]:
        """Return the numbers of steps and rows, as far as any of the inputs has them.

        Raises:
            GraphValueError: inputs differ in them, or another dimension is unknown.
        """
        steps, batch = Dimension(None), Dimension(None)
        for each in self.flat_inputs:
            known = each.shape.with_rank_at_least(3)
            if not known[2:].is_fully_defined():
                raise GraphValueError(
                    "Input size (depth of inputs) must be accessible via shape inference, but saw value None."
                )
            steps = merged_dimension(
                steps, known[0], "Time steps is not the same for all the elements in the input in a batch."
            )
            batch = merged_dimension(
                batch, known[1], "Batch_size is not the same for all the elements in the input."
            )
        return steps, batch

    @staticmethod
    def _array(name: str, steps: Tensor, element_shape: TensorShape, dtype: Any) -> TensorArray:
        return TensorArray(dtype, size=steps, element_shape=element_shape, tensor_array_name=name)

    def _read(self, arrays: Sequence[TensorArray], time: Tensor) -> Any:
        """Return the inputs of a step, in their structure."""
        values = [array.read(time) for array in arrays]
        for value, each in zip(values, self.flat_inputs, strict=True):
            value.set_shape(each.shape[1:])
        return pack_sequence_as(self.inputs, values)


def bidirectional_dynamic_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Any,
    sequence_length: Any = None,
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    swap_memory: bool = False,
    time_major: bool = False,
    scope: Any = None,
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Run a cell over a sequence and another one over its reverse; the arguments are those of `dynamic_rnn`.

    Each sequence is reversed within its length. The outputs of `cell_bw` are put back into the order of the steps.

    Args:
        scope: the variable scope or its name, by default `bidirectional_rnn`; the cells are in its scopes `fw` and `bw`.

    Returns:
        `(outputs_fw, outputs_bw), (final_state_fw, final_state_bw)`.

    Raises:
        GraphTypeError, GraphValueError: as `dynamic_rnn`.
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    axis = 0 if time_major else 1
    options: dict[str, Any] = {
        "sequence_length": sequence_length,
        "dtype": dtype,
        "parallel_iterations": parallel_iterations,
        "swap_memory": swap_memory,
        "time_major": time_major,
    }

    def reversed_in_time(x: Tensor) -> Tensor:
        if sequence_length is None:
            return reverse(x, axis=[axis])
        return reverse_sequence(x, sequence_length, seq_axis=axis, batch_axis=1 - axis)

    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            output_fw, state_fw = dynamic_rnn(
                cell_fw, inputs, initial_state=initial_state_fw, scope=forward, **options
            )
        with variable_scope("bw") as backward:
            backwards = map_structure(reversed_in_time, map_structure(convert_to_tensor, inputs))
            output_bw, state_bw = dynamic_rnn(
                cell_bw, backwards, initial_state=initial_state_bw, scope=backward, **options
            )
    return (output_fw, map_structure(reversed_in_time, output_bw)), (state_fw, state_bw)
