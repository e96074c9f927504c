"""_HookedSession: asks hooks before and after each step, and runs what they and the caller want as one step.

A step without run options, and without hooks that want any, is run without: it may be done without suspending. Hooks see empty
protos then, as TensorFlow's do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from aioexec.errors import GraphTypeError
from aioexec.train.callbacks import settled
from aioexec.train.errors import TrainingStateError, end_of_loop, is_stop_iteration
from aioexec.train.session_run_hook import SessionRunArgs, SessionRunContext, SessionRunValues
from aioexec.train.wrapped_sessions import _WrappedSession


class _HookedSession(_WrappedSession):
    """A session whose steps hooks take part in.

    `_should_stop` is set for good once a hook asked for a stop.
    """

    def __init__(self, sess: Any, hooks: Sequence[Any]) -> None:
        from aioexec.formats.protos import RunMetadata, RunOptions

        super().__init__(sess)
        self._hooks = hooks
        self._should_stop = False
        self._new_options = RunOptions
        self._new_metadata = RunMetadata

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
        """Run a step with the session's hooks, and then those of this run.

        Raises:
            TrainingStateError: a hook has asked for a stop; or a tensor is fed twice.
            EndOfLoopError: a hook raised StopIteration.
        """
        if self._should_stop:
            raise TrainingStateError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict), self._sess)
        everybody = [*self._hooks, *hooks] if hooks else self._hooks
        merged = _Merged(fetches, options)
        try:
            places = []
            for hook in everybody:
                request = hook.before_run(context)
                if type(request) is not SessionRunArgs and request is not None:
                    request = await settled(request)
                places.append(0 if request is None else merged.add(hook, request))
            options = merged.options
            if options is not None and run_metadata is None:
                run_metadata = self._new_metadata()
            values = await self._sess.run(merged.fetches, merged.with_feeds(feed_dict), options, run_metadata)
            if everybody:
                options = self._new_options() if options is None else options
                run_metadata = self._new_metadata() if run_metadata is None else run_metadata
            for hook, place in zip(everybody, places, strict=True):
                results = values[place] if place else None
                told = hook.after_run(context, SessionRunValues(results, options, run_metadata))
                if told is not None:
                    await settled(told)
        except (StopIteration, RuntimeError) as error:
            if not is_stop_iteration(error):
                raise
            raise end_of_loop(error) from error
        if context.stop_requested:
            self._should_stop = True
        return values[0]


class _Merged:
    """What one step fetches and feeds: `fetches` holds the caller's structure, then the hooks'."""

    __slots__ = ("_hook_feeds", "fetches", "options")

    def __init__(self, fetches: Any, options: Any) -> None:
        self.fetches = [fetches]
        self.options = options
        self._hook_feeds: dict[Any, Any] | None = None

    def add(self, hook: Any, request: SessionRunArgs) -> int:
        """Add what a hook wants; the place of its fetches, 0 if there are none."""
        try:
            fetches, feed_dict, options = request.fetches, request.feed_dict, request.options
        except AttributeError as error:
            raise GraphTypeError(
                f"{type(hook).__name__}.before_run: expected SessionRunArgs or None, got {request!r}"
            ) from error
        if feed_dict:
            if self._hook_feeds is None:
                self._hook_feeds = {}
            _check_disjoint(self._hook_feeds, feed_dict, "Same tensor is fed by two hooks.")
            self._hook_feeds.update(feed_dict)
        if options is not None:
            self.options = merged_options(self.options, options)
        if fetches is None:
            return 0
        self.fetches.append(fetches)
        return len(self.fetches) - 1

    def with_feeds(self, feed_dict: Mapping[Any, Any] | None) -> Mapping[Any, Any] | None:
        """All feeds, the caller's and the hooks'."""
        if not self._hook_feeds:
            return feed_dict
        if feed_dict:
            _check_disjoint(feed_dict, self._hook_feeds, "Same tensor is fed by a SessionRunHook and user.")
            self._hook_feeds.update(feed_dict)
        return self._hook_feeds


def _check_disjoint(feeds: Mapping[Any, Any], others: Mapping[Any, Any], message: str) -> None:
    conflicts = set(feeds) & set(others)
    if conflicts:
        raise TrainingStateError(f"{message} Conflict(s): {list(conflicts)}")


def merged_options(options: Any, wanted: Any) -> Any:
    """RunOptions with what both ask for: the larger number, either flag, all watches; neither is changed."""
    from aioexec.formats.protos import RunOptions

    merged = RunOptions()
    if options is not None:
        merged.CopyFrom(options)
    for name in ("trace_level", "timeout_in_ms", "inter_op_thread_pool"):
        setattr(merged, name, max(getattr(merged, name), getattr(wanted, name)))
    for name in ("output_partition_graphs", "report_tensor_allocations_upon_oom"):
        setattr(merged, name, getattr(merged, name) or getattr(wanted, name))
    if wanted.HasField("debug_options"):
        merged.debug_options.MergeFrom(wanted.debug_options)
    return merged
