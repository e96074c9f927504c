"""`tensor.eval()` and `op.run()`: runs in the given or the default session."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.defaults import default_sessions
from aioexec.graph.graph import Graph
from aioexec.sessions.session import Session


def eval_tensor(tensor: Any, feed_dict: Any = None, session: Session | None = None) -> Any:
    """Implements `tensor.eval()`: an awaitable of its value in `session` or the default session."""
    return _session_for(tensor.graph, session, "evaluate tensor using `eval()`").run(tensor, feed_dict)


def run_operation(op: Any, feed_dict: Any = None, session: Session | None = None) -> Any:
    """Implements `op.run()`: an awaitable that runs it in `session` or the default session."""
    return _session_for(op.graph, session, "execute operation using `run()`").run(op, feed_dict)


def _session_for(graph: Graph, session: Session | None, what: str) -> Session:
    found: Session | None = session if session is not None else default_sessions.top()
    if found is None:
        raise GraphValueError(
            f"Cannot {what}: No default session is registered; use `with sess.as_default()`"
        )
    if found.graph is not graph:
        raise GraphValueError(f"Cannot {what}: the session's graph is another than the one it belongs to")
    return found
