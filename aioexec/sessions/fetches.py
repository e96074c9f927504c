"""Fetches of any nesting: flattens them to graph elements, and builds the result in the same nesting."""

from __future__ import annotations

import copy
import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np

from aioexec.dtypes import DType, as_dtype, resource
from aioexec.errors import GraphTypeError, GraphValueError, UnknownFetchError, UnknownNameError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Operation, Tensor
from aioexec.sessions.conversions import conversion_of

Build = Callable[[Sequence[Any]], Any]
"""From the values of the unique tensors, in order, to the nested result."""


WrapHandle = Callable[[Any, DType], Any]
"""From a fetched session handle, and the dtype of the tensor it denotes, to the result."""

_LEAVES = (Tensor, Operation, str)
SESSION_HANDLE_OPS = ("GetSessionHandle", "GetSessionHandleV2")


class FetchMapper:
    """Flattens one structure of fetches.

    Args:
        graph: in which names of fetches are looked up.
        fed: tensors fed in the same call, which are fetched as they are, also if they hold a session handle.
        wrap_handle: converts fetched session handles; None: they are returned as text.

    Attributes:
        tensors: each fetched tensor, once, in order of first occurrence.
        targets: each fetched operation, once.
        build: makes the result.

    `_places` holds the position of each tensor among `tensors`.
    """

    def __init__(
        self, graph: Graph, fetches: Any, wrap_handle: WrapHandle | None = None, fed: Collection[Tensor] = ()
    ) -> None:
        self._graph = graph
        self._wrap_handle = wrap_handle
        self._fed = fed
        self._places: dict[Tensor, int] = {}
        self._targets: dict[Operation, None] = {}
        self.build: Build = self._visit(fetches)
        self.tensors = tuple(self._places)
        self.targets = tuple(self._targets)

    def _visit(self, fetch: Any) -> Build:
        if isinstance(fetch, Tensor | Operation | str) or hasattr(fetch, "_as_graph_element"):
            return self._leaf(fetch)
        if isinstance(fetch, Mapping):
            return self._mapping(fetch)
        if isinstance(fetch, list | tuple):
            return self._sequence(fetch)
        if dataclasses.is_dataclass(fetch) and not isinstance(fetch, type):
            builders = {
                field.name: self._visit(getattr(fetch, field.name)) for field in dataclasses.fields(fetch)
            }
            return lambda values: _filled(fetch, {name: build(values) for name, build in builders.items()})
        conversion = conversion_of(fetch)
        if conversion is not None:
            parts, contract = conversion.fetch(fetch)
            builds = [self._leaf(part) for part in parts]
            return lambda values: contract([build(values) for build in builds])
        raise GraphTypeError(
            f"Fetch argument {fetch!r} has invalid type {type(fetch).__name__}: expected a Tensor, an Operation, "
            f"a name, or a list, tuple, dict or dataclass of these"
        )

    def _leaf(self, fetch: Any) -> Build:
        try:
            element = self._graph.as_graph_element(fetch)
        except UnknownNameError as error:
            raise UnknownFetchError(
                f"Fetch argument {fetch!r} cannot be interpreted as a Tensor: {error}"
            ) from error
        except GraphTypeError as error:
            raise GraphTypeError(f"Fetch argument {fetch!r} has invalid type: {error.message}") from error
        except GraphValueError as error:
            raise GraphValueError(
                f"Fetch argument {fetch!r} cannot be interpreted as a Tensor: {error.message}"
            ) from error
        if not self._graph.is_fetchable(element):
            raise GraphValueError(f"{element!r} has been marked as not fetchable")
        if isinstance(element, Operation):
            self._targets[element] = None
            return _nothing
        place = self._places.setdefault(element, len(self._places))
        wrap = self._wrap_handle
        if wrap is not None and element.op.type in SESSION_HANDLE_OPS:
            dtype = element.op.inputs[0].dtype.base_dtype
            return lambda values: wrap(values[place], dtype)
        if element.dtype.is_quantized:
            return _integers_at(place, as_dtype(element.dtype.base_dtype.name[1:]).numpy)
        if element.dims or element.dtype.base_dtype is resource or element in self._fed:
            return itemgetter(place)  # a fed tensor is returned as the array that was fed
        return _scalar_at(place)

    def _mapping(self, fetch: Any) -> Build:
        kind: Any = type(fetch)
        builds = {key: self._visit(value) for key, value in fetch.items()}
        if kind is dict:
            return lambda values: {key: build(values) for key, build in builds.items()}
        if issubclass(kind, defaultdict):
            kind = partial(kind, fetch.default_factory)
        return lambda values: kind({key: build(values) for key, build in builds.items()})

    def _sequence(self, fetch: Sequence[Any]) -> Build:
        kind: Any = type(fetch)
        builds = [self._visit(item) for item in fetch]
        if kind is list:
            return self._list(builds)
        if hasattr(fetch, "_fields"):
            return lambda values: kind(*[build(values) for build in builds])
        return lambda values: kind([build(values) for build in builds])

    def _list(self, builds: list[Build]) -> Build:
        """Build a list of results; plain values, the usual case, are selected in one call."""
        if not builds or not all(isinstance(build, itemgetter) for build in builds):
            return lambda values: [build(values) for build in builds]
        places = [build(range(len(self._places))) for build in builds]
        if len(places) == 1:
            (place,) = places
            return lambda values: [values[place]]
        pick = itemgetter(*places)
        return lambda values: [*pick(values)]


def _filled(form: Any, values: Mapping[str, Any]) -> Any:
    """A copy of the dataclass `form` with these values; not by its constructor, which may not accept them."""
    filled = copy.copy(form)
    for name, value in values.items():
        object.__setattr__(filled, name, value)  # works for frozen ones as well
    return filled


def _scalar_at(place: int) -> Build:
    """Return a value without dimensions as a NumPy scalar (or bytes), any other as it is."""

    def build(values: Sequence[Any]) -> Any:
        value = values[place]
        return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value

    return build


def _integers_at(place: int, integers: np.dtype[Any]) -> Build:
    """Return the integers of a quantized value."""

    def build(values: Sequence[Any]) -> Any:
        value = values[place].view(integers)
        return value if value.ndim else value[()]

    return build


def _nothing(values: Sequence[Any]) -> None:
    return None


def flat_key(fetches: Sequence[Any], feeds: Iterable[Any]) -> tuple[Any, ...]:
    """The cache key of runs of a flat list of tensors, operations and names, with these feed keys."""
    return (len(fetches), *fetches, *feeds)


def remembered_by(fetches: Any, feeds: Iterable[Any]) -> tuple[Any, ...] | None:
    """The cache key of runs of these fetches, with these feed keys; None: they are not cached."""
    if type(fetches) is list and all(type(each) in _LEAVES for each in fetches):
        return flat_key(fetches, feeds)
    key = structure_key(fetches)
    return None if key is None else (key, *feeds)


def structure_key(fetches: Any) -> Hashable | None:
    """A key that is equal for fetches of equal structure and elements; None if there is none (dataclasses)."""
    kind = type(fetches)
    if kind is Tensor or kind is Operation or isinstance(fetches, str):
        return fetches  # type: ignore[no-any-return]  # a name for it would cost each step
    if kind is list or isinstance(fetches, list | tuple):
        keys = tuple([item if type(item) is Tensor else structure_key(item) for item in fetches])
        return None if None in keys else (kind, keys)
    if kind is dict or isinstance(fetches, Mapping):
        keys = tuple([item if type(item) is Tensor else structure_key(item) for item in fetches.values()])
        return None if None in keys else (kind, tuple(fetches), keys)
    if hasattr(fetches, "_as_graph_element") or conversion_of(fetches) is not None:
        return id(fetches), fetches if isinstance(fetches, Hashable) else None
    return None
