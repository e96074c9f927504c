"""InteractiveSession: a session that is the default one from its construction on, for shells and notebooks."""

from __future__ import annotations

from typing import Any

from aioexec.graph.defaults import default_graphs, default_sessions
from aioexec.graph.node import BaseGraph
from aioexec.sessions.session import Session


class InteractiveSession(Session):
    """A session that `tensor.eval()` and `operation.run()` use without a `with` statement, until it is closed.

    It is the default of the context it was made in: of a task and those it starts, or of a shell. `_is_default` is reset by
    `close`, which takes the session, and `_graph_pushed`, its graph if one was given, off the default stacks.
    """

    def __init__(self, target: str = "", graph: BaseGraph | None = None, config: Any = None) -> None:
        super().__init__(target, graph, config)
        self._is_default = True
        if graph is not None:
            default_graphs.push(graph)
        default_sessions.push(self)
        self._graph_pushed = graph

    async def close(self, grace: float | None = 0) -> None:
        """Stop being the default session, and close."""
        if self._is_default:
            self._is_default = False
            default_sessions.discard(self)
            if self._graph_pushed is not None:
                default_graphs.discard(self._graph_pushed)
        await super().close(grace)
