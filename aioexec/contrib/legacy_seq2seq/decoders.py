"""Decoders over Python lists of inputs, with nodes of their own for each step: plain, with an embedding, and their choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioexec.graph.convert import convert_to_tensor
from aioexec.ops.array.identity import stop_gradient
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.nesting import flatten, pack_sequence_as
from aioexec.ops.nn.embedding import embedding_lookup
from aioexec.ops.nn.nn_ops import xw_plus_b
from aioexec.ops.reduction.arg_reduction import argmax
from aioexec.ops.state.variable_scope import get_variable, get_variable_scope, variable_scope

LoopFunction = Callable[[Any, int], Any]
"""Function of the last output and the number of the step, which returns the input of that step."""


def embedding_of_best(
    embedding: Any, output_projection: Any = None, update_embedding: bool = True
) -> LoopFunction:
    """Return a loop function: the embedding of the symbol with the largest output.

    Args:
        output_projection: weights and biases by which outputs are multiplied before.
        update_embedding: whether gradients pass to the embedding.
    """

    def loop_function(previous: Any, _: int) -> Any:
        if output_projection is not None:
            previous = xw_plus_b(previous, *output_projection)
        found = embedding_lookup(embedding, argmax(previous, 1))
        return found if update_embedding else stop_gradient(found)

    return loop_function


def checked_projection(output_projection: Any, num_symbols: int, dtype: Any) -> None:
    """Check the shapes of weights `[..., num_symbols]` and biases `[num_symbols]`; None is no projection.

    Raises:
        GraphValueError: they do not fit.
    """
    if output_projection is not None:
        kernel, bias = (convert_to_tensor(part, dtype=dtype) for part in output_projection)
        kernel.shape.assert_is_compatible_with([None, num_symbols])
        bias.shape.assert_is_compatible_with([num_symbols])


def rnn_decoder(
    decoder_inputs: Iterable[Any],
    initial_state: Any,
    cell: Any,
    loop_function: LoopFunction | None = None,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Run a cell over the inputs of a decoder.

    Args:
        decoder_inputs: `[batch, depth]` for each step.
        initial_state: the state before the first step.
        loop_function: takes the last output and the number of the step, and returns the input for it in place of the given one;
            not called for the first step. Variables in it are reused, from the scope `loop_function`.
        scope: the variable scope or its name, by default `rnn_decoder`.

    Returns:
        The outputs of all steps, and the last state.
    """
    with variable_scope(scope or "rnn_decoder"):
        state = initial_state
        outputs: list[Any] = []
        for step, inputs in enumerate(decoder_inputs):
            if loop_function is not None and outputs:
                with variable_scope("loop_function", reuse=True):
                    inputs = loop_function(outputs[-1], step)
            if step > 0:
                get_variable_scope().reuse_variables()
            output, state = cell(inputs, state)
            outputs.append(output)
    return outputs, state


def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """Run a cell over embedded symbols.

    Variables: `embedding`, `[num_symbols, embedding_size]`.

    Args:
        decoder_inputs: integer vector of the batch for each step.
        output_projection: weights `[output size, num_symbols]` and biases `[num_symbols]` that turn outputs into the scores of
            symbols for `feed_previous`; by default outputs are the scores.
        feed_previous: after the first step, the input is the symbol with the largest score of the last output.
        update_embedding_for_previous: whether gradients pass through these symbols to the embedding.
        scope: the variable scope or its name, by default `embedding_rnn_decoder`.

    Returns:
        The outputs of all steps, and the last state.

    Raises:
        GraphValueError: the projection has other shapes.
    """
    with variable_scope(scope or "embedding_rnn_decoder") as opened:
        checked_projection(output_projection, num_symbols, opened.dtype)
        embedding = get_variable("embedding", [num_symbols, embedding_size])
        loop_function = (
            embedding_of_best(embedding, output_projection, update_embedding_for_previous)
            if feed_previous
            else None
        )
        embedded = (embedding_lookup(embedding, each) for each in decoder_inputs)
        return rnn_decoder(embedded, initial_state, cell, loop_function)


def by_feed_previous(feed_previous: Any, decode: Callable[[bool, bool], tuple[list[Any], Any]]) -> Any:
    """Return outputs and state of a decoder; with a tensor `feed_previous`, build it both ways and choose in each run.

    Args:
        feed_previous: a bool or a scalar boolean tensor.
        decode: takes whether to feed previous symbols, and whether gradients pass through these to the embedding.
    """
    if isinstance(feed_previous, bool):
        return decode(feed_previous, True)
    structure: list[Any] = []

    def branch(feeds: bool) -> list[Any]:
        with variable_scope(get_variable_scope(), reuse=None if feeds else True):
            structure[:] = decode(feeds, False)
            return flatten(structure)

    found = cond(feed_previous, lambda: branch(True), lambda: branch(False), strict=True)
    outputs, state = pack_sequence_as(structure, found)
    return outputs, state
