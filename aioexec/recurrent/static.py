"""`static_rnn` and its kin: a cell over a Python list of inputs, with nodes of its own for each step."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat, stack, unstack
from aioexec.ops.array.ordering import reverse_sequence
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.nesting import flatten, is_sequence, map_structure, pack_sequence_as
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.recurrent.states import (
    assert_like_rnncell,
    initial_state_of,
    recurrent_scope,
    state_dtype,
    zeros_of,
)
from aioexec.recurrent.steps import Lengths, conditional_step, length_vector
from aioexec.shapes import Dimension, TensorShape


def static_rnn(
    cell: Any,
    inputs: Sequence[Any],
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs, one per step; return `(outputs, final_state)`.

    Args:
        inputs: a list of tensors `[batch, ...]`, or of structures of them, with equal static shapes but for the batch.
        initial_state: a structure of tensors like `cell.state_size`; by default the cell's zero state.
        dtype: dtype of the zero state and of outputs; required without `initial_state`.
        sequence_length: integer vector of the batch. Past the end of a sequence its outputs are zero, and its state is that at
            its end. Past the longest one the cell does not run.
        scope: the variable scope or its name, by default `rnn`.

    Returns:
        A list of the outputs of each step, and the state after the last.

    Raises:
        GraphTypeError: `cell` is no cell, or `inputs` is no sequence.
        GraphValueError: `inputs` is empty, there is neither an initial state nor a dtype, or shapes do not fit.
    """
    assert_like_rnncell("cell", cell)
    if not is_sequence(inputs):
        raise GraphTypeError("inputs must be a sequence")
    if not inputs:
        raise GraphValueError("inputs must not be empty")
    inputs = map_structure(convert_to_tensor, list(inputs))
    with recurrent_scope(scope) as opened:
        batch_size = _batch_size(flatten(inputs))
        missing = "If no initial_state is provided, dtype must be specified"
        state = initial_state_of(cell, initial_state, batch_size, dtype, missing)
        if sequence_length is not None:
            lengths = Lengths(length_vector(sequence_length))
            kind = state_dtype(dtype, state)
            zero_output = map_structure(lambda size: zeros_of(batch_size, size, kind), cell.output_size)
        outputs = []
        for time, each in enumerate(inputs):
            if time > 0:
                opened.reuse_variables()
            if sequence_length is None:
                output, state = cell(each, state)
            else:
                call_cell = functools.partial(cell, each, state)
                output, state = conditional_step(time, lengths, zero_output, state, call_cell)
            outputs.append(output)
    return outputs, state


def _batch_size(inputs: Sequence[Tensor]) -> Any:
    """Return the batch size: an int if any of the inputs has it, else a scalar tensor.

    Raises:
        GraphValueError: the inputs differ in it, or have unknown dimensions beside it.
    """
    batch = Dimension(None)
    if inputs[0].shape.ndims != 1:
        for each in inputs:
            known = each.shape.with_rank_at_least(2)
            batch.assert_is_compatible_with(known[0])
            batch = batch.merge_with(known[0])
            for axis, size in enumerate(known[1:].as_list()):
                if size is None:
                    raise GraphValueError(
                        f"Input size (dimension {axis} of inputs) must be accessible via shape inference, but saw value None."
                    )
    else:
        batch = inputs[0].shape.with_rank_at_least(1)[0]
    return shape(inputs[0])[0] if batch.value is None else batch.value


def static_state_saving_rnn(
    cell: Any,
    inputs: Sequence[Any],
    state_saver: Any,
    state_name: Any,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """As `static_rnn`, with an initial state that `state_saver` loads, and a final state that it saves.

    Args:
        state_saver: `state(name)` returns a part of the initial state, `save_state(name, value)` an operation that saves a part
            of the final state. The last output and the returned state wait for these operations.
        state_name: the name of the state, or a tuple of names if `cell.state_size` is a tuple.

    Raises:
        GraphTypeError: as `static_rnn`.
        GraphValueError: as `static_rnn`, or names and state differ in their structure.
    """
    sizes = cell.state_size
    if is_sequence(sizes) != is_sequence(state_name):
        raise GraphValueError(
            "state_name should be the same type as cell.state_size.  "
            f"state_name: {state_name}, cell.state_size: {sizes}"
        )
    names = flatten(state_name)
    if len(names) != len(flatten(sizes)):
        raise GraphValueError(
            f"#elems(state_name) != #elems(state_size): {len(names)} vs. {len(flatten(sizes))}"
        )
    initial_state = pack_sequence_as(sizes, [state_saver.state(name) for name in names])
    outputs, state = static_rnn(
        cell, inputs, initial_state=initial_state, sequence_length=sequence_length, scope=scope
    )
    saved = [state_saver.save_state(name, part) for name, part in zip(names, flatten(state), strict=True)]
    with control_dependencies(saved):
        outputs[-1] = map_structure(identity, outputs[-1])
        state = map_structure(identity, state)
    return outputs, state


def static_bidirectional_rnn(
    cell_fw: Any,
    cell_bw: Any,
    inputs: Sequence[Any],
    initial_state_fw: Any = None,
    initial_state_bw: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Run a cell over a list of inputs and another one over its reverse; the arguments are those of `static_rnn`.

    Args:
        scope: the variable scope or its name, by default `bidirectional_rnn`; the cells are in its scopes `fw` and `bw`.

    Returns:
        `(outputs, final_state_fw, final_state_bw)`; each output is that of `cell_fw` beside that of `cell_bw`, concatenated
        along the second dimension.

    Raises:
        GraphTypeError, GraphValueError: as `static_rnn`.
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    if not is_sequence(inputs):
        raise GraphTypeError("inputs must be a sequence")
    if not inputs:
        raise GraphValueError("inputs must not be empty")
    inputs = map_structure(convert_to_tensor, list(inputs))
    with variable_scope(scope or "bidirectional_rnn"):
        with variable_scope("fw") as forward:
            output_fw, state_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, scope=forward
            )
        with variable_scope("bw") as backward:
            backwards = _reversed(inputs, sequence_length)
            found, state_bw = static_rnn(
                cell_bw, backwards, initial_state_bw, dtype, sequence_length, scope=backward
            )
        output_bw = _reversed(found, sequence_length)
        pairs = zip(flatten(output_fw), flatten(output_bw), strict=True)
        outputs = pack_sequence_as(output_fw, [concat([fw, bw], 1) for fw, bw in pairs])
    return outputs, state_fw, state_bw


def _reversed(steps: Sequence[Any], lengths: Any) -> list[Any]:
    """Return the steps in reverse order; with lengths, each sequence is reversed within its own."""
    if lengths is None:
        return list(reversed(steps))
    flat = [flatten(step) for step in steps]
    parts = []
    for step_values in zip(*flat, strict=True):
        known = TensorShape(None)
        for value in step_values:
            known = known.merge_with(value.shape)
        backwards = unstack(reverse_sequence(stack(step_values), lengths, seq_axis=0, batch_axis=1))
        for value in backwards:
            value.set_shape(known)
        parts.append(backwards)
    return [
        pack_sequence_as(step, list(values))
        for step, values in zip(steps, zip(*parts, strict=True), strict=True)
    ]
