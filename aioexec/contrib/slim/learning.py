"""Training by a supervisor: `create_train_op`, and `train`, a loop that logs, saves and stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from aioexec.contrib.slim.training_parts import TrainingParts
from aioexec.contrib.training.loops import USE_GLOBAL_STEP
from aioexec.contrib.training.train_ops import (
    Pairs,
    add_gradients_summaries as add_gradients_summaries,
    clip_gradient_norms as clip_gradient_norms,
    create_step,
    multiply_gradients as multiply_gradients,
)
from aioexec.errors import AbortedError, GraphValueError, OutOfRangeError
from aioexec.graph.graph import Graph
from aioexec.graph.node import Tensor
from aioexec.graph.scopes import name_scope
from aioexec.sessions.session import Session
from aioexec.train.callbacks import settle
from aioexec.train.coordination.task_thread import TaskThread
from aioexec.train.global_steps import get_or_create_global_step, global_step as value_of
from aioexec.train.off_loop import off_loop
from aioexec.train.optimizers.optimizer import Optimizer
from aioexec.train.sessions.supervisor import Supervisor

logger = logging.getLogger(__name__)

_USE_DEFAULT: Final = 0

StepFunction = Callable[..., Awaitable[tuple[Any, Any]] | tuple[Any, Any]]
"""`train_step_fn(session, train_op, global_step, kwargs)` returns (loss, whether to stop); plain or `async def`."""


def create_train_op(
    total_loss: Any,
    optimizer: Optimizer,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Sequence[Any] | None = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    check_numerics: bool = True,
) -> Tensor:
    """Return the loss after a training step.

    Args:
        global_step: the variable to count in, by default that of the graph; None for none.
        update_ops: nodes to run before the loss is computed; by default UPDATE_OPS.
        variables_to_train: by default all trainable variables.
        clip_gradient_norm: the norm to which each larger gradient is scaled; 0 for no limit.
        gradient_multipliers: factors of gradients by variable or by the name of its node.
        check_numerics: whether a loss that is no number is an error of the step.

    Raises:
        GraphValueError: a variable to train is not trainable, or there is none; or a variable with a factor has no gradient.
    """

    def transform(pairs: Pairs) -> Pairs:
        if gradient_multipliers:
            with name_scope("multiply_grads"):
                pairs = multiply_gradients(pairs, gradient_multipliers)
        if clip_gradient_norm > 0:
            with name_scope("clip_grads"):
                pairs = clip_gradient_norms(pairs, clip_gradient_norm)
        return pairs

    return create_step(
        total_loss,
        optimizer,
        get_or_create_global_step() if global_step is USE_GLOBAL_STEP else global_step,
        update_ops,
        variables_to_train,
        transform,
        summarize_gradients,
        gate_gradients,
        aggregation_method,
        colocate_gradients_with_ops,
        check_numerics,
    )


async def train_step(
    sess: Session, train_op: Any, global_step: Any, train_step_kwargs: Mapping[str, Any]
) -> tuple[Any, Any]:
    """Run one step; return the loss, and whether to stop.

    Args:
        train_step_kwargs: boolean tensors `should_stop`, `should_log` and `should_trace`, each of which may be missing; with
            the last one `logdir`, the directory of the trace, and perhaps a `summary_writer`.

    Raises:
        GraphValueError: there is `should_trace`, but no `logdir`.
    """
    now = asyncio.get_running_loop().time
    started = now()
    if "should_trace" in train_step_kwargs and "logdir" not in train_step_kwargs:
        raise GraphValueError("logdir must be present in train_step_kwargs when should_trace is present")
    if "should_trace" in train_step_kwargs and await sess.run(train_step_kwargs["should_trace"]):
        loss, step = await _traced_step(sess, [train_op, global_step], train_step_kwargs)
    else:
        loss, step = await sess.run([train_op, global_step])
    elapsed = now() - started
    asked = [name for name in ("should_log", "should_stop") if name in train_step_kwargs]
    answers = dict(zip(asked, await sess.run([train_step_kwargs[name] for name in asked]), strict=True))
    if answers.get("should_log"):
        logger.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, elapsed)
    return loss, answers.get("should_stop", False)


async def _traced_step(sess: Session, fetches: list[Any], train_step_kwargs: Mapping[str, Any]) -> Any:
    """Run a step with a trace, and write it to the directory and the summary writer."""
    from aioexec.formats.protos import RunMetadata, RunOptions
    from aioexec.observability.timeline import Timeline

    metadata = RunMetadata()
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    loss, step = await sess.run(fetches, options=options, run_metadata=metadata)
    trace = Timeline(metadata.step_stats).generate_chrome_trace_format()
    path = os.path.join(train_step_kwargs["logdir"], f"tf_trace-{step}.json")
    logger.info("Writing trace to %s", path)
    await off_loop(Path(path).write_text, trace, "utf-8")
    if train_step_kwargs.get("summary_writer") is not None:
        train_step_kwargs["summary_writer"].add_run_metadata(metadata, f"run_metadata-{step}")
    return loss, step


async def train(
    train_op: Any,
    logdir: str | None,
    train_step_fn: StepFunction = train_step,
    train_step_kwargs: Any = _USE_DEFAULT,
    log_every_n_steps: int = 1,
    graph: Graph | None = None,
    master: str = "",
    is_chief: bool = True,
    global_step: Any = None,
    number_of_steps: int | None = None,
    init_op: Any = _USE_DEFAULT,
    init_feed_dict: Mapping[Any, Any] | None = None,
    local_init_op: Any = _USE_DEFAULT,
    init_fn: Any = None,
    ready_op: Any = _USE_DEFAULT,
    summary_op: Any = _USE_DEFAULT,
    save_summaries_secs: float = 600,
    summary_writer: Any = _USE_DEFAULT,
    startup_delay_steps: int = 0,
    saver: Any = None,
    save_interval_secs: float = 600,
    sync_optimizer: Any = None,
    session_config: Any = None,
    session_wrapper: Callable[[Any], Any] | None = None,
    trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:
    """Train until `number_of_steps`, the end of the input or a stop request; return the last loss, None without a step.

    The graph becomes read-only. At the end a checkpoint is written to `logdir`.

    Args:
        train_op: what `create_train_op` returns.
        logdir: the directory of checkpoints and summaries; None: nothing is written.
        train_step_fn: runs a step; see `train_step`.
        train_step_kwargs: a dict for it; by default boolean tensors made of the other arguments.
        init_fn: function of the session, called after `init_op`; plain or `async def`.
        startup_delay_steps: the global step that a worker waits for.
        sync_optimizer: a SyncReplicasOptimizer, whose queues are started.
        session_wrapper: function of the session that returns the one to run steps in.
        trace_every_n_steps: how often a trace is written to `logdir`.

    For the other arguments see `aioexec.train.Supervisor`.

    Raises:
        GraphValueError: `train_op` is None, an argument needs a `logdir`, or the number of steps or a delay does not fit.
        OpError: a step failed.
    """
    if train_op is None:
        raise GraphValueError("train_op cannot be None.")
    parts = TrainingParts(
        graph=graph,
        logdir=logdir,
        is_chief=is_chief,
        global_step=global_step,
        number_of_steps=number_of_steps,
        init_op=init_op,
        local_init_op=local_init_op,
        ready_op=ready_op,
        summary_op=summary_op,
        saver=saver,
        sync_optimizer=sync_optimizer,
        startup_delay_steps=startup_delay_steps,
        trace_every_n_steps=trace_every_n_steps,
    )
    kwargs = train_step_kwargs
    if isinstance(kwargs, int):
        kwargs = parts.step_arguments(log_every_n_steps)
    supervisor = parts.supervisor(
        init_feed_dict=init_feed_dict,
        summary_writer=summary_writer,
        save_summaries_secs=save_summaries_secs,
        save_model_secs=save_interval_secs,
        init_fn=init_fn,
    )
    if summary_writer is not None:
        kwargs["summary_writer"] = supervisor.summary_writer
    loop = _Loop(parts, supervisor, train_op, train_step_fn, kwargs, session_wrapper)
    while True:
        try:
            async with supervisor.managed_session(
                master, start_standard_services=False, config=session_config
            ) as session:
                await loop.run(session, ignore_live_threads)
        except AbortedError:
            logger.info("Retrying training!")  # a server of the cluster was restarted
        else:
            return loop.loss


class _Loop:
    """The steps of one training.

    State: `loss` is that of the last step; `_chief_threads` collect the gradients of replicas in the present session.
    """

    def __init__(
        self,
        parts: TrainingParts,
        supervisor: Supervisor,
        train_op: Any,
        step: StepFunction,
        kwargs: Any,
        wrapper: Callable[[Any], Any] | None,
    ) -> None:
        self._parts = parts
        self._supervisor = supervisor
        self._train_op = train_op
        self._step = step
        self._kwargs = kwargs
        self._wrapper = wrapper
        self.loss: Any = None
        self._chief_threads: list[TaskThread] = []

    async def run(self, session: Any, ignore_live_threads: bool) -> None:
        """Run steps in a session until the end."""
        parts, supervisor = self._parts, self._supervisor
        if self._wrapper is not None:
            session = self._wrapper(session)
        await self._start(session)
        with contextlib.suppress(OutOfRangeError):  # the end of the input
            while not supervisor.should_stop():
                called = self._step(session, self._train_op, parts.global_step, self._kwargs)
                self.loss, should_stop = await settle(called)
                if should_stop:
                    logger.info("Stopping Training.")
                    supervisor.request_stop()
        for thread in self._chief_threads:
            thread.cancel()  # it waits for gradients that do not come
        if parts.logdir and parts.is_chief:
            logger.info("Finished training! Saving model to disk.")
            await supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
            await supervisor.stop(close_summary_writer=False, ignore_live_threads=ignore_live_threads)

    async def _start(self, session: Any) -> None:
        """Start the services and queues, or wait for the chief's first steps."""
        parts, supervisor = self._parts, self._supervisor
        if parts.is_chief:
            if parts.logdir:
                await supervisor.start_standard_services(session)
        else:
            while await value_of(session, parts.global_step) < parts.first_step:  # noqa: ASYNC110  (of other processes)
                await asyncio.sleep(1.0)
        supervisor.start_queue_runners(session)
        if parts.chief_queue_runner is not None:
            self._chief_threads = supervisor.start_queue_runners(session, [parts.chief_queue_runner])
            await session.run(parts.init_tokens_op)
