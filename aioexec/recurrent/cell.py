"""`RNNCell`, the base of cells: layers that are called with inputs and a state, and return an output and a new state."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.layers.base import Layer
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.nesting import flatten
from aioexec.ops.state.variable_scope import VariableScope, get_variable_scope, variable_scope
from aioexec.recurrent.states import zero_state_of


class RNNCell(Layer):
    """A cell; subclasses define `state_size`, `output_size` and `call(inputs, state)`.

    `call` returns `(output, new_state)` and may create variables by `get_variable`; they are shared by all calls within one
    variable scope that reuses them. Sizes are ints or TensorShapes without the batch, or structures of them.

    State: `_outer_scope` is the current variable scope of the first call without a `scope`; later calls enter it again.
    """

    _outer_scope: VariableScope | None = None

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Run the cell for one step.

        Args:
            inputs: a tensor `[batch, ...]`, or a structure of tensors.
            state: a structure of tensors `[batch, *size]` for each size of `state_size`.
            scope: the variable scope of the cell or its name; by default it is named as the class, in the current scope.

        Returns:
            The output, `[batch, *size]` for each size of `output_size`, and the new state, which is like `state`.
        """
        if scope is not None:
            with variable_scope(scope, custom_getter=self._get_variable) as entered:
                return super().__call__(inputs, state, scope=entered)
        if self._outer_scope is None:
            self._outer_scope = get_variable_scope()
        with variable_scope(self._outer_scope, custom_getter=self._get_variable):
            return super().__call__(inputs, state)

    def _get_variable(self, getter: Any, *args: Any, **kwargs: Any) -> Any:
        """The custom getter in the scope of the cell: its variables are weights of the layer."""
        variable = getter(*args, **kwargs)
        self._keep(variable)
        return variable

    @property
    def state_size(self) -> Any:
        """The size of the state, without the batch: int, TensorShape, or a structure of them; abstract, as in TensorFlow."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self) -> Any:
        """The size of the output, without the batch: int, TensorShape, or a structure of them; abstract, as in TensorFlow."""
        raise NotImplementedError("Abstract method")

    def get_initial_state(self, inputs: Any = None, batch_size: Any = None, dtype: Any = None) -> Any:
        """Return the zero state for a batch like that of `inputs`, or for a batch size and dtype.

        Raises:
            GraphValueError: batch size or dtype are not given, or contradict `inputs`.
        """
        if inputs is not None:
            batch_size, dtype = _batch_and_dtype(inputs, batch_size, dtype)
        if batch_size is None or dtype is None:
            raise GraphValueError(
                "batch_size and dtype cannot be None while constructing initial state: "
                f"batch_size={batch_size}, dtype={dtype}"
            )
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return a state of zeros, `[batch_size, *size]` for each size of `state_size`.

        Args:
            batch_size: an int or a scalar tensor.
        """
        with op_scope(None, f"{type(self).__name__}ZeroState", batch_size):
            return zero_state_of(self.state_size, batch_size, dtype)


class LayerRNNCell(RNNCell):
    """A cell that creates its variables in `build`; it shares them among its calls, in any variable scope."""

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> Any:
        """Run the cell for one step; see `RNNCell`."""
        return Layer.__call__(self, inputs, state, scope=scope)


def _batch_and_dtype(inputs: Any, batch_size: Any, dtype: Any) -> tuple[Any, Any]:
    """Return batch size and dtype of the first input, after comparison with the given ones."""
    first = convert_to_tensor(flatten(inputs)[0], name="inputs")
    static = first.shape[0].value
    given = constant_value(batch_size) if isinstance(batch_size, Tensor) else batch_size
    if static is not None and given is not None and static != given:
        raise GraphValueError(
            f"batch size from input tensor is different from the input param. Input tensor batch: {static}, "
            f"batch_size: {given}"
        )
    if dtype is not None and first.dtype.base_dtype != dtype:
        raise GraphValueError(
            f"dtype from input tensor is different from the input param. Input tensor dtype: {first.dtype.name}, dtype: {dtype}"
        )
    return shape(first)[0] if static is None else static, first.dtype.base_dtype
