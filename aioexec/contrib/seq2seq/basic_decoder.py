"""`BasicDecoder`: a cell, and a helper that samples from its outputs and chooses its inputs."""

from __future__ import annotations

from typing import Any, NamedTuple

from aioexec.contrib.seq2seq.decoder import Decoder
from aioexec.contrib.seq2seq.helpers import Helper
from aioexec.errors import GraphTypeError
from aioexec.layers.base import Layer
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.recurrent.states import assert_like_rnncell
from aioexec.shapes import TensorShape


class BasicDecoderOutput(NamedTuple):
    """The outputs of a step: those of the cell after the output layer, and the samples."""

    rnn_output: Any
    sample_id: Any


class BasicDecoder(Decoder):
    """Runs a cell on the inputs that a helper chooses.

    Args:
        cell: the cell.
        helper: the helper.
        initial_state: the state before the first step.
        output_layer: a layer applied to the outputs of the cell.

    Raises:
        GraphTypeError: an argument has another type.
    """

    def __init__(self, cell: Any, helper: Helper, initial_state: Any, output_layer: Any = None) -> None:
        assert_like_rnncell("cell", cell)
        if not isinstance(helper, Helper):
            raise GraphTypeError(f"helper must be a Helper, received: {type(helper)}")
        check_layer(output_layer)
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def known_steps(self) -> tuple[Any, Any] | None:
        return self._helper.known_steps

    @property
    def output_size(self) -> Any:
        return BasicDecoderOutput(
            layer_output_size(self._cell.output_size, self._output_layer), self._helper.sample_ids_shape
        )

    @property
    def output_dtype(self) -> Any:
        kind = flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(
            map_structure(lambda _: kind, self.output_size.rnn_output), self._helper.sample_ids_dtype
        )

    def initialize(self, name: str | None = None) -> Any:
        """See `Decoder`."""
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Decoder`."""
        with op_scope(name, "BasicDecoderStep", time, *flatten(inputs)):
            outputs, cell_state = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            samples = self._helper.sample(time=time, outputs=outputs, state=cell_state)
            finished, next_inputs, next_state = self._helper.next_inputs(
                time=time, outputs=outputs, state=cell_state, sample_ids=samples
            )
        return BasicDecoderOutput(outputs, samples), next_state, next_inputs, finished


def check_layer(output_layer: Any) -> None:
    """Check that an output layer is a layer or None.

    Raises:
        GraphTypeError: it is not.
    """
    if output_layer is not None and not isinstance(output_layer, Layer):
        raise GraphTypeError(f"output_layer must be a Layer, received: {type(output_layer)}")


def layer_output_size(size: Any, output_layer: Any) -> Any:
    """Return the size of the outputs of a layer for the size of its inputs, both without the batch."""
    if output_layer is None:
        return size
    shapes = map_structure(lambda each: TensorShape([None]).concatenate(each), size)
    return map_structure(lambda each: each[1:], output_layer.compute_output_shape(shapes))
