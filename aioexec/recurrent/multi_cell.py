"""`MultiRNNCell`: several cells in sequence, each with the output of the one before as its input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.ops.array.joining import concat
from aioexec.ops.array.slicing import slice_
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.nesting import is_sequence
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.states import assert_like_rnncell


class MultiRNNCell(RNNCell):
    """Cells in sequence; the cell k is in the variable scope `multi_rnn_cell/cell_k`.

    Args:
        cells: the cells, first to last.
        state_is_tuple: the state is a tuple of the states of the cells; else these are concatenated along the second dimension.

    Raises:
        GraphTypeError: `cells` is no list or tuple of cells.
        GraphValueError: there are no cells, or a state that is no tensor cannot be concatenated.
    """

    def __init__(self, cells: Sequence[Any], state_is_tuple: bool = True) -> None:
        super().__init__()
        if not cells:
            raise GraphValueError("Must specify at least one cell for MultiRNNCell.")
        if not is_sequence(cells):
            raise GraphTypeError(f"cells must be a list or tuple, but saw: {cells}.")
        for k, cell in enumerate(cells):
            assert_like_rnncell(f"cells[{k}]", cell)
        self._cells = tuple(cells)
        self._state_is_tuple = state_is_tuple
        sizes = [cell.state_size for cell in cells]
        if not state_is_tuple and any(map(is_sequence, sizes)):
            raise GraphValueError(
                "Some cells return tuples of states, but the flag state_is_tuple is not set.  "
                f"State sizes are: {sizes}"
            )

    @property
    def state_size(self) -> Any:
        sizes = tuple(cell.state_size for cell in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self) -> Any:
        return self._cells[-1].output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the zero states of the cells; see `RNNCell.zero_state`."""
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        with op_scope(None, f"{type(self).__name__}ZeroState", batch_size):
            return tuple(cell.zero_state(batch_size, dtype) for cell in self._cells)

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        output, new_states = inputs, []
        for k, (cell, part) in enumerate(zip(self._cells, self._parts(state), strict=True)):
            with variable_scope(f"cell_{k}"):
                output, new_state = cell(output, part)
            new_states.append(new_state)
        return output, tuple(new_states) if self._state_is_tuple else concat(new_states, 1)

    def _parts(self, state: Any) -> Sequence[Any]:
        """Return the states of the cells."""
        if self._state_is_tuple:
            if not is_sequence(state) or len(state) != len(self._cells):
                raise GraphValueError(
                    f"Expected state to be a tuple of length {len(self._cells)}, but received: {state}"
                )
            parts: Sequence[Any] = state
            return parts
        parts, first = [], 0
        for cell in self._cells:
            parts.append(slice_(state, [0, first], [-1, cell.state_size]))
            first += cell.state_size
        return parts
