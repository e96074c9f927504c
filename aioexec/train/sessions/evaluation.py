"""Evaluation of checkpoints: of one, or of each new one.

An evaluation restores the checkpoint into a monitored session of its own and runs `eval_ops` until a hook requests a stop, or
the input is exhausted; then `final_ops` once. A local variable, the eval step, counts the evaluations of a session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aioexec import dtypes
from aioexec.errors import GraphValueError
from aioexec.graph.graph import get_default_graph
from aioexec.graph.keys import GraphKeys
from aioexec.ops.array.identity import identity
from aioexec.ops.math.cast import cast
from aioexec.ops.state.assignments import assign_add
from aioexec.ops.state.initializers import Zeros
from aioexec.ops.state.variable_scope import get_variable
from aioexec.train.checkpoints.waiting import checkpoints_iterator
from aioexec.train.hooks.feed_hooks import FinalOpsHook
from aioexec.train.hooks.multi_step_hooks import (
    _MultiStepStopAfterNEvalsHook,
    get_or_create_steps_per_run_variable,
)
from aioexec.train.hooks.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)
from aioexec.train.sessions.monitored_session import MonitoredSession
from aioexec.train.sessions.session_creators import ChiefSessionCreator

if TYPE_CHECKING:
    from aioexec.train.sessions.scaffold import Scaffold

logger = logging.getLogger(__name__)

_FEW_EVALS = 20
"""Up to so many evaluations each one is logged, otherwise ten in all."""


def get_or_create_eval_step() -> Any:
    """The variable that counts the evaluations of a session, made at first use.

    Raises:
        GraphValueError: the collection EVAL_STEP holds several.
    """
    held = get_default_graph().get_collection(GraphKeys.EVAL_STEP)
    if len(held) > 1:
        raise GraphValueError(f"Multiple tensors added to tf.GraphKeys.EVAL_STEP: {held!r}")
    if held:
        return held[0]
    return get_variable(
        "eval_step",
        shape=[],
        dtype=dtypes.int64,
        initializer=Zeros(),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP],
    )


class StopAfterNEvalsHook(SessionRunHook):
    """Ends an evaluation after `num_evals` runs of its ops; None: at the end of input."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._num_evals = num_evals
        self._log_progress = log_progress
        self._log_frequency = 1 if num_evals is None or num_evals < _FEW_EVALS else num_evals // 10
        self._request = SessionRunArgs({"evals_completed": None})

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._request = SessionRunArgs({"evals_completed": updated_eval_step})

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        return self._request

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        done = int(run_values.results["evals_completed"])
        if self._log_progress:
            self._log(done)
        if self._num_evals is not None and done >= self._num_evals:
            run_context.request_stop()

    def _log(self, done: int) -> None:
        if self._num_evals is None:
            logger.info("Evaluation [%d]", done)
        elif done % self._log_frequency == 0 or done == self._num_evals:
            logger.info("Evaluation [%d/%d]", done, self._num_evals)


async def evaluate_once(
    checkpoint_path: str,
    master: str = "",
    scaffold: Scaffold | None = None,
    eval_ops: Any = None,
    feed_dict: Mapping[Any, Any] | None = None,
    final_ops: Any = None,
    final_ops_feed_dict: Mapping[Any, Any] | None = None,
    hooks: Iterable[SessionRunHook] | None = None,
    config: Any = None,
) -> Any:
    """Evaluate a checkpoint; returns the values of `final_ops`, None if there are none.

    Args:
        scaffold: initialises and restores; one with a local init op of its own must initialise the eval step too.
        eval_ops: a tensor or op, or a list or dictionary of them, to run until a hook, such as `StopAfterNEvalsHook`, requests
            a stop.
        final_ops: any structure of fetches.
    """
    evaluation = _Evaluation(
        master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config
    )
    return await evaluation.of(checkpoint_path)


async def evaluate_repeatedly(
    checkpoint_dir: str,
    master: str = "",
    scaffold: Scaffold | None = None,
    eval_ops: Any = None,
    feed_dict: Mapping[Any, Any] | None = None,
    final_ops: Any = None,
    final_ops_feed_dict: Mapping[Any, Any] | None = None,
    eval_interval_secs: float = 60,
    hooks: Iterable[SessionRunHook] | None = None,
    config: Any = None,
    max_number_of_evaluations: int | None = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], Any] | None = None,
) -> Any:
    """Evaluate each new checkpoint of a directory; returns the last values of `final_ops`.

    Args:
        eval_interval_secs: the least time between the starts of two evaluations.
        max_number_of_evaluations: return after so many; None: only after `timeout`.
        timeout: the most seconds to wait for a checkpoint; None for no limit.
        timeout_fn: called after a timeout; true ends the wait, false continues it.

    For the rest see `evaluate_once`.
    """
    evaluation = _Evaluation(
        master, scaffold, eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config
    )
    values, done = None, 0
    async with contextlib.aclosing(
        checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    ) as paths:
        async for path in paths:
            values, done = await evaluation.of(path), done + 1
            if max_number_of_evaluations is not None and done >= max_number_of_evaluations:
                break
    return values


class _Evaluation:
    """The ops to run at each checkpoint; the constructor adds nodes to the graph.

    State: `_final` holds the values of the latest evaluation.
    """

    def __init__(
        self,
        master: str,
        scaffold: Scaffold | None,
        eval_ops: Any,
        feed_dict: Mapping[Any, Any] | None,
        final_ops: Any,
        final_ops_feed_dict: Mapping[Any, Any] | None,
        hooks: Iterable[SessionRunHook] | None,
        config: Any,
    ) -> None:
        self._master = master
        self._scaffold = scaffold
        self._config = config
        self._feed_dict = feed_dict
        self._final = FinalOpsHook(final_ops, final_ops_feed_dict)
        self._hooks = [*(hooks or ()), self._final]
        eval_step = get_or_create_eval_step()
        self._eval_ops: Any = None
        if eval_ops is not None:
            many: Any = 1
            if any(isinstance(hook, _MultiStepStopAfterNEvalsHook) for hook in self._hooks):
                many = cast(get_or_create_steps_per_run_variable(), eval_step.dtype.base_dtype)
            self._eval_ops = _join(eval_ops, assign_add(eval_step, many, use_locking=True))
            completed = _read_after(self._eval_ops, eval_step)
            for hook in self._hooks:
                if isinstance(hook, StopAfterNEvalsHook | _MultiStepStopAfterNEvalsHook):
                    hook._set_evals_completed_tensor(completed)

    async def of(self, checkpoint_path: str) -> Any:
        """Evaluate a checkpoint."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        logger.info("Starting evaluation at %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
        creator = ChiefSessionCreator(
            scaffold=self._scaffold,
            checkpoint_filename_with_path=checkpoint_path,
            master=self._master,
            config=self._config,
        )
        async with MonitoredSession(session_creator=creator, hooks=self._hooks) as session:
            while self._eval_ops is not None and not session.should_stop():
                await session.run(self._eval_ops, self._feed_dict)
        logger.info("Inference Time : %0.5fs", loop.time() - started)
        logger.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S"))
        return self._final.final_ops_values


def _join(eval_ops: Any, update: Any) -> Mapping[str, Any] | Sequence[Any]:
    """`eval_ops` and the node that counts the evaluation."""
    if isinstance(eval_ops, Mapping):
        return {**eval_ops, "update_eval_step": update}
    return [*eval_ops, update] if isinstance(eval_ops, list | tuple) else [eval_ops, update]


def _read_after(eval_ops: Mapping[str, Any] | Sequence[Any], eval_step: Any) -> Any:
    """The eval step, read after all of these have run."""
    done = list(eval_ops.values()) if isinstance(eval_ops, Mapping) else eval_ops
    with get_default_graph().control_dependencies(done):
        return identity(eval_step.read_value())
