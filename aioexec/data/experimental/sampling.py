"""Datasets of the elements of several others, in an order that numbers determine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aioexec import dtypes
from aioexec.data.arguments import seed_tensors
from aioexec.data.dataset import Dataset
from aioexec.data.structure import Component, attrs_of, flat_dtypes, flatten, pack, same_structure
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.apply import apply_op
from aioexec.graph.convert import constant, convert_to_tensor
from aioexec.graph.node import Tensor
from aioexec.ops.array.arrays import expand_dims, squeeze
from aioexec.ops.math.math_functions import log
from aioexec.ops.random.stateless_functions import stateless_multinomial
from aioexec.shapes import TensorShape


class RandomDataset(Dataset):
    """An endless dataset of random int64 numbers, of TensorFlow's stream for the same seed."""

    def __init__(self, seed: Any = None) -> None:
        spec = Component(dtypes.int64, TensorShape([]))
        super().__init__(apply_op("RandomDataset", *seed_tensors(seed), **attrs_of(spec)), spec)


def sample_from_datasets(datasets: Sequence[Dataset], weights: Any = None, seed: Any = None) -> Dataset:
    """Return elements of datasets, each chosen at random, until all have ended.

    Args:
        weights: the probability of each dataset, as a sequence, a tensor, or a dataset of those; by default all alike.
        seed: of the choice.

    Raises:
        GraphValueError: the number of weights is not that of the datasets.
        GraphTypeError: elements have different types.
    """
    if not isinstance(weights, Dataset):
        if weights is None:
            logits = constant([[1.0] * len(datasets)])
        else:
            given = convert_to_tensor(weights, name="weights")
            if not given.shape.is_compatible_with([len(datasets)]):
                raise GraphValueError("`weights` must be a vector of length `len(datasets)`.")
            logits = expand_dims(log(given, name="logits"), 0)
        choices = RandomDataset(seed).batch(2).map(lambda seeds: _drawn(logits, seeds))
    else:
        all_logits = weights.map(lambda each: expand_dims(log(each, name="logits"), 0))
        choices = Dataset.zip((all_logits, RandomDataset(seed).batch(2))).map(_drawn)
    return _directed(choices, datasets)


def _drawn(logits: Tensor, seeds: Tensor) -> Tensor:
    found: Tensor = squeeze(stateless_multinomial(logits, 1, seed=seeds), axis=[0, 1])
    return found


def choose_from_datasets(datasets: Sequence[Dataset], choice_dataset: Dataset) -> Dataset:
    """Return elements of datasets, each of that at the index which `choice_dataset` has next.

    Raises:
        GraphTypeError: the indices are no int64 scalars, or elements have different types.
    """
    spec = choice_dataset.element_spec
    if not isinstance(spec, Component) or spec.dtype != dtypes.int64 or not spec.shape.is_compatible_with([]):
        raise GraphTypeError("`choice_dataset` must be a dataset of scalar `tf.int64` tensors.")
    return _directed(choice_dataset, datasets)


def _directed(choices: Dataset, datasets: Sequence[Dataset]) -> Dataset:
    first, *others = datasets
    spec = first.element_spec
    for other in others:
        if not same_structure(spec, other.element_spec) or flat_dtypes(spec) != flat_dtypes(
            other.element_spec
        ):
            raise GraphTypeError("Datasets to interleave must have the same type")
        pairs = zip(flatten(spec), flatten(other.element_spec), strict=True)
        spec = pack(spec, [one.relaxed(two) for one, two in pairs])
    variants = [each._variant_tensor for each in datasets]
    variant = apply_op("DirectedInterleaveDataset", choices._variant_tensor, variants, **attrs_of(spec))
    return Dataset(variant, spec, [choices, *datasets])
