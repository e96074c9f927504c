"""Scores and likelihoods of sequences of tags in a linear-chain conditional random field.

The score of a sequence is the sum of the potentials of its tags, `inputs[step, tag]`, and of its transitions,
`transition_params[tag, next tag]`. What is past the length of a sequence does not count.
"""

from __future__ import annotations

from typing import Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import expand_dims, reshape, squeeze
from aioexec.ops.array.filling import ones_like, range_, zeros_like
from aioexec.ops.array.gathering import gather
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.array.slicing import slice_
from aioexec.ops.math.cast import cast
from aioexec.ops.math.comparison import less_equal, where
from aioexec.ops.math.extremes import maximum
from aioexec.ops.reduction.reductions import reduce_sum
from aioexec.ops.reduction.statistics import reduce_logsumexp
from aioexec.ops.state.variable_scope import get_variable
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.dynamic import dynamic_rnn


def tag_count(potentials: Tensor) -> int:
    """Return the number of tags, the last dimension.

    Raises:
        GraphValueError: it is unknown.
    """
    count: int | None = potentials.shape[-1].value
    if count is None:
        raise GraphValueError(f"the number of tags must be known, saw shape: {potentials.shape}")
    return count


def _mask(sequence_lengths: Any, steps: Any, dtype: Any) -> Tensor:
    """Return 1 for each step before the end of a sequence, else 0: `[batch, steps]`."""
    lengths = cast(convert_to_tensor(sequence_lengths), dtypes.int64)
    before = expand_dims(cast(range_(steps), dtypes.int64), 0) < expand_dims(lengths, 1)
    mask: Tensor = cast(before, dtype)
    return mask


def crf_sequence_score(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any
) -> Tensor:
    """Return the score of each sequence, `[batch]`.

    Args:
        inputs: potentials `[batch, steps, tags]`.
        tag_indices: tags `[batch, steps]`.
        sequence_lengths: integer vector of the batch.
        transition_params: `[tags, tags]`.
    """
    unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
    return unary + crf_binary_score(tag_indices, sequence_lengths, transition_params)


def crf_multitag_sequence_score(
    inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any
) -> Tensor:
    """Return the logarithm of the sum of exp(score) over all sequences with allowed tags, `[batch]`.

    Args:
        inputs, sequence_lengths, transition_params: as for `crf_sequence_score`.
        tag_bitmap: the allowed tags of each step, booleans `[batch, steps, tags]`.
    """
    potentials = convert_to_tensor(inputs)
    refused = ones_like(potentials) * convert_to_tensor(float("-inf"), potentials.dtype)
    return crf_log_norm(where(tag_bitmap, potentials, refused), sequence_lengths, transition_params)


def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """Return the logarithm of the sum of exp(score) over all sequences of tags, `[batch]`; 0 for sequences without steps.

    Args:
        inputs, sequence_lengths, transition_params: as for `crf_sequence_score`.

    Raises:
        GraphValueError: the number of tags is unknown.
    """
    potentials, lengths = convert_to_tensor(inputs), convert_to_tensor(sequence_lengths)
    first = squeeze(slice_(potentials, [0, 0, 0], [-1, 1, -1]), [1])
    rest = slice_(potentials, [0, 1, 0], [-1, -1, -1])
    _, alphas = dynamic_rnn(
        CrfForwardRnnCell(transition_params),
        rest,
        sequence_length=maximum(lengths - 1, 0),
        initial_state=first,
    )
    found = reduce_logsumexp(alphas, [1])
    return where(less_equal(lengths, 0), zeros_like(found), found)


def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Tensor, Any]:
    """Return the logarithm of the probability of each sequence, `[batch]`, and the transitions.

    Variables: `transitions`, `[tags, tags]`, in the current scope, unless they are given.

    Args:
        inputs, tag_indices, sequence_lengths, transition_params: as for `crf_sequence_score`.

    Raises:
        GraphValueError: the number of tags is unknown.
    """
    potentials = convert_to_tensor(inputs)
    count = tag_count(potentials)
    if transition_params is None:
        transition_params = get_variable("transitions", [count, count])
    score = crf_sequence_score(potentials, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(potentials, sequence_lengths, transition_params), transition_params


def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Tensor:
    """Return the sum of the potentials of the tags of each sequence, `[batch]`; arguments as for `crf_sequence_score`."""
    potentials, tags = convert_to_tensor(inputs), convert_to_tensor(tag_indices)
    dims = shape(potentials)
    batch, steps, count = dims[0], dims[1], dims[2]
    rows = expand_dims(range_(batch) * steps * count, 1) + expand_dims(range_(steps) * count, 0)
    places = reshape(cast(rows, tags.dtype) + tags, [-1])
    found = reshape(gather(reshape(potentials, [-1]), places), [batch, steps])
    return reduce_sum(found * _mask(sequence_lengths, shape(tags)[1], potentials.dtype), 1)


def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Tensor:
    """Return the sum of the transitions of each sequence, `[batch]`; arguments as for `crf_sequence_score`."""
    transitions, tags = convert_to_tensor(transition_params), convert_to_tensor(tag_indices)
    steps = shape(tags)[1]
    starts = slice_(tags, [0, 0], [-1, steps - 1])
    ends = slice_(tags, [0, 1], [-1, steps - 1])
    found = gather(reshape(transitions, [-1]), starts * tag_count(transitions) + ends)
    mask = slice_(_mask(sequence_lengths, steps, transitions.dtype), [0, 1], [-1, -1])
    return reduce_sum(found * mask, 1)


class CrfForwardRnnCell(RNNCell):
    """The forward algorithm: the state is, for each tag, the logarithm of the sum of exp(score) over sequences that end in it.

    A call takes the potentials of a step, `[batch, tags]`, and returns the new state as output and as state.

    Args:
        transition_params: `[tags, tags]`.

    Raises:
        GraphValueError: the number of tags is unknown.
    """

    def __init__(self, transition_params: Any) -> None:
        super().__init__()
        transitions = convert_to_tensor(transition_params)
        self._transitions = expand_dims(transitions, 0)
        self._count = tag_count(transitions)

    @property
    def state_size(self) -> Any:
        return self._count

    @property
    def output_size(self) -> Any:
        return self._count

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Tensor]:
        alphas = inputs + reduce_logsumexp(expand_dims(state, 2) + self._transitions, [1])
        return alphas, alphas
