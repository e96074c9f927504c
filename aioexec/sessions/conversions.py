"""Fetches and feeds of composite types, which consist of several tensors: a table by type, which users may extend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.errors import GraphTypeError, GraphValueError
from aioexec.graph.indexed_slices import IndexedSlices, IndexedSlicesValue
from aioexec.graph.sparse_tensor import SparseTensor, SparseTensorValue

Fetch = Callable[[Any], tuple[Sequence[Any], Callable[[list[Any]], Any]]]
"""From the fetched object to its tensors, and a function that makes the result from their values."""
Feed = Callable[[Any, Any], Iterable[tuple[Any, Any]]]
"""From the fed object and its value to tensors with their values."""
FeedForPartialRun = Callable[[Any], Sequence[Any]]
"""From an object that will be fed to its tensors."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion functions of one type; None: it cannot be fed (in a partial run).

    Attributes:
        kind: the type; its subclasses have the same conversion.
        fetch: the tensors of a fetched value, and the function that makes the result from theirs.
        feed: the tensors of a fed value, each with its part of the value.
        feed_for_partial_run: the tensors that such a feed announces.
    """

    kind: type
    fetch: Fetch
    feed: Feed | None = None
    feed_for_partial_run: FeedForPartialRun | None = None


def _slices_parts(slices: IndexedSlices) -> list[Any]:
    return [slices.values, slices.indices] + ([] if slices.dense_shape is None else [slices.dense_shape])


def _fetch_slices(slices: IndexedSlices) -> tuple[Sequence[Any], Callable[[list[Any]], Any]]:
    missing = [None] if slices.dense_shape is None else []
    return _slices_parts(slices), lambda values: IndexedSlicesValue(*values, *missing)


def _feed_slices(slices: IndexedSlices, value: Any) -> Iterable[tuple[Any, Any]]:
    return _paired(slices, _slices_parts(slices), value)


def _paired(key: Any, tensors: Sequence[Any], value: Any) -> Iterable[tuple[Any, Any]]:
    """Each tensor with its part of a value."""
    if not isinstance(value, tuple | list) or len(value) < len(tensors):
        raise GraphTypeError(
            f"Cannot feed {key!r}: expected {type(key).__name__}Value or {len(tensors)} arrays, got {value!r}"
        )
    return zip(tensors, value, strict=False)


def _sparse_parts(sparse: SparseTensor) -> list[Any]:
    return [sparse.indices, sparse.values, sparse.dense_shape]


def _fetch_sparse(sparse: SparseTensor) -> tuple[Sequence[Any], Callable[[list[Any]], Any]]:
    return _sparse_parts(sparse), lambda values: SparseTensorValue(*values)


def _feed_sparse(sparse: SparseTensor, value: Any) -> Iterable[tuple[Any, Any]]:
    return _paired(sparse, _sparse_parts(sparse), value)


_conversions: list[Conversion] = [
    Conversion(SparseTensor, _fetch_sparse, _feed_sparse, _sparse_parts),
    Conversion(IndexedSlices, _fetch_slices, _feed_slices, _slices_parts),
]


def conversion_of(element: Any) -> Conversion | None:
    """The conversion of an object, if its type is in the table; types added later take precedence."""
    for conversion in _conversions:
        if isinstance(element, conversion.kind):
            return conversion
    return None


def register_session_run_conversion_functions(
    tensor_type: type,
    fetch_function: Fetch,
    feed_function: Feed | None = None,
    feed_function_for_partial_run: FeedForPartialRun | None = None,
) -> None:
    """Register a type whose objects can be fetched and fed, for example:

        register_session_run_conversion_functions(
            Squared,
            fetch_function=lambda squared: ([squared.tensor], lambda values: values[0] ** 2),
            feed_function=lambda squared, value: [(squared.tensor, value**0.5)],
            feed_function_for_partial_run=lambda squared: [squared.tensor],
        )

    Raises:
        GraphValueError: the type, or one derived from it, is registered already.
    """
    if any(issubclass(conversion.kind, tensor_type) for conversion in _conversions):
        raise GraphValueError(f"{tensor_type!r} has already been registered so ignore it")
    _conversions.insert(
        0, Conversion(tensor_type, fetch_function, feed_function, feed_function_for_partial_run)
    )


def deregister_session_run_conversion_functions(tensor_type: type) -> None:
    """Remove a type from the table."""
    _conversions[:] = [conversion for conversion in _conversions if conversion.kind is not tensor_type]
