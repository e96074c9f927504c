"""Stacks of bidirectional networks: the outputs of each, forward beside backward, are the inputs of the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphValueError
from aioexec.ops.array.joining import concat
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.recurrent.dynamic import bidirectional_dynamic_rnn
from aioexec.recurrent.static import static_bidirectional_rnn


def stack_bidirectional_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Any = None,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Run a stack of `static_bidirectional_rnn`, one for each pair of cells.

    Args:
        cells_fw, cells_bw: a cell for each layer, from the inputs up.
        inputs: a list of tensors `[batch, size]`, one for each step.
        initial_states_fw, initial_states_bw: a state for each layer; by default zero states of `dtype`.
        sequence_length: integer vector of the batch.
        scope: the variable scope or its name, by default `stack_bidirectional_rnn`; layer k is in its scope `cell_k`.

    Returns:
        `(outputs, states_fw, states_bw)`: the outputs of the last layer, and tuples with the final state of each layer.

    Raises:
        GraphValueError: there are no cells, or the numbers of cells and states differ.
    """
    _check(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (cell_fw, cell_bw) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with variable_scope(f"cell_{number}"):
                inputs, state_fw, state_bw = static_bidirectional_rnn(
                    cell_fw,
                    cell_bw,
                    inputs,
                    _state(initial_states_fw, number),
                    _state(initial_states_bw, number),
                    dtype=dtype,
                    sequence_length=sequence_length,
                )
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def stack_bidirectional_dynamic_rnn(
    cells_fw: Sequence[Any],
    cells_bw: Sequence[Any],
    inputs: Any,
    initial_states_fw: Sequence[Any] | None = None,
    initial_states_bw: Sequence[Any] | None = None,
    dtype: Any = None,
    sequence_length: Any = None,
    parallel_iterations: int | None = None,
    time_major: bool = False,
    scope: Any = None,
    swap_memory: bool = False,
) -> tuple[Any, tuple[Any, ...], tuple[Any, ...]]:
    """Run a stack of `bidirectional_dynamic_rnn`, one for each pair of cells.

    The arguments and results are those of `stack_bidirectional_rnn`, but for the inputs and outputs, which are tensors
    `[batch, steps, size]`, or `[steps, batch, size]` if `time_major`.

    Raises:
        GraphValueError: there are no cells, or the numbers of cells and states differ.
    """
    _check(cells_fw, cells_bw, initial_states_fw, initial_states_bw)
    states_fw, states_bw = [], []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for number, (cell_fw, cell_bw) in enumerate(zip(cells_fw, cells_bw, strict=True)):
            with variable_scope(f"cell_{number}"):
                outputs, (state_fw, state_bw) = bidirectional_dynamic_rnn(
                    cell_fw,
                    cell_bw,
                    inputs,
                    initial_state_fw=_state(initial_states_fw, number),
                    initial_state_bw=_state(initial_states_bw, number),
                    sequence_length=sequence_length,
                    parallel_iterations=parallel_iterations,
                    dtype=dtype,
                    swap_memory=swap_memory,
                    time_major=time_major,
                )
                inputs = concat(outputs, 2)
            states_fw.append(state_fw)
            states_bw.append(state_bw)
    return inputs, tuple(states_fw), tuple(states_bw)


def _state(states: Sequence[Any] | None, number: int) -> Any:
    return None if states is None else states[number]


def _check(cells_fw: Any, cells_bw: Any, states_fw: Any, states_bw: Any) -> None:
    """Raise GraphValueError unless there is a list of cells in both directions, and a state for each where states are given."""
    for name, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list | tuple) or not cells:
            raise GraphValueError(f"{name} must be a list of cells (one per layer), got {cells!r}")
    if len(cells_fw) != len(cells_bw):
        raise GraphValueError(
            f"Forward and Backward cells must have the same depth: {len(cells_fw)} and {len(cells_bw)}"
        )
    for name, states in (("initial_states_fw", states_fw), ("initial_states_bw", states_bw)):
        if states is not None and (not isinstance(states, list | tuple) or len(states) != len(cells_fw)):
            raise GraphValueError(f"{name} must be a list of state tensors (one per layer), got {states!r}")
