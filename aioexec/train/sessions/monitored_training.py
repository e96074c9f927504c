"""MonitoredTrainingSession: a monitored session with the usual hooks of a training loop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from aioexec.train.hooks.logging_hooks import StepCounterHook
from aioexec.train.hooks.saving_hooks import CheckpointSaverHook
from aioexec.train.hooks.summary_hooks import SummarySaverHook
from aioexec.train.sessions.monitored_session import MonitoredSession
from aioexec.train.sessions.scaffold import Scaffold
from aioexec.train.sessions.session_creators import ChiefSessionCreator, WorkerSessionCreator

USE_DEFAULT: Any = object()
"""The default of an argument for which None means "disabled"."""


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | None = None,
    scaffold: Scaffold | None = None,
    hooks: Iterable[Any] | None = None,
    chief_only_hooks: Iterable[Any] | None = None,
    save_checkpoint_secs: Any = USE_DEFAULT,
    save_summaries_steps: Any = USE_DEFAULT,
    save_summaries_secs: Any = USE_DEFAULT,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = USE_DEFAULT,
    summary_dir: str | None = None,
    save_graph_def: bool = True,
) -> MonitoredSession:
    """A MonitoredSession that, on the chief, restores or initialises the model, saves it and writes summaries.

    Args:
        is_chief: whether this process initialises the model; others wait for it, with `hooks` alone.
        checkpoint_dir: restore the latest checkpoint there, and save there.
        chief_only_hooks: hooks of the chief, which come first.
        save_checkpoint_secs, save_checkpoint_steps: the interval of saving; 600 seconds by default. None or 0: never.
        save_summaries_steps, save_summaries_secs: the interval of summaries; 100 steps by default. None or 0: never.
        log_step_count_steps: the interval of logging steps per second. None or 0: never.
        max_wait_secs: the most seconds that others wait for the chief.
        summary_dir: the directory of summaries, by default checkpoint_dir.
        save_graph_def: write `graph.pbtxt`, and a meta graph with each checkpoint.
    """
    scaffold = Scaffold() if scaffold is None else scaffold
    creator: ChiefSessionCreator | WorkerSessionCreator
    if not is_chief:
        creator = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        return MonitoredSession(creator, hooks, stop_grace_period_secs)
    summary_steps, summary_secs = _intervals(save_summaries_steps, save_summaries_secs, (100, None))
    save_steps, save_secs = _intervals(save_checkpoint_steps, save_checkpoint_secs, (None, 600))
    everything = list(chief_only_hooks or ())
    summary_dir = summary_dir or checkpoint_dir
    if summary_dir and _is_wanted(log_step_count_steps):
        everything.append(StepCounterHook(output_dir=summary_dir, every_n_steps=log_step_count_steps))
    if summary_dir and (_is_wanted(summary_steps) or _is_wanted(summary_secs)):
        everything.append(
            SummarySaverHook(
                scaffold=scaffold, save_steps=summary_steps, save_secs=summary_secs, output_dir=summary_dir
            )
        )
    if checkpoint_dir and (_is_wanted(save_steps) or _is_wanted(save_secs)):
        everything.append(
            CheckpointSaverHook(
                checkpoint_dir,
                save_secs=save_secs,
                save_steps=save_steps,
                scaffold=scaffold,
                save_graph_def=save_graph_def,
            )
        )
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    return MonitoredSession(creator, [*everything, *(hooks or ())], stop_grace_period_secs)


def _intervals(steps: Any, seconds: Any, default: tuple[Any, Any]) -> tuple[Any, Any]:
    """The intervals in steps and in seconds; the default only if neither was given."""
    if steps is USE_DEFAULT and seconds is USE_DEFAULT:
        return default
    return None if steps is USE_DEFAULT else steps, None if seconds is USE_DEFAULT else seconds


def _is_wanted(interval: Any) -> bool:
    return interval is not None and interval > 0
