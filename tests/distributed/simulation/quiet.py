"""What must not be left when nobody uses a cluster."""

import asyncio
from typing import Any

from aioexec.distributed.server import Server


def check_quiet(server: Server) -> None:
    """Fail unless no session, step, rendezvous or call is left on a server."""
    held: dict[str, list[Any]] = {
        "sessions of the master": list(server.master._sessions._entries),
        "sessions of the worker": list(server.worker._sessions),
        "steps": list(server.worker.steps._steps),
        "handlers": list(server._listener._tasks),  # type: ignore[attr-defined]  # an in-memory one
    }
    left = {what: things for what, things in held.items() if things}
    assert not left, f"{server.task} still holds {left}"
    server.worker.steps.check_invariants()


def check_idle() -> None:
    """Fail unless the running loop has no task but the one that asks."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others, f"these tasks are left: {others}"
