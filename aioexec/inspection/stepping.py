"""A session for a graph from a file, prepared for steps; shared by the commands."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.errors import InvalidArgumentError
from aioexec.formats.protos import ConfigProto
from aioexec.graph.graph import Graph
from aioexec.graph.keys import GraphKeys
from aioexec.graph.node import Operation, Tensor
from aioexec.inspection.graph_files import read_graph
from aioexec.inspection.inputs import made_feeds, named, parse_feed
from aioexec.sessions.session import Session

_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})


@dataclass(frozen=True, slots=True)
class Stepping:
    """An open session, and the step to inspect."""

    session: Session
    fetches: list[Tensor | Operation]
    feeds: dict[Tensor, Any]

    async def step(self, *options: Any) -> None:
        await self.session.run(self.fetches, self.feeds, *options)


def add_arguments(parser: argparse.ArgumentParser, *, graph_required: bool = True) -> None:
    """Add the arguments that define a step."""
    parser.add_argument(
        "graph",
        metavar="GRAPH",
        type=Path,
        nargs=None if graph_required else "?",
        help="a GraphDef or MetaGraphDef (a checkpoint's .meta): bytes or text",
    )
    parser.add_argument(
        "--fetch",
        nargs="+",
        default=[],
        metavar="NAME",
        help="tensors and operations of the step; by default the results that nothing in the graph uses",
    )
    parser.add_argument(
        "--feed",
        nargs="+",
        action="extend",
        default=[],
        type=parse_feed,
        metavar="NAME=SHAPE:DTYPE",
        help="feeds, such as x=32,784:float32; placeholders whose shape is known need none",
    )


def run(arguments: argparse.Namespace, look: Callable[[Stepping], Coroutine[Any, Any, None]]) -> int:
    """Open the graph and session of the arguments, call `look`, and return the exit status."""

    async def main() -> None:
        async with _opened(arguments) as stepping:
            await look(stepping)

    asyncio.run(main())
    return 0


@contextlib.asynccontextmanager
async def _opened(arguments: argparse.Namespace) -> AsyncIterator[Stepping]:
    graph = await asyncio.to_thread(read_graph, arguments.graph)
    fetches = [named(graph, name) for name in arguments.fetch] or results(graph)
    feeds = made_feeds(graph, fetches, arguments.feed)
    initializers = _initializers(graph)
    config = ConfigProto()
    config.aioexec.jit = "eager"  # the output must not depend on the progress of a background compilation
    async with Session(graph=graph, config=config) as session:
        if initializers:
            await session.run(initializers)
        yield Stepping(session, fetches, feeds)


def results(graph: Graph) -> list[Tensor | Operation]:
    """The outputs that no operation of the graph uses, except references, which assignments return.

    Those of operations with control inputs are no results either: that of a `Saver` would write a checkpoint.

    Raises:
        InvalidArgumentError: there are none.
    """
    found: list[Tensor | Operation] = [
        output
        for operation in graph.get_operations()
        if operation.type not in ("Placeholder", "Const") and not operation.control_inputs
        for output in operation.outputs
        if not (output.consumers() or output.dtype.is_ref)
    ]
    if not found:
        raise InvalidArgumentError("the graph has no results: name the tensors to compute with --fetch")
    return found


def _initializers(graph: Graph) -> list[Operation]:
    """The ops that initialize variables and tables: from the collections, otherwise by TensorFlow's names."""
    variables = {
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES),
        *graph.get_collection(GraphKeys.LOCAL_VARIABLES),
    }
    if variables:
        return [variable.initializer for variable in variables] + graph.get_collection(
            GraphKeys.TABLE_INITIALIZERS
        )
    operations = {operation.name: operation for operation in graph.get_operations()}
    names = [f"{name}/Assign" for name, operation in operations.items() if operation.type in _VARIABLES]
    return [operations[name] for name in names if name in operations]
