"""Wrappers of cells that embed or project the inputs, or project the outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from aioexec.contrib.rnn.linear import Linear
from aioexec.errors import GraphValueError
from aioexec.graph.scopes import device
from aioexec.ops.array.arrays import reshape
from aioexec.ops.nn.embedding import embedding_lookup
from aioexec.ops.state.initializers import random_uniform_initializer
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope
from aioexec.recurrent.wrappers import CellWrapper

Activation = Callable[[Any], Any]


class EmbeddingWrapper(CellWrapper):
    """Looks up the rows of an embedding for integer inputs, and passes them to a cell.

    Variables: `embedding`, `[embedding_classes, embedding_size]`, in the dtype of the state; uniform in [-sqrt(3), sqrt(3)) at
    first, unless there is an initializer here or in the scope.

    Args:
        cell: the cell.
        embedding_classes: number of symbols.
        embedding_size: size of a symbol's vector.
        initializer: initializer of the embedding.
        reuse: whether the variables must exist already.

    Raises:
        GraphTypeError: `cell` is no cell.
        GraphValueError: a size is not positive.
    """

    def __init__(
        self,
        cell: Any,
        embedding_classes: int,
        embedding_size: int,
        initializer: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(cell, _reuse=reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise GraphValueError(
                f"Both embedding_classes and embedding_size must be > 0: {embedding_classes}, {embedding_size}."
            )
        self._embedding_classes = embedding_classes
        self._embedding_size = embedding_size
        self._initializer = initializer

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        bound = math.sqrt(3)
        with device("/cpu:0"):
            embedding = get_variable(
                "embedding",
                [self._embedding_classes, self._embedding_size],
                state[0].dtype if isinstance(state, tuple) else state.dtype,
                self._initializer
                or get_variable_scope().initializer
                or random_uniform_initializer(-bound, bound),
            )
            embedded = embedding_lookup(embedding, reshape(inputs, [-1]))
            found: tuple[Any, Any] = self.cell(embedded, state)
            return found


class InputProjectionWrapper(CellWrapper):
    """Multiplies the inputs of a cell by a matrix.

    Variables: `kernel`, `[depth of inputs, num_proj]`; `bias`, `[num_proj]`, zeros at first.

    Args:
        cell: the cell.
        num_proj: depth of the cell's inputs.
        activation: function of the projected inputs.
        input_size: ignored, as in TensorFlow.
        reuse: whether the variables must exist already.

    Raises:
        GraphTypeError: `cell` is no cell.
    """

    def __init__(
        self,
        cell: Any,
        num_proj: int,
        activation: Activation | None = None,
        input_size: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(cell, _reuse=reuse)
        self._num_proj = num_proj
        self._activation = activation
        self._linear: Linear | None = None

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        if self._linear is None:
            self._linear = Linear(inputs, self._num_proj, True)
        projected = self._linear(inputs)
        found: tuple[Any, Any] = self.cell(_activated(self._activation, projected), state)
        return found


class OutputProjectionWrapper(CellWrapper):
    """Multiplies the outputs of a cell by a matrix.

    Variables: `kernel`, `[size of the cell's outputs, output_size]`; `bias`, `[output_size]`, zeros at first.

    Args:
        cell: the cell.
        output_size: size of the outputs.
        activation: function of the projected outputs.
        reuse: whether the variables must exist already.

    Raises:
        GraphTypeError: `cell` is no cell.
        GraphValueError: `output_size` is not positive.
    """

    def __init__(
        self, cell: Any, output_size: int, activation: Activation | None = None, reuse: Any = None
    ) -> None:
        super().__init__(cell, _reuse=reuse)
        if output_size < 1:
            raise GraphValueError(f"Parameter output_size must be > 0: {output_size}.")
        self._output_size = output_size
        self._activation = activation
        self._linear: Linear | None = None

    @property
    def output_size(self) -> Any:
        return self._output_size

    def call(self, inputs: Any, state: Any) -> tuple[Any, Any]:
        output, new_state = self.cell(inputs, state)
        if self._linear is None:
            self._linear = Linear(output, self._output_size, True)
        return _activated(self._activation, self._linear(output)), new_state


def _activated(activation: Activation | None, value: Any) -> Any:
    return value if activation is None else activation(value)
