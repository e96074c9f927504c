"""Decoders that attend to the outputs of an encoder in each step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.contrib.legacy_seq2seq.cell_copies import unbuilt_copy
from aioexec.contrib.legacy_seq2seq.decoders import LoopFunction, by_feed_previous, embedding_of_best
from aioexec.contrib.legacy_seq2seq.models import Decoded
from aioexec.contrib.rnn.linear import linear
from aioexec.contrib.rnn.projections import EmbeddingWrapper, OutputProjectionWrapper
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import reshape
from aioexec.ops.array.filling import zeros
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.control_flow.nesting import flatten
from aioexec.ops.convolution.conv import conv2d
from aioexec.ops.math.cast import cast
from aioexec.ops.math.math_functions import tanh
from aioexec.ops.nn.embedding import embedding_lookup
from aioexec.ops.nn.softmax import softmax
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from aioexec.recurrent.static import static_rnn


class _Heads:
    """The attention heads of a decoder over states `[batch, length, size]`.

    Variables, for the head k: `AttnW_k`, `[1, 1, size, size]`; `AttnV_k`, `[size]`; `Attention_k/kernel` and
    `Attention_k/bias`, by which the query is multiplied.
    """

    def __init__(self, states: Tensor, count: int, dtype: Any) -> None:
        self._dtype = dtype
        self._size = int(states.shape[2])
        static = states.shape[1].value
        self._length = shape(states)[1] if static is None else static
        self._states = reshape(states, [-1, self._length, 1, self._size])
        self._heads = []
        for k in range(count):
            kernel = get_variable(f"AttnW_{k}", [1, 1, self._size, self._size], dtype)
            features = conv2d(self._states, kernel, [1, 1, 1, 1], "SAME")
            self._heads.append((features, get_variable(f"AttnV_{k}", [self._size], dtype)))

    def zeros(self, batch_size: Any) -> list[Tensor]:
        """Return what the heads have read before the first step."""
        dims = stack([batch_size, self._size])
        found = [zeros(dims, self._dtype) for _ in self._heads]
        for each in found:
            each.set_shape([None, self._size])
        return found

    def __call__(self, query: Any) -> list[Tensor]:
        """Return the states summed by the weights of each head, `[batch, size]`, for a query, a matrix or structure of them."""
        parts = flatten(query)
        joined = parts[0] if len(parts) == 1 else concat(parts, 1)
        return [self._read(k, features, v, joined) for k, (features, v) in enumerate(self._heads)]

    def _read(self, k: int, features: Tensor, v: Any, query: Any) -> Tensor:
        with variable_scope(f"Attention_{k}"):
            y = cast(reshape(linear(query, self._size), [-1, 1, 1, self._size]), self._dtype)
            scores = reduce_sum(v * tanh(features + y), [2, 3])
            weights = cast(softmax(cast(scores, dtypes.float32)), self._dtype)
            read = reduce_sum(reshape(weights, [-1, self._length, 1, 1]) * self._states, [1, 2])
            found: Tensor = reshape(read, [-1, self._size])
            return found


def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: LoopFunction | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """Run a cell over inputs joined with what attention heads read from states by the cell's last state.

    Variables: those of the heads; `kernel` and `bias` for the inputs of the cell; `AttnOutputProjection/kernel` and
    `AttnOutputProjection/bias` for the outputs.

    Args:
        decoder_inputs: `[batch, depth]` for each step.
        initial_state: the state before the first step.
        attention_states: `[batch, length, size]`, with a static size.
        output_size: size of the outputs, by default that of the cell.
        num_heads: number of heads.
        loop_function: as for `rnn_decoder`.
        dtype: dtype of the variables, by default that of the scope.
        scope: the variable scope or its name, by default `attention_decoder`.
        initial_state_attention: read by the initial state before the first step; by default the first step has zeros.

    Returns:
        The outputs of all steps, and the last state.

    Raises:
        GraphValueError: there are no inputs or no heads, or a size is unknown.
    """
    states = convert_to_tensor(attention_states)
    _check_attention(decoder_inputs, states, num_heads)
    with variable_scope(scope or "attention_decoder", dtype=dtype) as opened:
        heads = _Heads(states, num_heads, opened.dtype)
        read = heads.zeros(shape(decoder_inputs[0])[0])
        state = initial_state
        outputs: list[Any] = []
        if initial_state_attention:
            read = heads(initial_state)
        for step, inputs in enumerate(decoder_inputs):
            if step > 0:
                get_variable_scope().reuse_variables()
            if loop_function is not None and outputs:
                with variable_scope("loop_function", reuse=True):
                    inputs = loop_function(outputs[-1], step)
            joined = [cast(each, opened.dtype) for each in (inputs, *read)]
            output, state = cell(linear(joined, _depth_of(inputs)), state)
            reuse = True if step == 0 and initial_state_attention else None
            with variable_scope(get_variable_scope(), reuse=reuse):
                read = heads(state)
            with variable_scope("AttnOutputProjection"):
                outputs.append(linear([cast(output, opened.dtype), *read], output_size or cell.output_size))
    return outputs, state


def _check_attention(inputs: Sequence[Any], states: Tensor, num_heads: int) -> None:
    if not inputs:
        raise GraphValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise GraphValueError("With less than 1 heads, use a non-attention decoder.")
    if states.shape[2].value is None:
        raise GraphValueError(f"Shape[2] of attention_states must be known: {states.shape}")


def _depth_of(inputs: Any) -> int:
    depth: int | None = inputs.shape.with_rank(2)[1].value
    if depth is None:
        raise GraphValueError(f"Could not infer input size from input: {inputs.name}")
    return depth


def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """Run `attention_decoder` over embedded symbols; further arguments are those of `embedding_rnn_decoder`.

    Variables: `embedding`, `[num_symbols, embedding_size]`, and those of `attention_decoder`.

    Args:
        decoder_inputs: integer vector of the batch for each step.
        scope: the variable scope or its name, by default `embedding_attention_decoder`.

    Raises:
        GraphValueError: as `attention_decoder`, or the biases of the projection have another shape.
    """
    if output_projection is not None:
        biases = convert_to_tensor(output_projection[1], dtype=dtype)
        biases.shape.assert_is_compatible_with([num_symbols])
    with variable_scope(scope or "embedding_attention_decoder", dtype=dtype):
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        loop_function = (
            embedding_of_best(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        return attention_decoder(
            [embedding_lookup(embedding, each) for each in decoder_inputs],
            initial_state,
            attention_states,
            cell,
            output_size=output_size or cell.output_size,
            num_heads=num_heads,
            loop_function=loop_function,
            initial_state_attention=initial_state_attention,
        )


def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Decoded:
    """As `embedding_rnn_seq2seq`; the decoder attends to the encoder's outputs with `num_heads` heads.

    Args:
        scope: the variable scope or its name, by default `embedding_attention_seq2seq`.
        initial_state_attention: as for `attention_decoder`.

    Raises:
        GraphValueError: as `embedding_attention_decoder`.
    """
    with variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(unbuilt_copy(cell), num_encoder_symbols, embedding_size)
        encoded, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        states = concat([reshape(each, [-1, 1, cell.output_size]) for each in encoded], 1)
        output_size = None
        if output_projection is None:
            cell, output_size = OutputProjectionWrapper(cell, num_decoder_symbols), num_decoder_symbols

        def decode(feeds: bool, updates: bool) -> Decoded:
            return embedding_attention_decoder(
                decoder_inputs,
                state,
                states,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=output_size,
                output_projection=output_projection,
                feed_previous=feeds,
                update_embedding_for_previous=updates,
                initial_state_attention=initial_state_attention,
            )

        found: Decoded = by_feed_previous(feed_previous, decode)
        return found
