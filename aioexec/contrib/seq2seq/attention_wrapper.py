"""`AttentionWrapper`: a cell whose outputs query a memory, and whose next inputs have what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Self

from aioexec import dtypes
from aioexec.contrib.seq2seq.attention import AttentionMechanism, without_bias
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import control_dependencies
from aioexec.ops.array.arrays import expand_dims, squeeze
from aioexec.ops.array.filling import zeros
from aioexec.ops.array.identity import identity
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.checks import assert_equal
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.linalg.products import matmul
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.states import assert_like_rnncell, zeros_of
from aioexec.recurrent.steps import leaves
from aioexec.shapes import TensorShape

AttentionFunction = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]
_TILING = (
    "Non-matching batch sizes between the memory (encoder output) and the {}. Are you using the BeamSearchDecoder? "
    "You may need to tile it via the tf.contrib.seq2seq.tile_batch function with argument multiple=beam_width."
)


class AttentionWrapperState(NamedTuple):
    """The state of an `AttentionWrapper`; the last three have one part for each mechanism if there is a list of them.

    `cell_state`: the state of the cell. `attention`: what was read last. `time`: the number of the step, a scalar int32 tensor.
    `alignments`: how much of each step of the memory was read last, `[batch, memory steps]`. `alignment_history`: a TensorArray
    of the alignments of all steps, or an empty tuple. `attention_state`: the state of the mechanism.
    """

    cell_state: Any
    attention: Any
    time: Any
    alignments: Any
    alignment_history: Any
    attention_state: Any

    def clone(self, **kwargs: Any) -> Self:
        """Return a state with other components.

        Raises:
            GraphValueError: a tensor's static shape contradicts that of the component it replaces.
        """
        changed = self._replace(**kwargs)
        for old, new in zip(leaves(self), leaves(changed), strict=True):
            if isinstance(old, Tensor) and isinstance(new, Tensor):
                new.set_shape(new.shape.merge_with(old.shape))
        return changed


def compute_attention(
    mechanism: Any, cell_output: Any, attention_state: Any, attention_layer: Any
) -> tuple[Any, Any, Any]:
    """Return what a cell's output reads, the alignments and the next state of the mechanism.

    What is read is the sum of the memory's values by the alignments; with a layer, that layer of the cell's output and the sum.
    """
    alignments, next_state = mechanism(cell_output, state=attention_state)
    context = squeeze(matmul(expand_dims(alignments, 1), mechanism.values), [1])
    attention = context if attention_layer is None else attention_layer(concat([cell_output, context], 1))
    return attention, alignments, next_state


class AttentionWrapper(RNNCell):
    """A cell with attention: its inputs are joined with what was read last; its output reads a memory.

    Variables: `attention_layer/kernel` for each layer, in the scope `attention_wrapper`.

    Args:
        cell: the cell.
        attention_mechanism: a mechanism or a list of them.
        attention_layer_size: output size of a layer applied to the cell's output and the sum of the memory; None for the sum
            itself. With a list of mechanisms a list of sizes.
        alignment_history: keep the alignments of all steps in the state, in TensorArrays.
        cell_input_fn: function of inputs and what was read last that returns the inputs of the cell; by default it joins them.
        output_attention: the output is what was read; else that of the cell.
        initial_cell_state: the state of the cell in the zero state of the wrapper.
        name: name of the variable scope, by default `attention_wrapper`.
        attention_layer: a layer or list of layers in place of `attention_layer_size`.
        attention_fn: function in place of `compute_attention`.
        dtype: dtype of the wrapper, by default that of the inputs.

    Raises:
        GraphTypeError: an argument has another type.
        GraphValueError: there is not one layer for each mechanism, or both sizes and layers are given.
    """

    def __init__(
        self,
        cell: Any,
        attention_mechanism: Any,
        attention_layer_size: Any = None,
        alignment_history: bool = False,
        cell_input_fn: Callable[[Any, Any], Any] | None = None,
        output_attention: bool = True,
        initial_cell_state: Any = None,
        name: str | None = None,
        attention_layer: Any = None,
        attention_fn: AttentionFunction | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        assert_like_rnncell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, list | tuple)
        self._mechanisms = _mechanisms_of(attention_mechanism)
        if cell_input_fn is not None and not callable(cell_input_fn):
            raise GraphTypeError(f"cell_input_fn must be callable, saw type: {type(cell_input_fn).__name__}")
        self._cell = cell
        self._cell_input_fn = cell_input_fn or (lambda inputs, read: concat([inputs, read], -1))
        self._output_attention = output_attention
        self._alignment_history = alignment_history
        self._attention_fn = attention_fn or compute_attention
        self._choose_layers(attention_layer_size, attention_layer, dtype)
        self._initial_cell_state = self._checked_state(initial_cell_state, name)

    def _choose_layers(self, sizes: Any, layers: Any, dtype: Any) -> None:
        """Set the layers, None without any, and the size of what is read."""
        if sizes is not None and layers is not None:
            raise GraphValueError("Only one of attention_layer_size and attention_layer should be set")
        self._attention_layers: Sequence[Any] | None = None
        depths = [each.values.shape[-1].value for each in self._mechanisms]
        if sizes is not None:
            widths = _one_each("attention_layer_size", sizes, len(depths))
            self._attention_layers = [without_bias(width, "attention_layer", dtype) for width in widths]
            self._attention_layer_size = sum(widths)
        elif layers is not None:
            self._attention_layers = _one_each("attention_layer", layers, len(depths))
            inputs = [TensorShape([None, self._cell.output_size + depth]) for depth in depths]
            self._attention_layer_size = sum(
                layer.compute_output_shape(given)[-1].value
                for layer, given in zip(self._attention_layers, inputs, strict=True)
            )
        else:
            self._attention_layer_size = sum(depths)

    def _checked_state(self, initial: Any, name: str | None) -> Any:
        if initial is None:
            return None
        with op_scope(name, "AttentionWrapperInit", *flatten(initial)):
            last = flatten(initial)[-1]
            static = last.shape[0].value
            batch = shape(last)[0] if static is None else static
            with control_dependencies(self._batch_size_checks(batch, "initial_cell_state")):
                return map_structure(lambda part: identity(part, name="check_initial_cell_state"), initial)

    def _batch_size_checks(self, batch_size: Any, what: str) -> list[Any]:
        message = f"{type(self).__name__} {self.name}: {_TILING.format(what)}"
        return [assert_equal(batch_size, each.batch_size, message=message) for each in self._mechanisms]

    def _item_or_tuple(self, parts: Iterable[Any]) -> Any:
        """Return the parts for each mechanism: a tuple if these are a list, else the single one."""
        found = tuple(parts)
        return found if self._is_multi else found[0]

    @property
    def output_size(self) -> Any:
        return self._attention_layer_size if self._output_attention else self._cell.output_size

    @property
    def state_size(self) -> Any:
        """An `AttentionWrapperState` of sizes."""
        sizes = [each.alignments_size for each in self._mechanisms]
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            time=TensorShape([]),
            attention=self._attention_layer_size,
            alignments=self._item_or_tuple(sizes),
            attention_state=self._item_or_tuple(each.state_size for each in self._mechanisms),
            alignment_history=self._item_or_tuple(each if self._alignment_history else () for each in sizes),
        )

    def zero_state(self, batch_size: Any, dtype: Any) -> Any:
        """Return the state before the first step, an `AttentionWrapperState`.

        Raises:
            GraphValueError: the batch size is known to differ from that of the memory.
        """
        with op_scope(None, f"{type(self).__name__}ZeroState", batch_size):
            cell_state = self._initial_cell_state
            if cell_state is None:
                cell_state = self._cell.zero_state(batch_size, dtype)
            with control_dependencies(self._batch_size_checks(batch_size, "requested batch size")):
                cell_state = map_structure(lambda part: identity(part, name="checked_cell_state"), cell_state)
            alignments = [each.initial_alignments(batch_size, dtype) for each in self._mechanisms]
            return AttentionWrapperState(
                cell_state=cell_state,
                time=zeros([], dtypes.int32),
                attention=zeros_of(batch_size, self._attention_layer_size, dtype),
                alignments=self._item_or_tuple(alignments),
                attention_state=self._item_or_tuple(
                    each.initial_state(batch_size, dtype) for each in self._mechanisms
                ),
                alignment_history=self._item_or_tuple(
                    TensorArray(dtype, size=0, dynamic_size=True, element_shape=each.shape)
                    if self._alignment_history
                    else ()
                    for each in alignments
                ),
            )

    def call(self, inputs: Any, state: Any) -> tuple[Any, AttentionWrapperState]:
        """Run the cell for one step, and read.

        Raises:
            GraphTypeError: the state is no AttentionWrapperState.
        """
        if not isinstance(state, AttentionWrapperState):
            raise GraphTypeError(
                f"Expected state to be instance of AttentionWrapperState. Received type {type(state)} instead."
            )
        output, cell_state = self._cell(self._cell_input_fn(inputs, state.attention), state.cell_state)
        static = output.shape[0].value
        batch = shape(output)[0] if static is None else static
        with control_dependencies(self._batch_size_checks(batch, "query (decoder output)")):
            output = identity(output, name="checked_cell_output")
        attentions, alignments, attention_states = zip(*self._reads(output, state), strict=True)
        attention = concat(list(attentions), 1)
        histories = state.alignment_history if self._is_multi else [state.alignment_history]
        if self._alignment_history:
            histories = [
                history.write(state.time, each) for history, each in zip(histories, alignments, strict=True)
            ]
        next_state = AttentionWrapperState(
            cell_state=cell_state,
            attention=attention,
            time=state.time + 1,
            alignments=self._item_or_tuple(alignments),
            alignment_history=self._item_or_tuple(histories),
            attention_state=self._item_or_tuple(attention_states),
        )
        return (attention if self._output_attention else output), next_state

    def _reads(self, output: Any, state: AttentionWrapperState) -> list[tuple[Any, Any, Any]]:
        """Return for each mechanism what is read, the alignments and the next state."""
        before = state.attention_state if self._is_multi else [state.attention_state]
        layers = self._attention_layers or [None] * len(self._mechanisms)
        return [
            self._attention_fn(mechanism, output, previous, layer)
            for mechanism, previous, layer in zip(self._mechanisms, before, layers, strict=True)
        ]


def _mechanisms_of(given: Any) -> tuple[Any, ...]:
    """Return the mechanisms as a tuple.

    Raises:
        GraphTypeError: one is no mechanism.
    """
    mechanisms = tuple(given) if isinstance(given, list | tuple) else (given,)
    for mechanism in mechanisms:
        if not isinstance(mechanism, AttentionMechanism):
            raise GraphTypeError(
                "attention_mechanism must be an AttentionMechanism or list of multiple AttentionMechanism instances, "
                f"saw type: {type(mechanism).__name__}"
            )
    return mechanisms


def _one_each(what: str, given: Any, count: int) -> list[Any]:
    """Return the values for each of `count` mechanisms.

    Raises:
        GraphValueError: there are more or fewer.
    """
    found = list(given) if isinstance(given, list | tuple) else [given]
    if len(found) != count:
        raise GraphValueError(
            f"If provided, {what} must contain exactly one per attention_mechanism, saw: {len(found)} vs {count}"
        )
    return found
