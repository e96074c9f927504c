"""`BeamSearchDecoder`: keeps the best continuations of all beams in each step.

Tensors of the search are `[batch, beams, ...]`; for the cell, batch and beams are merged into one dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from aioexec import dtypes
from aioexec.contrib.seq2seq.attention_wrapper import AttentionWrapperState
from aioexec.contrib.seq2seq.basic_decoder import check_layer, layer_output_size
from aioexec.contrib.seq2seq.beam_scores import Penalties, masked_log_probs
from aioexec.contrib.seq2seq.beams import gather_tree, gather_tree_from_array, rows_by_beam
from aioexec.contrib.seq2seq.decoder import Decoder
from aioexec.contrib.seq2seq.helpers import embedding_function
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.static_values import constant_value
from aioexec.ops.array.arrays import expand_dims, reshape, tile
from aioexec.ops.array.filling import one_hot, zeros
from aioexec.ops.array.joining import concat
from aioexec.ops.array.shapes_of import shape, size
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.containers.tensor_array_class import TensorArray
from aioexec.ops.control_flow.cond import cond
from aioexec.ops.control_flow.nesting import flatten, map_structure
from aioexec.ops.math.arithmetic import floordiv, mod
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import equal, logical_not, logical_or
from aioexec.ops.nn.nn_ops import top_k
from aioexec.ops.nn.softmax import log_softmax
from aioexec.ops.reduction.reductions import reduce_all, reduce_max, reduce_mean
from aioexec.recurrent.states import assert_like_rnncell, static_shape
from aioexec.recurrent.steps import leaves, packed
from aioexec.shapes import TensorShape


class BeamSearchDecoderState(NamedTuple):
    """The state of a search: that of the cell, and for each beam its log-probability, whether it is finished, and its length.

    `accumulated_attention_probs` is the sum of alignments that the coverage penalty needs, else an empty tuple.
    """

    cell_state: Any
    log_probs: Any
    finished: Any
    lengths: Any
    accumulated_attention_probs: Any


class BeamSearchDecoderOutput(NamedTuple):
    """The outputs of a step for each beam: its score, its symbol, and the beam of the step before that it continues."""

    scores: Any
    predicted_ids: Any
    parent_ids: Any


class FinalBeamSearchDecoderOutput(NamedTuple):
    """The sequences of all beams, best first, and the outputs of all steps."""

    predicted_ids: Any
    beam_search_decoder_output: Any


class BeamSearchDecoder(Decoder):
    """Searches for the most probable sequences.

    A cell with attention needs a memory, lengths and an initial state that `tile_batch` has repeated for the beams, and a zero
    state for batch size * beam width.

    Args:
        cell: the cell.
        embedding: a function of symbols, or a table to look them up in.
        start_tokens: integer vector of the batch.
        end_token: integer scalar.
        initial_state: state of the cell, `[batch * beams, ...]`.
        beam_width: number of beams, an int.
        output_layer: a layer applied to the outputs of the cell.
        length_penalty_weight: power of (5 + length) / 6 by which log-probabilities are divided.
        coverage_penalty_weight: weight of the logarithms of how much each step of the memory was read, at most 1; for finished
            batches only.
        reorder_tensor_arrays: put the TensorArrays in the cell's final state into the order of the final beams, as tensors.

    Raises:
        GraphTypeError: `cell` is no cell, or `output_layer` no layer.
        GraphValueError: a token or a part of the state has another rank.
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: Any = 0.0,
        coverage_penalty_weight: Any = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        assert_like_rnncell("cell", cell)
        check_layer(output_layer)
        self._cell = cell
        self._output_layer = output_layer
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._embedding_fn: Callable[[Any], Any] = embedding_function(embedding)
        tokens = convert_to_tensor(start_tokens, dtypes.int32, name="start_tokens")
        if tokens.shape.ndims != 1:
            raise GraphValueError("start_tokens must be a vector")
        self._end_token = convert_to_tensor(end_token, dtypes.int32, name="end_token")
        if self._end_token.shape.ndims != 0:
            raise GraphValueError("end_token must be a scalar")
        self._batch_size = size(tokens)
        self._beam_width = beam_width
        self._penalties = Penalties(length_penalty_weight, coverage_penalty_weight)
        self._initial_cell_state = self._by_beam(initial_state)
        self._start_inputs = self._embedding_fn(tile(expand_dims(tokens, 1), [1, beam_width]))

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams change their order."""
        return True

    @property
    def output_size(self) -> Any:
        beams = TensorShape([self._beam_width])
        return BeamSearchDecoderOutput(beams, beams, beams)

    @property
    def _dtype(self) -> Any:
        return flatten(self._initial_cell_state)[0].dtype

    @property
    def output_dtype(self) -> Any:
        sizes = layer_output_size(self._cell.output_size, self._output_layer)
        return BeamSearchDecoderOutput(
            map_structure(lambda _: self._dtype, sizes), dtypes.int32, dtypes.int32
        )

    def initialize(self, name: str | None = None) -> Any:
        """Return `(finished, inputs, state)` for the first step: only the first beam counts."""
        first = zeros([self._batch_size], dtypes.int32)
        finished = one_hot(first, self._beam_width, on_value=False, off_value=True, dtype=dtypes.bool)
        on, off = (convert_to_tensor(value, self._dtype) for value in (0.0, -math.inf))
        state = BeamSearchDecoderState(
            cell_state=self._initial_cell_state,
            log_probs=one_hot(first, self._beam_width, on_value=on, off_value=off, dtype=self._dtype),
            finished=finished,
            lengths=zeros([self._batch_size, self._beam_width], dtypes.int64),
            accumulated_attention_probs=self._no_attention(),
        )
        return finished, self._start_inputs, state

    def _no_attention(self) -> Any:
        """Return zeros for the sum of alignments, if it is needed."""
        found = () if not self._penalties.has_coverage else _alignments(self._initial_cell_state)
        return () if isinstance(found, tuple) else found * 0

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> Any:
        """See `Decoder`."""
        with op_scope(name, "BeamSearchDecoderStep", time, *flatten(inputs)):
            cell_inputs = map_structure(lambda each: self._merged(each, each.shape[2:]), inputs)
            outputs, cell_state = self._cell(cell_inputs, self._by_row(state.cell_state))
            outputs = map_structure(lambda each: self._split(each, each.shape[1:]), outputs)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            found, next_state = self._best(outputs, self._by_beam(cell_state), state)
            next_inputs = cond(
                reduce_all(next_state.finished),
                lambda: self._start_inputs,
                lambda: self._embedding_fn(found.predicted_ids),
            )
        return found, next_state, next_inputs, next_state.finished

    def _best(
        self, logits: Tensor, cell_state: Any, before: BeamSearchDecoderState
    ) -> tuple[BeamSearchDecoderOutput, BeamSearchDecoderState]:
        """Choose the best continuations of all beams, `logits` `[batch, beams, symbols]`."""
        static = logits.shape[-1].value
        symbols = shape(logits)[-1] if static is None else static
        running = logical_not(before.finished)
        log_probs = masked_log_probs(log_softmax(logits), self._end_token, before.finished)
        log_probs = expand_dims(before.log_probs, 2) + log_probs
        attention = before.accumulated_attention_probs
        if not isinstance(attention, tuple):
            read = _alignments(cell_state) * expand_dims(cast(running, attention.dtype), 2)
            attention = attention + read
        is_longer = one_hot(self._end_token, symbols, on_value=0, off_value=1, dtype=dtypes.int64)
        lengths = expand_dims(before.lengths, 2) + is_longer * expand_dims(cast(running, dtypes.int64), 2)
        scores = self._penalties.scores(log_probs, lengths, before.finished, attention)
        best = top_k(reshape(scores, [self._batch_size, -1]), k=self._beam_width)
        best_scores, places = (self._of_beams(each) for each in best)
        words, parents = mod(places, symbols, name="next_beam_word_ids"), floordiv(places, symbols)
        chosen_log_probs = self._rows(reshape(log_probs, [self._batch_size, -1]), places)
        finished = self._rows(before.finished, parents)
        next_lengths = self._rows(before.lengths, parents) + cast(logical_not(finished), dtypes.int64)
        next_state = BeamSearchDecoderState(
            cell_state=packed(cell_state, [self._reordered(each, parents) for each in leaves(cell_state)]),
            log_probs=chosen_log_probs,
            finished=logical_or(finished, equal(words, self._end_token), name="next_beam_finished"),
            lengths=next_lengths,
            accumulated_attention_probs=attention
            if isinstance(attention, tuple)
            else self._rows(attention, parents),
        )
        return BeamSearchDecoderOutput(best_scores, words, parents), next_state

    def _of_beams(self, value: Tensor) -> Tensor:
        value.set_shape([_static(self._batch_size), self._beam_width])
        return value

    def _rows(self, values: Tensor, beams: Tensor) -> Tensor:
        return rows_by_beam(values, beams, self._batch_size)

    def _reordered(self, part: Any, beams: Tensor) -> Any:
        """Return a part of the cell's state for the chosen beams; TensorArrays and scalars stay as they are."""
        is_whole = isinstance(part, TensorArray) or part.shape.ndims < 2
        return part if is_whole else self._rows(part, beams)

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> Any:
        """Return a `FinalBeamSearchDecoderOutput` and the state; the given lengths are ignored, since the state has them."""
        longest = cast(reduce_max(final_state.lengths, axis=1), dtypes.int32)
        predicted = gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder_tensor_arrays:
            parts = [
                self._in_order(each, outputs.parent_ids, final_state.lengths)
                for each in leaves(final_state.cell_state)
            ]
            final_state = final_state._replace(cell_state=packed(final_state.cell_state, parts))
        return FinalBeamSearchDecoderOutput(predicted, outputs), final_state

    def _in_order(self, part: Any, parents: Tensor, lengths: Tensor) -> Any:
        """Return a TensorArray of `[batch * beams, ...]` as a tensor `[steps, batch * beams, ...]` along the final beams."""
        if not isinstance(part, TensorArray) or not part.element_shape.ndims:
            return part
        values = part.stack()
        dims = shape(values)
        beams = [self._batch_size, self._beam_width]
        split = reshape(values, concat([dims[:1], beams, dims[2:]], 0))
        return reshape(gather_tree_from_array(split, parents, lengths), dims)

    # Merging batch and beams

    def _by_beam(self, state: Any) -> Any:
        """Split batch and beams of all parts of a cell's state; TensorArrays and scalars stay as they are."""
        return self._converted(state, 1, self._split)

    def _by_row(self, state: Any) -> Any:
        """Merge batch and beams of all parts of a cell's state."""
        return self._converted(state, 2, self._merged)

    def _converted(self, state: Any, least: int, convert: Callable[[Any, Any], Any]) -> Any:
        def converted(part: Any, part_size: Any) -> Any:
            if isinstance(part, TensorArray):
                return part
            if part.shape.ndims is None:
                raise GraphValueError(f"Expected tensor ({part}) to have known rank, but ndims == None.")
            return convert(part, static_shape(part_size)) if part.shape.ndims >= least else part

        pairs = zip(leaves(state), leaves(self._cell.state_size), strict=True)
        return packed(state, [converted(*pair) for pair in pairs])

    def _merged(self, value: Tensor, part_size: Any) -> Tensor:
        batch = _static(self._batch_size)
        merged: Tensor = reshape(value, concat([[self._batch_size * self._beam_width], shape(value)[2:]], 0))
        rows = None if batch is None else batch * self._beam_width
        merged.set_shape(TensorShape([rows]).concatenate(part_size))
        return merged

    def _split(self, value: Tensor, part_size: Any) -> Tensor:
        batch = _static(self._batch_size)
        rows = None if batch is None else batch * self._beam_width
        expected = TensorShape([rows]).concatenate(part_size)
        if not value.shape.is_compatible_with(expected):
            raise GraphValueError(
                "Unexpected behavior when reshaping between beam width and batch size.  "
                f"The tensor has shape: {value.shape}.  We expected it to have shape "
                f"(batch_size * beam_width, depth) == {expected}.  Perhaps you forgot to create a zero_state with "
                "batch_size=encoder_batch_size * beam_width?"
            )
        dims = [self._batch_size, self._beam_width]
        split: Tensor = reshape(value, concat([dims, shape(value)[1:]], 0))
        split.set_shape(TensorShape([batch, self._beam_width]).concatenate(part_size))
        return split


def _static(batch_size: Tensor) -> int | None:
    value = constant_value(batch_size)
    return None if value is None else int(value)


def _alignments(cell_state: Any) -> Any:
    """Return the mean alignments of all `AttentionWrapper`s in the state of a cell; an empty tuple if there are none."""
    found = list(_all_alignments(cell_state))
    return reduce_mean(concat([expand_dims(each, -1) for each in found], -1), -1) if found else ()


def _all_alignments(cell_state: Any) -> list[Any]:
    if isinstance(cell_state, AttentionWrapperState):
        return flatten(cell_state.alignments)
    if isinstance(cell_state, tuple):
        return [found for part in cell_state for found in _all_alignments(part)]
    return []
