"""What a training needs of the graph before it is finalized: initializers, summaries, saver, and the conditions of steps."""

from __future__ import annotations

from typing import Any

from aioexec.errors import GraphValueError
from aioexec.graph.convert import constant
from aioexec.graph.graph import Graph, get_default_graph
from aioexec.ops.control_flow.dependencies import group
from aioexec.ops.io.summary_functions import merge_all
from aioexec.ops.lookup.lookup_tables import tables_initializer
from aioexec.ops.math.arithmetic import mod
from aioexec.ops.math.comparison import equal, greater_equal
from aioexec.ops.state.initialization import (
    global_variables_initializer,
    local_variables_initializer,
    report_uninitialized_variables,
)
from aioexec.train.checkpoints.saver import Saver
from aioexec.train.global_steps import get_or_create_global_step
from aioexec.train.optimizers.sync_replicas import SyncReplicasOptimizer
from aioexec.train.sessions.supervisor import Supervisor


class TrainingParts:
    """The nodes and the saver of a training; arguments that are an int are made.

    State, constant after the constructor: `first_step` is the global step that a worker waits for; `chief_queue_runner` and
    `init_tokens_op` are None without a SyncReplicasOptimizer, and for a worker.

    Raises:
        GraphValueError: an argument needs a `logdir`, or the number of steps or a delay does not fit.
    """

    def __init__(
        self,
        *,
        graph: Graph | None,
        logdir: str | None,
        is_chief: bool,
        global_step: Any,
        number_of_steps: int | None,
        init_op: Any,
        local_init_op: Any,
        ready_op: Any,
        summary_op: Any,
        saver: Any,
        sync_optimizer: Any,
        startup_delay_steps: int,
        trace_every_n_steps: int | None,
    ) -> None:
        _check_directory(logdir, summary_op, saver, trace_every_n_steps)
        if sync_optimizer is not None and startup_delay_steps > 0:
            raise GraphValueError("startup_delay_steps must be zero when sync_optimizer is supplied.")
        if number_of_steps is not None and number_of_steps <= 0:
            raise GraphValueError("`number_of_steps` must be either None or a positive number.")
        self.graph = graph or get_default_graph()
        self.logdir = logdir
        self.is_chief = is_chief
        self.number_of_steps = number_of_steps
        self.trace_every_n_steps = trace_every_n_steps
        self.first_step = min(startup_delay_steps, number_of_steps or startup_delay_steps)
        with self.graph.as_default():
            self.global_step = get_or_create_global_step() if global_step is None else global_step
            self.saver = saver or Saver()
            self._initializers(init_op, ready_op, local_init_op)
            self.summary_op = merge_all() if isinstance(summary_op, int) else summary_op
            self.ready_for_local_init_op: Any = None
            self.chief_queue_runner: Any = None
            self.init_tokens_op: Any = None
            if sync_optimizer is not None:
                self._synchronize(sync_optimizer)

    def _initializers(self, init_op: Any, ready_op: Any, local_init_op: Any) -> None:
        with self.graph.name_scope("init_ops"):
            self.init_op = global_variables_initializer() if isinstance(init_op, int) else init_op
            self.ready_op = report_uninitialized_variables() if isinstance(ready_op, int) else ready_op
            if isinstance(local_init_op, int):
                local_init_op = group(local_variables_initializer(), tables_initializer())
            self.local_init_op = local_init_op

    def _synchronize(self, optimizer: Any) -> None:
        """Take the initialization and the queue of an optimizer that collects the gradients of several workers."""
        if not isinstance(optimizer, SyncReplicasOptimizer):
            raise GraphValueError("`sync_optimizer` must be a tf.train.SyncReplicasOptimizer.")
        with self.graph.control_dependencies([] if self.local_init_op is None else [self.local_init_op]):
            self.local_init_op = group(
                optimizer.chief_init_op if self.is_chief else optimizer.local_step_init_op
            )
        self.ready_for_local_init_op = optimizer.ready_for_local_init_op
        if self.is_chief:
            self.init_tokens_op = optimizer.get_init_tokens_op()
            self.chief_queue_runner = optimizer.get_chief_queue_runner()

    def step_arguments(self, log_every_n_steps: int) -> dict[str, Any]:
        """The tensors that say whether to stop, log and trace."""
        with self.graph.as_default(), self.graph.name_scope("train_step"):
            arguments: dict[str, Any] = {
                "should_stop": greater_equal(self.global_step, self.number_of_steps)
                if self.number_of_steps
                else constant(False)
            }
            if log_every_n_steps > 0:
                arguments["should_log"] = equal(mod(self.global_step, log_every_n_steps), 0)
            if self.is_chief and self.trace_every_n_steps is not None:
                arguments["should_trace"] = equal(mod(self.global_step, self.trace_every_n_steps), 0)
                arguments["logdir"] = self.logdir
            return arguments

    def supervisor(self, **options: Any) -> Supervisor:
        """The supervisor, which finalizes the graph."""
        return Supervisor(
            graph=self.graph,
            is_chief=self.is_chief,
            logdir=self.logdir,
            init_op=self.init_op,
            local_init_op=self.local_init_op,
            ready_op=self.ready_op,
            ready_for_local_init_op=self.ready_for_local_init_op,
            summary_op=self.summary_op,
            global_step=self.global_step,
            saver=self.saver,
            **options,
        )


def _check_directory(
    logdir: str | None, summary_op: Any, saver: Any, trace_every_n_steps: int | None
) -> None:
    if logdir is not None:
        return
    if summary_op is not None and not isinstance(summary_op, int):
        raise GraphValueError("Cannot provide summary_op because logdir=None")
    if saver is not None:
        raise GraphValueError("Cannot provide saver because logdir=None")
    if trace_every_n_steps is not None:
        raise GraphValueError("Cannot provide trace_every_n_steps because logdir=None")
