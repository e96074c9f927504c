"""Networks over whole sequences under the interface of `FusedRNNCell`: of cells, and reversed in time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from aioexec.ops.array.joining import stack, unstack
from aioexec.ops.array.ordering import reverse_sequence
from aioexec.ops.array.reverse import reverse
from aioexec.recurrent.dynamic import dynamic_rnn
from aioexec.recurrent.static import static_rnn


class FusedRNNCell(ABC):
    """The interface of networks over whole sequences."""

    @abstractmethod
    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        """Run over sequences.

        Args:
            inputs: `[steps, batch, depth]`, or a list of `[batch, depth]` for each step.
            initial_state: the state before the first step; zeros by default.
            dtype: dtype of the zeros; required without `initial_state`.
            sequence_length: integer vector of the batch.
            scope: the variable scope or its name.

        Returns:
            The outputs in the form of the inputs, and the last state.
        """


class FusedRNNCellAdaptor(FusedRNNCell):
    """Runs a cell over whole sequences.

    Args:
        cell: the cell.
        use_dynamic_rnn: run it in a loop; else with nodes of its own for each step.
    """

    def __init__(self, cell: Any, use_dynamic_rnn: bool = False) -> None:
        self._cell = cell
        self._use_dynamic_rnn = use_dynamic_rnn

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        is_list = isinstance(inputs, list)
        options = {
            "sequence_length": sequence_length,
            "initial_state": initial_state,
            "dtype": dtype,
            "scope": scope,
        }
        if self._use_dynamic_rnn:
            outputs, state = dynamic_rnn(
                self._cell, stack(inputs) if is_list else inputs, time_major=True, **options
            )
            return unstack(outputs) if is_list else outputs, state
        steps, state = static_rnn(self._cell, inputs if is_list else unstack(inputs), **options)
        return steps if is_list else stack(steps), state


class TimeReversedFusedRNN(FusedRNNCell):
    """Runs a network over the reverse of sequences, each within its length; outputs are in the order of the inputs.

    Args:
        cell: a `FusedRNNCell`.
    """

    def __init__(self, cell: Any) -> None:
        self._cell = cell

    def __call__(
        self,
        inputs: Any,
        initial_state: Any = None,
        dtype: Any = None,
        sequence_length: Any = None,
        scope: Any = None,
    ) -> tuple[Any, Any]:
        outputs, state = self._cell(
            _reversed(inputs, sequence_length),
            initial_state=initial_state,
            dtype=dtype,
            sequence_length=sequence_length,
            scope=scope,
        )
        return _reversed(outputs, sequence_length), state


def _reversed(steps: Any, lengths: Any) -> Any:
    """Reverse steps in time; a list is reversed as a whole, as in TensorFlow."""
    if isinstance(steps, list):
        return list(reversed(steps))
    return reverse(steps, [0]) if lengths is None else reverse_sequence(steps, lengths, 0, 1)
