"""TensorList: an immutable list of tensors of one dtype, the value of TensorFlow's TensorList ops.

A list is passed as a scalar variant tensor that holds a `TensorList` (`boxed`, `list_in`). Every method returns a new list
that shares the elements; pushing n elements takes n steps.

An element is None until it is set, and then an array that is not modified: a view of memory that may be reused is copied
first. On a device with memory of its own it is a buffer (see `devices.list_kernels`). An element that is not set reads as
zeros, if list, reader and other elements determine its shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aioexec import dtypes, shapes
from aioexec.data_classes import dataclass
from aioexec.dtypes import DType
from aioexec.errors import InvalidArgumentError, ResourceExhaustedError
from aioexec.resources.list_elements import Stacked, Sum
from aioexec.resources.memory import owns_memory
from aioexec.resources.persistent_vector import EMPTY, PersistentVector, vector_of
from aioexec.shapes import Dims, shown

Array = np.ndarray[Any, Any]
_LARGEST = 1 << 40  # bytes; beyond the memory of any supported machine
_LONGEST = 1 << 26  # elements
NO_LIMIT = -1


@dataclass(frozen=True, slots=True, eq=False)
class TensorList:
    """An immutable list of tensors.

    Attributes:
        dtype: dtype of the elements.
        dims: static shape of the elements.
        items: the elements; None for those not set.
        limit: maximum number of elements after PushBack; NO_LIMIT for any.
    """

    dtype: DType
    dims: Dims
    items: PersistentVector = EMPTY
    limit: int = NO_LIMIT

    @property
    def length(self) -> int:
        return self.items.length

    @property
    def stored(self) -> int:
        """The number of elements that a kernel traverses."""
        return self.items.length

    @property
    def element_bytes(self) -> int:
        """The bytes of the first element that is set."""
        return next((int(element.nbytes) for _, element in self.items.present()), 0)

    def _with(self, items: PersistentVector) -> TensorList:
        return TensorList(self.dtype, self.dims, items, self.limit)

    def check_dtype(self, dtype: DType) -> None:
        """Check the dtype of the elements.

        Raises:
            InvalidArgumentError: the dtype differs.
        """
        if dtype is not self.dtype:
            raise InvalidArgumentError(
                f"Invalid data types; op elements {dtype.name} but list elements {self.dtype.name}"
            )

    def dims_with(self, dims: Dims) -> Dims:
        """Merge the static shape of elements with the shape that a reader expects.

        Raises:
            InvalidArgumentError: the shapes are incompatible.
        """
        return merged(dims, self.dims)

    # One element

    def pushed(self, element: Array, place: str = "") -> TensorList:
        """Return the list with an element appended."""
        if self.limit != NO_LIMIT and self.length >= self.limit:
            raise InvalidArgumentError(
                f"Tried to push item into a full list{place} list size: {self.length} max_num_elements: {self.limit}"
            )
        if not shapes.compatible(self.dims, element.shape):
            raise InvalidArgumentError(
                f"Tried to append a tensor with incompatible shape to a list{place}. Op element shape: "
                f"{shown(element.shape)} list shape: {shown(self.dims)}"
            )
        return self._with(self.items.appended(kept(element)))

    def popped(self, dims: Callable[[], Dims]) -> tuple[TensorList, Array]:
        """Return the list without its last element, and the element; `dims()` is the shape that the reader expects."""
        if self.length == 0:
            raise InvalidArgumentError("Trying to pop from an empty list")
        element = self.items.get(self.length - 1)
        if element is None:
            known = self.dims_with(dims())
            if not shapes.is_fully_defined(known):
                raise InvalidArgumentError(
                    f"Trying to read an uninitialized tensor but element_shape is not fully defined: {shown(known)}"
                )
            element = zeros(self.dtype, known or ())
        return self._with(self.items.resized(self.length - 1)), element

    def get(self, index: int, dims: Dims) -> Array:
        """Return the element at `index`; `dims` is the shape that the reader expects."""
        if not 0 <= index < self.length:
            raise InvalidArgumentError(
                f"Trying to access element {index} in a list with {self.length} elements"
            )
        element = self.items.get(index)
        if element is None:
            known = self._known(dims, self._elements())
            if not shapes.is_fully_defined(known):
                raise InvalidArgumentError(
                    f"Trying to read an uninitialized tensor but element_shape is not fully defined: {shown(known)} "
                    "and no list element is set"
                )
            element = zeros(self.dtype, known or ())
        found: Array = element
        return found

    def replaced(self, index: int, element: Array, resizes: bool = False) -> TensorList:
        """Return the list with another element at `index`, extended if necessary and `resizes`."""
        if resizes and index >= self.length:
            return self.resized(index + 1).replaced(index, element)
        if not 0 <= index < self.length:
            raise InvalidArgumentError(
                f"Trying to modify element {index} in a list with {self.length} elements"
            )
        if not shapes.compatible(self.dims, element.shape):
            raise InvalidArgumentError(
                "Tried to set a tensor with incompatible shape at a list index. Item element shape: "
                f"{shown(element.shape)} list shape: {shown(self.dims)}"
            )
        return self._with(self.items.replaced(index, kept(element)))

    def resized(self, length: int) -> TensorList:
        """Return the list truncated, or extended by elements that are not set."""
        if length < 0:
            raise InvalidArgumentError(f"TensorListSlice expects size to be non-negative. Got: {length}")
        return self._with(_resized(self.items, length))

    # Many elements

    def _elements(self) -> Iterable[Array]:
        return (element for _, element in self.items.present())

    def _known(self, dims: Dims, elements: Iterable[Array]) -> Dims:
        """Return the shape of elements that are not set, merged with the shapes of all others."""
        known = self.dims_with(dims)
        if not shapes.is_fully_defined(known):
            for element in elements:
                if known != element.shape:
                    known = merged(known, element.shape)
        return known

    def stacked(self, dims: Dims, count: int = -1) -> Any:
        """Return all elements stacked; there must be `count` of them, unless that is negative."""
        if count >= 0 and count != self.length:
            raise InvalidArgumentError(
                f"Operation expected a list with {count} elements but got a list with {self.length} elements"
            )
        what = "stack list which only contains uninitialized tensors and has a"
        if self.length == 0:
            what = "stack elements of an empty list with"
        return self._joined(dims, self.length, list(self.items.present()), what)

    def gathered(self, indices: Sequence[int], dims: Dims) -> Any:
        """Return the elements at these indices, stacked."""
        for index in indices:
            if not 0 <= index < self.length:
                raise InvalidArgumentError(
                    f"Index {index} out of range; list only has {self.length} elements"
                )
        found = [(place, self.items.get(index)) for place, index in enumerate(indices)]
        rows = [(place, element) for place, element in found if element is not None]
        what = f"gather {'uninitialized tensors' if indices else '0-elements'} from a list with"
        return self._joined(dims, len(indices), rows, what)

    def _joined(self, dims: Dims, count: int, rows: Sequence[tuple[int, Array]], what: str) -> Any:
        known = self._known(dims, [element for _, element in rows])
        if not shapes.is_fully_defined(known):
            raise InvalidArgumentError(f"Tried to {what} non-fully-defined element_shape: {shown(known)}")
        for place, element in rows:
            if element.shape != known:
                raise InvalidArgumentError(
                    f"Tried to read a tensor with incompatible shape: expected {shown(known)}, got "
                    f"{shown(element.shape)} at list index {place}"
                )
        return stacked(self.dtype, count, known or (), rows)

    def concatenated(self, inner: Dims, first: int | None, leading: Array) -> tuple[Array, Array]:
        """Return the elements concatenated along their first dimension, and the length of each.

        Args:
            inner: what is known of the other dimensions.
            first: the first one of each element, if they all have one length.
            leading: where `first` is None, lengths for elements that are not set, at their places.
        """
        present = list(self.items.present())
        for index, element in present:
            _check_part(index, element, first)
            inner = merged(inner, element.shape[1:])
        if len(present) == 0 and not shapes.is_fully_defined(inner):
            raise InvalidArgumentError(
                f"{self._undefined_shape_message} fully defined. element_shape: {shown(inner)}"
            )
        lengths = self._lengths(present, first, leading)
        whole = zeros(self.dtype, (int(lengths.sum()), *(inner or ())))
        ends = lengths.cumsum()
        for index, element in present:
            whole[ends[index] - lengths[index] : ends[index]] = element
        return whole, lengths

    @property
    def _undefined_shape_message(self) -> str:
        if self.length == 0:
            return "All except the first dimension must be fully defined when concating an empty tensor list: not"
        return (
            "Trying to concat list with only uninitialized tensors but element_shape_except_first_dim is not"
        )

    def _lengths(self, present: Sequence[tuple[int, Array]], first: int | None, leading: Array) -> Array:
        lengths = np.full(self.length, -1 if first is None else first, np.int64)
        if first is None:
            lengths[: len(leading)] = leading[: self.length]
        for index, element in present:
            lengths[index] = len(element)
        unknown = np.flatnonzero(lengths < 0)
        if len(unknown):
            raise InvalidArgumentError(
                f"List contains uninitialized tensor at index {unknown[0]} but leading_dims has only {len(leading)} elements"
            )
        return lengths

    def scattered(self, rows: Array, indices: Sequence[int]) -> TensorList:
        """Return the list with the elements at `indices` set to the rows of a tensor, extended if necessary."""
        items = self.items
        if indices and max(indices) >= items.length:
            items = _resized(items, max(indices) + 1)
        rows = kept(rows)
        for place, index in enumerate(indices):
            items = items.replaced(index, rows[place, ...])
        return self._with(items)

    def zeros_like(self) -> TensorList:
        """Return a list of zeros of the same length and shapes."""
        items = self.items
        for index, element in list(items.present()):
            items = items.replaced(index, zeros_like(element))
        return self._with(items)

    def plus(self, other: TensorList) -> TensorList:
        """Return the element-wise sum of two lists."""
        self._check_addition(other)
        items = self.items
        for index, element in other.items.present():
            present = items.get(index)
            if present is not None:
                if present.shape != element.shape:
                    raise InvalidArgumentError(
                        "Trying to add two tensors with incompatible element shapes. "
                        f"One is {shown(present.shape)} and the other is {shown(element.shape)}"
                    )
                element = added(present, element)
            items = items.replaced(index, element)
        return TensorList(self.dtype, shapes.merge(self.dims, other.dims), items, self.limit)

    def _check_addition(self, other: TensorList) -> None:
        for what, one, two, fits in (
            ("different dtypes", self.dtype.name, other.dtype.name, self.dtype is other.dtype),
            ("different lengths", self.length, other.length, self.length == other.length),
            (
                "incompatible element shapes",
                shown(self.dims),
                shown(other.dims),
                shapes.compatible(self.dims, other.dims),
            ),
        ):
            if not fits:
                raise InvalidArgumentError(
                    f"Trying to add two lists of tensors with {what}. One is {one} and the other is {two}"
                )

    def followed_by(self, other: TensorList) -> TensorList:
        """Return the concatenation of two lists."""
        items = self.items.resized(self.length + other.length)
        for index, element in other.items.present():
            items = items.replaced(self.length + index, element)
        return self._with(items)


def _check_part(index: int, element: Array, first: int | None) -> None:
    if element.ndim == 0:
        raise InvalidArgumentError(
            f"Concat saw a scalar shape at index {index} but requires at least vectors"
        )
    if first is not None and len(element) != first:
        raise InvalidArgumentError(
            "First entry of element_shape input does not match the first dim of list element at index: "
            f"{index} Expected: {first} Actual: {len(element)}"
        )


# Making lists


def list_of(dtype: DType, dims: Dims, elements: Iterable[Array]) -> TensorList:
    """Return a list of these elements, which are not modified."""
    return TensorList(dtype, dims, vector_of(elements))


def reserved(dtype: DType, dims: Dims, count: int) -> TensorList:
    """Return a list of elements that are not set."""
    return TensorList(dtype, dims, _resized(EMPTY, count))


def _resized(items: PersistentVector, length: int) -> PersistentVector:
    if length > _LONGEST:
        raise ResourceExhaustedError(f"OOM when allocating a list of {length} tensors")
    return items.resized(length)


def element_dims(value: Array) -> Dims:
    """Decode an operand `element_shape`: a vector, with -1 for unknown dimensions, or the scalar -1 for an unknown shape.

    Raises:
        InvalidArgumentError: the operand has another form.
    """
    if value.ndim == 0:
        if value != -1:
            raise InvalidArgumentError(
                "The only valid scalar shape tensor is the fully unknown shape specified as -1"
            )
        return None
    if value.ndim > 1:
        raise InvalidArgumentError(f"Shape must be at most rank 1 but is rank {value.ndim}")
    sizes = value.tolist()
    for size in sizes:
        if size < -1:
            raise InvalidArgumentError(f"Dimension {size} must be >= -1")
    return tuple(None if size < 0 else size for size in sizes)


def encoded_shape(dims: Dims, dtype: np.dtype[Any]) -> Array:
    """Encode a shape as an operand `element_shape`."""
    return np.array(-1 if dims is None else [-1 if size is None else size for size in dims], dtype)


# Variant tensors


def boxed(content: Any) -> Array:
    """Return a scalar variant tensor that holds a value."""
    box = np.empty((), np.object_)
    box[()] = content
    return box


def list_in(variant: Any) -> TensorList:
    """Return the list in a scalar variant tensor.

    Raises:
        InvalidArgumentError: the tensor holds something else.
    """
    if isinstance(variant, np.ndarray):
        if variant.ndim:
            raise InvalidArgumentError(f"Input list must be a scalar. Saw: {shown(variant.shape)}")
        variant = variant.item()
    if not isinstance(variant, TensorList):
        raise InvalidArgumentError(f"Input handle is not a list. Saw: {type(variant).__name__!r}")
    return variant


@runtime_checkable
class Summable(Protocol):
    """A value of a variant tensor that has zeros and sums: a list, an optional."""

    def zeros_like(self) -> Any: ...
    def plus(self, other: Any, /) -> Any: ...


def _summable(content: Any) -> Summable:
    return content if isinstance(content, Summable) else list_in(content)


def zeros_like_variant(variant: Array) -> Array:
    """Return zeros for each value in a variant tensor.

    Raises:
        InvalidArgumentError: a value has no zeros.
    """
    result = np.empty(variant.shape, np.object_)
    for place in np.ndindex(variant.shape):
        result[place] = _summable(variant[place]).zeros_like()
    return result


def add_variants(one: Array, other: Array) -> Array:
    """Return the sums of the values in two variant tensors.

    Raises:
        InvalidArgumentError: the values are incompatible or have no sums.
    """
    result = np.empty(one.shape, np.object_)
    for place in np.ndindex(one.shape):
        result[place] = _summable(one[place]).plus(_summable(other[place]))
    return result


# Elements


def kept(array: Any) -> Any:
    """Return an array that may be kept: itself, or a copy if its memory has another owner."""
    return array if not isinstance(array, np.ndarray) or owns_memory(array) else array.copy()


def stacked(dtype: DType, count: int, dims: Sequence[Any], rows: Sequence[tuple[int, Any]]) -> Any:
    """Return a tensor of rows: those given at their places, and zeros elsewhere; see `Stacked`."""
    if not all(isinstance(row, np.ndarray) for _, row in rows):
        return Stacked(dtype.numpy, (count, *dims), rows)
    whole = zeros(dtype, (count, *dims))
    for place, row in rows:
        whole[place] = row
    return whole


def zeros(dtype: DType, dims: Sequence[Any]) -> Array:
    """Return zeros, empty strings or empty variants.

    Raises:
        ResourceExhaustedError: there is not enough memory.
    """
    if math.prod(dims) * max(dtype.size, 8) > _LARGEST:
        raise ResourceExhaustedError(f"OOM when allocating tensor with shape {shown(tuple(dims))}")
    return np.full(dims, b"", object) if dtype is dtypes.string else np.zeros(dims, dtype.numpy)


def zeros_like(element: Array) -> Array:
    """Return zeros of the shape and dtype of an element."""
    if element.dtype != object:
        return np.zeros(element.shape, element.dtype)
    holds_variants = element.size and isinstance(element.item(0), Summable)
    return zeros_like_variant(element) if holds_variants else np.full(element.shape, b"", object)


def added(one: Any, other: Any) -> Any:
    """Return the sum of two elements; see `Sum`."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return Sum(one, other)
    return add_variants(one, other) if one.dtype == object else np.asarray(one + other, one.dtype)


def merged(a: Dims, b: Dims) -> Dims:
    if not shapes.compatible(a, b):
        what = "shapes" if a is not None and b is not None and len(a) == len(b) else "ranks"
        raise InvalidArgumentError(
            f"PartialTensorShape: Incompatible {what} during merge: {shown(a)} vs. {shown(b)}"
        )
    return shapes.merge(a, b)
