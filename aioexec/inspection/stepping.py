"""A session for a graph from a file, prepared for steps; shared by the commands."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

from aioexec.data_classes import dataclass
from aioexec.graph.node import Operation, Tensor
from aioexec.inspection.inputs import made_feeds, parse_feed
from aioexec.inspection.models import open_model
from aioexec.sessions.session import Session


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
        metavar="MODEL",
        type=Path,
        nargs=None if graph_required else "?",
        help="a SavedModel's folder, or a file with a GraphDef or MetaGraphDef (a checkpoint's .meta): bytes or text",
    )
    parser.add_argument("--signature", help="of a SavedModel; by default serving_default, or the only one")
    parser.add_argument(
        "--fetch",
        nargs="+",
        default=[],
        metavar="NAME",
        help="tensors and operations of the step; by default the outputs of the signature, or the results "
        "that nothing in the graph uses",
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
    async with open_model(arguments.graph, signature=arguments.signature) as model:
        fetches = [model.fetch(name) for name in arguments.fetch] or model.results()
        feeds = made_feeds(model, fetches, arguments.feed)
        yield Stepping(model.session, fetches, feeds)
