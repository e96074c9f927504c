"""Training helpers with scheduled sampling: by chance a row's next input is made of the last output."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.contrib.seq2seq.helpers import (
    TrainingHelper,
    as_arrays,
    drawn_symbols,
    embedding_function,
    read_from,
)
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.layers.base import Layer
from aioexec.ops.array.filling import fill
from aioexec.ops.array.joining import concat
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.nesting import map_structure
from aioexec.ops.math.comparison import logical_not, logical_or, where
from aioexec.ops.math.extremes import maximum
from aioexec.ops.random.random_ops import random_uniform
from aioexec.ops.reduction.reductions import reduce_all, reduce_any
from aioexec.recurrent.states import transpose_batch_time


def _probability(sampling_probability: Any) -> Tensor:
    """Return the probability as a tensor.

    Raises:
        GraphValueError: it is neither a scalar nor a vector.
    """
    probability = convert_to_tensor(sampling_probability, name="sampling_probability")
    if probability.shape.ndims not in (0, 1):
        raise GraphValueError(
            f"sampling_probability must be either a scalar or a vector. saw shape: {probability.shape}"
        )
    return probability


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """As `TrainingHelper`; by chance a row gets an embedded symbol that is drawn by the softmax of its last outputs.

    Samples are these symbols, and -1 for the other rows.

    Args:
        inputs, sequence_length, time_major: as for `TrainingHelper`; one tensor of inputs.
        embedding: a function of symbols, or a table to look them up in.
        sampling_probability: probability to draw a symbol, a scalar, or a vector of the batch.
        seed: seed of the symbols.
        scheduling_seed: seed of the choice of rows.

    Raises:
        GraphValueError: the probability or `sequence_length` have another rank.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        with op_scope(name, "ScheduledEmbeddingSamplingWrapper", sampling_probability):
            self._embedding_fn = embedding_function(embedding)
            self._sampling_probability = _probability(sampling_probability)
            self._seed = seed
            self._scheduling_seed = scheduling_seed
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(
        self, time: Any, outputs: Any, state: Any = None, name: str | None = None, **unused: Any
    ) -> Any:
        """See `Helper`."""
        with op_scope(name, "ScheduledEmbeddingTrainingHelperSample", time, outputs):
            noise = random_uniform(
                [self.batch_size], dtype=self._sampling_probability.dtype, seed=self._scheduling_seed
            )
            symbols = drawn_symbols(outputs, self._seed)
            return where(noise < self._sampling_probability, symbols, fill([self.batch_size], -1))

    def next_inputs(
        self,
        time: Any,
        outputs: Any,
        state: Any,
        sample_ids: Any = None,
        name: str | None = None,
        **unused: Any,
    ) -> Any:
        """See `Helper`."""
        with op_scope(name, "ScheduledEmbeddingTrainingHelperSample", time, outputs, sample_ids):
            finished, inputs, state = super().next_inputs(time, outputs, state)
            mixed = cond(
                reduce_all(finished),
                lambda: inputs,
                lambda: where(sample_ids > -1, self._embedding_fn(maximum(sample_ids, 0)), inputs),
            )
            return finished, mixed, state


class ScheduledOutputTrainingHelper(TrainingHelper):
    """As `TrainingHelper`; by chance a row gets its last outputs. Samples say which rows do.

    Args:
        inputs, sequence_length, time_major: as for `TrainingHelper`; one tensor of inputs.
        sampling_probability: probability to take the outputs, a scalar, or a vector of the batch.
        seed: seed of the choice of rows.
        next_input_layer: layer that makes inputs of outputs.
        auxiliary_inputs: a tensor like `inputs`, joined in each step to the given inputs or to those made of outputs.

    Raises:
        GraphTypeError: `next_input_layer` is no layer.
        GraphValueError: the probability or `sequence_length` have another rank.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        next_input_layer: Any = None,
        auxiliary_inputs: Any = None,
        name: str | None = None,
    ) -> None:
        if next_input_layer is not None and not isinstance(next_input_layer, Layer):
            raise GraphTypeError(f"next_input_layer must be a Layer, received: {type(next_input_layer)}")
        with op_scope(name, "ScheduledOutputTrainingHelper", sampling_probability):
            self._sampling_probability = _probability(sampling_probability)
            self._seed = seed
            self._next_input_layer = next_input_layer
            self._auxiliary: Any = None
            if auxiliary_inputs is not None:
                added = convert_to_tensor(auxiliary_inputs, name="auxiliary_inputs")
                inputs = concat([convert_to_tensor(inputs, name="inputs"), added], -1)
                steps = added if time_major else map_structure(transpose_batch_time, added)
                self._auxiliary = as_arrays(steps)
            super().__init__(inputs, sequence_length, time_major, name)

    @property
    def sample_ids_dtype(self) -> Any:
        return dtypes.bool

    def sample(
        self, time: Any, outputs: Any, state: Any = None, name: str | None = None, **unused: Any
    ) -> Any:
        """See `Helper`."""
        with op_scope(name, "ScheduledOutputTrainingHelperSample", time, outputs):
            noise = random_uniform([self.batch_size], dtype=self._sampling_probability.dtype, seed=self._seed)
            return noise < self._sampling_probability

    def next_inputs(
        self,
        time: Any,
        outputs: Any,
        state: Any,
        sample_ids: Any = None,
        name: str | None = None,
        **unused: Any,
    ) -> Any:
        """See `Helper`."""
        with op_scope(name, "ScheduledOutputTrainingHelperNextInputs", time, outputs, sample_ids):
            finished, inputs, state = super().next_inputs(time, outputs, state)
            unchanged = logical_or(reduce_all(finished), logical_not(reduce_any(sample_ids)))
            mixed = cond(
                unchanged,
                lambda: inputs,
                lambda: where(sample_ids, self._inputs_of(outputs, time + 1), inputs),
            )
            return finished, mixed, state

    def _inputs_of(self, outputs: Any, time: Any) -> Any:
        """Return the inputs made of outputs, with the auxiliary inputs at `time`."""
        made = outputs if self._next_input_layer is None else self._next_input_layer(outputs)
        return made if self._auxiliary is None else concat([made, read_from(self._auxiliary, time)], -1)
