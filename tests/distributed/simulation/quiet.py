"""Checks that an unused cluster has released everything."""

import asyncio
from typing import Any

from aioexec.distributed.server.server import Server
from aioexec.distributed.worker.pushes import PUSH


def check_quiet(server: Server) -> None:
    """Fail unless no session, step, rendezvous or call is left on a server."""
    held: dict[str, list[Any]] = {
        "sessions of the master": list(server.master._sessions._entries),
        "sessions of the worker": list(server.worker._sessions),
        "steps": list(server.worker.steps._steps),
        "handlers": [
            task
            for task in server._listener._tasks  # type: ignore[attr-defined]  # an in-memory one
            if not _lasts(task)
        ],
    }
    left = {what: things for what, things in held.items() if things}
    assert not left, f"{server.task} still holds {left}"
    server.worker.steps.check_invariants()


def check_idle() -> None:
    """Fail unless the running loop has no task but the one that asks."""
    others = {each for each in asyncio.all_tasks() - {asyncio.current_task()} if not _lasts(each)}
    assert not others, f"these tasks are left: {others}"


def _lasts(task: asyncio.Task[Any]) -> bool:
    """Whether it lasts as long as a server, or as two tasks of the cluster that are connected."""
    name = task.get_name()
    return name.endswith(PUSH) or " follows " in name or name.startswith("guard of ")
