"""What a server must not hold when nobody uses it."""

from aioexec.distributed.server import Server


def check_quiet(server: Server) -> None:
    """Fail unless no session, step, rendezvous, call or task is left on a server."""
    held = {
        "sessions of the master": list(server.master._sessions._entries),
        "sessions of the worker": list(server.worker._sessions.values()),
        "steps": list(server.worker.steps._steps),
        "calls to other tasks": list(server.worker._fetches),
        "handlers": list(server._listener._tasks),  # type: ignore[attr-defined]  # an in-memory one
    }
    left = {what: things for what, things in held.items() if things}
    assert not left, f"{server.task} still holds {left}"
    server.worker.steps.check_invariants()
