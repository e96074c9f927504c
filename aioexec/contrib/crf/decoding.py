"""The sequence of tags with the highest score, by the Viterbi algorithm: in NumPy, and in a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from aioexec import dtypes
from aioexec.contrib.crf.scores import tag_count
from aioexec.graph.convert import convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import expand_dims, squeeze
from aioexec.ops.array.filling import range_
from aioexec.ops.array.gathering import gather_nd
from aioexec.ops.array.joining import concat, stack
from aioexec.ops.array.ordering import reverse_sequence
from aioexec.ops.array.shapes_of import shape
from aioexec.ops.array.slicing import slice_
from aioexec.ops.math.cast import cast
from aioexec.ops.math.extremes import maximum
from aioexec.ops.reduction.arg_reduction import argmax
from aioexec.ops.reduction.reductions import reduce_max
from aioexec.recurrent.cell import RNNCell
from aioexec.recurrent.dynamic import dynamic_rnn

Array = np.ndarray[Any, Any]


def viterbi_decode(score: Array, transition_params: Array) -> tuple[list[Any], Any]:
    """Return the tags with the highest score, one for each step, and the score; for arrays, outside of a graph.

    Args:
        score: potentials `[steps, tags]`.
        transition_params: `[tags, tags]`.
    """
    best, pointers = score[0], []
    for potentials in score[1:]:
        candidates = best[:, None] + transition_params
        pointers.append(candidates.argmax(0))
        best = potentials + candidates.max(0)
    tags = [best.argmax()]
    for pointer in reversed(pointers):
        tags.append(pointer[tags[-1]])
    return tags[::-1], best.max()


class CrfDecodeForwardRnnCell(RNNCell):
    """The forward part: the state is, for each tag, the highest score of a sequence that ends in it.

    A call takes the potentials of a step, `[batch, tags]`; the outputs are, for each tag, the tag before it, int32.

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
        candidates = expand_dims(state, 2) + self._transitions
        return cast(argmax(candidates, 1), dtypes.int32), inputs + reduce_max(candidates, [1])


class CrfDecodeBackwardRnnCell(RNNCell):
    """The backward part: from the outputs of the forward part, last step first, to the tags.

    A call takes the tags before each tag, int32 `[batch, tags]`, and the tag of the step after, `[batch, 1]`, and returns the
    tag of the step as output and as state.

    Args:
        num_tags: number of tags.
    """

    def __init__(self, num_tags: int) -> None:
        super().__init__()
        self._num_tags = num_tags

    @property
    def state_size(self) -> Any:
        return 1

    @property
    def output_size(self) -> Any:
        return 1

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Tensor, Tensor]:
        places = stack([range_(shape(inputs)[0]), squeeze(state, [1])], axis=1)
        tags = expand_dims(gather_nd(inputs, places), -1)
        return tags, tags


def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Tensor, Tensor]:
    """Return the tags with the highest score, int32 `[batch, steps]`, and the scores, `[batch]`.

    Args:
        potentials: `[batch, steps, tags]`.
        transition_params: `[tags, tags]`.
        sequence_length: integer vector of the batch; tags past a length are 0.

    Raises:
        GraphValueError: the number of tags is unknown.
    """
    given, lengths = convert_to_tensor(potentials), convert_to_tensor(sequence_length)
    moves = maximum(lengths - 1, 0)
    first = squeeze(slice_(given, [0, 0, 0], [-1, 1, -1]), [1])
    rest = slice_(given, [0, 1, 0], [-1, -1, -1])
    pointers, last = dynamic_rnn(
        CrfDecodeForwardRnnCell(transition_params),
        rest,
        sequence_length=moves,
        initial_state=first,
        dtype=dtypes.int32,
    )
    backwards = reverse_sequence(pointers, moves, seq_axis=1, batch_axis=0)
    final = expand_dims(cast(argmax(last, axis=1), dtypes.int32), -1)
    tags, _ = dynamic_rnn(
        CrfDecodeBackwardRnnCell(tag_count(given)),
        backwards,
        sequence_length=moves,
        initial_state=final,
        dtype=dtypes.int32,
    )
    found = concat([final, squeeze(tags, [2])], 1)
    return reverse_sequence(found, lengths, seq_axis=1, batch_axis=0), reduce_max(last, axis=1)
