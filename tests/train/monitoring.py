"""Hooks for tests of monitored sessions."""

from __future__ import annotations

from typing import Any

from aioexec.train.hooks.session_run_hook import SessionRunArgs, SessionRunHook


class Wants(SessionRunHook):
    """Requests the same of each step, and records the results."""

    def __init__(self, fetches: Any = None, feed_dict: Any = None, options: Any = None) -> None:
        self.request: SessionRunArgs | None = SessionRunArgs(fetches, feed_dict, options)
        self.seen: list[Any] = []
        self.contexts: list[Any] = []

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        self.contexts.append(run_context)
        return self.request

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values)


class Does(SessionRunHook):
    """Calls a function in place of one of its methods."""

    def __init__(self, **methods: Any) -> None:
        self.__dict__.update(methods)
