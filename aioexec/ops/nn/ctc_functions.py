"""Functions for connectionist temporal classification (CTC): losses, decoders, and their labels."""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_any_op, apply_op, apply_tuple_op
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.graph.sparse_tensor import SparseTensor
from aioexec.ops.array.arrays import expand_dims, reshape, transpose
from aioexec.ops.array.filling import range_
from aioexec.ops.array.gathering import boolean_mask, scatter_nd
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.masks import sequence_mask
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.common.elementwise import op_scope
from aioexec.ops.convolution.windows import renamed
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import logical_and, not_equal, where
from aioexec.ops.reduction.reductions import reduce_max, reduce_sum


def ctc_loss(
    labels: Any,
    inputs: Any = None,
    sequence_length: Any = None,
    preprocess_collapse_repeated: bool = False,
    ctc_merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    logits: Any = None,
) -> Tensor:
    """Return the CTC loss: -log of the probability of each label sequence, summed over the ways to place it in time.

    Args:
        labels: a SparseTensor of int32 [batch, most labels]: classes 0 … num_classes - 2.
        inputs: logits of floats [time, batch, num_classes]; the last class is the blank.
        sequence_length: int32 [batch], the number of steps of each sequence.
        preprocess_collapse_repeated: merge equal neighbouring labels.
        ctc_merge_repeated: merge equal neighbouring outputs; without it each output is a label.
        ignore_longer_outputs_than_inputs: the loss of sequences shorter than their labels is 0, not an error.
        time_major: False for logits [batch, time, num_classes].
        logits: newer name of `inputs`.

    Returns:
        A loss for each sequence, in the dtype of the logits.

    Raises:
        GraphTypeError: the labels are no SparseTensor.
        InvalidArgumentError: (in a run) a sequence has no labels, or is shorter than its labels.
    """
    if not isinstance(labels, SparseTensor):
        raise GraphTypeError(f"Expected argument `labels` to be a SparseTensor. Received labels={labels!r}")
    given = convert_to_tensor(renamed(inputs, logits, "inputs", "logits"), name="logits")
    scores = given if time_major else transpose(given, [1, 0, 2])
    kind = given.dtype.base_dtype
    is_narrow = kind in (dtypes.float16, dtypes.bfloat16)
    loss, _ = apply_tuple_op(
        "CTCLoss",
        cast(scores, dtypes.float32) if is_narrow else scores,
        labels.indices,
        labels.values,
        sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
    )
    found: Tensor = cast(loss, kind) if is_narrow else loss
    return found


def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the CTC loss for labels in a SparseTensor, or in a matrix with their numbers.

    Args:
        labels: a SparseTensor of int32, or integers [batch, most labels] of which `label_length` count in each row.
        logits: floats [time, batch, num_classes].
        logit_length: integers [batch], the number of steps of each sequence.
        logits_time_major: False for logits [batch, time, num_classes].
        unique: ignored; the result of `ctc_unique_labels`.
        blank_index: the class of the blank, by default 0; negative numbers count from the end. Required for a SparseTensor.

    Returns:
        A loss for each sequence, in the dtype of the logits.

    Raises:
        GraphValueError: a SparseTensor comes without `blank_index`, or the number of classes is not known.
    """
    with op_scope(name, "ctc_loss_v2", logits):
        scores = convert_to_tensor(logits, name="logits")
        if scores.dims is None or len(scores.dims) != 3 or scores.dims[2] is None:
            raise GraphValueError(f"logits must have 3 dimensions, the last one static, got {scores.shape}")
        classes = scores.dims[2]
        if blank_index is None and isinstance(labels, SparseTensor):
            raise GraphValueError("Argument `blank_index` must be provided when labels is a SparseTensor.")
        blank = (blank_index or 0) % classes
        if blank != classes - 1:
            scores = concat(
                [scores[:, :, :blank], scores[:, :, blank + 1 :], scores[:, :, blank : blank + 1]], axis=2
            )
        if isinstance(labels, SparseTensor):
            values = _without_blank(labels.values, blank)
            sparse = SparseTensor(labels.indices, values, labels.dense_shape)
        else:
            sparse = _as_sparse(convert_to_tensor(labels), label_length, blank, classes)
        lengths = cast(logit_length, dtypes.int32)
        return ctc_loss(sparse, scores, lengths, time_major=logits_time_major)


def _without_blank(labels: Tensor, blank: int) -> Tensor:
    """Return the numbers of classes when that of the blank becomes the last."""
    return where(labels < blank, labels, labels - 1)


def _as_sparse(labels: Tensor, lengths: Any, blank: int, classes: int) -> SparseTensor:
    """Return the first labels of each row; a row without labels holds one that is no class, which CTCLoss leaves out."""
    counts = cast(lengths, dtypes.int32)
    columns = shape(labels)[1]
    is_label = sequence_mask(counts, columns)
    moved = cast(_without_blank(labels, blank), dtypes.int32)
    known = where(is_label, moved, apply_op("Fill", shape(labels), classes - 1))
    is_kept = sequence_mask(apply_op("Maximum", counts, 1), columns)
    places = apply_op("Where", is_kept)
    return SparseTensor(places, boolean_mask(known, is_kept), shape(labels, out_type=dtypes.int64))


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: int | None = None
) -> tuple[list[SparseTensor], Tensor]:
    """Return the labels that the best class of each step gives.

    Args:
        inputs: logits [time, batch, num_classes] of float32 or float64.
        sequence_length: int32 [batch], the number of steps of each sequence.
        merge_repeated: merge equal classes of neighbouring steps.
        blank_index: the class of the blank, by default the last.

    Returns:
        A list of one SparseTensor of int64 [batch, most labels], and the negative sums of the largest logits [batch, 1].
    """
    places, values, dense_shape, scores = apply_tuple_op(
        "CTCGreedyDecoder", inputs, sequence_length, merge_repeated=merge_repeated, blank_index=blank_index
    )
    return [SparseTensor(places, values, dense_shape)], scores


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1, merge_repeated: bool = True
) -> tuple[list[SparseTensor], Tensor]:
    """Return the most probable label sequences, found by beam search.

    Args:
        inputs: logits [time, batch, num_classes] of float32 or float64; the last class is the blank.
        sequence_length: int32 [batch], the number of steps of each sequence.
        beam_width: the number of sequences that are kept at each step.
        top_paths: the number of sequences that are returned, at most `beam_width`.
        merge_repeated: merge equal neighbouring labels of the result.

    Returns:
        A list of `top_paths` SparseTensors of int64 [batch, most labels], and their log probabilities [batch, top_paths].
    """
    places, values, shapes, scores = apply_any_op(
        "CTCBeamSearchDecoder",
        inputs,
        sequence_length,
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
    )
    return [SparseTensor(*parts) for parts in zip(places, values, shapes, strict=True)], scores


def ctc_beam_search_decoder_v2(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """As `ctc_beam_search_decoder`, keeping equal neighbouring labels."""
    return ctc_beam_search_decoder(inputs, sequence_length, beam_width, top_paths, merge_repeated=False)


def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Merge equal neighbouring labels.

    Args:
        labels: [batch, most labels].
        seq_length: [batch], the number of labels of each row.

    Returns:
        The labels, padded by 0 to the longest row, and the length of each row in the dtype of `seq_length`.
    """
    with op_scope(name, "collapse_repeated_labels", labels, seq_length):
        given, lengths = convert_to_tensor(labels, name="labels"), convert_to_tensor(seq_length)
        first = apply_op("OnesLike", not_equal(given[:, :1], given[:, :1]))
        is_new = concat([first, not_equal(given[:, 1:], given[:, :-1])], axis=1)
        is_kept = logical_and(is_new, sequence_mask(lengths, shape(given)[1]))
        new_lengths = reduce_sum(cast(is_kept, dtypes.int32), axis=1)
        longest = reduce_max(new_lengths)
        flat_mask = reshape(sequence_mask(new_lengths, longest), [-1])
        places = boolean_mask(range_(shape(flat_mask)[0]), flat_mask)
        kept = boolean_mask(reshape(given, [-1]), reshape(is_kept, [-1]))
        flat = scatter_nd(expand_dims(places, 1), kept, shape(flat_mask))
        return reshape(flat, stack([shape(given)[0], longest])), cast(new_lengths, lengths.dtype.base_dtype)
