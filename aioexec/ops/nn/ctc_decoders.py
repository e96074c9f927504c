"""Decoders for connectionist temporal classification: the best class of each step, and beam search over label sequences.

A beam of the search is a label sequence with the probabilities of the outputs that give it, ending with a blank or with its
last label. Sequences are nodes of a tree, so that a beam finds the beam of its sequence without the last label.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Any

import numpy as np

from aioexec.errors import FailedPreconditionError, InvalidArgumentError
from aioexec.graph.kernels.interruption import check_cancelled
from aioexec.graph.kernels.kernel import Compute, KernelContext
from aioexec.graph.registry import NOT_DIFFERENTIABLE, ShapeContext, register
from aioexec.shapes import Dims, merge, with_rank

Array = np.ndarray[Any, Any]
Paths = Sequence[Sequence[int]]


def check_inputs(logits: Array, lengths: Array) -> None:
    if logits.ndim != 3 or 0 in logits.shape:
        raise InvalidArgumentError(f"inputs is not a 3-Tensor with elements, got shape {list(logits.shape)}")
    if lengths.ndim != 1:
        raise InvalidArgumentError("sequence_length is not a vector")
    if lengths.shape != logits.shape[1:2]:
        raise FailedPreconditionError(
            f"len(sequence_length) != batch_size. len(sequence_length): {lengths.size} batch_size: {logits.shape[1]}"
        )
    for b, length in enumerate(lengths):
        if length > len(logits):
            raise FailedPreconditionError(f"sequence_length({b}) <= {len(logits)}")


def as_sparse(paths: Paths) -> tuple[Array, Array, Array]:
    """Return the indices, values and dense shape of one sequence for each element of a batch."""
    places = [(b, k) for b, path in enumerate(paths) for k in range(len(path))]
    values = np.array([label for path in paths for label in path], np.int64)
    shape = np.array([len(paths), max(map(len, paths), default=0)], np.int64)
    return np.array(places, np.int64).reshape(-1, 2), values, shape


def decoded_dims(count: int) -> list[Dims]:
    return [*[(None, 2)] * count, *[(None,)] * count, *[(2,)] * count]


def batch_of(context: ShapeContext) -> int | None:
    logits = with_rank(context.inputs[0], 3)
    assert logits is not None
    batch = merge(logits[1:2], context.inputs[1])
    assert batch is not None
    return batch[0]


# The best class of each step


def greedy_kernel(context: KernelContext) -> Compute:
    merges, given = context.attrs["merge_repeated"], int(context.attrs["blank_index"])

    def compute(logits: Array, lengths: Array) -> tuple[Array, ...]:
        check_inputs(logits, lengths)
        classes = logits.shape[2]
        blank = given + classes if given < 0 else given
        if not 0 <= blank < classes:
            raise InvalidArgumentError(f"blank_index expected to be in [-{classes}, {classes}), got {given}")
        best = logits.argmax(axis=2)
        paths, scores = [], np.zeros((len(lengths), 1), logits.dtype)
        for b, length in enumerate(lengths):
            own = best[:length, b]
            scores[b] = -np.sum(logits[:length, b].max(axis=1))
            is_new = np.ones(len(own), bool)
            if merges:
                is_new[1:] = own[1:] != own[:-1]
            paths.append(own[is_new & (own != blank)].tolist())
        return (*as_sparse(paths), scores)

    return compute


register(
    "CTCGreedyDecoder(inputs:T, sequence_length:int32) -> (decoded_indices:int64, decoded_values:int64, "
    "decoded_shape:int64, log_probability:T) [merge_repeated:bool=false; blank_index:int=-1; T:type{float|double}=float]",
    shape=lambda context: [*decoded_dims(1), (batch_of(context), 1)],
    kernel=greedy_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)

# Beam search


class Tree:
    """Label sequences: node 0 is the empty one, every other one is that of its parent with a label after it."""

    def __init__(self) -> None:
        self.parents = [-1]
        self.labels = [-1]
        self._children: dict[tuple[int, int], int] = {}

    def child(self, node: int, label: int) -> int:
        """Return the node of a sequence with a label after it."""
        found = self._children.get((node, label))
        if found is None:
            found = self._children[node, label] = len(self.parents)
            self.parents.append(node)
            self.labels.append(label)
        return found

    def sequence(self, node: int, merges: bool) -> list[int]:
        """Return the labels of a node; without repetitions if `merges`."""
        labels: list[int] = []
        previous = -1
        while node:
            label = self.labels[node]
            if not merges or label != previous:
                labels.append(label)
            previous, node = label, self.parents[node]
        return labels[::-1]


class Beams:
    """The beams of one step, by descending probability, and of the step after it.

    Attributes:
        nodes: the node of each beam in the tree.
        with_blank, with_label, total: log probabilities of outputs that end with a blank, with the last label, and of both.
    """

    def __init__(self, tree: Tree, width: int) -> None:
        self.tree, self.width = tree, width
        self.nodes = [0]
        self.with_blank, self.with_label, self.total = np.zeros(1), np.full(1, -np.inf), np.zeros(1)

    def advance(self, logs: Array) -> None:
        """Take one step of log probabilities [classes], the last of which is that of a blank."""
        last = np.array([self.tree.labels[node] for node in self.nodes])
        places = {node: k for k, node in enumerate(self.nodes)}
        parents = np.array([places.get(self.tree.parents[node], -1) for node in self.nodes])
        has_parent = parents >= 0
        repeated = np.where(last == last[parents], self.with_blank[parents], self.total[parents])
        joined = np.logaddexp(self.with_label, np.where(has_parent, repeated, -np.inf))
        label_kept = joined + np.where(last < 0, -np.inf, logs[last])
        blank_kept = self.total + logs[-1]
        kept = np.logaddexp(label_kept, blank_kept)
        longer = self.total[:, None] + logs[None, :-1]
        ends = np.flatnonzero(last >= 0)
        longer[ends, last[ends]] = self.with_blank[ends] + logs[last[ends]]
        children: list[dict[int, int]] = [{} for _ in self.nodes]
        for k in np.flatnonzero(has_parent):
            children[parents[k]][int(last[k])] = int(k)
        best = self._best(kept, longer, children)
        self.nodes = [
            self.nodes[k] if label < 0 else self.tree.child(self.nodes[k], label) for _, k, label in best
        ]
        numbers, is_kept = [k for _, k, _ in best], np.array([label < 0 for _, _, label in best])
        self.total = np.array([total for total, _, _ in best])
        self.with_blank = np.where(is_kept, blank_kept[numbers], -np.inf)
        self.with_label = np.where(is_kept, label_kept[numbers], self.total)

    def _best(
        self, kept: Array, longer: Array, children: Sequence[dict[int, int]]
    ) -> list[tuple[float, int, int]]:
        """Return the best beams as (log probability, beam of this step, label after it or -1).

        Args:
            kept: for each beam, the log probability that its sequence remains.
            longer: for each beam and label, that of the sequence with the label after it.
            children: for each beam, the beams that are its sequence with a label after it.

        As in TensorFlow, a beam that is displaced before its parent comes is not extended.
        """
        heap = [(float(total), -k, k, -1) for k, total in enumerate(kept)]
        heapq.heapify(heap)
        is_active, is_extended = [True] * len(kept), [True] * len(kept)
        for k, before in enumerate(self.total):
            bound = heap[0][0] if len(heap) >= self.width else -np.inf
            if not is_extended[k] or not before > bound:
                continue
            labels = {*np.flatnonzero(longer[k] > bound).tolist(), *children[k]}
            for label in sorted(labels):
                child = children[k].get(label)
                if child is not None:
                    is_extended[child] = is_active[child]
                    continue
                entry = (float(longer[k, label]), -len(kept) - k, k, label)
                if len(heap) < self.width:
                    heapq.heappush(heap, entry)
                elif entry[0] > heap[0][0]:
                    *_, dropped, extension = heapq.heapreplace(heap, entry)
                    if extension < 0:
                        is_active[dropped] = False
        return [(total, k, label) for total, _, k, label in sorted(heap, reverse=True) if total > -np.inf]


def search(logits: Array, width: int, paths: int, merges: bool) -> tuple[list[list[int]], list[float]]:
    """Return the best label sequences of one element of a batch, [steps, classes], and their log probabilities.

    Raises:
        InvalidArgumentError: there are fewer sequences than wanted.
    """
    tree = Tree()
    beams = Beams(tree, width)
    for scores in logits.astype(np.float64):
        check_cancelled()
        scores = scores - scores.max()
        beams.advance(scores - np.log(np.exp(scores).sum()))
    if paths > len(beams.nodes):
        raise InvalidArgumentError("Less leaves in the beam search than requested.")
    return [tree.sequence(node, merges) for node in beams.nodes[:paths]], beams.total[:paths].tolist()


def beam_kernel(context: KernelContext) -> Compute:
    attrs = context.attrs
    width, count, merges = int(attrs["beam_width"]), int(attrs["top_paths"]), bool(attrs["merge_repeated"])

    def compute(logits: Array, lengths: Array) -> tuple[Array, ...]:
        check_inputs(logits, lengths)
        if count > width:
            raise InvalidArgumentError("requested more paths than the beam width.")
        found = [search(logits[:length, b], width, count, merges) for b, length in enumerate(lengths)]
        columns = [as_sparse([paths[k] for paths, _ in found]) for k in range(count)]
        scores = np.array([scores for _, scores in found], logits.dtype).reshape(len(found), count)
        return (*(part for parts in zip(*columns, strict=True) for part in parts), scores)

    return compute


register(
    "CTCBeamSearchDecoder(inputs:T, sequence_length:int32) -> (decoded_indices:top_paths*int64, "
    "decoded_values:top_paths*int64, decoded_shape:top_paths*int64, log_probability:T) "
    "[beam_width:int>=1; top_paths:int>=1; merge_repeated:bool=true; T:type{float|double}=float]",
    shape=lambda context: [
        *decoded_dims(context.attrs["top_paths"]),
        (batch_of(context), context.attrs["top_paths"]),
    ],
    kernel=beam_kernel,
    gradient=NOT_DIFFERENTIABLE,
    dynamic_shape=True,
)
