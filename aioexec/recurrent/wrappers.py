"""Wrappers of cells: `ResidualWrapper` and `DeviceWrapper`. A wrapper opens no variable scope of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aioexec.graph.graph import get_default_graph
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.nesting import assert_same_structure, flatten, pack_sequence_as
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.states import assert_like_rnncell


class CellWrapper(RNNCell):
    """A cell that calls another one; it has the sizes, the zero state and the variables of that cell.

    Args:
        kwargs: `name`, `dtype` and `trainable`, as of a Layer.

    Raises:
        GraphTypeError: `cell` is no cell.
    """

    def __init__(self, cell: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        assert_like_rnncell("cell", cell)
        self.cell = cell

    @property
    def wrapped_cell(self) -> Any:
        """The cell that this one calls."""
        return self.cell

    @property
    def state_size(self) -> Any:
        return self.cell.state_size

    @property
    def output_size(self) -> Any:
        return self.cell.output_size

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the zero state of the cell; see `RNNCell.zero_state`."""
        with op_scope(None, f"{type(self).__name__}ZeroState", batch_size):
            return self.cell.zero_state(batch_size, dtype)


class ResidualWrapper(CellWrapper):
    """Adds the inputs of a cell to its outputs.

    Args:
        cell: the cell.
        residual_fn: function of inputs and outputs that returns the new outputs; by default their sum, in each part.

    Raises:
        GraphTypeError: `cell` is no cell.
        GraphValueError: (in a call) inputs and outputs have different structures or shapes.
    """

    def __init__(
        self, cell: Any, residual_fn: Callable[[Any, Any], Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        outputs, new_state = self.cell(inputs, state, scope=scope)
        return (self._residual_fn or _sums)(inputs, outputs), new_state


def _sums(inputs: Any, outputs: Any) -> Any:
    """Return input + output for each part."""
    assert_same_structure(inputs, outputs)
    pairs = list(zip(flatten(inputs), flatten(outputs), strict=True))
    for one, other in pairs:
        one.shape.assert_is_compatible_with(other.shape)
    return pack_sequence_as(outputs, [one + other for one, other in pairs])


class DeviceWrapper(CellWrapper):
    """Places the nodes of a cell on a device.

    Args:
        cell: the cell.
        device: name of the device, or a device function.

    Raises:
        GraphTypeError: `cell` is no cell.
    """

    def __init__(self, cell: Any, device: Any, **kwargs: Any) -> None:
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the zero state of the cell, on the device; see `RNNCell.zero_state`."""
        with get_default_graph().device(self._device):
            return super().zero_state(batch_size, dtype)

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        with get_default_graph().device(self._device):
            found: tuple[Any, Any] = self.cell(inputs, state, scope=scope)
            return found
