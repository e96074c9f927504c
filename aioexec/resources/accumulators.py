"""Conditional accumulators: sums of gradients that are taken, as sum or mean, once enough have arrived.

An `Accumulator` is a `BlockingResource` for takers. Its global step is the number of times it was taken from, or the number it
was set to; gradients of earlier steps are stale and dropped. The accumulated value (`Dense`, `Sparse`) is immutable, so that a
large gradient can be added on a worker and the sum offered, as in a compare-and-swap: `offer` fails if the value has changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError
from aioexec.resources.waiting import BlockingResource, WaitQueue, WaitUntil
from aioexec.shapes import Dims, shown

Array: TypeAlias = np.ndarray[Any, Any]


def _divided(total: Array, count: Any) -> Array:
    """Return total / count, in the dtype of the total."""
    divide = np.floor_divide if total.dtype.kind in "iu" else np.true_divide
    mean: Array = divide(total, np.asarray(count).astype(total.dtype))
    return mean.astype(total.dtype, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Dense:
    """The sum of `count` gradients."""

    total: Array
    count: int

    def plus(self, other: Dense) -> Dense:
        return Dense(self.total + other.total, self.count + other.count)

    def sum(self) -> Array:
        return self.total

    def mean(self) -> Array:
        return _divided(self.total, self.count)


@dataclass(frozen=True, slots=True, eq=False)
class Sparse:
    """The sum of `count` sparse gradients: `values[k]` is that of slice `indices[k]`, of which there were `counts[k]`."""

    indices: Array
    values: Array
    counts: Array
    count: int

    def plus(self, other: Sparse) -> Sparse:
        mine, theirs = _merged(self.indices, other.indices)
        values = np.zeros((len(mine), *self.values.shape[1:]), self.values.dtype)
        counts = np.zeros(len(mine), np.int64)
        indices = np.zeros(len(mine), np.int64)
        for one, places in ((self, mine), (other, theirs)):
            present = places >= 0
            indices[present] = one.indices[places[present]]
            values[present] += one.values[places[present]]
            counts[present] += one.counts[places[present]]
        return Sparse(indices, values, counts, self.count + other.count)

    def sum(self) -> Array:
        return self.values

    def mean(self) -> Array:
        return _divided(self.values, self.counts.reshape(-1, *[1] * (self.values.ndim - 1)))


def _merged(mine: Array, theirs: Array) -> tuple[Array, Array]:
    """Merge two lists of indices: return for each merged index its position in either list, -1 where it is missing."""
    if not (_is_increasing(mine) and _is_increasing(theirs)):
        return _merge_unsorted(mine.tolist(), theirs.tolist())
    union = np.union1d(mine, theirs)
    places = []
    for given in (mine, theirs):
        place = np.full(len(union), -1, np.int64)
        place[np.searchsorted(union, given)] = np.arange(len(given))
        places.append(place)
    return places[0], places[1]


def _is_increasing(indices: Array) -> bool:
    return bool((indices[1:] > indices[:-1]).all())


def _merge_unsorted(mine: Sequence[int], theirs: Sequence[int]) -> tuple[Array, Array]:
    """Merge lists that are not sorted or have duplicates as TensorFlow does: the smaller head goes first."""
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(mine) or j < len(theirs):
        if j == len(theirs) or (i < len(mine) and mine[i] < theirs[j]):
            pairs.append((i, -1))
            i += 1
        elif i == len(mine) or theirs[j] < mine[i]:
            pairs.append((-1, j))
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    places = np.array(pairs, np.int64).reshape(-1, 2)
    return places[:, 0], places[:, 1]


class Accumulator(BlockingResource):
    """The gradients of one variable.

    Constant: name, dtype and `dims` of a gradient, whether the mean is taken, device (full name). State: `gradients`, the
    accumulated value or None; `step`, the global step.
    """

    def __init__(self, name: str, dtype: DType, dims: Dims, is_mean: bool = True, device: str = "") -> None:
        self.name = name
        self.dtype = dtype
        self.dims = dims
        self.is_mean = is_mean
        self.device = device
        self.step = 0
        self.gradients: Any = None
        self._takers = WaitQueue()
        super().__init__(self._takers)

    @property
    def count(self) -> int:
        """The number of gradients accumulated since the last `take`."""
        return 0 if self.gradients is None else int(self.gradients.count)

    def is_stale(self, local_step: int) -> bool:
        """Return whether a gradient of that step is too old."""
        return local_step < self.step

    def apply(self, local_step: int, gradient: Dense | Sparse) -> None:
        """Add a gradient, or drop it if it is stale."""
        if not self.is_stale(local_step):
            self._keep(gradient)

    def offer(self, base: Any, gradients: Dense | Sparse) -> bool:
        """Replace the accumulated value if it is still `base`; return whether it was."""
        if self.gradients is not base:
            return False
        self.gradients = gradients
        self._flush()
        return True

    def set_global_step(self, step: int) -> None:
        """Set the global step: gradients of earlier steps are dropped."""
        self.step = step

    def take(self, num_required: int) -> Any:
        """Take the accumulated value once it consists of `num_required` gradients; increments the step. May return an Attempt.

        Raises:
            InvalidArgumentError: `num_required` is not positive.
        """
        if num_required <= 0:
            raise InvalidArgumentError(f"Argument num_required must be positive, but was {num_required}")
        return self._submit(
            self._takers, WaitUntil(lambda: self.count >= num_required, self._take, self._restore)
        )

    def give_back(self, gradients: Dense | Sparse) -> None:
        """Add gradients that were taken but not delivered to those accumulated since."""
        self._restore(gradients)
        self._flush()

    def _take(self) -> Any:
        taken, self.gradients = self.gradients, None
        self.step += 1
        return taken

    def _restore(self, gradients: Dense | Sparse) -> None:
        self.step -= 1
        self.gradients = gradients if self.gradients is None else self.gradients.plus(gradients)

    def _keep(self, gradient: Dense | Sparse) -> None:
        self.gradients = gradient if self.gradients is None else self.gradients.plus(gradient)
        self._flush()


class DenseAccumulator(Accumulator):
    """An accumulator of dense gradients."""

    def check(self, gradient: Array) -> None:
        """Check a gradient against the declared shape and the shape of earlier gradients.

        Raises:
            InvalidArgumentError: the shapes are incompatible.
        """
        expected = self.dims if self.gradients is None else self.gradients.total.shape
        if expected is not None and (
            len(expected) != gradient.ndim
            or any(dim not in (None, size) for dim, size in zip(expected, gradient.shape, strict=True))
        ):
            raise InvalidArgumentError(
                f"Shape mismatch: expected {shown(expected)}, got {shown(gradient.shape)}"
            )


class SparseAccumulator(Accumulator):
    """An accumulator of gradients of slices along the first dimension."""

    @property
    def rows(self) -> int:
        """The first dimension of the dense gradient; -1 if unknown."""
        return -1 if not self.dims or self.dims[0] is None else self.dims[0]

    def check(self, indices: Array, values: Array, shape: Array | None) -> None:
        """Check a gradient against the declared shape and the shape of earlier gradients.

        Args:
            shape: the dense shape of the gradient, if given.

        Raises:
            InvalidArgumentError: the shapes are incompatible.
        """
        if indices.ndim != 1:
            raise InvalidArgumentError(
                f"Input indices should be vector but received shape: {shown(indices.shape)}"
            )
        if values.ndim == 0:
            raise InvalidArgumentError("Values cannot be 0-dimensional.")
        if len(values) != len(indices):
            raise InvalidArgumentError(f"Expected {len(indices)} non-empty input values, got {len(values)}")
        sizes = None if shape is None else [int(size) for size in shape.reshape(-1)]
        if sizes is not None and len(sizes) < values.ndim:
            raise InvalidArgumentError(
                f"Shape mismatch: expected shape rank at least {values.ndim}, got {len(sizes)}"
            )
        self._check_sizes("shape", sizes, self.dims)
        self._check_sizes("values", [None, *values.shape[1:]], self.dims)
        if self.gradients is not None:
            self._check_sizes("values", [None, *values.shape[1:]], (None, *self.gradients.values.shape[1:]))
        self._check_indices(indices, sizes)

    def _check_sizes(self, what: str, sizes: Sequence[int | None] | None, expected: Dims) -> None:
        if sizes is None or not expected:  # a scalar means any shape
            return
        if what == "values" and len(sizes) != len(expected):
            raise InvalidArgumentError(
                f"Shape mismatch: expected values rank {len(expected)}, got {len(sizes)}"
            )
        for k, (size, wanted) in enumerate(zip(sizes, expected, strict=False)):
            if size is not None and size >= 0 and wanted is not None and size != wanted:
                raise InvalidArgumentError(
                    f"Shape mismatch: expected {what} dim {k} to be {wanted}, got {size}"
                )

    def _check_indices(self, indices: Array, sizes: Sequence[int] | None) -> None:
        rows = self.rows if self.rows >= 0 else sizes[0] if sizes else -1
        beyond = np.flatnonzero(indices >= rows)
        if rows >= 0 and beyond.size:
            raise InvalidArgumentError(
                f"Shape mismatch: index of slice {beyond[0]} exceeded limits of shape; "
                f"index is {indices[beyond[0]]} exceeded {rows}"
            )
