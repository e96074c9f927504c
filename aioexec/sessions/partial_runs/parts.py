"""The elements that calls of `partial_run_setup` and `partial_run` name, resolved once for each structure of arguments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.sessions.feeds import feed_tensors
from aioexec.sessions.fetches import FetchMapper, WrapHandle, structure_key

_MOST_PARTS = 4096
Verb = Literal["setup", "run"]


class Parts:
    """The elements that one call of `partial_run_setup` or `partial_run` names: feeds, tensors and operations.

    `feeds`, `fetches` and `targets` are names; `outputs` are the last two together; `build` makes the result.
    """

    __slots__ = ("build", "feeds", "fetches", "outputs", "targets")

    def __init__(self, mapper: FetchMapper, feeds: Sequence[Tensor]) -> None:
        self.feeds = tuple(tensor.name for tensor in feeds)
        self.fetches = tuple(tensor.name for tensor in mapper.tensors)
        self.targets = tuple(op.name for op in mapper.targets)
        self.outputs = (*self.fetches, *self.targets)
        self.build = mapper.build


class PartsCache:
    """The parts of a session's calls, by verb, structure of fetches and feed keys; at most `_MOST_PARTS`.

    `_graph` is the session's; `_wrap_handle` converts fetched session handles.
    """

    def __init__(self, graph: Graph, wrap_handle: WrapHandle) -> None:
        self._graph = graph
        self._wrap_handle = wrap_handle
        self._parts: dict[Any, Parts] = {}

    def find(self, verb: Verb, fetches: Any, feeds: Iterable[Any]) -> Parts | None:
        """The parts of an earlier call with the same arguments."""
        try:
            return self._parts.get((verb, structure_key(fetches), *feeds))
        except TypeError:  # a key that is not hashable
            return None

    def make(self, fetches: Any, feeds: Sequence[Any]) -> Parts:
        """Resolve the elements that a call names.

        Raises:
            GraphTypeError, GraphValueError, UnknownFetchError, UnknownFeedError: they do not fit the graph.
        """
        return Parts(FetchMapper(self._graph, fetches, self._wrap_handle), feed_tensors(self._graph, feeds))

    def keep(self, verb: Verb, fetches: Any, feeds: Iterable[Any], parts: Parts) -> None:
        """Store parts for `find`, unless the arguments have no key."""
        key = structure_key(fetches)
        if key is not None:
            if len(self._parts) >= _MOST_PARTS:
                self._parts.clear()
            with contextlib.suppress(TypeError):
                self._parts[(verb, key, *feeds)] = parts
