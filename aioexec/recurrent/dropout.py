"""`DropoutWrapper`: dropout on the inputs, outputs and states of a cell."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.nesting import is_sequence
from aioexec.ops.math.math_functions import floor
from aioexec.ops.random.random_ops import dropout, random_uniform
from aioexec.recurrent.lstm_cells import LSTMStateTuple
from aioexec.recurrent.steps import leaves, packed
from aioexec.recurrent.wrappers import CellWrapper
from aioexec.shapes import TensorShape

Visitor = Callable[[Any], Any]


def _but_memory(substate: Any) -> Any:
    """The default visitor: no dropout on the memory of LSTM cells and on TensorArrays."""
    if isinstance(substate, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(substate, TensorArray)


class DropoutWrapper(CellWrapper):
    """Sets elements of a cell's inputs, outputs and states to zero at random, and scales the others by 1 / keep probability.

    A state is changed after the cell has returned it; outputs are not. A keep probability is a number or a scalar tensor.

    Args:
        cell: the cell.
        input_keep_prob, output_keep_prob, state_keep_prob: probabilities to keep an element; 1 adds no nodes.
        variational_recurrent: make the same decisions in every step, and for all rows of the batch.
        input_size: structure of the sizes of the inputs; required for variational dropout on inputs.
        dtype: dtype of inputs, outputs and states; required for variational dropout.
        seed: seed of the random decisions; each part of inputs, outputs and states derives another one.
        dropout_state_filter_visitor: function of a part of the state, called from the outside in. True or False: dropout on
            this part or not. A structure of bools for its components is allowed too. By default there is none on the memory
            of LSTM cells and on TensorArrays.

    Raises:
        GraphTypeError: `cell` is no cell, or the visitor is not callable.
        GraphValueError: a probability is out of [0, 1], or variational dropout lacks `dtype` or `input_size`.
    """

    def __init__(
        self,
        cell: Any,
        input_keep_prob: Any = 1.0,
        output_keep_prob: Any = 1.0,
        state_keep_prob: Any = 1.0,
        variational_recurrent: bool = False,
        input_size: Any = None,
        dtype: Any = None,
        seed: int | None = None,
        dropout_state_filter_visitor: Visitor | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(cell, dtype=dtype, **kwargs)
        if dropout_state_filter_visitor is not None and not callable(dropout_state_filter_visitor):
            raise GraphTypeError("dropout_state_filter_visitor must be callable")
        self._visitor = dropout_state_filter_visitor or _but_memory
        self._input_keep_prob = _checked("input", input_keep_prob)
        self._state_keep_prob = _checked("state", state_keep_prob)
        self._output_keep_prob = _checked("output", output_keep_prob)
        self._seed = seed
        self._noise: dict[str, list[Tensor]] | None = None
        if variational_recurrent:
            self._noise = self._drawn_once(input_size, dtype)

    def _drawn_once(self, input_size: Any, dtype: Any) -> dict[str, list[Tensor]]:
        """Draw the numbers that decide in all steps, `[1, *size]` for each part of inputs, states and outputs."""
        if dtype is None:
            raise GraphValueError("When variational_recurrent=True, dtype must be provided")
        sizes = {"state": self.cell.state_size, "output": self.cell.output_size}
        if _drops(self._input_keep_prob):
            if input_size is None:
                raise GraphValueError(
                    "When variational_recurrent=True and input_keep_prob < 1.0 or is unknown, input_size must be provided"
                )
            sizes["input"] = input_size
        return {
            kind: [
                random_uniform(
                    [1, *TensorShape(size).as_list()],
                    dtype=dtypes.as_dtype(dtype),
                    seed=self._seed_of(kind, k),
                )
                for k, size in enumerate(leaves(structure))
            ]
            for kind, structure in sizes.items()
        }

    def _seed_of(self, kind: str, index: int) -> int | None:
        """Return the seed for a part of the inputs, states or outputs, by which the numbers are TensorFlow's."""
        if self._seed is None:
            return None
        digest = hashlib.md5(f"{self._seed}{kind}_{index}".encode(), usedforsecurity=False).hexdigest()
        return int(digest[:8], 16) & 0x7FFFFFFF

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        if _drops(self._input_keep_prob):
            inputs = self._dropped("input", inputs, self._input_keep_prob, lambda part: True)
        output, new_state = self.cell(inputs, state, scope=scope)
        if _drops(self._state_keep_prob):
            new_state = self._dropped("state", new_state, self._state_keep_prob, self._visitor)
        if _drops(self._output_keep_prob):
            output = self._dropped("output", output, self._output_keep_prob, lambda part: True)
        return output, new_state

    def _dropped(self, kind: str, values: Any, keep_prob: Any, visitor: Visitor) -> Any:
        """Apply dropout to the leaves of a structure that the visitor chooses."""
        decisions = list(_decisions(visitor, values, itertools.count()))
        found = []
        for place, (leaf, number) in enumerate(zip(leaves(values), decisions, strict=True)):
            if number is None:
                found.append(leaf)
            elif self._noise is None:
                found.append(dropout(leaf, keep_prob=keep_prob, seed=self._seed_of(kind, number)))
            else:
                found.append(_kept_by(self._noise[kind][place], convert_to_tensor(leaf), keep_prob))
        return packed(values, found)


def _kept_by(noise: Tensor, value: Tensor, keep_prob: Any) -> Tensor:
    """Keep the elements of a value whose number in the noise is at least 1 - keep_prob."""
    kept: Tensor = value / keep_prob * floor(keep_prob + noise)
    kept.set_shape(value.shape)
    return kept


def _checked(kind: str, keep_prob: Any) -> Any:
    """Return a keep probability as a float, or as a tensor if it is not static."""
    tensor = convert_to_tensor(keep_prob)
    value = constant_value(tensor)
    if value is None:
        return tensor
    if not 0 <= value <= 1:
        raise GraphValueError(f"Parameter {kind}_keep_prob must be between 0 and 1: {value}")
    return float(value)


def _drops(keep_prob: Any) -> bool:
    return not isinstance(keep_prob, float) or keep_prob < 1


def _decisions(visitor: Visitor, structure: Any, numbers: Iterator[int]) -> Iterator[int | None]:
    """For each leaf the number of its dropout, None for none; a part without dropout takes one number.

    Raises:
        GraphTypeError: the visitor returns neither a bool nor bools for the components.
    """
    decision = visitor(structure)
    if not isinstance(decision, bool):
        if not is_sequence(decision) or not all(isinstance(each, bool) for each in _components(decision)):
            raise GraphTypeError(f"the visitor did not return a depth=1 structure of bools, but {decision!r}")
        for each, component in zip(_components(decision), _components(structure), strict=True):
            yield from _decisions(visitor if each else lambda part: False, component, numbers)
    elif not decision:
        next(numbers)
        yield from (None for _ in leaves(structure))
    elif is_sequence(structure):
        for component in _components(structure):
            yield from _decisions(visitor, component, numbers)
    else:
        yield next(numbers)


def _components(structure: Any) -> list[Any]:
    """Return the components of a sequence, in the order of its leaves."""
    if isinstance(structure, Mapping):
        return [structure[key] for key in sorted(structure)]
    return list(structure)
