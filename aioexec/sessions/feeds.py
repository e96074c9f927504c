"""Feeds: resolves the keys of a feed_dict to tensors, and converts its values to arrays of their dtype and shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aioexec import dtypes, shapes
from aioexec.errors import GraphTypeError, GraphValueError, UnknownFeedError, UnknownNameError
from aioexec.graph.graph import Graph
from aioexec.graph.indexed_slices import IndexedSlices
from aioexec.graph.node import Tensor
from aioexec.ops.state.session_handles import TensorHandle
from aioexec.sessions.conversions import conversion_of


def feed_tensors(graph: Graph, keys: Sequence[Any]) -> tuple[Tensor, ...]:
    """The tensors that the keys of a feed_dict denote.

    Raises:
        UnknownFeedError: a name the graph does not have.
        GraphTypeError: a key that denotes no tensor of this graph.
        GraphValueError: a tensor that may not be fed, or is fed twice.
    """
    tensors = []
    for key in keys:
        try:
            tensor = graph.as_graph_element(key, allow_operation=False)
        except UnknownNameError as error:
            raise UnknownFeedError(f"Cannot interpret feed_dict key {key!r} as Tensor: {error}") from error
        except (GraphTypeError, GraphValueError) as error:
            raise GraphTypeError(
                f"Cannot interpret feed_dict key {key!r} as Tensor: {error.message}"
            ) from error
        if not graph.is_feedable(tensor):
            raise GraphValueError(f"Tensor {tensor.name!r} may not be fed")
        if tensor in tensors:
            raise GraphValueError(f"Tensor {tensor.name!r} fed more than once")
        tensors.append(tensor)
    return tuple(tensors)


LARGE = 16 * 1024
"""Elements of a feed above which its conversion would block the event loop."""


def is_slow_to_convert(value: Any, numpy: np.dtype[Any]) -> bool:
    """Whether a value has many elements that must be converted one by one or cast."""
    if type(value) is np.ndarray:
        return value.size > LARGE and (value.dtype != numpy or numpy.hasobject)
    count = 1
    while isinstance(value, list | tuple) and value:
        count, value = count * len(value), value[0]
    return count * (value.size if isinstance(value, np.ndarray) else 1) > LARGE


class FeedConverter:
    """Converts the values of one tensor's feeds.

    Attributes:
        tensor: the tensor fed.
        numpy: the dtype its kernels take.
        dims: its static shape; None if it is unknown.
        is_resource: the value is a resource itself, as a fetch of its handle returns it.

    `_plain` is the dtype of values that need not be looked at, None if all have to be.
    """

    __slots__ = ("_plain", "dims", "is_resource", "numpy", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.numpy = tensor.dtype.numpy
        self.dims = tensor.dims
        self.is_resource = tensor.dtype.base_dtype is dtypes.resource
        self._plain = None if self.is_resource or self.numpy.hasobject else self.numpy

    def convert(self, value: Any) -> Any:
        """The value as an array; the caller's own one if it fits as it is.

        Raises:
            GraphTypeError: a dtype that does not convert safely.
            InvalidArgumentError: the handle of a tensor that was deleted.
            GraphValueError: a shape the tensor cannot have.
        """
        if type(value) is np.ndarray and value.dtype is self._plain and value.shape == self.dims:
            return value
        if self.is_resource:
            return self._resource(value)
        if isinstance(value, TensorHandle):
            value = value.session.kept_tensor(value)
        if type(value) is not np.ndarray or value.dtype != self.numpy or self.numpy.hasobject:
            value = self._array(value)
        dims = self.dims
        if dims is not None and value.shape != dims and not shapes.compatible(dims, value.shape):
            raise GraphValueError(
                f"Cannot feed value of shape {value.shape} for Tensor {self.tensor.name!r}, "
                f"which has shape {shapes.describe(dims)}"
            )
        return value

    def _resource(self, value: Any) -> Any:
        if isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 0:
            return value  # the handle of a queue
        if isinstance(
            value, np.ndarray | np.generic | int | float | complex | str | bytes | list | tuple | None
        ):
            raise GraphTypeError(
                f"Cannot feed {self.tensor.name!r}: expected a resource, as fetching a handle gives it, got {value!r}"
            )
        return value

    def _array(self, value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, Tensor | IndexedSlices):
            raise GraphTypeError(
                f"The value of a feed cannot be a {type(value).__name__} (for {self.tensor.name!r}): "
                f"expected numbers, strings or arrays, got {value!r}"
            )
        try:
            return dtypes.to_array_exactly(value, self.tensor.dtype.base_dtype)
        except (GraphTypeError, GraphValueError) as error:
            raise type(error)(f"Cannot feed {self.tensor.name!r}: {error.message}") from error


async def convert_feeds(
    converters: Sequence[FeedConverter],
    given: Sequence[Any],
    elsewhere: Callable[[Callable[[], list[Any]]], Awaitable[list[Any]]],
) -> list[Any]:
    """Fed values as arrays; conversions that take long are run by `elsewhere`, off the event loop."""
    if not any(map(_is_slow, converters, given)):
        return [converter.convert(value) for converter, value in zip(converters, given, strict=True)]

    def convert() -> list[Any]:
        return [converter.convert(value) for converter, value in zip(converters, given, strict=True)]

    return await elsewhere(convert)


def _is_slow(converter: FeedConverter, value: Any) -> bool:
    if type(value) is np.ndarray and value.dtype is converter.numpy and not converter.numpy.hasobject:
        return False
    return is_slow_to_convert(value, converter.numpy)


def expand(feed_dict: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Replace the composite keys of a feed_dict, such as nested tuples and sparse tensors, by their tensors.

    Raises:
        GraphTypeError: a key cannot be fed, or not with such a value.
        GraphValueError: values are nested differently from their keys; a tensor is fed more than once.
    """
    if not any(isinstance(key, tuple) or conversion_of(key) for key in feed_dict):
        return feed_dict
    flat: dict[Any, Any] = {}
    for key, value in feed_dict.items():
        for part, fed in _parts(key, value):
            if part in flat:
                raise GraphValueError(f"Cannot feed {part!r}: it is fed more than once")
            flat[part] = fed
    return flat


def _parts(key: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    conversion = conversion_of(key)
    if conversion is not None:
        if conversion.feed is None:
            raise GraphTypeError(f"Cannot feed {key!r}: no feed function is registered for its type")
        yield from conversion.feed(key, value)
    elif isinstance(key, tuple):
        if not isinstance(value, list | tuple) or len(key) != len(value):
            raise GraphValueError(
                f"Cannot feed {key!r}: expected {len(key)} values in the same nesting, got {value!r}"
            )
        for part, fed in zip(key, value, strict=True):
            yield from _parts(part, fed)
    else:
        yield key, value


def expand_keys(feeds: Sequence[Any]) -> list[Any]:
    """Replace composite keys of feeds that will be fed by their tensors."""
    flat: list[Any] = []
    for key in feeds:
        conversion = conversion_of(key)
        if conversion is None:
            flat.append(key)
            continue
        if conversion.feed_for_partial_run is None:
            raise GraphTypeError(f"Cannot feed {key!r} in parts: no function is registered for its type")
        flat.extend(conversion.feed_for_partial_run(key))
    return flat
