"""Cancellation: managers that call registered callbacks when a session or a step is cancelled.

A manager belongs to a session or a step. An operation that can be stopped registers a callback under a token; `start_cancel`
calls each callback once, and then cancels the child managers. Everything happens on the event loop and nothing suspends, so
for code outside of the callbacks a cancellation is atomic.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

Callback = Callable[[], None]


class CancellationManager:
    """Calls registered callbacks, each once, on cancellation.

    State: `_callbacks`, those still to be called, by token; `_children`, the managers that are cancelled with this one, until
    they detach. Transitions: not cancelled -> `is_cancelling` (callbacks run) -> `is_cancelled`, which is final.
    """

    def __init__(self, parent: CancellationManager | None = None) -> None:
        self.is_cancelling = False
        self.is_cancelled = False
        self._next_token = 0
        self._callbacks: dict[int, Callback] = {}
        self._children: dict[CancellationManager, None] = {}
        self._parent = parent
        if parent is not None:
            if parent.is_cancelling or parent.is_cancelled:
                self.is_cancelled = True
            else:
                parent._children[self] = None

    def get_cancellation_token(self) -> int:
        """A token under which no callback is registered."""
        self._next_token += 1
        return self._next_token

    def register_callback(self, token: int, callback: Callback) -> bool:
        """Register a callback to be called on cancellation; False, without registering it, if cancellation has begun."""
        if self.is_cancelling or self.is_cancelled:
            return False
        assert token not in self._callbacks, "a token is for one callback"
        self._callbacks[token] = callback
        return True

    def deregister_callback(self, token: int) -> bool:
        """Remove a callback; False if the cancellation has begun: then the callback has been called when this returns.

        During a cancellation only callbacks can call this method. A callback that has not been called yet is called now; a
        callback that names its own token is already running.
        """
        if self.is_cancelling:
            self._call(token)
            return False
        return self.try_deregister_callback(token)

    def try_deregister_callback(self, token: int) -> bool:
        """Remove a callback; False if the cancellation has begun: then it has been, or will be, called."""
        if self.is_cancelling or self.is_cancelled:
            return False
        self._callbacks.pop(token, None)
        return True

    def start_cancel(self) -> None:
        """Call all callbacks, in the order of registration, then cancel all children; a second call does nothing.

        An exception of a callback is raised after all of them have been called.
        """
        if self.is_cancelling or self.is_cancelled:
            return
        self.is_cancelling = True
        try:
            with contextlib.ExitStack() as all_of_them:
                for child in reversed(self._children):
                    all_of_them.callback(child.start_cancel)
                for token in reversed(self._callbacks):
                    all_of_them.callback(self._call, token)
        finally:
            self._children.clear()
            self.is_cancelling = False
            self.is_cancelled = True

    def detach(self) -> None:
        """Detach from the parent, whose lifetime is longer: the work that this manager belongs to is over."""
        if self._parent is not None:
            self._parent._children.pop(self, None)
            self._parent = None

    def _call(self, token: int) -> None:
        callback = self._callbacks.pop(token, None)
        if callback is not None:
            callback()

    def check_invariants(self) -> None:
        assert not (self.is_cancelling and self.is_cancelled)
        assert not (self.is_cancelled and (self._callbacks or self._children)), "a callback was not called"
        assert all(child._parent is self for child in self._children)


class StepCancellation:
    """The cancellation managers of the steps of a session, by step id; all are cancelled with the session."""

    def __init__(self, session: CancellationManager) -> None:
        self._session = session
        self._managers: dict[int, CancellationManager] = {}

    def find_or_create(self, step_id: int) -> CancellationManager:
        """The manager of a step, the same each time."""
        manager = self._managers.get(step_id)
        if manager is None:
            manager = self._managers[step_id] = CancellationManager(self._session)
        return manager

    def forget(self, step_id: int) -> None:
        """Remove the manager of a step that is over."""
        manager = self._managers.pop(step_id, None)
        if manager is not None:
            manager.detach()
