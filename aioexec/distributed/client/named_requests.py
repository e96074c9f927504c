"""Steps given by names of tensors, for partial runs and callables; the client's graph determines how values are converted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aioexec import dtypes
from aioexec.distributed.client.step_requests import StepRequest
from aioexec.errors import InternalError, InvalidArgumentError, UnknownNameError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.sessions.feeds import FeedConverter, convert_feeds
from aioexec.sessions.names import canonical
from aioexec.sessions.run_options import StepOptions

Elsewhere = Callable[[Callable[[], list[Any]]], Awaitable[list[Any]]]


class NamedFeeds:
    """Converts the values of feeds given by name; those unknown to the graph are converted by NumPy."""

    __slots__ = ("converters",)

    def __init__(self, graph: Graph | None, names: Sequence[str]) -> None:
        tensors = [tensor_named(graph, name) for name in names]
        # Of each feed, None for one that the graph does not know.
        self.converters = [None if tensor is None else FeedConverter(tensor) for tensor in tensors]

    async def convert(self, values: Sequence[Any], elsewhere: Elsewhere) -> list[Any]:
        """Convert the values to arrays."""
        pairs = list(zip(self.converters, values, strict=True))
        known = [(converter, value) for converter, value in pairs if converter is not None]
        done = iter(
            await convert_feeds([each for each, _ in known], [value for _, value in known], elsewhere)
        )
        return [dtypes.to_array(value) if converter is None else next(done) for converter, value in pairs]


class NamedRequest:
    """A step given by names: the request, and the conversion of its feeds."""

    __slots__ = ("_feeds", "step")

    def __init__(
        self,
        session_handle: str,
        graph: Graph | None,
        feeds: Sequence[str],
        outputs: Sequence[str],
        targets: Sequence[str],
    ) -> None:
        names = [canonical(name) for name in feeds]
        found = {name: tensor_named(graph, name) for name in (*names, *outputs)}
        known = {name: tensor.dtype.base_dtype for name, tensor in found.items() if tensor is not None}
        self.step = StepRequest(session_handle, names, outputs, targets, known)
        self._feeds = NamedFeeds(graph, names)

    async def convert(self, feeds: Sequence[tuple[str, Any]], elsewhere: Elsewhere) -> list[Any]:
        """Convert the values of the feeds to arrays."""
        return await self._feeds.convert([value for _, value in feeds], elsewhere)


class PreparedStep:
    """A callable of a server.

    `_feeds` converts its feeds; `_places`: for each fetch its index among the server's results, which has each tensor once.
    """

    __slots__ = ("_feeds", "_places", "options")

    def __init__(
        self, graph: Graph | None, feeds: Sequence[str], fetches: Sequence[str], options: StepOptions
    ) -> None:
        self.options = options  # of every run of the callable
        self._feeds = NamedFeeds(graph, feeds)
        once = list(dict.fromkeys(fetches))
        self._places = [once.index(name) for name in fetches]

    async def convert(self, values: Sequence[Any], elsewhere: Elsewhere) -> list[Any]:
        """Convert the values of the feeds to arrays.

        Raises:
            InvalidArgumentError: another number of values than of feeds.
        """
        expected = len(self._feeds.converters)
        if len(values) != expected:
            raise InvalidArgumentError(f"Expected {expected} feed tensors, but got {len(values)}")
        return await self._feeds.convert(values, elsewhere)

    def results(self, tensors: Sequence[Any]) -> list[Any]:
        """The values in the order of the fetches.

        Raises:
            InternalError: the server returned another number of values than was requested.
        """
        if len(tensors) != len(set(self._places)):
            raise InternalError(
                f"expected {len(set(self._places))} values from the server, got {len(tensors)}"
            )
        return [tensors[place] for place in self._places]


def tensor_named(graph: Graph | None, name: str) -> Tensor | None:
    """The tensor of that name, if there is one."""
    if graph is None:
        return None
    try:
        return graph.get_tensor_by_name(canonical(name))
    except UnknownNameError:
        return None
