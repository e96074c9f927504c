"""_HookedSession: calls hooks before and after each step, and runs the fetches of the hooks and the caller as one step.

If neither the caller nor a hook gives run options, the step has none and may complete without suspending. Hooks then see empty
protos, as TensorFlow's do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.graph.node import Tensor
from aioexec.sessions.lifecycle import closed_error
from aioexec.train.callbacks import settle
from aioexec.train.coordination.coordinator import Coordinator
from aioexec.train.errors import TrainingStateError, end_of_loop
from aioexec.train.hooks.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunValues
from aioexec.train.sessions.wrapped_sessions import _WrappedSession, cause_of


class _StepContext(SessionRunContext):
    """A context that makes `original_args` on access: few hooks need them, and each step has a context."""

    __slots__ = ("_feed_dict", "_fetches")

    def __init__(self, fetches: Any, feed_dict: Mapping[Any, Any] | None, session: Any) -> None:
        self._fetches = fetches
        self._feed_dict = feed_dict
        self._session = session
        self._stop_requested = False

    @property
    def original_args(self) -> SessionRunArgs:
        return SessionRunArgs(self._fetches, self._feed_dict)


class _HookedSession(_WrappedSession):
    """A session that calls hooks at each step.

    `_should_stop` is set permanently when a hook requests a stop. `_merged` caches the last requests of the hooks, which are
    mostly the same in each step. `_no_options` and `_no_metadata` are passed to hooks if there are none.
    """

    def __init__(self, sess: Any, hooks: Sequence[Any], coord: Coordinator) -> None:
        from aioexec.formats.protos import RunMetadata, RunOptions

        super().__init__(sess)
        self._coord = coord
        self._hooks = hooks
        self._should_stop = False
        self._merged = _Merged(hooks, [None] * len(hooks))
        self._new_metadata = RunMetadata
        self._no_options, self._no_metadata = RunOptions(), RunMetadata()

    def _check_stop(self) -> bool:
        return self._should_stop

    async def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
        hooks: Sequence[Any] = (),
    ) -> Any:
        """Run a step with the session's hooks, then those of this run.

        Raises:
            TrainingStateError: a hook has requested a stop; or a tensor is fed twice.
            EndOfLoopError: a hook raised StopIteration.
            AbortedError, UnavailableError: a task of the coordinator was preempted, and the step failed.
        """
        sess = self._sess  # may be closed while hooks are awaited
        if self._should_stop or sess is None:
            raise self._refusal()
        context = _StepContext(fetches, feed_dict, sess)
        all_hooks = [*self._hooks, *hooks] if hooks else self._hooks
        try:
            requests = []
            for hook in all_hooks:
                request = hook.before_run(context)
                if type(request) is not SessionRunArgs and request is not None:
                    request = await settle(request)
                requests.append(request)
            merged = self._merged
            if not merged.is_of(requests):
                merged = self._merge(all_hooks, requests)
            if not merged.is_plain:
                feed_dict, options = merged.with_feeds(feed_dict), merged_options(options, merged.options)
            if options is not None and run_metadata is None:
                run_metadata = self._new_metadata()
            is_list = type(fetches) is list  # a nested list would cost the session time
            wanted = [*fetches, *merged.fetches] if is_list else [fetches, *merged.fetches]
            values = await sess.run(wanted, feed_dict, options, run_metadata)
            seen: Any = None
            last: int | None = 0
            for number, hook in enumerate(all_hooks):  # a strict `zip` takes longer than the loop
                place = merged.places[number]
                if place != last:  # most hooks repeat their request
                    results = None if place is None else values[place]
                    seen, last = self._values(results, options, run_metadata), place
                waiting = hook.after_run(context, seen)
                if waiting is not None:
                    await settle(waiting)
        except Exception as error:
            cause = end_of_loop(cause_of(error, self._coord))
            if cause is error:
                raise
            raise cause from error
        self._should_stop |= context.stop_requested
        return values[: len(wanted) - len(merged.fetches)] if is_list else values[0]

    def _refusal(self) -> Exception:
        if self._should_stop:
            return TrainingStateError("Run called even after should_stop requested.")
        return closed_error()

    def _values(self, results: Any, options: Any, run_metadata: Any) -> SessionRunValues:
        """The values of a step for a hook; built from a tuple, since a named tuple's constructor is several times slower."""
        return tuple.__new__(
            SessionRunValues, (results, options or self._no_options, run_metadata or self._no_metadata)
        )

    def _merge(self, hooks: Sequence[Any], requests: Sequence[Any]) -> _Merged:
        merged = _Merged(hooks, requests)
        if merged.is_plain:
            self._merged = merged
        return merged


class _Merged:
    """The requests of all hooks for one step.

    Attributes:
        fetches: their fetches, one structure per hook that has some.
        places: for each hook the index of its fetches, from the end: -1 is the last; None if it has none.
        feeds: all their feeds.
        options: their merged options, or None.
        is_plain: whether they only fetch.
    """

    __slots__ = ("_requests", "feeds", "fetches", "is_plain", "options", "places")

    def __init__(self, hooks: Sequence[Any], requests: Sequence[SessionRunArgs | None]) -> None:
        self._requests = requests
        self.fetches: list[Any] = []
        self.feeds: dict[Any, Any] = {}
        self.options: Any = None
        added = [
            None if request is None else self._add(hook, request)
            for hook, request in zip(hooks, requests, strict=True)
        ]
        self.places = [None if place is None else place - len(self.fetches) for place in added]
        self.is_plain = not self.feeds and self.options is None

    def is_of(self, requests: Sequence[SessionRunArgs | None]) -> bool:
        """Whether these are identical requests."""
        return len(requests) == len(self._requests) and all(map(is_, requests, self._requests))

    def _add(self, hook: Any, request: SessionRunArgs) -> int | None:
        """Add a hook's request; returns the index of its fetches, None if it has none."""
        try:
            fetches, feed_dict, options = request.fetches, request.feed_dict, request.options
        except AttributeError as error:
            raise GraphTypeError(
                f"{type(hook).__name__}.before_run: expected SessionRunArgs or None, got {request!r}"
            ) from error
        if feed_dict:
            _check_disjoint(self.feeds, feed_dict, "Same tensor is fed by two hooks.")
            self.feeds.update(feed_dict)
        if options is not None:
            self.options = merged_options(self.options, options)
        if fetches is None:
            return None
        if type(fetches) is Tensor:  # most hooks fetch the global step
            for place, known in enumerate(self.fetches):
                if known is fetches:
                    return place
        self.fetches.append(fetches)
        return len(self.fetches) - 1

    def with_feeds(self, feed_dict: Mapping[Any, Any] | None) -> Mapping[Any, Any]:
        """All feeds, the caller's and the hooks'."""
        if not feed_dict:
            return self.feeds
        _check_disjoint(feed_dict, self.feeds, "Same tensor is fed by a SessionRunHook and user.")
        return {**self.feeds, **feed_dict}


def _check_disjoint(feeds: Mapping[Any, Any], others: Mapping[Any, Any], message: str) -> None:
    conflicts = set(feeds) & set(others)
    if conflicts:
        raise TrainingStateError(f"{message} Conflict(s): {list(conflicts)}")


def merged_options(options: Any, wanted: Any) -> Any:
    """RunOptions merged from two, each of which may be None: the larger number, either flag, all watches."""
    from aioexec.formats.protos import RunOptions

    if options is None or wanted is None:
        return options if wanted is None else wanted
    merged = RunOptions()
    merged.CopyFrom(options)
    for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
        setattr(merged, name, max(getattr(merged, name), getattr(wanted, name)))
    for name in ("output_partition_graphs", "report_tensor_allocations_upon_oom"):
        setattr(merged, name, getattr(merged, name) or getattr(wanted, name))
    if wanted.HasField("debug_options"):
        merged.debug_options.MergeFrom(wanted.debug_options)
    return merged
