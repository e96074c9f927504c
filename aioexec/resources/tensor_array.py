"""TensorArray: tensors by index that the nodes of one step write and read, and their gradient arrays.

A handle holds the array itself and is an edge value of the step, so the array is freed with the step. An element is written
once and, unless the array keeps read elements, read once. On a device with memory of its own it is a buffer. A gradient array
belongs to its array, under the name of the gradient computation; its writes to one index accumulate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from aioexec import shapes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from aioexec.resources.tensor_list import Array, added, kept, merged, stacked, zeros
from aioexec.shapes import Dims, shown

_LONGEST = 1 << 22  # elements: reading all of them takes a second


@dataclass(slots=True)
class _Element:
    """The state of an element; `dims` is its shape, which in a gradient array is known before it is written."""

    array: Array | None = None
    dims: Dims = None
    is_written: bool = False
    is_read: bool = False
    is_cleared: bool = False


@dataclass(frozen=True, slots=True)
class _Read:
    """Elements read at several positions: `found[which[k]]` at `places[k]`, and zeros of shape `blank` at `blanks`.

    Positions are ascending; an element that was read repeatedly is in `found` once.
    """

    found: list[Array]
    which: Array
    places: Array
    blanks: Array
    blank: tuple[int, ...]

    def dims_of(self, place: int) -> tuple[int, ...]:
        k = int(np.searchsorted(self.places, place))
        is_found = k < len(self.places) and self.places[k] == place
        return self.found[self.which[k]].shape if is_found else self.blank

    def first_place_where(self, holds: Callable[[tuple[int, ...]], bool]) -> int | None:
        """Return the first position of an element whose shape satisfies `holds`."""
        such = [k for k, element in enumerate(self.found) if holds(element.shape)]
        places = [int(place) for place in self.places[np.isin(self.which, such)][:1]] if such else []
        if self.blanks.size and holds(self.blank):
            places.append(int(self.blanks[0]))
        return min(places, default=None)

    def check_alike(self, skipped: int, what: str) -> None:
        """Check that all elements have one shape, except for the first `skipped` dimensions.

        Raises:
            InvalidArgumentError: the shapes differ.
        """
        first = self.dims_of(0)[skipped:]
        other = self.first_place_where(lambda dims: dims[skipped:] != first)
        if other is not None:
            raise InvalidArgumentError(
                f"TensorArray has inconsistent shapes. Index 0 has {what}: {shown(first)} but index {other} has {what}: "
                f"{shown(self.dims_of(other)[skipped:])}"
            )


@dataclass(slots=True, eq=False)
class TensorArray:
    """The state of a TensorArray op.

    Constant: name, dtype, identical (all elements have the shape of the first), aggregates (writes accumulate), clears (an
    element is freed when it is read), came_from_one (of a gradient array: how many elements one value was split into).

    Changing: `size`; `split_into`, the number of elements that `split` or `unpack` set; `dims`, the static shape of elements;
    `dynamic`, whether writes extend the array; `closed`; `elements`, those written or of known shape; `blanks_read`, by index,
    which of the others were read; `gradients`, by source.

    An array may have millions of unwritten elements, which are processed in bulk.
    """

    name: str
    dtype: DType
    size: int
    dims: Dims = None
    identical: bool = False
    dynamic: bool = False
    clears: bool = True
    aggregates: bool = False
    split_into: int | None = None
    came_from_one: int | None = None
    closed: bool = False
    elements: dict[int, _Element] = field(default_factory=dict)
    blanks_read: Array = field(default_factory=lambda: np.zeros(0, np.bool_))
    gradients: dict[str, TensorArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.size < 0:
            raise InvalidArgumentError("Size should be >= 0")
        _check_size(self.size)

    @property
    def stored(self) -> int:
        """The number of elements that a kernel traverses; unwritten ones are free."""
        return len(self.elements)

    @property
    def element_bytes(self) -> int:
        """The bytes of the first element that was written, if it still exists."""
        array = next((element.array for element in self.elements.values()), None)
        return 0 if array is None else int(array.nbytes)

    def check_open(self) -> None:
        """Check that the array is not closed.

        Raises:
            InvalidArgumentError: the array is closed.
        """
        if self.closed:
            raise InvalidArgumentError(f"TensorArray {self.name} has already been closed")

    @property
    def joined(self) -> int:
        """The number of elements that are joined into one value; in a gradient array those that came from one."""
        return self.size if self.came_from_one is None else self.came_from_one

    def close(self) -> None:
        """Close the array and drop its elements."""
        self.closed = True
        self.elements.clear()

    # One element

    def write(self, index: int, value: Array) -> None:
        """Set an element.

        Raises:
            InvalidArgumentError: the index is out of range, the shape is incompatible, or the element was read or written
                before.
        """
        self.check_open()
        if index < 0 or (index >= self.size and not self.dynamic):
            raise self._problem(
                f"Tried to write to index {index} but array is not resizeable and size is: {self.size}"
            )
        where = f"to TensorArray index {index} because"
        if not shapes.compatible(self.dims, value.shape):
            raise self._problem(
                f"Could not write {where} the value shape is {shown(value.shape)} which is incompatible with the "
                f"TensorArray's inferred element shape: {shown(self.dims)} (consider setting infer_shape=False)"
            )
        if index >= self.size:
            _check_size(index + 1)
            self.size = index + 1
        element = self.elements.setdefault(index, _Element())
        if element.is_read or self._blank_was_read(index):
            raise self._problem(f"Could not write {where} it has already been read")
        if element.is_written and not self.aggregates:
            raise self._problem(f"Could not write {where} it has already been written to")
        self._check_addition(element, value, where)
        element.array = kept(value) if element.array is None else added(element.array, value)
        element.dims, element.is_written = value.shape, True
        if self.identical and not shapes.is_fully_defined(self.dims):
            self.dims = value.shape

    def _check_addition(self, element: _Element, value: Array, where: str) -> None:
        known = element.dims
        if known is not None and known != value.shape:
            raise self._problem(
                f"Could not aggregate {where} the existing shape is {shown(known)} but the new input shape is "
                f"{shown(value.shape)}"
            )

    def read(self, index: int) -> Array:
        """Return an element; zeros if it was not written and its shape is known.

        Raises:
            InvalidArgumentError: the index is out of range, or the element cannot be read.
        """
        self.check_open()
        if not 0 <= index < self.size:
            raise InvalidArgumentError(f"Tried to read from index {index} but array size is: {self.size}")
        element = self.elements.get(index)
        if element is None:
            return zeros(self.dtype, self._read_blanks(np.array([index])))
        if element.is_cleared:
            raise self._cleared(index)
        if element.array is None:
            dims = self.dims if element.dims is None else element.dims
            element.array = zeros(self.dtype, self._dims_of_zeros(index, dims))
        found = element.array
        element.is_read = True
        if self.clears:
            element.array, element.is_cleared = None, True
        return found

    def _blank_was_read(self, index: int) -> bool:
        return index < len(self.blanks_read) and bool(self.blanks_read[index])

    def _read_blanks(self, indices: Array) -> tuple[int, ...]:
        """Record that unwritten elements were read; return the shape of their zeros."""
        dims = self._dims_of_zeros(int(indices[0]), self.dims)
        if len(self.blanks_read) < self.size:
            self.blanks_read = np.concatenate(
                [self.blanks_read, np.zeros(self.size - len(self.blanks_read), np.bool_)]
            )
        before = self.blanks_read[indices]
        count = np.count_nonzero(self.blanks_read)
        self.blanks_read[indices] = True
        if self.clears and np.count_nonzero(self.blanks_read) - count < len(indices):
            numbers, counts = np.unique(np.concatenate([indices, indices[before]]), return_counts=True)
            raise self._cleared(int(numbers[np.argmax(counts)]))
        return dims

    def _cleared(self, index: int) -> InvalidArgumentError:
        return self._problem(
            f"Could not read index {index} twice because it was cleared after a previous read (perhaps try setting "
            "clear_after_read = false?)"
        )

    def _dims_of_zeros(self, index: int, dims: Dims) -> tuple[int, ...]:
        if not shapes.is_fully_defined(dims):
            raise self._problem(
                f"Could not read from TensorArray index {index}. Furthermore, the element shape is not fully defined: "
                f"{shown(dims)}. It is possible you are working with a resizeable TensorArray and stop_gradients is not "
                "allowing the gradients to be written. If you set the full element_shape property on the forward "
                "TensorArray, the proper all-zeros tensor will be returned instead of incurring this error"
            )
        if self.dtype.numpy.hasobject:
            raise InvalidArgumentError(f"TensorArray {self.name}: dtype {self.dtype.name} has no zeros")
        return tuple(int(dim or 0) for dim in dims or ())

    # Many elements

    def gather(self, indices: Array, dims: Dims) -> Any:
        """Return the elements at these indices, stacked.

        `dims` is the shape that the reader expects, which is merged into `self.dims`.
        """
        self.dims = merged(self.dims, dims)
        if not indices.size:
            self.check_open()
            return self._empty_result(dims, "element shape", "packing")
        read = self._read_many(indices)
        first = read.dims_of(0)
        if not shapes.compatible(dims, first):
            raise InvalidArgumentError(
                f"TensorArray was passed element_shape {shown(dims)} which does not match the Tensor at index 0: "
                f"{shown(first)}"
            )
        read.check_alike(0, "shape")
        are_arrays = all(isinstance(element, np.ndarray) for element in read.found)
        if are_arrays and len(read.found) < len(read.places):  # maybe millions of times the same
            whole = zeros(self.dtype, (len(indices), *first))
            whole[read.places] = np.stack(read.found)[read.which]
            return whole
        rows = [(int(place), read.found[k]) for place, k in zip(read.places, read.which, strict=True)]
        return stacked(self.dtype, len(indices), first, rows)

    def concat(self, inner: Dims) -> tuple[Array, Array]:
        """Return all elements concatenated, and the length of each; `inner` is the expected shape but for dimension 0."""
        if self.joined == 0:
            self.check_open()
            empty = self._empty_result(inner, "element_shape_except0", "concatenating")
            return empty, np.zeros(0, np.int64)
        read = self._read_many(np.arange(self.joined))
        scalar = read.first_place_where(lambda dims: not dims)
        if scalar is not None:
            raise InvalidArgumentError(
                f"Concat saw a scalar shape at index {scalar} but requires at least vectors. Did you mean to call pack?"
            )
        first = read.dims_of(0)[1:]
        if not shapes.compatible(inner, first):
            raise InvalidArgumentError(
                f"TensorArray was passed element_shape_except0 {shown(inner)} but index 0 has (excepting dimension 0) "
                f"shape: {shown(first)} which does not match"
            )
        read.check_alike(1, "(excepting dimension 0) shape")
        lengths = np.full(self.joined, read.blank[0] if read.blank else 0, np.int64)
        lengths[read.places] = [len(element) for element in read.found]
        ends = np.cumsum(lengths)
        whole = zeros(self.dtype, (int(ends[-1]), *first))
        for place, element in zip(read.places, read.found, strict=True):
            whole[ends[place] - len(element) : ends[place]] = element
        return whole, lengths

    def _read_many(self, indices: Array) -> _Read:
        self.check_open()
        touched = np.isin(indices, np.fromiter(self.elements, np.int64, len(self.elements)))
        touched |= (indices < 0) | (indices >= self.size)  # which `read` rejects
        numbers, which = np.unique(indices[touched], return_inverse=True)
        found = [self.read(int(index)) for index in numbers]
        if self.clears and len(numbers) < len(which):
            raise self._cleared(int(numbers[np.argmax(np.bincount(which))]))
        blanks = np.flatnonzero(~touched)
        dims = self._read_blanks(indices[blanks]) if blanks.size else ()
        return _Read(found, which, np.flatnonzero(touched), blanks, dims)

    def _empty_result(self, dims: Dims, what: str, doing: str) -> Array:
        if not shapes.is_fully_defined(dims):
            raise UnimplementedError(
                f"TensorArray has size zero, but {what} {shown(dims)} is not fully defined. Currently only static shapes "
                f"are supported when {doing} zero-size TensorArrays"
            )
        return zeros(self.dtype, (0, *(dims or ())))

    def scatter(self, indices: Sequence[int], rows: Array) -> None:
        """Set the element at `indices[k]` to row k of a tensor."""
        self.check_open()
        if rows.ndim == 0:
            raise InvalidArgumentError(
                "Input value for unpack must be at least a vector but received shape: []"
            )
        if len(indices) != len(rows):
            raise InvalidArgumentError(
                f"Expected len(indices) == values.shape[0], but saw: {len(indices)} vs. {len(rows)}"
            )
        if indices and max(indices) >= self.size and not self.dynamic:
            raise InvalidArgumentError(
                f"Max scatter index must be < array size ({max(indices)} vs. {self.size})"
            )
        rows = kept(rows)
        for place, index in enumerate(indices):
            self.write(index, rows[place, ...])

    def unpack(self, rows: Array) -> None:
        """Set all elements to the rows of a tensor."""
        if rows.ndim and len(rows) != self.size and not self.dynamic:
            raise InvalidArgumentError(
                f"TensorArray must have size {len(rows)}, the first dimension of the value, but has size {self.size}"
            )
        self.scatter(range(len(rows)) if rows.ndim else (), rows)
        self.split_into = len(rows)

    def split(self, rows: Array, lengths: Sequence[int]) -> None:
        """Set all elements to parts of a tensor, of these lengths."""
        self.check_open()
        if rows.ndim == 0:
            raise InvalidArgumentError("Expected value to be at least a vector, but received shape: []")
        if min(lengths, default=0) < 0:
            raise InvalidArgumentError(f"Expected lengths to be >= 0, got {min(lengths)}")
        if sum(lengths) != len(rows):
            raise InvalidArgumentError(
                f"Expected sum of lengths to be equal to values.shape[0], but sum of lengths is {sum(lengths)} and "
                f"value's shape is: {shown(rows.shape)}"
            )
        if self.dynamic and self.size < len(lengths):
            self.size = len(lengths)
        if self.size != len(lengths):
            raise InvalidArgumentError(
                f"TensorArray's size is not equal to the size of lengths ({self.size} vs. {len(lengths)}), and the "
                "TensorArray is not marked as dynamically resizeable"
            )
        self.split_into = len(lengths)
        rows, start = kept(rows), 0
        for index, length in enumerate(lengths):
            self.write(index, rows[start : start + length])
            start += length

    # Gradients

    def gradient(self, source: str, prefix: Sequence[int] = ()) -> TensorArray:
        """Return the gradient array for a `source`, one each; from now on this array cannot grow.

        Args:
            prefix: leading dimensions of each gradient, before those of its element.
        """
        self.check_open()
        self.dynamic = False
        found = self.gradients.get(source)
        if found is None:
            found = TensorArray(
                f"{self.name}@{source}",
                self.dtype,
                self.size,
                shapes.concatenate(tuple(prefix), self.dims),
                identical=self.identical,
                aggregates=True,
                came_from_one=self.split_into,
            )
            for index, element in self.elements.items():
                if element.is_written:
                    found.elements[index] = _Element(dims=(*prefix, *(element.dims or ())))
            self.gradients[source] = found
        return found

    # Errors

    def check_dtype(self, dtype: DType, doing: str) -> None:
        """Check the dtype of the elements.

        Raises:
            InvalidArgumentError: the dtype differs.
        """
        if dtype is not self.dtype:
            raise InvalidArgumentError(
                f"TensorArray dtype is {self.dtype.name} but Op {doing} dtype {dtype.name}"
            )

    def _problem(self, what: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"TensorArray {self.name}: {what}")


def _check_size(size: int) -> None:
    if size > _LONGEST:
        raise ResourceExhaustedError(f"OOM when allocating a TensorArray of {size} tensors")
