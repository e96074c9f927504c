"""The training loop of `tf.contrib.training`, by a monitored session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from aioexec.contrib.training.train_ops import Pairs, create_step
from aioexec.errors import GraphValueError
from aioexec.graph.node import Tensor
from aioexec.train.global_steps import get_or_create_global_step
from aioexec.train.hooks.logging_hooks import StepCounterHook
from aioexec.train.hooks.saving_hooks import CheckpointSaverHook
from aioexec.train.hooks.session_run_hook import SessionRunHook
from aioexec.train.hooks.summary_hooks import SummarySaverHook
from aioexec.train.optimizers.optimizer import Optimizer
from aioexec.train.sessions.monitored_session import MonitoredSession
from aioexec.train.sessions.scaffold import Scaffold
from aioexec.train.sessions.session_creators import ChiefSessionCreator, WorkerSessionCreator

USE_GLOBAL_STEP: Final = 0
"""The default of `global_step`: that of the graph, created if there is none."""


def create_train_op(
    total_loss: Any,
    optimizer: Optimizer,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[Pairs], Pairs] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Tensor:
    """Return the loss after a training step.

    Args:
        global_step: the variable to count in, by default that of the graph; None for none.
        update_ops: nodes to run before the loss is computed; by default UPDATE_OPS.
        variables_to_train: by default all trainable variables.
        transform_grads_fn: a function of the list of (gradient, variable) that returns another.
        check_numerics: whether a loss that is no number is an error of the step.

    Raises:
        GraphValueError: a variable to train is not trainable, or there is none.
    """
    return create_step(
        total_loss,
        optimizer,
        get_or_create_global_step() if global_step is USE_GLOBAL_STEP else global_step,
        update_ops,
        variables_to_train,
        transform_grads_fn,
        summarize_gradients,
        gate_gradients,
        aggregation_method,
        colocate_gradients_with_ops,
        check_numerics,
    )


async def train(
    train_op: Any,
    logdir: str | None,
    master: str = "",
    is_chief: bool = True,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = 600,
    save_summaries_steps: int | None = 100,
    config: Any = None,
    max_wait_secs: float = 7200,
) -> Any:
    """Run a training step until a hook requests a stop, and return the last loss; None if there was no step.

    Args:
        train_op: what `create_train_op` returns.
        logdir: the directory of checkpoints and summaries.
        chief_only_hooks: hooks that only the chief has.
        save_checkpoint_secs, save_summaries_steps: intervals; None for never.
        max_wait_secs: how long a worker waits for the chief.

    Raises:
        GraphValueError: there is no `logdir`, but something to save.
    """
    if logdir is None and is_chief and (save_summaries_steps or save_checkpoint_secs):
        raise GraphValueError(
            "logdir cannot be None when save_summaries_steps or save_checkpoint_secs is not None"
        )
    scaffold = scaffold or Scaffold()
    used = list(hooks or ())
    creator: Any
    if is_chief:
        creator = ChiefSessionCreator(scaffold=scaffold, checkpoint_dir=logdir, master=master, config=config)
        used += [*(chief_only_hooks or ()), StepCounterHook(output_dir=logdir)]
        if save_summaries_steps:
            used.append(
                SummarySaverHook(scaffold=scaffold, save_steps=save_summaries_steps, output_dir=logdir)
            )
        if save_checkpoint_secs:
            used.append(CheckpointSaverHook(str(logdir), save_secs=save_checkpoint_secs, scaffold=scaffold))
    else:
        creator = WorkerSessionCreator(
            scaffold=scaffold, master=master, config=config, max_wait_secs=max_wait_secs
        )
    loss = None
    async with MonitoredSession(session_creator=creator, hooks=used) as session:
        while not session.should_stop():
            loss = await session.run(train_op)
    return loss
