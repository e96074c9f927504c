"""`Decoder`, what produces the steps of a sequence, and `dynamic_decode`, which runs it in a while loop."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.control_flow_context import while_context
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.graph import get_default_graph
from aioexec.graph.node import Tensor
from aioexec.ops.array.filling import zeros_like
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.nesting import assert_same_structure, flatten, map_structure
from aioexec.ops.control_flow.while_loop import while_loop
from aioexec.ops.math.comparison import logical_not, logical_or, where
from aioexec.ops.math.extremes import maximum, minimum
from aioexec.ops.reduction.reductions import reduce_all
from aioexec.ops.state.variable_scope import variable_scope
from aioexec.recurrent.states import batch_shape, transpose_batch_time, zeros_of
from aioexec.recurrent.steps import chosen, leaves, packed
from aioexec.shapes import TensorShape


class Decoder(ABC):
    """Produces a sequence step by step; outputs, states and inputs may be structures of tensors and TensorArrays.

    `output_size` and `output_dtype` have the structure of the outputs of a step: sizes without the batch, and dtypes.
    """

    @property
    def batch_size(self) -> Any:
        """The batch size, an int or scalar tensor; abstract, as in TensorFlow."""
        raise NotImplementedError

    @property
    def output_size(self) -> Any:
        """The sizes of the outputs without the batch, ints or TensorShapes; abstract, as in TensorFlow."""
        raise NotImplementedError

    @property
    def output_dtype(self) -> Any:
        """The dtypes of the outputs; abstract, as in TensorFlow."""
        raise NotImplementedError

    @property
    def known_steps(self) -> tuple[Any, Any] | None:
        """The number of steps until all sequences are finished, and a bound of it; None if they are not known at first.

        With them outputs are collected in arrays of fixed size, which compiled loops need.
        """
        return None

    @abstractmethod
    def initialize(self, name: str | None = None) -> Any:
        """Return `(finished, inputs, state)` for the first step; `finished` is a boolean tensor, one element a sequence."""

    @abstractmethod
    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """Return `(outputs, next_state, next_inputs, finished)` of a step; `time` is its number, a scalar int32 tensor."""

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Return the final `(outputs, state)`; the outputs of all steps are stacked, time-major. Nothing to do by default."""
        raise NotImplementedError

    @property
    def tracks_own_finished(self) -> bool:
        """Whether `finished` of a step is final; else a sequence that is finished once stays so."""
        return False


def dynamic_decode(
    decoder: Decoder,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
) -> tuple[Any, Any, Any]:
    """Run a decoder until all sequences are finished.

    Args:
        output_time_major: outputs are `[steps, batch, ...]`; it saves a transposition to `[batch, steps, ...]`.
        impute_finished: outputs of finished sequences are zero, and their state stays as it was.
        maximum_iterations: the largest number of steps, an int or scalar tensor.
        parallel_iterations: maximum number of concurrent iterations.
        swap_memory: ignored; there is one memory.
        scope: the variable scope or its name, by default `decoder`.

    Returns:
        `(outputs, final_state, lengths)`; the lengths are an int32 tensor, one element a sequence.

    Raises:
        GraphTypeError: `decoder` is no Decoder.
        GraphValueError: `maximum_iterations` is no scalar, or structures or shapes differ from step to step.
    """
    if not isinstance(decoder, Decoder):
        raise GraphTypeError(f"Expected decoder to be type Decoder, but saw: {type(decoder)}")
    with variable_scope(scope, "decoder") as opened:
        in_loop = while_context(get_default_graph()._get_control_flow_context()) is not None
        if opened.caching_device is None and not in_loop:
            opened.set_caching_device(lambda op: op.device)
        limit = None if maximum_iterations is None else _scalar(maximum_iterations)
        loop = _Loop(decoder, impute_finished)
        outputs, state, lengths = loop.run(limit, parallel_iterations, swap_memory)
        with contextlib.suppress(NotImplementedError):  # as in TensorFlow, where finalize is abstract
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = map_structure(transpose_batch_time, outputs)
    return outputs, state, lengths


def _scalar(maximum_iterations: Any) -> Tensor:
    limit = convert_to_tensor(maximum_iterations, dtypes.int32, name="maximum_iterations")
    if limit.dims is not None and limit.dims != ():
        raise GraphValueError("maximum_iterations must be a scalar")
    return limit


class _Loop:
    """The loop of one decoder."""

    def __init__(self, decoder: Decoder, imputes: bool) -> None:
        self._decoder = decoder
        self._imputes = imputes
        self._sizes = leaves(decoder.output_size)
        self._kinds = leaves(decoder.output_dtype)
        self._known = decoder.known_steps

    def run(self, limit: Tensor | None, parallel_iterations: int, swap_memory: bool) -> tuple[Any, Any, Any]:
        """Build the loop; return the stacked outputs, the final state and the lengths."""
        finished, inputs, state = self._decoder.initialize()
        # The zeros that finished sequences emit are made outside of the loop.
        self._zeros = self._zero_outputs() if self._imputes else None
        finished = convert_to_tensor(finished)
        if limit is not None:
            finished = logical_or(finished, limit <= 0)
        arrays = packed(
            self._decoder.output_size,
            [self._array(size, kind) for size, kind in zip(self._sizes, self._kinds, strict=True)],
        )
        found = while_loop(
            lambda time, arrays, state, inputs, finished, lengths: logical_not(reduce_all(finished)),
            self._step,
            (
                constant(0, dtypes.int32),
                arrays,
                state,
                inputs,
                finished,
                zeros_like(finished, dtypes.int32),
            ),
            parallel_iterations=parallel_iterations,
            maximum_iterations=limit,
            swap_memory=swap_memory,
        )
        stacked = [self._stacked(array, limit) for array in leaves(found[1])]
        return packed(found[1], stacked), found[2], found[5]

    def _stacked(self, array: TensorArray, limit: Tensor | None) -> Tensor:
        """Return the outputs of all steps; an array of fixed size is longer if all sequences end early."""
        if self._known is None:
            return array.stack()
        steps = self._known[0] if limit is None else minimum(self._known[0], maximum(limit, 0))
        return array.stack()[:steps]

    def _zero_outputs(self) -> list[Tensor]:
        return [
            zeros_of(self._decoder.batch_size, size, kind)
            for size, kind in zip(self._sizes, self._kinds, strict=True)
        ]

    def _array(self, size: Any, kind: Any) -> TensorArray:
        is_known = isinstance(size, int) or (isinstance(size, TensorShape) and size.ndims != 0)
        known = batch_shape(self._decoder.batch_size, size) if is_known else None
        if self._known is not None:
            return TensorArray(kind, size=self._known[1], element_shape=known)
        return TensorArray(kind, size=0, dynamic_size=True, element_shape=known)

    def _step(
        self, time: Tensor, arrays: Any, state: Any, inputs: Any, finished: Tensor, lengths: Tensor
    ) -> Any:
        outputs, next_state, next_inputs, done = self._decoder.step(time, inputs, state)
        if not self._decoder.tracks_own_finished:
            done = logical_or(done, finished)
        next_lengths = where(finished, lengths, zeros_like(lengths) + (time + 1))
        assert_same_structure(state, next_state)
        assert_same_structure(self._decoder.output_size, outputs)
        assert_same_structure(inputs, next_inputs)
        emitted = flatten(outputs)
        if self._zeros is not None:
            emitted = [where(finished, zero, each) for zero, each in zip(self._zeros, emitted, strict=True)]
            pairs = list(zip(leaves(state), leaves(next_state), strict=True))
            next_state = packed(state, [self._kept(finished, old, new) for old, new in pairs])
        written = [array.write(time, each) for array, each in zip(leaves(arrays), emitted, strict=True)]
        return time + 1, packed(arrays, written), next_state, next_inputs, done, next_lengths

    @staticmethod
    def _kept(finished: Tensor, old: Any, new: Any) -> Any:
        """Return the old state of finished sequences and the new one of the others; TensorArrays and scalars are new."""
        if isinstance(new, TensorArray):
            return new
        new = convert_to_tensor(new)
        new.set_shape(old.shape)
        return chosen(finished, old, new)
