"""Static shapes in two forms: plain tuples for internal code, TensorFlow's classes for users.

`Dims` is a tuple with None for an unknown dimension, or None for an unknown rank. Shape rules of ops, planning and kernels use
`Dims` and the functions of the first half. `TensorShape` and `Dimension` behave as in TensorFlow 1.x; `TensorShape(dims)` and
`.plain` convert between the two.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias, cast, overload

from aioexec.errors import GraphTypeError, GraphValueError

Dims: TypeAlias = tuple[int | None, ...] | None
HIGHEST_RANK: Final = 254  # TensorFlow's
_MOST_ENTRIES: Final = 2**63 - 1


def describe(dims: Dims) -> str:
    """Format a shape as TensorFlow does: `(2, ?)`, `<unknown>`."""
    if dims is None:
        return "<unknown>"
    inner = ", ".join("?" if size is None else str(size) for size in dims)
    return f"({inner},)" if len(dims) == 1 else f"({inner})"


def shown(dims: Dims) -> str:
    """Format a shape as TensorFlow's messages at run time do: `[2,?]`, `<unknown>`."""
    return (
        "<unknown>" if dims is None else f"[{','.join('?' if size is None else str(size) for size in dims)}]"
    )


def is_too_large(dims: Dims) -> bool:
    """Whether a shape has more elements than 63 bits can count; an unknown dimension counts as one."""
    entries = 1
    for size in dims or ():
        entries *= 1 if size is None else size
        if entries > _MOST_ENTRIES:
            return True
    return False


def compatible(a: Dims, b: Dims) -> bool:
    """True if some fully defined shape matches both."""
    if a is None or b is None:
        return True
    return len(a) == len(b) and all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))


def merge(a: Dims, b: Dims) -> Dims:
    """Return the shape with the known dimensions of both; GraphValueError if they are incompatible."""
    if a is None or b is None:
        return b if a is None else a
    if not compatible(a, b):
        raise GraphValueError(f"Shapes {describe(a)} and {describe(b)} are not compatible")
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))


def common(a: Dims, b: Dims) -> Dims:
    """Return the most specific shape that covers both: equal dimensions are kept, the others are unknown."""
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


def broadcast(a: Dims, b: Dims) -> Dims:
    """Return the shape of an elementwise operation on both.

    An unknown dimension beside one greater than 1 becomes that one: at run time it is equal or 1.
    """
    if a is None or b is None:
        return None
    rank = max(len(a), len(b))
    left = (1,) * (rank - len(a)) + a
    right = (1,) * (rank - len(b)) + b
    sizes: list[int | None] = []
    for x, y in zip(left, right, strict=True):
        if x == y or y == 1:
            sizes.append(x)
        elif x == 1 or x is None:
            sizes.append(y)
        elif y is None:
            sizes.append(x)
        else:
            raise GraphValueError(f"Shapes {describe(a)} and {describe(b)} do not broadcast: {x} beside {y}")
    return tuple(sizes)


def is_fully_defined(dims: Dims) -> bool:
    """True if rank and every dimension are known."""
    return dims is not None and None not in dims


def num_elements(dims: Dims) -> int | None:
    """Return the number of elements, None if the shape is not fully defined."""
    if dims is None or None in dims:
        return None
    return math.prod(cast("tuple[int, ...]", dims))


def concatenate(a: Dims, b: Dims) -> Dims:
    """Return the dimensions of `a` followed by those of `b`."""
    return None if a is None or b is None else a + b


def with_rank(dims: Dims, rank: int) -> Dims:
    """Return `dims` merged with the rank."""
    if dims is not None and len(dims) != rank:
        raise GraphValueError(f"Shape {describe(dims)} must have rank {rank}, as {describe(of_rank(rank))}")
    return of_rank(rank) if dims is None else dims


def of_rank(rank: int | None) -> Dims:
    """Return a shape of this rank with unknown dimensions; `rank` None is an unknown rank.

    Raises:
        GraphValueError: the rank is too large.
    """
    if rank is None:
        return None
    check_rank(rank)
    return (None,) * rank


def check_rank(rank: int) -> None:
    """Raise GraphValueError if the rank is too large."""
    if rank > HIGHEST_RANK:
        raise GraphValueError(f"a shape has at most {HIGHEST_RANK} dimensions, got {rank}")


def with_rank_at_least(dims: Dims, rank: int) -> Dims:
    """Return `dims` after checking that it may have `rank` dimensions or more."""
    if dims is not None and len(dims) < rank:
        raise GraphValueError(
            f"Shape {describe(dims)} must have rank at least {rank}, as {describe(of_rank(rank))}"
        )
    return dims


def with_rank_at_most(dims: Dims, rank: int) -> Dims:
    """Return `dims` after checking that it may have `rank` dimensions or fewer."""
    if dims is not None and len(dims) > rank:
        most = describe((None,) * rank)
        raise GraphValueError(f"Shape {describe(dims)} must have rank at most {rank}, as {most}")
    return dims


def as_size(value: Any) -> int | None:
    """Return one dimension of a `Dims` from an int, Dimension, None or anything with `__index__`."""
    if value is None or type(value) is int:
        size = value
    elif isinstance(value, Dimension):
        return value.value
    else:
        try:
            size = operator.index(value)
        except TypeError:
            raise GraphTypeError(f"Expected an integer or None as dimension, got {value!r}") from None
    if size is not None and size < 0:
        raise GraphValueError(f"Dimension {size} must be >= 0")
    return size


def as_dims(value: Any) -> Dims:
    """Return the `Dims` of a TensorShape, int, Dimension, None (unknown rank) or iterable of dimensions."""
    if isinstance(value, TensorShape):
        return value.plain
    if value is None:
        return None
    if isinstance(value, (int, Dimension)):
        return (as_size(value),)
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise GraphTypeError(f"Expected an integer, None or a sequence of them as shape, got {value!r}")
    return tuple(map(as_size, value))


_Arithmetic: TypeAlias = Callable[["Dimension", Any], "Dimension"]
_Comparison: TypeAlias = Callable[["Dimension", Any], "bool | None"]


def _arithmetic(compute: Callable[[int, int], int], *, swapped: bool = False) -> _Arithmetic:
    def method(self: Dimension, other: Any) -> Dimension:
        try:
            a, b = self.value, as_size(other)
        except GraphTypeError:
            return NotImplemented  # type: ignore[no-any-return]
        if a is None or b is None:
            return Dimension(None)
        return Dimension(compute(b, a) if swapped else compute(a, b))

    return method


def _comparison(compare: Callable[[int, int], bool]) -> _Comparison:
    def method(self: Dimension, other: Any) -> bool | None:
        try:
            a, b = self.value, as_size(other)
        except GraphTypeError:
            return NotImplemented  # type: ignore[no-any-return]
        return None if a is None or b is None else compare(a, b)

    return method


class Dimension:
    """One dimension of a TensorShape. If one is unknown, comparisons return None, and sums `Dimension(None)`."""

    __slots__ = ("_value",)
    __hash__ = None  # type: ignore[assignment]  # equality is not an equivalence: unknown dimensions

    def __init__(self, value: Any) -> None:
        self._value = as_size(value)

    @property
    def value(self) -> int | None:
        """The size, None if unknown."""
        return self._value

    def __repr__(self) -> str:
        return f"Dimension({self._value})"

    def __str__(self) -> str:
        return "?" if self._value is None else str(self._value)

    def __index__(self) -> int:
        if self._value is None:
            raise GraphTypeError("Expected a known dimension, got Dimension(None)")
        return self._value

    __int__ = __index__

    __eq__ = _comparison(operator.eq)  # type: ignore[assignment]
    __ne__ = _comparison(operator.ne)  # type: ignore[assignment]
    __lt__ = _comparison(operator.lt)
    __le__ = _comparison(operator.le)
    __gt__ = _comparison(operator.gt)
    __ge__ = _comparison(operator.ge)

    __add__ = _arithmetic(operator.add)
    __radd__ = _arithmetic(operator.add)
    __sub__ = _arithmetic(operator.sub)
    __rsub__ = _arithmetic(operator.sub, swapped=True)
    __mul__ = _arithmetic(operator.mul)
    __rmul__ = _arithmetic(operator.mul)
    __floordiv__ = _arithmetic(operator.floordiv)
    __rfloordiv__ = _arithmetic(operator.floordiv, swapped=True)
    __mod__ = _arithmetic(operator.mod)
    __rmod__ = _arithmetic(operator.mod, swapped=True)

    def __truediv__(self, other: object) -> Dimension:
        raise GraphTypeError(f"Expected // to divide a dimension, got {self!r} / {other!r}")

    def __rtruediv__(self, other: object) -> Dimension:
        raise GraphTypeError(f"Expected // to divide by a dimension, got {other!r} / {self!r}")

    def is_compatible_with(self, other: Any) -> bool:
        """True if both may be the same size."""
        return compatible((self._value,), (as_size(other),))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise GraphValueError unless both may be the same size."""
        self.merge_with(other)

    def merge_with(self, other: Any) -> Dimension:
        """Return the known one of two equal dimensions."""
        size = as_size(other)
        if not compatible((self._value,), (size,)):
            raise GraphValueError(f"Dimensions {self} and {size} are not compatible")
        return Dimension(size if self._value is None else self._value)


class TensorShape:
    """A shape of known or unknown rank: `shape[i]` is a Dimension, `shape[i:j]` a TensorShape."""

    __slots__ = ("_dims",)

    def __init__(self, dims: Any = None) -> None:
        self._dims = as_dims(dims)

    @property
    def plain(self) -> Dims:
        """The same as `Dims`."""
        return self._dims

    @property
    def dims(self) -> list[Dimension] | None:
        """The dimensions, None if the rank is unknown."""
        return None if self._dims is None else [Dimension(size) for size in self._dims]

    @property
    def rank(self) -> int | None:
        """The number of dimensions, None if unknown."""
        return None if self._dims is None else len(self._dims)

    @property
    def ndims(self) -> int | None:
        """The same as `rank`."""
        return self.rank

    def _known(self, purpose: str) -> tuple[int | None, ...]:
        if self._dims is None:
            raise GraphValueError(f"Expected a shape of known rank to {purpose}, got {self}")
        return self._dims

    def as_list(self) -> list[int | None]:
        """Return the sizes, None for unknown ones; GraphValueError if the rank is unknown."""
        return list(self._known("list it"))

    def num_elements(self) -> int | None:
        """Return the number of elements, None unless fully defined."""
        return num_elements(self._dims)

    def is_fully_defined(self) -> bool:
        """True if rank and every dimension are known."""
        return is_fully_defined(self._dims)

    def is_compatible_with(self, other: Any) -> bool:
        """True if some fully defined shape matches both."""
        return compatible(self._dims, as_dims(other))

    def merge_with(self, other: Any) -> TensorShape:
        """Return what is known when both describe the same value."""
        return TensorShape(merge(self._dims, as_dims(other)))

    def concatenate(self, other: Any) -> TensorShape:
        """Return the dimensions of this shape followed by those of `other`."""
        return TensorShape(concatenate(self._dims, as_dims(other)))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """Return the most specific shape that covers both."""
        return TensorShape(common(self._dims, as_dims(other)))

    def with_rank(self, rank: Any) -> TensorShape:
        """Return this shape merged with the rank."""
        return TensorShape(with_rank(self._dims, int(rank)))

    def with_rank_at_least(self, rank: Any) -> TensorShape:
        """Return this shape if it may have `rank` dimensions or more."""
        return TensorShape(with_rank_at_least(self._dims, int(rank)))

    def with_rank_at_most(self, rank: Any) -> TensorShape:
        """Return this shape if it may have `rank` dimensions or fewer."""
        return TensorShape(with_rank_at_most(self._dims, int(rank)))

    def assert_has_rank(self, rank: Any) -> None:
        """Raise GraphValueError if the rank is known and differs."""
        with_rank(self._dims, int(rank))

    def assert_same_rank(self, other: Any) -> None:
        """Raise GraphValueError if both ranks are known and differ."""
        dims = as_dims(other)
        if self._dims is not None and dims is not None and len(self._dims) != len(dims):
            raise GraphValueError(f"Shapes {self} and {describe(dims)} must have the same rank")

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise GraphValueError unless some fully defined shape matches both."""
        dims = as_dims(other)
        if not compatible(self._dims, dims):
            raise GraphValueError(f"Shapes {self} and {describe(dims)} are incompatible")

    def assert_is_fully_defined(self) -> None:
        """Raise GraphValueError unless rank and every dimension are known."""
        if not self.is_fully_defined():
            raise GraphValueError(f"Shape {self} is not fully defined")

    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    @overload
    def __getitem__(self, key: Any) -> Dimension: ...
    def __getitem__(self, key: Any) -> Dimension | TensorShape:
        if self._dims is not None:
            found = self._dims[key]
            return TensorShape(found) if isinstance(key, slice) else Dimension(found)
        if not isinstance(key, slice):
            return Dimension(None)
        start, stop = key.start or 0, key.stop
        if key.step is not None:
            raise GraphValueError(f"Expected a slice without step of {self}, got {key!r}")
        if stop is None or start < 0 or stop < 0:
            return TensorShape(None)
        return unknown_shape(max(stop - start, 0))

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __iter__(self) -> Iterator[Dimension]:
        return iter([Dimension(size) for size in self._known("iterate over it")])

    def __len__(self) -> int:
        return len(self._known("take its length"))

    def __bool__(self) -> bool:
        return self._dims is not None

    def __eq__(self, other: object) -> bool:
        try:
            return self._dims == as_dims(other)
        except (GraphTypeError, GraphValueError):
            return False

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return f"TensorShape({self.dims})"

    def __str__(self) -> str:
        return describe(self._dims)


def as_shape(shape: Any) -> TensorShape:
    """Return `shape` as a TensorShape."""
    return shape if isinstance(shape, TensorShape) else TensorShape(shape)


def as_dimension(value: Any) -> Dimension:
    """Return `value` as a Dimension."""
    return value if isinstance(value, Dimension) else Dimension(value)


def dimension_value(dimension: Any) -> int | None:
    """Return the size of a Dimension; a plain int or None is returned as it is."""
    return as_size(dimension)


def unknown_shape(ndims: int | None = None) -> TensorShape:
    """Return a shape of unknown rank, or of `ndims` unknown dimensions."""
    return TensorShape(None if ndims is None else (None,) * ndims)


def scalar() -> TensorShape:
    """Return the shape of a scalar."""
    return TensorShape(())


def vector(length: Any) -> TensorShape:
    """Return the shape of a vector."""
    return TensorShape((length,))


def matrix(rows: Any, cols: Any) -> TensorShape:
    """Return the shape of a matrix."""
    return TensorShape((rows, cols))
