"""Evaluation of checkpoints, once or repeatedly, with summaries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from aioexec.ops.io.summary_functions import merge_all
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.checkpoints.waiting import (
    checkpoints_iterator as checkpoints_iterator,
    wait_for_new_checkpoint as wait_for_new_checkpoint,
)
from aioexec.train.hooks.session_run_hook import SessionRunHook
from aioexec.train.hooks.summary_hooks import SummaryAtEndHook
from aioexec.train.sessions import evaluation
from aioexec.train.sessions.evaluation import StopAfterNEvalsHook
from aioexec.train.sessions.scaffold import Scaffold

USE_DEFAULT: Final = 0
"""The default of `summary_op`: all summaries of the graph."""


def _hooks(num_evals: int, logdir: Any, summary_op: Any, feed_dict: Any) -> list[SessionRunHook]:
    if isinstance(summary_op, int):
        summary_op = merge_all()
    hooks: list[SessionRunHook] = [StopAfterNEvalsHook(num_evals)]
    if summary_op is not None:
        hooks.append(SummaryAtEndHook(log_dir=logdir, summary_op=summary_op, feed_dict=feed_dict))
    return hooks


async def evaluate_once(
    master: str,
    checkpoint_path: str,
    logdir: str,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Mapping[Any, Any] | None = None,
    eval_op: Any = None,
    eval_op_feed_dict: Mapping[Any, Any] | None = None,
    final_op: Any = None,
    final_op_feed_dict: Mapping[Any, Any] | None = None,
    summary_op: Any = USE_DEFAULT,
    summary_op_feed_dict: Mapping[Any, Any] | None = None,
    variables_to_restore: Any = None,
    session_config: Any = None,
    hooks: Any = None,
) -> Any:
    """Restore a checkpoint, run `eval_op` `num_evals` times and `final_op` once; return the value of the latter.

    Args:
        logdir: the directory of summaries.
        initial_op: run first, in place of the initializers of variables.
        summary_op: run at the end; by default all summaries, None for none.
        variables_to_restore: those that the checkpoint has; by default all.
        hooks: further hooks of the session.
    """
    used = [*_hooks(num_evals, logdir, summary_op, summary_op_feed_dict), *(hooks or ())]
    saver = None if variables_to_restore is None else Saver(variables_to_restore)
    return await evaluation.evaluate_once(
        checkpoint_path,
        master=master,
        scaffold=Scaffold(init_op=initial_op, init_feed_dict=initial_op_feed_dict, saver=saver),
        eval_ops=eval_op,
        feed_dict=eval_op_feed_dict,
        final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        hooks=used,
        config=session_config,
    )


async def evaluation_loop(
    master: str,
    checkpoint_dir: str,
    logdir: str,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Mapping[Any, Any] | None = None,
    init_fn: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Mapping[Any, Any] | None = None,
    final_op: Any = None,
    final_op_feed_dict: Mapping[Any, Any] | None = None,
    summary_op: Any = USE_DEFAULT,
    summary_op_feed_dict: Mapping[Any, Any] | None = None,
    variables_to_restore: Any = None,
    eval_interval_secs: float = 60,
    max_number_of_evaluations: int | None = None,
    session_config: Any = None,
    timeout: float | None = None,
    timeout_fn: Any = None,
    hooks: Any = None,
) -> Any:
    """Evaluate each new checkpoint of a directory; return the last value of `final_op`.

    Args:
        init_fn: function of the session, called after `initial_op`.
        eval_interval_secs: the least time between two evaluations.
        max_number_of_evaluations: return after so many; None: only after `timeout` seconds without a checkpoint.
        timeout_fn: called after the timeout; true ends the loop, false continues it.

    For the other arguments see `evaluate_once`.
    """
    used = [*_hooks(num_evals, logdir, summary_op, summary_op_feed_dict), *(hooks or ())]
    saver = None if variables_to_restore is None else Saver(variables_to_restore)
    return await evaluation.evaluate_repeatedly(
        checkpoint_dir,
        master=master,
        scaffold=Scaffold(
            init_op=initial_op, init_feed_dict=initial_op_feed_dict, init_fn=init_fn, saver=saver
        ),
        eval_ops=eval_op,
        feed_dict=eval_op_feed_dict,
        final_ops=final_op,
        final_ops_feed_dict=final_op_feed_dict,
        eval_interval_secs=eval_interval_secs,
        hooks=used,
        config=session_config,
        max_number_of_evaluations=max_number_of_evaluations,
        timeout=timeout,
        timeout_fn=timeout_fn,
    )
