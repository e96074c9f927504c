"""Encoders with decoders that start from the encoder's last state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.contrib.legacy_seq2seq.cell_copies import unbuilt_copy
from aioexec.contrib.legacy_seq2seq.decoders import (
    LoopFunction,
    by_feed_previous,
    checked_projection,
    embedding_of_best,
    embedding_rnn_decoder,
    rnn_decoder,
)
from aioexec.contrib.rnn.projections import EmbeddingWrapper, OutputProjectionWrapper
from aioexec.ops.nn.embedding import embedding_lookup
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope
from aioexec.recurrent.static import static_rnn

Decoded = tuple[list[Any], Any]
"""The outputs of all steps of a decoder, and its last state."""


def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    dtype: Any = dtypes.float32,
    scope: Any = None,
) -> Decoded:
    """Run a copy of a cell over the encoder's inputs, then the cell over the decoder's inputs.

    Args:
        encoder_inputs, decoder_inputs: `[batch, depth]` for each step.
        dtype: dtype of the encoder's initial state.
        scope: the variable scope or its name, by default `basic_rnn_seq2seq`.
    """
    with variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(unbuilt_copy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    loop_function: LoopFunction | None = None,
    dtype: Any = dtypes.float32,
    scope: Any = None,
) -> Decoded:
    """As `basic_rnn_seq2seq`, with one set of variables for encoder and decoder.

    Args:
        loop_function: as for `rnn_decoder`.
        scope: name of the scope within `combined_tied_rnn_seq2seq`, by default `tied_rnn_seq2seq`.
    """
    with variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """Embed symbols, run a copy of a cell over the encoder's, then the cell over the decoder's; return scores of symbols.

    Args:
        encoder_inputs, decoder_inputs: integer vector of the batch for each step.
        output_projection: weights and biases that turn outputs into scores; then the outputs are returned as they are. By
            default outputs are projected to `num_decoder_symbols` scores.
        feed_previous: as for `embedding_rnn_decoder`; a boolean tensor chooses in each run.
        dtype: dtype of the variables, by default that of the scope.
        scope: the variable scope or its name, by default `embedding_rnn_seq2seq`.

    Raises:
        GraphValueError: the projection has other shapes.
    """
    with variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(unbuilt_copy(cell), num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
        return _decoded(
            decoder_inputs, state, cell, num_decoder_symbols, embedding_size, output_projection, feed_previous
        )


def _decoded(
    inputs: Sequence[Any],
    state: Any,
    cell: Any,
    symbols: int,
    embedding_size: int,
    output_projection: Any,
    feed_previous: Any,
) -> Decoded:
    """Run `embedding_rnn_decoder`; `feed_previous` may be a tensor."""

    def decode(feeds: bool, updates: bool) -> Decoded:
        return embedding_rnn_decoder(
            inputs, state, cell, symbols, embedding_size, output_projection, feeds, updates
        )

    found: Decoded = by_feed_previous(feed_previous, decode)
    return found


def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Decoded:
    """As `embedding_rnn_seq2seq`, with one embedding and one cell for encoder and decoder.

    Variables: `embedding`, `[num_symbols, embedding_size]`, and those of `tied_rnn_seq2seq`.

    Args:
        num_decoder_symbols: number of scores, by default `num_symbols`.
        scope: the variable scope or its name, by default `embedding_tied_rnn_seq2seq`.

    Raises:
        GraphValueError: the projection has other shapes.
    """
    with variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as opened:
        checked_projection(output_projection, num_symbols, opened.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size], opened.dtype)
        encoded = [embedding_lookup(embedding, each) for each in encoder_inputs]
        decoded = [embedding_lookup(embedding, each) for each in decoder_inputs]
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols or num_symbols)

        def decode(feeds: bool, updates: bool) -> Decoded:
            loop_function = embedding_of_best(embedding, output_projection, updates) if feeds else None
            return tied_rnn_seq2seq(encoded, decoded, cell, loop_function, opened.dtype)

        found: Decoded = by_feed_previous(feed_previous, decode)
        return found


def one2many_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs_dict: Mapping[Any, Sequence[Any]],
    enc_cell: Any,
    dec_cells_dict: Mapping[Any, Any],
    num_encoder_symbols: int,
    num_decoder_symbols_dict: Mapping[Any, int],
    embedding_size: int,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[dict[Any, list[Any]], dict[Any, Any]]:
    """Run one encoder and, from its last state, a decoder for each name; the arguments are those of `embedding_rnn_seq2seq`.

    Args:
        decoder_inputs_dict, dec_cells_dict, num_decoder_symbols_dict: inputs, cell and number of symbols by the decoder's name.
        scope: the variable scope or its name, by default `one2many_rnn_seq2seq`; decoders are in `one2many_decoder_NAME`.

    Returns:
        The outputs of all steps, and the last state, by the decoder's name.
    """
    outputs, states = {}, {}
    with variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as opened:
        encoder = EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, state = static_rnn(encoder, encoder_inputs, dtype=opened.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            with variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], symbols)
                outputs[name], states[name] = _decoded(
                    inputs, state, cell, symbols, embedding_size, None, feed_previous
                )
    return outputs, states
