"""Helpers of `BasicDecoder`: they sample symbols from outputs, and choose the inputs of the next step.

For all of them, `finished` is a boolean vector of the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import reshape, tile
from aioexec.ops.array.filling import zeros_like
from aioexec.ops.array.shapes_of import shape, size
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal
from aioexec.ops.nn.embedding import embedding_lookup
from aioexec.ops.random.random_ops import multinomial
from aioexec.ops.reduction.arg_reduction import argmax
from aioexec.ops.reduction.reductions import reduce_all, reduce_max
from aioexec.recurrent.states import transpose_batch_time
from aioexec.recurrent.steps import leaves, packed
from aioexec.shapes import TensorShape


class Helper(ABC):
    """The interface of helpers."""

    @property
    @abstractmethod
    def batch_size(self) -> Any:
        """The batch size, a scalar tensor."""

    @property
    @abstractmethod
    def sample_ids_shape(self) -> Any:
        """The shape of a sample, without the batch."""

    @property
    @abstractmethod
    def sample_ids_dtype(self) -> Any:
        """The dtype of samples."""

    @property
    def known_steps(self) -> tuple[Any, Any] | None:
        """The number of steps until all sequences are finished, and a bound of it; None if they are not known at first."""
        return None

    @abstractmethod
    def initialize(self, name: str | None = None) -> Any:
        """Return `(finished, inputs)` for the first step."""

    @abstractmethod
    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return a sample for each row of the outputs of a step."""

    @abstractmethod
    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Any:
        """Return `(finished, inputs, state)` for the next step."""


class CustomHelper(Helper):
    """A helper made of three functions.

    Args:
        initialize_fn: returns `(finished, inputs)` for the first step.
        sample_fn: function of `time`, `outputs` and `state` that returns samples.
        next_inputs_fn: function of `time`, `outputs`, `state` and `sample_ids` that returns `(finished, inputs, state)`.
        sample_ids_shape: shape of a sample, by default a scalar.
        sample_ids_dtype: dtype of samples, by default int32.
    """

    def __init__(
        self,
        initialize_fn: Callable[..., Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize_fn = initialize_fn
        self._sample_fn = sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._batch_size: Any = None
        self._sample_ids_shape = TensorShape(sample_ids_shape or [])
        self._sample_ids_dtype = sample_ids_dtype or dtypes.int32

    @property
    def batch_size(self) -> Any:
        """The number of elements of the first `finished`.

        Raises:
            GraphValueError: `initialize` has not been called.
        """
        if self._batch_size is None:
            raise GraphValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._sample_ids_shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._sample_ids_dtype

    def initialize(self, name: str | None = None) -> Any:
        """See `Helper`."""
        with op_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = size(finished)
        return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        with op_scope(name, "CustomHelperSample", time, *flatten(outputs)):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Any:
        """See `Helper`."""
        with op_scope(name, "CustomHelperNextInputs", time, *flatten(outputs)):
            return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


class SymbolHelper(Helper):
    """The base of helpers whose samples are symbols, int32 scalars by default."""

    @property
    def sample_ids_shape(self) -> Any:
        return TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        return dtypes.int32


class TrainingHelper(SymbolHelper):
    """Reads the inputs from tensors; samples are the symbols with the largest outputs.

    Args:
        inputs: `[batch, steps, ...]`, or `[steps, batch, ...]` if `time_major`; or a structure of such tensors.
        sequence_length: integer vector of the batch.
        time_major: the first two dimensions of the inputs are steps, batch.

    Raises:
        GraphValueError: `sequence_length` is no vector.
    """

    def __init__(
        self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None
    ) -> None:
        with op_scope(name, "TrainingHelper", *flatten(inputs), sequence_length):
            inputs = map_structure(convert_to_tensor, inputs)
            self._inputs = inputs
            if not time_major:
                inputs = map_structure(transpose_batch_time, inputs)
            self._arrays = as_arrays(inputs)
            self._sequence_length = convert_to_tensor(sequence_length, name="sequence_length")
            if self._sequence_length.shape.ndims != 1:
                raise GraphValueError(
                    "Expected sequence_length to be a vector, but received shape: "
                    f"{self._sequence_length.shape}"
                )
            self._steps = shape(flatten(inputs)[0])[0]
            self._zero_inputs = map_structure(lambda each: zeros_like(each[0, :]), inputs)
            self._batch_size = size(self._sequence_length)

    @property
    def inputs(self) -> Any:
        """The inputs as tensors."""
        return self._inputs

    @property
    def sequence_length(self) -> Tensor:
        """The lengths as a tensor."""
        return self._sequence_length

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def known_steps(self) -> tuple[Any, Any] | None:
        """The largest length, and the number of steps of the inputs; None for a class with a `next_inputs` of its own."""
        is_own = type(self).next_inputs.__module__.partition(".")[0] == __name__.partition(".")[0]
        return (reduce_max(self._sequence_length), self._steps) if is_own else None

    def initialize(self, name: str | None = None) -> Any:
        """See `Helper`."""
        with op_scope(name, "TrainingHelperInitialize", self._sequence_length):
            finished = equal(0, self._sequence_length)
            return finished, self._read(0, reduce_all(finished))

    def _read(self, time: Any, all_finished: Tensor) -> Any:
        """Return the inputs of a step; zeros if all sequences are finished, since there may be no more inputs."""
        return cond(
            all_finished,
            lambda: self._zero_inputs,
            lambda: read_from(self._arrays, time),
        )

    def sample(
        self, time: Any, outputs: Any, state: Any = None, name: str | None = None, **unused: Any
    ) -> Any:
        """See `Helper`."""
        with op_scope(name, "TrainingHelperSample", time, outputs):
            return cast(argmax(outputs, axis=-1), dtypes.int32)

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
        with op_scope(name, "TrainingHelperNextInputs", time, outputs):
            following = time + 1
            finished = following >= self._sequence_length
            return finished, self._read(following, reduce_all(finished)), state


def as_arrays(inputs: Any) -> Any:
    """Return a structure of time-major tensors as TensorArrays of their steps."""
    return map_structure(
        lambda each: TensorArray(each.dtype, size=shape(each)[0], element_shape=each.shape[1:]).unstack(each),
        inputs,
    )


def read_from(arrays: Any, time: Any) -> Any:
    """Return the elements at `time` of a structure of TensorArrays."""
    return packed(arrays, [array.read(time) for array in leaves(arrays)])


def embedding_function(embedding: Any) -> Callable[[Any], Any]:
    """Return a function of symbols: `embedding` itself, or a lookup in it."""
    if callable(embedding):
        return embedding  # type: ignore[no-any-return]
    return lambda ids: embedding_lookup(embedding, ids)


class GreedyEmbeddingHelper(SymbolHelper):
    """Feeds the symbol with the largest output of the last step, embedded; a sequence ends with the end token.

    Args:
        embedding: a function of symbols, or a table to look them up in.
        start_tokens: integer vector of the batch.
        end_token: integer scalar.

    Raises:
        GraphValueError: `start_tokens` is no vector, or `end_token` no scalar.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embedding_fn = embedding_function(embedding)
        self._start_tokens = convert_to_tensor(start_tokens, dtypes.int32, name="start_tokens")
        self._end_token = convert_to_tensor(end_token, dtypes.int32, name="end_token")
        if self._start_tokens.shape.ndims != 1:
            raise GraphValueError("start_tokens must be a vector")
        if self._end_token.shape.ndims != 0:
            raise GraphValueError("end_token must be a scalar")
        self._batch_size = size(self._start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def initialize(self, name: str | None = None) -> Any:
        """See `Helper`."""
        return tile([False], reshape(self._batch_size, [1])), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return the symbols with the largest outputs.

        Raises:
            GraphTypeError: the outputs are no tensor.
        """
        return cast(argmax(one_tensor(outputs), axis=-1), dtypes.int32)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Any:
        """See `Helper`."""
        finished = equal(sample_ids, self._end_token)
        inputs = cond(
            reduce_all(finished), lambda: self._start_inputs, lambda: self._embedding_fn(sample_ids)
        )
        return finished, inputs, state


def one_tensor(outputs: Any) -> Tensor:
    """Return the outputs of a step.

    Raises:
        GraphTypeError: they are no tensor.
    """
    if not isinstance(outputs, Tensor):
        raise GraphTypeError(f"Expected outputs to be a single Tensor, got: {type(outputs)}")
    return outputs


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """As `GreedyEmbeddingHelper`, with symbols drawn by the softmax of the outputs.

    Args:
        softmax_temperature: number by which outputs are divided; larger ones draw more evenly.
        seed: seed of the draws.

    Raises:
        GraphValueError: `start_tokens` is no vector, or `end_token` no scalar.
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._softmax_temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Return a symbol for each row.

        Raises:
            GraphTypeError: the outputs are no tensor.
        """
        logits = one_tensor(outputs)
        return drawn_symbols(
            logits if self._softmax_temperature is None else logits / self._softmax_temperature, self._seed
        )


def drawn_symbols(logits: Tensor, seed: int | None) -> Tensor:
    """Draw a symbol for each row of unnormalised log-probabilities, int32."""
    return reshape(multinomial(logits, 1, seed, output_dtype=dtypes.int32), [-1])


class InferenceHelper(SymbolHelper):
    """Feeds samples that a function makes of outputs.

    Args:
        sample_fn: function of the outputs of a step.
        sample_shape: shape of a sample without the batch.
        sample_dtype: dtype of samples.
        start_inputs: inputs of the first step, `[batch, ...]`.
        end_fn: function of samples that returns `finished`.
        next_inputs_fn: function of samples that returns inputs; by default these are the samples.
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample_fn = sample_fn
        self._end_fn = end_fn
        self._sample_shape = TensorShape(sample_shape)
        self._sample_dtype = sample_dtype
        self._next_inputs_fn = next_inputs_fn
        self._start_inputs = convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = shape(self._start_inputs)[0]

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._sample_shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._sample_dtype

    def initialize(self, name: str | None = None) -> Any:
        """See `Helper`."""
        return tile([False], reshape(self._batch_size, [1])), self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Helper`."""
        return self._sample_fn(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> Any:
        """See `Helper`."""
        inputs = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), inputs, state
